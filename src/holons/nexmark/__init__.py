"""Nexmark: the auction site that stream processors are measured by. Its events, a steady load of bids, and query 7."""

from holons.nexmark.auctions import AUCTION_COLUMNS, auction_ids, auctions
from holons.nexmark.generator import BIDS, COLUMNS, NUMBERS, PERIOD, bid_ids, bids, shuffled
from holons.nexmark.oracle import highest_bids
from holons.nexmark.paced import PacedBids
from holons.nexmark.people import PERSON_COLUMNS, people, person_ids
from holons.nexmark.queries import highest_bid

__all__ = [
    "AUCTION_COLUMNS",
    "BIDS",
    "COLUMNS",
    "NUMBERS",
    "PERIOD",
    "PERSON_COLUMNS",
    "PacedBids",
    "auction_ids",
    "auctions",
    "bid_ids",
    "bids",
    "highest_bid",
    "highest_bids",
    "people",
    "person_ids",
    "shuffled",
]
