"""Nexmark events, vectorised and seeded by event id: any range can be made anywhere, and is always the same.

Of every 50 events, the first is a person, the next three are auctions, the rest bids. Half of the bids go to the hot
auction of the moment, three quarters come from a hot bidder, and prices span six orders of magnitude.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

_FIRST_ID: Final = 1000
_PERIOD: Final = 50
_AUCTIONS_IN_FLIGHT: Final = 100
_ACTIVE_PEOPLE: Final = 1000
_LEAD: Final = 10
_MICROS: Final = 1_000_000


def events(ids: npt.NDArray[np.int64], *, rate: int = 10_000, seed: int = 0) -> pl.DataFrame:
    """The events with these ids, at `rate` events per second of event time: ts, kind, auction, bidder, price.

    >>> events(np.arange(50))["kind"].value_counts().sort("count")["count"].to_list()
    [1, 3, 46]
    """
    within = ids % _PERIOD
    kind = np.where(within == 0, "person", np.where(within < 4, "auction", "bid"))
    epoch = ids // _PERIOD
    last_person = _FIRST_ID + epoch
    last_auction = _FIRST_ID + epoch * 3 + np.clip(within - 1, 0, 2)
    hot_auction = last_auction // 100 * 100
    hot_bidder = last_person // 100 * 100 + 1
    any_auction = last_auction - _AUCTIONS_IN_FLIGHT + _below(ids, seed, 1, _AUCTIONS_IN_FLIGHT + _LEAD)
    any_bidder = last_person - _ACTIVE_PEOPLE + _below(ids, seed, 2, _ACTIVE_PEOPLE + _LEAD)
    auction = np.where(_below(ids, seed, 3, 2) == 0, hot_auction, np.maximum(any_auction, _FIRST_ID))
    bidder = np.where(_below(ids, seed, 4, 4) < 3, hot_bidder, np.maximum(any_bidder, _FIRST_ID))
    price = np.round(10.0 ** (6.0 * _unit(ids, seed, 5)) * 100.0).astype(np.int64)
    return pl.DataFrame(
        {
            "ts": ids * _MICROS // rate,
            "kind": pl.Series(kind),
            "auction": np.where(within == 0, 0, auction),
            "bidder": np.where(within == 0, last_person, bidder),
            "price": price,
        }
    )


def _unit(ids: npt.NDArray[np.int64], seed: int, lane: int) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each id: the splitmix64 finaliser over (id, seed, lane)."""
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
        (seed * 0xBF58476D1CE4E5B9 + lane * 0x94D049BB133111EB) % 2**64
    )
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _below(ids: npt.NDArray[np.int64], seed: int, lane: int, bound: int) -> npt.NDArray[np.int64]:
    return (_unit(ids, seed, lane) * bound).astype(np.int64)
