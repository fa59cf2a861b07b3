"""Partitions that go idle, under faults: all owners read one order of rows and marks, and the oracle agrees with them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.simulation.scenarios import IDLE, SEEDS, VARIANTS, prepared, simulated

from holons import codec
from holons.engines.inputs import partitions_in
from holons.engines.simulator import Fault, Kind, Simulation
from holons.engines.simulator import gated as worlds
from holons.program.process import ProcessPart
from holons.windows import ENDING, Mark


@pytest.mark.parametrize("block", range(2))
@pytest.mark.parametrize("name", IDLE)
def test_outputs_survive_all_faults(name, block):
    for seed in range(block, SEEDS, 2):
        outcome = simulated(name, seed)
        assert not outcome.problem, str(outcome)


def started(name, seed, **options):
    jobs, given, expected = prepared(name, seed % VARIANTS)
    return Simulation(jobs, given, seed, **(IDLE[name] | options)), given, expected


@pytest.mark.parametrize("name", IDLE)
def test_runs_do_add_marks(name):
    """Otherwise the rest would be about nothing."""
    added = 0
    for seed in range(4):
        simulation, given, expected = started(name, seed, faults=[])
        assert not simulation.run(expected).problem
        for log, before in zip(partitions_in(simulation.world.executed("bids")), given["bids"], strict=True):
            marks = [piece.ts for piece in log if isinstance(piece, Mark) and piece.ts < ENDING]
            added += len(marks) - sum(isinstance(piece, Mark) and piece.ts < ENDING for piece in before)
    assert added > 10


def test_a_foreign_input_is_never_written_to():
    simulation, given, expected = started("idle, foreign", 3)
    assert not simulation.run(expected).problem
    for log, before in zip(partitions_in(simulation.world.inputs["bids"]), given["bids"], strict=True):
        assert sum(isinstance(piece, Mark) for piece in log) == sum(isinstance(piece, Mark) for piece in before) + 1


@pytest.fixture
def fed(monkeypatch):
    """What owners were fed, by partition and offset; if two are fed different things, it fails at once."""
    seen: dict[tuple[int, int], bytes] = {}
    feed, mark = ProcessPart.feed, ProcessPart.mark

    def take(self, offset, content):
        data = codec.encode(content)
        assert seen.setdefault((self.partition, offset), data) == data, f"two owners differ at {offset}"

    def feeding(self, batch, offset, *whole):
        for place, row in enumerate(batch.to_pylist(), start=offset):
            take(self, place, row)
        feed(self, batch, offset, *whole)

    def marking(self, ts, offset):
        take(self, offset, ("mark", ts))
        mark(self, ts, offset)

    monkeypatch.setattr(ProcessPart, "feed", feeding)
    monkeypatch.setattr(ProcessPart, "mark", marking)
    return seen


STALLS = [Fault(Kind.STALL, 0.5 + number, number, 1.5, 0) for number in range(4)]
"""One after the other, each node reads late."""


@pytest.mark.parametrize("name", ["idle, two copies", "idle, foreign, two copies"])
def test_a_row_between_the_decision_that_a_partition_is_idle_and_its_mark(name, monkeypatch, fed):
    """An own log has it before the mark, a foreign one after it, where it is late: the same for every owner."""
    rows: list[tuple[int, int]] = []

    def slip_in(world, partition, ts):
        if len(rows) < 12:
            rows.append((partition, world.inputs["bids"].end(partition)))
            row = {"ts": [ts - 1], "kind": ["bid"], "price": [len(rows)], "auction": [1]}
            world.inputs["bids"].append(partition, pa.record_batch(row))

    log_mark, propose = worlds.GatedLog.mark, worlds.GatedJournal.propose

    def mark(self, partition, ts):
        slip_in(self._gate.world, partition, ts)
        return log_mark(self, partition, ts)

    def proposing(self, partition, number, data):
        ts = codec.decode(data)[2]
        if ts is not None and number % 2:  # a mark that was asked for, and is about to be granted
            slip_in(self._gate.world, partition, ts)
        return propose(self, partition, number, data)

    monkeypatch.setattr(worlds.GatedLog, "mark", mark)
    monkeypatch.setattr(worlds.GatedJournal, "propose", proposing)
    for seed in range(6):
        rows.clear()
        fed.clear()
        simulation, _, expected = started(name, seed, faults=STALLS)
        outcome = simulation.run(expected)
        assert not outcome.problem, str(outcome)
        assert rows, "no mark, no row"
        log = simulation.world.executed("bids")
        for partition in range(log.partitions):
            for chunk in log.read(partition, 0, log.end(partition)):
                contents = [("mark", chunk.mark)] if chunk.rows is None else chunk.rows.to_pylist()
                for place, content in enumerate(contents, start=chunk.offset):
                    assert fed[partition, place] == codec.encode(content)


def test_an_idle_partition_does_not_hold_up_the_others():
    """Nothing ever comes from one partition, not even its end; what the others can complete comes out all the same."""
    for foreign in (False, True):
        jobs, given, _ = prepared("idle", 0)
        rows = [[piece.with_columns(ts=at * 1_000_000) for at, piece in enumerate(_single_rows(given))]] * 2
        simulation = Simulation(jobs, {"bids": [*rows, []]}, 1, settings=IDLE["idle"]["settings"], foreign=foreign)
        for number, (_, partition, parts) in enumerate(simulation._production):
            if partition == 2:
                simulation._queue = [event for event in simulation._queue if event[2:] != (number, "produce")]
                assert parts
        outcome = simulation.run({"shares": {}})
        assert "on_window" in outcome.problem, "it goes on to the deadline, since it cannot end"
        windows = {row["window"] for row in simulation.world.collected("shares")["on_window"][0]}
        assert len(windows) >= 8


def _single_rows(given):
    frame = next(piece for partition in given["bids"] for piece in partition if not isinstance(piece, Mark))
    return [frame.head(1)] * 10
