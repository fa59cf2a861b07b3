"""Scenarios: jobs with small inputs and what must come out, to be simulated under many seeds.

A scenario and a seed name one run for good: jobs, labels and inputs here are part of what recorded seeds mean, and so
are the examples that they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

import polars as pl

import holons as h
from holons.counting import CountWindow
from holons.engines.simulator.simulation import Outcome, simulate
from holons.engines.simulator.workloads import SECOND, Make, Partition, bid, click, sale, streams, visit
from holons.examples import example
from holons.program import Collected
from holons.semantics import run as run_oracle

VARIANTS: Final = 8
"""How many different inputs a scenario has."""
ROWS: Final = 24
"""How many rows a partition has at the most."""


class HighestBid(h.Program):
    """The highest bid, with many equal prices: the winner must not depend on timing."""

    highest = h.WCRDT(h.TopK(2), h.Tumbling("1s"))

    def process(self, events: h.Events) -> None:
        bids = events.where(events["kind"] == "bid")
        self.highest.insert((bids["price"], bids["auction"]), bids.ts)

    def on_window(self, window: h.Window) -> Iterator[dict[str, object]]:
        for price, auction in self.highest[window]:  # type: ignore[misc]  # pairs, as they were inserted
            yield {"window": window.start, "price": price, "auction": auction}


class CountedSales(h.Program):
    """Of every seven sales, of the newest nine at every fourth gain of a partition's, and of each second.

    Sales are counted at full seconds, so that many have the same time.
    """

    week = h.WCRDT(h.MergeMap(h.PNCounter()), CountWindow(7))
    gains = h.WLocal(h.Product(sum=h.PNCounter(), newest=h.LWWRegister()), CountWindow(9, every=4, partial=True))
    second = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events: h.Events) -> None:
        rounded = events.select("seller", "price", at=(pl.col("ts") // SECOND + 1) * SECOND)
        self.week.insert((rounded["seller"], rounded["price"]), rounded.times("at"))
        gains = events.where(events["price"] > 0)
        self.gains.insert({"sum": gains["price"], "newest": gains["seller"]}, gains.ts)
        self.second.insert(1, events.ts)

    @h.on_window(week)
    def on_week(self, window: h.Window) -> Iterator[dict[str, object]]:
        for seller, total in self.week[window].share().items():
            yield {"week": window.start, "last": self.week.last_time(window), "seller": seller, "total": total}

    @h.on_window(gains)
    def on_gains(self, window: h.Window) -> Iterator[dict[str, object]]:
        yield {"gains": window.start, "upto": window.end, **self.gains[window]}

    @h.on_window(second)
    def on_second(self, window: h.Window) -> Iterator[dict[str, object]]:
        yield {"second": window.start, "n": self.second[window]}


class Simulated(NamedTuple):
    """A job of a scenario: which rows it wants, and over how many seconds."""

    job: h.Job
    make: Make
    span_s: float


_SHARES = Simulated(example("bid_share"), bid, 4)

SCENARIOS: Final[Mapping[str, Mapping[str, Simulated]]] = {
    "bid share": {"shares": _SHARES},
    "highest bid": {"highest": Simulated(h.job(HighestBid(), "bids"), bid, 4)},
    "alert rule": {"alerts": Simulated(example("alert_rule"), visit, 240)},
    "sliding top": {"sellers": Simulated(example("top_sellers"), sale, 15)},
    "counted": {"weeks": Simulated(h.job(CountedSales(), "sales", disorder="700ms"), sale, 9)},
    "two jobs": {
        "shares": _SHARES,
        "sessions": Simulated(example("user_sessions"), click, 60),
    },
}
"""By name, the jobs that run together, by their labels."""


class Prepared(NamedTuple):
    """Jobs by label, one set of inputs, and what the oracle says."""

    jobs: dict[str, h.Job]
    streams: dict[str, list[Partition]]
    expected: dict[str, Collected]


def prepared(name: str, variant: int, rows: int = ROWS) -> Prepared:
    """One variant of a scenario; made once."""
    return _prepared(name, variant, rows)


@cache
def _prepared(name: str, variant: int, rows: int) -> Prepared:
    given: dict[str, list[Partition]] = {}
    for one in SCENARIOS[name].values():
        given |= streams(one.job, one.make, one.span_s, seed=variant, rows=rows)
    return judged({label: one.job for label, one in SCENARIOS[name].items()}, given)


def judged(jobs: dict[str, h.Job], given: dict[str, list[Partition]]) -> Prepared:
    """Jobs and their inputs, with what must come out."""
    return Prepared(jobs, given, {label: run_oracle(job, given, rows_per_call=1000) for label, job in jobs.items()})


def simulated(name: str, seed: int, *, rows: int = ROWS, **options: object) -> Outcome:
    """One simulated run of a scenario."""
    jobs, given, expected = prepared(name, seed % VARIANTS, rows)
    return simulate(jobs, given, expected, seed, **options)
