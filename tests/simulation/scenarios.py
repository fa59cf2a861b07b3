"""The scenarios that the package brings along, and those with idle partitions, which only tests want."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from functools import cache
from typing import Any

from tests.workloads import _bid, load, partition

from holons.engines.simulator import Outcome, scenarios, simulate
from holons.engines.simulator.scenarios import SCENARIOS, VARIANTS, HighestBid
from holons.node import Settings
from holons.semantics import run as run_oracle

__all__ = ["CONTENDED", "IDLE", "SCENARIOS", "SEEDS", "VARIANTS", "HighestBid", "prepared", "simulated"]

SEEDS = int(os.environ.get("HOLONS_SIM_SEEDS", "50" if os.environ.get("HOLONS_VERIFY") == "1" else "10"))
"""How many seeds of each scenario are run. `holons sim` tries more of them, and draws from more kinds of faults."""

_IDLE = Settings(idle_s=0.2, rows_max=7, snapshot_deltas=4, residence_s=1.0, poison_deaths=100)
IDLE: dict[str, dict[str, Any]] = {
    "idle": {"settings": _IDLE},
    "idle, two copies": {"settings": replace(_IDLE, replicas=2), "nodes": 4},
    "idle, foreign": {"settings": _IDLE, "foreign": True},
    "idle, foreign, two copies": {"settings": replace(_IDLE, replicas=2), "foreign": True, "nodes": 4},
}
"""Bid share over partitions that go idle: the run adds marks, so what must come out depends on where they are."""

CONTENDED = {"idle, contended": {"settings": replace(_IDLE, replicas=3, idle_s=0.05), "foreign": True, "nodes": 4}}
"""The same, with more owners that mark and admit at the same time."""


@cache
def _idle_streams(variant: int) -> dict[str, Any]:
    """Some partitions have hardly any rows."""
    rng = random.Random(variant)
    return {"bids": [partition(rng, _bid, span_s=4, rows=rng.choice([2, 6, 24])) for _ in range(4)]}


def _idle_expected(executed: Any) -> Any:
    """What the oracle says of the rows and marks in the order in which they were read."""
    return {"shares": run_oracle(load("bid_share"), executed, rows_per_call=1000)}


def prepared(name: str, variant: int) -> tuple[Any, Any, Any]:
    """The jobs of a scenario, one set of inputs, and what the oracle says."""
    if name in IDLE | CONTENDED:
        return {"shares": load("bid_share")}, _idle_streams(variant), _idle_expected
    return scenarios.prepared(name, variant)


def simulated(name: str, seed: int, **options: Any) -> Outcome:
    """One simulated run of a scenario."""
    jobs, given, expected = prepared(name, seed % VARIANTS)
    return simulate(jobs, given, expected, seed, **((IDLE | CONTENDED).get(name, {}) | options))
