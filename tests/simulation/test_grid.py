"""Checkpoints in nodes' memory: a death is recovered from a peer, and a loss is never a wrong row."""

from __future__ import annotations

from functools import cache

import msgspec
import pytest
from tests.simulation.scenarios import SCENARIOS, SEEDS, prepared, simulated
from tests.workloads import streams

from holons.engines.memory_site import MemorySite, logs_of
from holons.engines.simulator import Fault, Kind, Simulation
from holons.errors import CheckpointLost
from holons.node import Settings
from holons.node.job_on_node import JobOnNode
from holons.node.recovery import STATE, StateRecord
from holons.semantics import run as run_oracle
from holons.wcrdt import Replica

TRIMMING = Settings(rows_max=7, snapshot_deltas=2, checkpoint_s=0.2, residence_s=1.0, poison_deaths=100)
"""Trims as early as it may, so that a loss is soon one for good."""


VARIANTS = 4


@cache
def long(name, variant):
    """A scenario with so many windows that much of it is trimmed before the end."""
    (label, (job, make, span_s)), *_ = SCENARIOS[name].items()
    given = streams(job, make, 10 * span_s, seed=variant, rows=150)
    return {label: job}, given, {label: run_oracle(job, given, rows_per_call=1000)}


def run(name, seed, **options):
    """A long run, which trims as early as it may."""
    jobs, given, expected = long(name, seed % VARIANTS)
    simulation = Simulation(jobs, given, seed, settings=TRIMMING, **options)
    return simulation.run(expected), simulation


def trimmed(simulation):
    hubs = simulation.world.hubs
    return any(start for name, hub in hubs.items() if name.startswith("sync-") for start in hub.starts().values())


@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize("name", ["bid share", "alert rule"])
def test_rows_survive_all_faults_or_the_checkpoint_is_lost(name, block):
    for seed in range(block, SEEDS, 4):
        copies, nodes = (1, 3) if seed % 2 else (2, 5)
        outcome = simulated(name, seed, grid=copies, nodes=nodes)
        assert not outcome.problem, str(outcome)


@pytest.mark.parametrize("name", ["bid share", "alert rule"])
def test_nothing_is_lost_as_long_as_no_more_die_at_a_time_than_there_are_copies(name):
    for seed in range(SEEDS // 4):
        faults = [
            Fault(Kind.CRASH, 0.8 + round_ * 2.7, (seed + round_ * 2 + other) % 5, 0.4, detail=seed * 7 % 60)
            for round_ in range(3)
            for other in range(2)
        ]
        outcome, _ = run(name, seed, grid=2, nodes=5, faults=faults)
        assert not outcome.problem, str(outcome)
        assert not outcome.lost, str(outcome)


@pytest.mark.parametrize("seed", range(10))
def test_a_single_death_is_recovered_from_a_peers_memory(seed):
    faults = [Fault(Kind.CRASH, 2.5, seed % 4, 100.0, detail=seed)]
    outcome, simulation = run("bid share", seed, grid=1, nodes=4, faults=faults)
    assert not outcome.problem, str(outcome)
    assert not outcome.lost
    assert trimmed(simulation), "what was trimmed can only have come from a peer"


@pytest.mark.parametrize("name", ["bid share", "alert rule"])
def test_all_that_held_a_record_die_after_a_trim(name):
    lost = 0
    for seed in range(10):
        at_s = 1.5 + seed % 4
        outcome, _ = run(name, seed, grid=1, nodes=3, faults=[Fault(Kind.CRASH_ALL, at_s, 0, 0.5, detail=seed)])
        assert not outcome.problem, str(outcome)
        lost += outcome.lost
        assert outcome.lost or outcome.finished_s < 60.0
    assert lost >= 5, "the streams were not trimmed in time: this tests nothing"


def test_a_loss_is_told_though_its_partition_goes_from_node_to_node():
    lost = 0
    for seed in range(1000, 1000 + SEEDS):
        outcome, _ = run("bid share", seed, grid=2, nodes=5)
        assert not outcome.problem, str(outcome)
        lost += outcome.lost
    assert lost, "nothing was lost in any of them: this tests nothing"


def test_without_a_trim_everything_is_run_again():
    settings = Settings(rows_max=7, checkpoint_s=1000.0, snapshot_deltas=1000, poison_deaths=100)
    for seed in range(5):
        faults = [Fault(Kind.CRASH_ALL, 3.0, 0, 0.5, detail=seed)]
        outcome = simulated("bid share", seed, grid=1, faults=faults, settings=settings)
        assert not outcome.problem, str(outcome)
        assert not outcome.lost


@pytest.mark.parametrize("seed", range(6))
def test_nodes_that_leave_one_after_the_other_take_nothing_with_them(seed):
    faults = [
        *(Fault(Kind.JOIN, 0.5 + number, 0, 0.0, 0) for number in range(3)),
        *(Fault(Kind.LEAVE, 1.0 + number, number, 0.0, 0) for number in range(3)),
    ]
    outcome, _ = run("bid share", seed, grid=1, nodes=3, faults=faults)
    assert not outcome.problem, str(outcome)
    assert not outcome.lost
    assert [line for line in outcome.trace if "has left" in line], "nobody could go"


def test_two_that_leave_at_once_hand_over_to_the_others():
    faults = [Fault(Kind.LEAVE, 2.0, number, 0.0, 0) for number in range(2)]
    for seed in range(6):
        outcome, _ = run("alert rule", seed, grid=1, nodes=4, faults=faults)
        assert not outcome.problem, str(outcome)
        assert not outcome.lost


def test_memory_and_mail_are_bounded_by_what_is_kept():
    for seed in range(3):
        _, simulation = run("bid share", seed, grid=1, nodes=3, faults=[])
        nodes = [member.node for member in simulation.members if member.node is not None]
        records = [records for node in nodes for records in node.ports.store._records.values()]
        assert max(map(len, records)) <= 8, "of each name, two records and what is on its way"


def test_a_judge_who_excuses_nothing_would_see_losses():
    """The rule that excuses a loss is needed, and does not excuse one where too few nodes were away."""
    one = Simulation(*prepared("bid share", 0)[:2], 0, grid=1, faults=[])
    one._away = [(0, 1.0, 2.0), (0, 3.0, 4.0), (1, 30.0, 31.0)]
    assert not one._too_many_away()
    one._away.append((2, 33.0, 34.0))
    assert one._too_many_away()


# --- records and rows that are gone ---------------------------------------------------------------------------------


class Losing(Simulation):
    """When everybody dies, something is gone that had been stored."""

    def __init__(self, *args, lose, **options):
        super().__init__(*args, **options)
        self._lose, self.lost_something = lose, False

    def strike(self, fault):
        super().strike(fault)
        if fault.kind is Kind.CRASH_ALL:
            for member in self.members:
                self._down(member, "dies at once")
            self.lost_something = self._lose(self.world)


def lose_records(*endings):
    def lose(world):
        names = [name for name in world.records._records if name.endswith(endings)]
        for name in names:
            del world.records._records[name]
        return bool(names)

    return lose


def lose_old_or_new(ending, which):
    """Of the two records that are kept only one is left."""

    def lose(world):
        names = [name for name, held in world.records._records.items() if name.endswith(ending) and len(held) > 1]
        for name in names:
            del world.records._records[name][sorted(world.records._records[name])[which]]
        return bool(names)

    return lose


def lose_outputs(world):
    return sum(forget_rows(log) for log in world.outputs.values()) > 0


def lose_inputs(world):
    return sum(forget_rows(log) for log in world.inputs.values()) > 0


def forget_rows(log):
    """The log is empty again, though it had acknowledged rows."""
    had = any(log._ends)
    log._chunks, log._starts = [[] for _ in log._chunks], [[] for _ in log._starts]
    log._ends = [0] * len(log._ends)
    return had


def lossy(name, seed, lose, at_s):
    jobs, given, expected = long(name, seed % VARIANTS)
    faults = [Fault(Kind.CRASH_ALL, at_s, 0, 0.3, detail=0)]
    simulation = Losing(jobs, given, seed, faults=faults, settings=TRIMMING, lose=lose)
    outcome = simulation.run(expected)
    assert simulation._difference(expected, missing_allowed=True) == "" or lose in (lose_outputs, lose_inputs)
    return outcome, simulation


LOSSES = {
    "process records": lose_records("/process"),
    "window records": lose_records("/window"),
    "replicas": lose_records("/replica"),
    "process and window records": lose_records("/process", "/window"),
    "window records and replicas": lose_records("/window", "/replica"),
    "everything": lose_records("/process", "/window", "/replica"),
    "the newest process records": lose_old_or_new("/process", -1),
    "the newest window records": lose_old_or_new("/window", -1),
    "the newest replicas": lose_old_or_new("/replica", -1),
    "the older replicas": lose_old_or_new("/replica", 0),
}


@pytest.mark.parametrize("what", LOSSES)
@pytest.mark.parametrize("name", ["bid share", "alert rule"])
def test_lost_records_never_make_a_wrong_row(name, what):
    for seed in range(0, 12, 1 if SEEDS >= 50 else 2):
        outcome, _ = lossy(name, seed, LOSSES[what], at_s=1.2 + seed * 0.3)
        assert not outcome.problem or "CheckpointLost" in outcome.problem, str(outcome)
        assert not outcome.problem or what not in ("the older replicas",), str(outcome)


@pytest.mark.parametrize("lose", [lose_outputs, lose_inputs])
@pytest.mark.parametrize("name", ["bid share", "alert rule"])
def test_a_log_that_has_lost_acknowledged_rows_is_a_lost_checkpoint(name, lose):
    found = 0
    for seed in range(8):
        outcome, simulation = lossy(name, seed, lose, at_s=4.0)
        if simulation.lost_something:
            found += "CheckpointLost" in outcome.problem
            assert not outcome.problem or "CheckpointLost" in outcome.problem, str(outcome)
    assert found >= 4


def test_a_replica_starts_from_a_snapshot_that_the_sync_stream_still_continues():
    jobs, given, _ = prepared("bid share", 0)
    world = MemorySite(logs_of(given))
    job = jobs["shares"]
    empty = Replica(job.layout.handles, len(given["bids"])).snapshot_bytes()
    for cursor in ({"a": 4, "b": 4}, {"a": 9, "b": 2}):
        world.records.put(
            "shares/replica", (sum(cursor.values()),), STATE.encode(StateRecord(cursor, msgspec.Raw(empty)))
        )
    here = JobOnNode("shares", job, world.ports("c"), TRIMMING)
    assert here.cursor == {"a": 9, "b": 2}, "the newest"
    for writer in ("a", "b"):
        for _ in range(9):
            here.sync._hub.append(writer, b"")
    here.sync.trim({"a": 4, "b": 3})
    assert JobOnNode("shares", job, world.ports("d"), TRIMMING).cursor == {"a": 4, "b": 4}
    here.sync.trim({"b": 5})
    lost = JobOnNode("shares", job, world.ports("e"), TRIMMING).state_lost
    assert isinstance(lost, CheckpointLost)
    assert "no snapshot of its state reaches" in str(lost)
