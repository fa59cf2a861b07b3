"""Nexmark: the auction site that stream processors are measured by. Its bids, a steady load of them, and query 7."""

from holons.nexmark.generator import BIDS, COLUMNS, NUMBERS, PERIOD, bid_ids, bids
from holons.nexmark.oracle import highest_bids
from holons.nexmark.paced import PacedBids
from holons.nexmark.queries import highest_bid

__all__ = ["BIDS", "COLUMNS", "NUMBERS", "PERIOD", "PacedBids", "bid_ids", "bids", "highest_bid", "highest_bids"]
