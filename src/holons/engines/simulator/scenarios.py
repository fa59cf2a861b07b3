"""Scenarios: jobs with small inputs and what must come out, to be simulated under many seeds.

A scenario and a seed name one run for good: jobs, labels and inputs here are part of what recorded seeds mean. The
programs are those of `examples/`, which an installed package does not have; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

import polars as pl

import holons as h
from holons.engines.simulator.simulation import Outcome, simulate
from holons.engines.simulator.workloads import Make, Partition, bid, click, sale, streams, visit
from holons.program import Collected
from holons.semantics import run as run_oracle

VARIANTS: Final = 8
"""How many different inputs a scenario has."""
ROWS: Final = 24
"""How many rows a partition has at the most."""

MINUTE = h.Tumbling("1m")


class BidShare(h.Program):
    """Each partition's share of all bids, per second."""

    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    local = h.WLocal(h.GCounter(), h.Tumbling("1s"))

    def process(self, events: h.Events) -> None:
        bids = events.where(events["kind"] == "bid")
        self.total.insert(1, bids.ts)
        self.local.insert(1, bids.ts)

    def on_window(self, window: h.Window) -> Iterator[dict[str, object]]:
        yield {"window": window.start, "share": self.local[window] / self.total[window]}


class HighestBid(h.Program):
    """The highest bid, with many equal prices: the winner must not depend on timing."""

    highest = h.WCRDT(h.TopK(2), h.Tumbling("1s"))

    def process(self, events: h.Events) -> None:
        bids = events.where(events["kind"] == "bid")
        self.highest.insert((bids["price"], bids["auction"]), bids.ts)

    def on_window(self, window: h.Window) -> Iterator[dict[str, object]]:
        for price, auction in self.highest[window]:  # type: ignore[misc]  # pairs, as they were inserted
            yield {"window": window.start, "price": price, "auction": auction}


class AlertRule(h.Program):
    """Rows that exceed the last minute's global average by 10%, and a summary of each minute."""

    visits = h.WCRDT(h.Average("int"), MINUTE)
    alerts = h.WCRDT(h.GCounter(), MINUTE)

    async def process(self, events: h.Events) -> None:
        self.visits.insert(events["visitors"], events.ts)
        for window, run in events.by_window(self.visits):
            usual = await self.visits.completed(MINUTE.before(window))
            if usual is not None:
                jumps = run.where(run["visitors"] > 1.1 * usual)
                self.alerts.insert(1, jumps.ts)
                self.output(jumps.select("server", "visitors", usual=pl.lit(usual)))

    def on_window(self, window: h.Window) -> Iterator[dict[str, object]]:
        yield {"minute": window.start, "average": self.visits[window], "alerts": self.alerts[window]}


class TopSellers(h.Program):
    """The k sellers with the highest revenue, sliding."""

    emit = "once"

    revenue = h.WCRDT(h.MergeMap(h.Sum("int")), h.Sliding("10s", every="1s"))

    def __init__(self, k: int = 3) -> None:
        self.k = k

    def process(self, events: h.Events) -> None:
        self.revenue.insert((events["seller"], events["price"]), events.ts)

    def on_window(self, window: h.Window) -> Iterator[dict[str, object]]:
        for rank, (seller, revenue) in enumerate(self.revenue[window].top(self.k), start=1):
            yield {"end": window.end, "rank": rank, "seller": seller, "revenue": revenue}


class UserSessions(h.Program):
    """For each session: who, from when to when, how many clicks, and the total of what was bought."""

    emit = "once"

    clicks = h.WCRDT(h.Product(n=h.GCounter(), spent=h.Sum("float")), h.Session("10s"))

    def process(self, events: h.Events) -> None:
        self.clicks.insert({"n": 1, "spent": events["spent"]}, events.ts, key=events["user"])

    def on_window(self, session: h.Window) -> Iterator[dict[str, object]]:
        totals = self.clicks[session]
        yield {"user": session.key, "start": session.start, "end": session.end, **totals}


class Simulated(NamedTuple):
    """A job of a scenario: which rows it wants, and over how many seconds."""

    job: h.Job
    make: Make
    span_s: float


_SHARES = Simulated(h.job(BidShare(), "bids"), bid, 4)

SCENARIOS: Final[Mapping[str, Mapping[str, Simulated]]] = {
    "bid share": {"shares": _SHARES},
    "highest bid": {"highest": Simulated(h.job(HighestBid(), "bids"), bid, 4)},
    "alert rule": {"alerts": Simulated(h.job(AlertRule(), "visits"), visit, 240)},
    "sliding top": {"sellers": Simulated(h.job(TopSellers(), "sales", disorder="500ms"), sale, 15)},
    "two jobs": {
        "shares": _SHARES,
        "sessions": Simulated(h.job(UserSessions(), "clicks", disorder="1s"), click, 60),
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
