"""Bounded skew: one stalled partition fills nobody's memory, and nobody ever waits for himself."""

from __future__ import annotations

import random
from dataclasses import replace

import polars as pl
import pytest
from tests.conformance import programs
from tests.simulation.scenarios import SCENARIOS, SEEDS, simulated
from tests.workloads import SECOND, YEAR, _bid, _click, _visit, load, streams

import holons as h
from holons.engines.memory_site import MemorySite
from holons.engines.simulator import simulate
from holons.engines.simulator.random_jobs import job_spec, workload
from holons.engines.simulator.random_programs import job_of
from holons.node import Node, Settings, sync_stream
from holons.node.job_on_node import JobOnNode
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.streams import MemoryLog
from holons.windows import END, Mark

TINY = Settings(max_ahead_s=0.5, rows_max=3, residence_s=1.0, snapshot_deltas=4, poison_deaths=100)
CALM = Settings(
    heartbeat_s=5.0,
    failure_timeout_s=50.0,
    tick_max_s=10.0,
    stagger_s=5.0,
    residence_s=100.0,
    checkpoint_s=10.0,
    idle_s=None,
    rows_max=5,
)
"""For hours of virtual time, ticked every five seconds."""


# --- an hour without a row --------------------------------------------------------------------------------------------


class Shared:
    """Nodes over one world, and rows that come when the test says so."""

    def __init__(self, job: h.Job, partitions: int, settings: Settings, nodes: int = 2) -> None:
        self.job, self.log, self.settings = job, MemoryLog(partitions), settings
        self.world = MemorySite({job.inputs[0].stream: self.log})
        self.incarnation = 0
        self.nodes = [self.node() for _ in range(nodes)]

    def node(self) -> Node:
        self.incarnation += 1
        node = Node(f"node-{self.incarnation}", self.world.ports(f"node-{self.incarnation}"), self.settings)
        node.add_job(self.job.name, self.job)
        return node

    def restart(self) -> None:
        """All nodes die at once, and come back."""
        self.nodes = [self.node() for _ in self.nodes]

    def append(self, partition: int, *pieces: pl.DataFrame | Mark) -> None:
        for piece in pieces:
            if isinstance(piece, Mark):
                self.log.mark(partition, piece.ts)
            else:
                for batch in piece.to_arrow().to_batches():
                    self.log.append(partition, batch)

    def trickle(self, partition: int) -> None:
        """A row now and then, which takes time no further."""
        for _ in range(10):
            self.append(partition, seconds(5, 6))
            self.tick(6)

    def tick(self, ticks: int, step_s: float = 5.0) -> None:
        for _ in range(ticks):
            self.world.clock.sleep_s(step_s)
            for node in self.nodes:
                node.tick()
                assert not node.failures, node.failures
                assert not node.stopped, node.stopped

    def finish(self, ticks_max: int = 5000) -> None:
        while not all(node.finished for node in self.nodes):
            self.tick(1)
            ticks_max -= 1
            assert ticks_max > 0, "it does not end"

    def here(self) -> list[JobOnNode]:
        return [node.jobs[self.job.name] for node in self.nodes if node.jobs]

    def held(self) -> set[int]:
        return {tasklet.partition for job in self.here() for tasklet in job.tasklets.values() if tasklet.held}

    def bytes_held(self) -> dict[str, int]:
        return {
            "replicas": sum(job.state.bytes_held() for job in self.here()),
            "sync": self.world.hubs[sync_stream(self.job.name)].bytes_held(),
            "store": self.world.records.bytes_held(),
        }

    def as_read(self) -> dict[str, list[list[pl.DataFrame | Mark]]]:
        """The input as it is in the log, marks and all."""
        partitions: list[list[pl.DataFrame | Mark]] = []
        for partition in range(self.log.partitions):
            chunks = self.log.read(partition, 0, self.log.end(partition))
            partitions.append(
                [Mark(chunk.mark or 0) if chunk.rows is None else pl.DataFrame(chunk.rows) for chunk in chunks]
            )
        return {self.job.inputs[0].stream: partitions}

    def equals_the_oracle(self) -> bool:
        return canonical(self.world.collected(self.job.name)) == canonical(run_oracle(self.job, self.as_read()))


def seconds(start: int, stop: int, step: int = 1) -> pl.DataFrame:
    """A row every so many seconds, of one of ten users."""
    times = [second * SECOND for second in range(start, stop, step)]
    return pl.DataFrame({"ts": times, "user": [f"user {ts // SECOND % 10}" for ts in times], "page": "/", "spent": 0.5})


@pytest.mark.parametrize("from_the_start", [True, False], ids=["from the start", "half way"])
@pytest.mark.parametrize("name", ["bid share", "accumulating", "three stages", "sessions"])
def test_an_hour_without_a_row_fills_nobodys_memory(name, from_the_start):
    job = {
        "bid share": h.job(Counting(), "in"),
        "accumulating": h.job(programs.Accumulating(), "in"),
        "three stages": h.job(programs.ThreeStages(), "in"),
        "sessions": h.job(load("user_sessions").program, "in"),
    }[name]
    shared = Shared(job, 3, CALM)
    begun = 0 if from_the_start else 300
    shared.append(2, seconds(0, begun, 60))
    for partition in (0, 1):
        shared.append(partition, seconds(0, 900, 60))
    shared.tick(60)
    before = shared.bytes_held()
    assert shared.held() == {0, 1}
    for start in (900, 1200, 1500, 1800):  # four quarters of an hour, in which the others get more and more
        for partition in (0, 1):
            shared.append(partition, seconds(start, start + 300, 60))
        if start == 1200:
            shared.restart()
        shared.tick(180)
        assert shared.held() == {0, 1}
    after = shared.bytes_held()
    assert all(after[what] <= before[what] * 1.02 for what in before), (before, after)
    shared.append(2, seconds(begun, 2100, 60), END)
    for partition in (0, 1):
        shared.append(partition, END)
    shared.finish()
    assert not shared.held()
    assert shared.equals_the_oracle()


class Counting(h.Program):
    """Rows by second: of all, and of this partition."""

    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    mine = h.WLocal(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.total.insert(1, events.ts)
        self.mine.insert(1, events.ts)

    def on_window(self, window):
        yield {"start": window.start, "total": self.total[window], "mine": self.mine[window]}


def test_without_a_bound_the_same_hour_fills_memory():
    """The figures above mean something."""
    shared = Shared(h.job(Counting(), "in"), 3, replace(CALM, max_ahead_s=None))
    for partition in (0, 1):
        shared.append(partition, seconds(0, 3600))
    shared.tick(10)
    before = shared.bytes_held()
    shared.tick(100)
    assert not shared.held()
    assert shared.bytes_held()["replicas"] > 2 * before["replicas"]


@pytest.mark.parametrize("begun", [0, 100])
def test_one_who_waits_for_a_stalled_partition_reads_as_far_as_it_may_and_no_further(begun):
    shared = Shared(h.job(Counting(), "in"), 2, replace(CALM, rows_max=1, max_ahead_s=30.0))
    shared.append(0, seconds(0, 1000))
    shared.append(1, seconds(0, begun))
    shared.tick(400)
    (tasklet,) = [here.tasklets[0] for here in shared.here() if 0 in here.tasklets]
    reference = begun - 1 if begun else 1  # what the other has sealed, or the end of the oldest pane
    assert tasklet.run.progress.watermark == (reference + 30 + 1) * SECOND, "the first row beyond is read, and no other"


# --- held is neither idle nor poison ----------------------------------------------------------------------------------


def test_a_partition_that_is_held_is_not_idle():
    """The one that it waits for falls silent later: both would be idle, and nobody would be marked."""
    shared = Shared(h.job(Counting(), "in"), 2, replace(CALM, idle_s=100.0))
    shared.append(0, seconds(0, 1000, 10))
    shared.trickle(1)
    assert shared.held() == {0}
    shared.tick(100)
    progress = shared.here()[0].state.progress[0]
    assert progress[0] == progress[1] == 990 * SECOND, "the silent one was marked, up to where the held one was"
    shared.append(0, END)
    shared.append(1, seconds(3000, 3001), END)
    shared.finish()
    assert shared.equals_the_oracle()


class WaitsForTheSecondBefore(h.Program):
    """Each row waits for the second before its own to complete."""

    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    async def process(self, events):
        self.total.insert(1, events.ts)
        for window, run in events.by_window(self.total):
            before = await self.total.completed(self.total.window.before(window))
            self.output(run.where(run["spent"] > before / 100))


def test_a_partition_that_is_parked_is_not_idle():
    """The one that it waits for falls silent later: both would be idle, and nobody would be marked."""
    shared = Shared(h.job(WaitsForTheSecondBefore(), "in"), 2, replace(CALM, idle_s=100.0))
    shared.append(0, seconds(0, 100), END)
    shared.trickle(1)
    shared.tick(200)
    assert shared.here()[0].state.progress[0][0] > 20 * SECOND
    shared.append(1, END)
    shared.finish()
    assert shared.equals_the_oracle()


def test_nodes_that_die_while_a_partition_is_held_are_no_poison():
    shared = Shared(h.job(Counting(), "in"), 2, CALM)
    shared.append(0, seconds(0, 1000, 10), END)
    shared.append(1, seconds(0, 10))
    for _ in range(6):
        shared.tick(30)
        assert shared.held() == {0}
        shared.restart()


# --- nobody waits for himself -----------------------------------------------------------------------------------------


class LongSlides(h.Program):
    """Windows much longer than anyone may be ahead; one that is an hour long, and a stage after it."""

    recent = h.WCRDT(h.GCounter(), h.Sliding("30s", every="7s"))
    hourly = h.WCRDT(h.GCounter(), h.Tumbling("1h"))
    mine = h.WLocal(h.GCounter(), h.Tumbling("1h"))
    busiest = h.WCRDT(h.MaxRegister(), h.Tumbling("2h"), stage=1)

    def process(self, events):
        for handle in (self.recent, self.hourly, self.mine):
            handle.insert(1, events.ts)

    @h.on_window(recent)
    def slid(self, window):
        yield {"start": window.start, "recent": self.recent[window]}

    @h.on_window(hourly)
    def by_the_hour(self, window):
        self.busiest.insert(self.hourly[window], window)
        yield {"start": window.start, "hourly": self.hourly[window], "mine": self.mine[window]}

    @h.on_window(busiest)
    def last(self, window):
        yield {"start": window.start, "busiest": self.busiest[window]}


class OnlyHours(h.Program):
    """Nothing but long windows: between two seals a partition reads for hours."""

    hourly = h.WCRDT(h.GCounter(), h.Tumbling("1h"))

    def process(self, events):
        self.hourly.insert(1, events.ts)

    def on_window(self, window):
        yield {"start": window.start, "hourly": self.hourly[window]}


class SessionsThenStages(h.Program):
    """Sessions lag by a pane; the stage after them lags further."""

    visits = h.WCRDT(h.GCounter(), h.Session("5s"))
    lengths = h.WCRDT(h.MaxRegister(), h.Tumbling("11s"), stage=1)
    rounds = h.WCRDT(h.GCounter(), h.Session("3s"), stage=2)

    def process(self, events):
        self.visits.insert(1, events.ts, key=events["user"])

    @h.on_window(visits)
    def visited(self, session):
        self.lengths.insert(session.size_us, session)
        yield {"start": session.start, "user": session.key, "clicks": self.visits[session]}

    @h.on_window(lengths)
    def longest(self, window):
        self.rounds.insert(1, window)
        yield {"start": window.start, "longest": self.lengths[window]}

    @h.on_window(rounds)
    def rounded(self, session):
        yield {"start": session.start, "rounds": self.rounds[session]}


JOBS = {
    "sessions and two stages after them": (h.job(SessionsThenStages(), "in"), _click, 60),
    "two stages": (load("two_stages"), _visit, 150),
    "three stages": (h.job(programs.ThreeStages(), "in"), _click, 25),
    "slides longer than anyone may be ahead": (h.job(LongSlides(), "in", disorder="1s"), _visit, 20_000),
    "only hours": (h.job(OnlyHours(), "in"), _visit, 30_000),
    "accumulating": (h.job(programs.Accumulating(), "in"), _click, 6),
    "awaits of a later stage": (h.job(programs.AwaitsLaterStage(), "in"), _visit, 40),
    "one by one, awaiting": (h.job(programs.OneByOneAwaiting(), "in"), _bid, 5),
    "far inserts": (h.job(programs.FutureInserts(), "in", disorder="1s"), _bid, 6),
}


@pytest.mark.parametrize("max_ahead_s", [0.0, 2.0])
@pytest.mark.parametrize("name", JOBS)
def test_nobody_waits_for_himself(name, max_ahead_s):
    job, make, span_s = JOBS[name]
    for seed in range(4):
        given = streams(job, make, span_s, seed=seed, rows=30)  # with marks, ends, and jumps of a year
        expected = {"it": run_oracle(job, given, rows_per_call=1 if job.layout.row_by_row else 1000)}
        outcome = simulate({"it": job}, given, expected, seed, settings=replace(TINY, max_ahead_s=max_ahead_s))
        assert not outcome.problem, str(outcome)


@pytest.mark.parametrize("name", SCENARIOS)
def test_outputs_survive_all_faults_in_lockstep(name):
    for seed in range(SEEDS):
        outcome = simulated(name, seed, settings=TINY)
        assert not outcome.problem, str(outcome)


def test_two_copies_of_everything_in_lockstep():
    for name in SCENARIOS:
        for seed in range(4):
            outcome = simulated(name, seed, settings=replace(TINY, replicas=2), nodes=4)
            assert not outcome.problem, str(outcome)


def test_random_programs_in_lockstep():
    for seed in range(SEEDS):
        spec = job_spec(seed)
        job, given = job_of(spec), workload(spec, seed)
        expected = {"it": run_oracle(job, given)}
        settings = replace(TINY, max_ahead_s=random.Random(seed).choice([0.0, 1.0]))
        outcome = simulate({"it": job}, given, expected, seed, settings=settings)
        assert not outcome.problem, str(outcome)


def test_a_jump_of_a_year_in_all_partitions_and_in_one():
    for jumping in ({0}, {0, 1}, {0, 1, 2}):
        shared = Shared(h.job(Counting(), "in"), 3, CALM)
        for partition in range(3):
            shared.append(partition, seconds(0, 200, 10))
            if partition in jumping:
                shared.append(partition, seconds(YEAR // SECOND, YEAR // SECOND + 200, 10))
            shared.append(partition, seconds(2 * YEAR // SECOND, 2 * YEAR // SECOND + 200, 10), END)
        shared.finish()
        assert shared.equals_the_oracle()
