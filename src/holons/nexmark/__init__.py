"""Nexmark: the auction site that stream processors are measured by.

Its events, as a steady load of bids or as three streams; its queries; and what they must give.
"""

from holons.nexmark.answers import PARAMETERS, answer, description, side_table
from holons.nexmark.auctions import AUCTION_COLUMNS, auction_ids, auctions
from holons.nexmark.generator import BIDS, COLUMNS, NUMBERS, PERIOD, bid_ids, bids, shuffled
from holons.nexmark.highest_bid import highest_bid
from holons.nexmark.load import Load
from holons.nexmark.oracle import highest_bids
from holons.nexmark.paced import PacedBids
from holons.nexmark.people import PERSON_COLUMNS, people, person_ids
from holons.nexmark.queries import QUERIES, query

__all__ = [
    "AUCTION_COLUMNS",
    "BIDS",
    "COLUMNS",
    "NUMBERS",
    "PARAMETERS",
    "PERIOD",
    "PERSON_COLUMNS",
    "QUERIES",
    "Load",
    "PacedBids",
    "answer",
    "auction_ids",
    "auctions",
    "bid_ids",
    "bids",
    "description",
    "highest_bid",
    "highest_bids",
    "people",
    "person_ids",
    "query",
    "shuffled",
    "side_table",
]
