"""Nexmark's bids, vectorised and seeded by event id: any range can be made anywhere, and is always the same.

Of every 50 events the first is a person, the next three are auctions, the rest bids. Half of the bids go to the hot
auction of the moment, three quarters come from the hot bidder, and prices span six orders of magnitude. Ids and laws
are Beam's (the Flink project adds the first person's id to a bidder twice, Beam once).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ids: TypeAlias = npt.NDArray[np.int64]

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
_HOT_EVERY: Final = 100
_HOT_CHANNELS: Final = ("Google", "Facebook", "Baidu", "Apple")
_CHANNELS: Final = 10_000
_EXTRA_BYTES: Final = (54, 82)
"""A bid is 100 bytes on average, ±20 % of what its four numbers leave."""
_POOL_BYTES: Final = 1 << 16


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
        "price": lambda: pa.array(np.round(10.0 ** (6.0 * _unit(ids, seed, 5)) * 100.0).astype(np.int64)),
        "channel": lambda: _channel_names().take(pa.array(_channels(ids, seed))),
        "url": lambda: _urls(seed).take(pa.array(_channels(ids, seed))),
        "date_time": lambda: pa.array(start_us + event_time_us(ids, rate)).view(pa.timestamp("us", "UTC")),
        "extra": lambda: _extra(ids, seed),
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


def event_time_us(ids: Ids, rate: int) -> Ids:
    """When events happen, since the first one."""
    return ids * _MICROS // rate


# --- columns ----------------------------------------------------------------------------------------------------------


def _auctions(ids: Ids, seed: int) -> Ids:
    last = ids // PERIOD * 3 + 2
    oldest = np.maximum(last - _AUCTIONS_IN_FLIGHT, 0)
    some = oldest + _below(ids, seed, 1, last - oldest + 1 + _LEAD)
    return FIRST_ID + np.where(_below(ids, seed, 3, 2) > 0, last // _HOT_EVERY * _HOT_EVERY, some)


def _bidders(ids: Ids, seed: int) -> Ids:
    last = ids // PERIOD
    active = np.minimum(last + 1, _ACTIVE_PEOPLE)
    some = last + 1 - active + _below(ids, seed, 2, active + _LEAD)
    return FIRST_ID + np.where(_below(ids, seed, 4, 4) > 0, last // _HOT_EVERY * _HOT_EVERY + 1, some)


def _channels(ids: Ids, seed: int) -> Ids:
    """A number for each bid: below four a hot channel, else one of the many."""
    hot = _below(ids, seed, 6, 2) > 0
    many = len(_HOT_CHANNELS) + _below(ids, seed, 7, _CHANNELS)
    return np.where(hot, _below(ids, seed, 7, len(_HOT_CHANNELS)), many)


@cache
def _channel_names() -> pa.Array:
    return pa.array([*_HOT_CHANNELS, *(f"channel-{number}" for number in range(_CHANNELS))])


@cache
def _urls(seed: int) -> pa.Array:
    """One for each channel; nine of ten of the many name theirs."""
    count = len(_HOT_CHANNELS) + _CHANNELS
    letters, told = _letters(15 * count, seed, 8).tobytes().decode(), _below(np.arange(count), seed, 9, 10) > 0
    urls = []
    for number, named in enumerate(told.tolist()):
        places = "/".join(letters[at : at + 5] for at in range(15 * number, 15 * number + 15, 5))
        many = number - len(_HOT_CHANNELS)
        channel = f"&channel_id={many}" if many >= 0 and named else ""
        urls.append(f"https://www.nexmark.com/{places}/item.htm?query=1{channel}")
    return pa.array(urls)


def _extra(ids: Ids, seed: int) -> pa.Array:
    """Letters that only take room: each a piece of a pool."""
    least, beyond = _EXTRA_BYTES
    lengths = least + _below(ids, seed, 11, beyond - least)
    first = _below(ids, seed, 12, _POOL_BYTES - beyond)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    letters = _letters(_POOL_BYTES, seed, 10)[np.repeat(first - ends[:-1], lengths) + np.arange(ends[-1])]
    return pa.StringArray.from_buffers(len(ids), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(letters))


@cache
def _letters(count: int, seed: int, lane: int) -> npt.NDArray[np.uint8]:
    return _below(np.arange(count), seed, lane, 26).astype(np.uint8) + np.uint8(ord("a"))


# --- chance -----------------------------------------------------------------------------------------------------------


def _unit(ids: Ids, seed: int, lane: int) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each id: the splitmix64 finaliser over (id, seed, lane)."""
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
        (seed * 0xBF58476D1CE4E5B9 + lane * 0x94D049BB133111EB) % 2**64
    )
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _below(ids: Ids, seed: int, lane: int, bound: int | Ids) -> Ids:
    return (_unit(ids, seed, lane) * bound).astype(np.int64)
