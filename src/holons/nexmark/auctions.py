"""Nexmark's auctions: three of every 50 events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holons.nexmark.chance import Ids, below, padding, texts
from holons.nexmark.generator import FIRST_ID, HOT_EVERY, PERIOD, active_people, event_time_us, prices

AUCTIONS: Final = 3
"""Of every `PERIOD` events, so many are auctions: those after the person."""
AUCTION_COLUMNS: Final = (
    "id",
    "item_name",
    "description",
    "initial_bid",
    "reserve",
    "date_time",
    "expires",
    "seller",
    "category",
    "extra",
)
FIRST_CATEGORY: Final = 10
CATEGORIES: Final = 5
_EVENTS_TO_EXPIRE: Final = 1_666
"""In so many events a hundred auctions are opened: as many as are in flight."""
_BYTES: Final = 500
_NUMBERS_BYTES: Final = 56
_LANE: Final = 200
"""Lanes of chance below are the people's and the bids'."""


def auction_ids(numbers: Ids) -> Ids:
    """The event ids of the 0th, 1st, 2nd … auction.

    >>> auction_ids(np.arange(4)).tolist()
    [1, 2, 3, 51]
    """
    return numbers // AUCTIONS * PERIOD + 1 + numbers % AUCTIONS


def auctions(
    ids: Ids, *, rate: int = 10_000, seed: int = 0, start_us: int = 0, columns: Sequence[str] = AUCTION_COLUMNS
) -> pa.RecordBatch:
    """The auctions with these event ids (see `auction_ids`), at `rate` events per second of event time.

    >>> auctions(auction_ids(np.arange(2)), columns=("id", "category")).column("id").to_pylist()
    [1000, 1001]
    """
    item = texts(ids, 3 + below(ids, seed, _LANE, 17), seed, _LANE + 1, words=True)
    description = texts(ids, 3 + below(ids, seed, _LANE + 5, 97), seed, _LANE + 6, words=True)
    initial = prices(ids, seed, _LANE + 10)
    opened = start_us + event_time_us(ids, rate)
    horizon_us = _EVENTS_TO_EXPIRE * 1_000_000 // rate
    make: dict[str, Callable[[], pa.Array]] = {
        "id": lambda: pa.array(FIRST_ID + ids // PERIOD * AUCTIONS + ids % PERIOD - 1),
        "item_name": lambda: item,
        "description": lambda: description,
        "initial_bid": lambda: pa.array(initial),
        "reserve": lambda: pa.array(initial + prices(ids, seed, _LANE + 11)),
        "date_time": lambda: _instants(opened),
        "expires": lambda: _instants(opened + 1_000 + below(ids, seed, _LANE + 12, max(2 * horizon_us, 1))),
        "seller": lambda: pa.array(_sellers(ids, seed)),
        "category": lambda: pa.array(FIRST_CATEGORY + below(ids, seed, _LANE + 13, CATEGORIES)),
        "extra": lambda: padding(ids, _NUMBERS_BYTES + _sizes(item, description), _BYTES, seed, _LANE + 20),
    }
    return pa.record_batch({name: make[name]() for name in columns})


def _sellers(ids: Ids, seed: int) -> Ids:
    hot = ids // PERIOD // HOT_EVERY * HOT_EVERY
    return FIRST_ID + np.where(below(ids, seed, _LANE + 14, 4) > 0, hot, active_people(ids, seed, _LANE + 15))


def _instants(micros: Ids) -> pa.Array:
    return pa.array(micros).view(pa.timestamp("us", "UTC"))


def _sizes(*columns: pa.Array) -> Ids:
    return np.sum([pc.binary_length(column).to_numpy().astype(np.int64) for column in columns], axis=0)
