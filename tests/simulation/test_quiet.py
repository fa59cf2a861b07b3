"""Streams that go quiet as a whole, under faults: nobody ends them, and all that they hold comes out all the same."""

from __future__ import annotations

import random
from dataclasses import replace

import polars as pl
import pytest
from tests.simulation.scenarios import SEEDS
from tests.workloads import load

from holons.engines.inputs import partitions_in
from holons.engines.simulator import simulate, simulation
from holons.node import Settings
from holons.node.partition import PartitionTasklet
from holons.semantics import run as run_oracle
from holons.windows import BEGINNING, END, Mark

QUIET = Settings(idle_s=0.2, rows_max=7, snapshot_deltas=4, residence_s=1.0, poison_deaths=100)
FOREIGN = {"settings": QUIET, "foreign": True}
TWO_COPIES = {"settings": replace(QUIET, replicas=2), "foreign": True, "nodes": 4}
JOB = load("bid_share")


def rows_of(seed):
    """Four seconds of bids; one partition has none, and one is about a second behind the others."""
    rng = random.Random(seed)
    partitions = []
    for number, count in enumerate((24, 12, 4, 0)):
        ts = sorted(rng.randrange(4_000_000) - 1_000_000 * (number == 1) for _ in range(count))
        if count > 4:
            ts[3], ts[4] = ts[4], ts[3]
        columns = {"ts": ts, "kind": ["bid"] * count, "price": list(range(count)), "auction": [1] * count}
        partitions.append([pl.DataFrame(columns)] if count else [])
    return {"bids": partitions}


def everything(executed):
    """What comes out of the rows and marks that were read, once nothing is open any more."""
    ended = {stream: [[*log, END] for log in partitions] for stream, partitions in executed.items()}
    return {"shares": run_oracle(JOB, ended, rows_per_call=1000)}


@pytest.fixture(autouse=True)
def nobody_ends_them(monkeypatch):
    pieces = simulation.pieces
    monkeypatch.setattr(simulation, "pieces", lambda rows: [piece for piece in pieces(rows) if piece != END])


def quiet(seed, **options):
    return simulate({"shares": JOB}, rows_of(seed % 8), everything, seed, live=True, **options)


@pytest.mark.parametrize("options", [FOREIGN, TWO_COPIES], ids=["one owner", "two owners"])
def test_all_windows_of_a_quiet_stream_come_out_whatever_fails(options):
    for seed in range(SEEDS):
        outcome = quiet(seed, **options)
        assert not outcome.problem, str(outcome)


def test_the_marks_are_in_the_journal_and_the_same_run_has_the_same():
    found = []
    for _ in range(2):
        run = simulation.Simulation({"shares": JOB}, rows_of(3), 3, live=True, **TWO_COPIES)
        assert not run.run(everything).problem
        logs = partitions_in(run.world.executed("bids"))
        found.append([[piece.ts for piece in log if isinstance(piece, Mark) and piece.ts > BEGINNING] for log in logs])
    assert found[0] == found[1]
    assert all(found[0]), "each partition was marked, the one without rows too"


def test_a_mark_that_only_its_writer_knows_is_found(monkeypatch):
    def mark_idle(self):
        mark = self.here.job.sealed_by_stage(self.here.idle.event_time)[0]
        process = self.run._process
        if mark > process.watermark:
            process.state.watermark = mark
            process._seal(mark)
            self.run._progress = None

    monkeypatch.setattr(PartitionTasklet, "_mark_idle", mark_idle)
    assert any(quiet(seed, **TWO_COPIES).problem for seed in range(4))


def test_without_marks_it_would_wait_for_ever():
    outcome = quiet(1, **FOREIGN | {"settings": replace(QUIET, idle_s=None)})
    assert "not nothing" in outcome.problem or "nothing, not" in outcome.problem
