"""Nexmark's bids, vectorised and seeded by event id: any range can be made anywhere, and is always the same.

Of every 50 events the first is a person, the next three are auctions, the rest bids. Half of the bids go to the hot
auction of the moment, three quarters come from the hot bidder, and prices span six orders of magnitude. Ids and laws
are Beam's (the Flink project adds the first person's id to a bidder twice, Beam once).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from holons.nexmark.chance import Ids, below, letters, padding, unit

PERIOD: Final = 50
BIDS: Final = 46
"""Of every `PERIOD` events, the last so many are bids."""
FIRST_ID: Final = 1000
COLUMNS: Final = ("auction", "bidder", "price", "channel", "url", "date_time", "extra")
NUMBERS: Final = ("auction", "bidder", "price", "date_time")
"""The columns that are quickly made."""

_MICROS: Final = 1_000_000
_AUCTIONS_IN_FLIGHT: Final = 100
_ACTIVE_PEOPLE: Final = 1000
_LEAD: Final = 10
HOT_EVERY: Final = 100
SHUFFLE: Final = 953
"""Groups whose size this divides cannot be shuffled: see `shuffled`."""
_HOT_CHANNELS: Final = ("Google", "Facebook", "Baidu", "Apple")
_CHANNELS: Final = 10_000
_BYTES: Final = 100
_NUMBERS_BYTES: Final = 32


def bids(
    ids: Ids, *, rate: int = 10_000, seed: int = 0, start_us: int = 0, columns: Sequence[str] = COLUMNS
) -> pa.RecordBatch:
    """The bids with these event ids (see `bid_ids`), at `rate` events per second of event time from `start_us` on.

    >>> bids(bid_ids(np.arange(3)), columns=NUMBERS).schema.names
    ['auction', 'bidder', 'price', 'date_time']
    """
    make: dict[str, Callable[[], pa.Array]] = {
        "auction": lambda: pa.array(_auctions(ids, seed)),
        "bidder": lambda: pa.array(_bidders(ids, seed)),
        "price": lambda: pa.array(prices(ids, seed, 5)),
        "channel": lambda: _channel_names().take(pa.array(_channels(ids, seed))),
        "url": lambda: _urls(seed).take(pa.array(_channels(ids, seed))),
        "date_time": lambda: pa.array(start_us + event_time_us(ids, rate)).view(pa.timestamp("us", "UTC")),
        "extra": lambda: padding(ids, np.full(len(ids), _NUMBERS_BYTES), _BYTES, seed, 10),
    }
    return pa.record_batch({name: make[name]() for name in columns})


def bid_ids(numbers: Ids) -> Ids:
    """The event ids of the 0th, 1st, 2nd … bid.

    >>> bid_ids(np.array([0, 45, 46])).tolist()
    [4, 49, 54]
    """
    return numbers // BIDS * PERIOD + (PERIOD - BIDS) + numbers % BIDS


def bids_before(event: int) -> int:
    """How many bids there are among the events with lower ids.

    >>> [bids_before(event) for event in (0, 4, 5, 50, 54, 55)]
    [0, 0, 1, 46, 46, 47]
    """
    return event // PERIOD * BIDS + max(0, event % PERIOD - (PERIOD - BIDS))


def prices(ids: Ids, seed: int, lane: int) -> Ids:
    """Prices over six orders of magnitude, in cents."""
    return np.round(10.0 ** (6.0 * unit(ids, seed, lane)) * 100.0).astype(np.int64)


def active_people(ids: Ids, seed: int, lane: int) -> Ids:
    """One of the last thousand people for each event, or one of the next ten; counted from 0."""
    last = ids // PERIOD
    active = np.minimum(last + 1, _ACTIVE_PEOPLE)
    return last + 1 - active + below(ids, seed, lane, active + _LEAD)


def shuffled(numbers: Ids, group: int) -> Ids:
    """The ids of events that come out of order: each group of so many in a fixed order of its own.

    >>> shuffled(np.arange(8), 4).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    >>> shuffled(np.arange(6), 5).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return numbers // group * group + numbers * SHUFFLE % group


def event_time_us(ids: Ids, rate: int) -> Ids:
    """When events happen, since the first one."""
    return ids * _MICROS // rate


# --- columns ----------------------------------------------------------------------------------------------------------


def _auctions(ids: Ids, seed: int) -> Ids:
    last = ids // PERIOD * 3 + 2
    oldest = np.maximum(last - _AUCTIONS_IN_FLIGHT, 0)
    some = oldest + below(ids, seed, 1, last - oldest + 1 + _LEAD)
    return FIRST_ID + np.where(below(ids, seed, 3, 2) > 0, last // HOT_EVERY * HOT_EVERY, some)


def _bidders(ids: Ids, seed: int) -> Ids:
    hot = ids // PERIOD // HOT_EVERY * HOT_EVERY + 1
    return FIRST_ID + np.where(below(ids, seed, 4, 4) > 0, hot, active_people(ids, seed, 2))


def _channels(ids: Ids, seed: int) -> Ids:
    """A number for each bid: below four a hot channel, else one of the many."""
    hot = below(ids, seed, 6, 2) > 0
    many = len(_HOT_CHANNELS) + below(ids, seed, 7, _CHANNELS)
    return np.where(hot, below(ids, seed, 7, len(_HOT_CHANNELS)), many)


@cache
def _channel_names() -> pa.Array:
    return pa.array([*_HOT_CHANNELS, *(f"channel-{number}" for number in range(_CHANNELS))])


@cache
def _urls(seed: int) -> pa.Array:
    """One for each channel; nine of ten of the many name theirs."""
    count = len(_HOT_CHANNELS) + _CHANNELS
    pool, has_name = letters(15 * count, seed, 8).tobytes().decode(), below(np.arange(count), seed, 9, 10) > 0
    urls = []
    for number, named in enumerate(has_name.tolist()):
        places = "/".join(pool[at : at + 5] for at in range(15 * number, 15 * number + 15, 5))
        many = number - len(_HOT_CHANNELS)
        channel = f"&channel_id={many}" if many >= 0 and named else ""
        urls.append(f"https://www.nexmark.com/{places}/item.htm?query=1{channel}")
    return pa.array(urls)
