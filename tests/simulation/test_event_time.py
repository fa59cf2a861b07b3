"""Event time that can be trusted, in virtual time and under faults: rows from tomorrow, and streams that go quiet."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.workloads import SECOND, load

from holons.engines.simulator import Simulation
from holons.node import Settings
from holons.semantics import run as run_oracle

DAY = 24 * 3600 * SECOND
PIECES = 13
"""Into how many pieces a partition's rows are cut, its end included: they are appended over five seconds."""


def bids(*times_s: float) -> pl.DataFrame:
    times = [round(second * SECOND) for second in times_s]
    return pl.DataFrame({"ts": times, "kind": "bid", "price": 5, "auction": 1}, schema_overrides={"ts": pl.Int64})


def honest(second: float) -> pl.DataFrame:
    """A row that is dated about when it is appended."""
    return bids(second)


def judged(executed: Any) -> Any:
    return {"shares": run_oracle(load("bid_share"), executed, rows_per_call=1000)}


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("block", range(2))
def test_a_row_from_tomorrow_is_dead_for_every_owner(block, foreign):
    """Two owners of each partition, crashes, and every cut: nothing honest is late, and nothing honest is missing."""
    steps = [5.0 * place / PIECES for place in range(PIECES - 1)]
    logs = [[honest(second) for second in steps] for _ in range(2)]
    logs[0].insert(6, bids(steps[5] + DAY / SECOND))
    settings = Settings(rows_max=3, residence_s=1.0, snapshot_deltas=4, poison_deaths=100, replicas=2)
    for seed in range(block, 8, 2):
        simulation = Simulation(
            {"shares": load("bid_share")}, {"bids": logs}, seed, settings=settings, foreign=foreign, live=True, nodes=4
        )
        outcome = simulation.run(judged)
        assert not outcome.problem, str(outcome)
        emitted = simulation.world.collected("shares")
        (dead,) = emitted["dead"][0]
        assert dead["ts"] > DAY
        assert not any(emitted.get("late", {}).values())
        assert {row["window"] // SECOND for row in emitted["on_window"][0]} == {0, 1, 2, 3, 4}
