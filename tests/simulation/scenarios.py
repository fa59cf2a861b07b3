"""Jobs with their inputs and what must come out, made once and simulated under many seeds."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any

from tests.workloads import EXAMPLES, _bid, _sale, load, partition, streams

import holons as h
from holons.engines.simulator import Outcome, simulate
from holons.node import Settings
from holons.semantics import run as run_oracle

VARIANTS = 8
"""How many different inputs a scenario has."""


class HighestBid(h.Program):
    """The highest bid, with many equal prices: the winner must not depend on timing."""

    highest = h.WCRDT(h.TopK(2), h.Tumbling("1s"))

    def process(self, events):
        bids = events.where(events["kind"] == "bid")
        self.highest.insert((bids["price"], bids["auction"]), bids.ts)

    def on_window(self, window):
        for price, auction in self.highest[window]:
            yield {"window": window.start, "price": price, "auction": auction}


SCENARIOS: dict[str, dict[str, tuple[h.Job, Any, float]]] = {
    "bid share": {"shares": (load("bid_share"), *EXAMPLES["bid_share"])},
    "highest bid": {"highest": (h.job(HighestBid(), "bids"), _bid, 4)},
    "alert rule": {"alerts": (load("alert_rule"), *EXAMPLES["alert_rule"])},
    "sliding top": {"sellers": (load("top_sellers"), _sale, 15)},
    "two jobs": {
        "shares": (load("bid_share"), *EXAMPLES["bid_share"]),
        "sessions": (load("user_sessions"), *EXAMPLES["user_sessions"]),
    },
}


_IDLE = Settings(idle_s=0.2, rows_max=7, snapshot_deltas=4, residence_s=1.0, poison_deaths=100)
IDLE: dict[str, dict[str, Any]] = {
    "idle": {"settings": _IDLE},
    "idle, two copies": {"settings": replace(_IDLE, replicas=2), "nodes": 4},
    "idle, foreign": {"settings": _IDLE, "foreign": True},
    "idle, foreign, two copies": {"settings": replace(_IDLE, replicas=2), "foreign": True, "nodes": 4},
}
"""Bid share over partitions that go idle: the run adds marks, so what must come out depends on where they are."""


def _idle_streams(variant: int) -> dict[str, Any]:
    """Some partitions have hardly any rows."""
    rng = random.Random(variant)
    return {"bids": [partition(rng, _bid, span_s=4, rows=rng.choice([2, 6, 24])) for _ in range(4)]}


def _idle_expected(executed: Any) -> Any:
    """What the oracle says of the rows and marks in the order in which they were read."""
    return {"shares": run_oracle(load("bid_share"), executed, rows_per_call=1000)}


@cache
def prepared(name: str, variant: int) -> tuple[dict[str, h.Job], dict[str, Any], Any]:
    """The jobs of a scenario, one set of inputs, and what the oracle says."""
    if name in IDLE:
        return {"shares": load("bid_share")}, _idle_streams(variant), _idle_expected
    jobs, given, expected = {}, {}, {}
    for label, (job, make, span_s) in SCENARIOS[name].items():
        jobs[label] = job
        given |= streams(job, make, span_s, seed=variant, rows=24)
    for label, job in jobs.items():
        expected[label] = run_oracle(job, given, rows_per_call=1000)
    return jobs, given, expected


def simulated(name: str, seed: int, **options: Any) -> Outcome:
    """One simulated run of a scenario."""
    jobs, given, expected = prepared(name, seed % VARIANTS)
    return simulate(jobs, given, expected, seed, **(IDLE.get(name, {}) | options))
