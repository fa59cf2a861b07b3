"""What the two records of a partition hold, and which of them go together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import holons as h
from holons.engines.memory_site import MemorySite
from holons.errors import CheckpointLost
from holons.node import Node, Settings
from holons.node.recovery import Checkpoints, past
from holons.program import ProgramRun, RecordHeader
from holons.program.records import PROCESS
from holons.store import MemoryStore
from holons.streams import MemoryLog
from holons.windows import BEGINNING, END

ROWS = 1_000
JOB = "mine"


class Mine(h.Program):
    """Much state of a partition's own, which the next windows need for three seconds."""

    own = h.WLocal(h.MergeMap(h.GCounter()), h.Tumbling("1s"), keep="3s")

    def process(self, events):
        self.own.insert((events["key"], 1), events.ts)

    def on_window(self, window):
        yield {"n": len(self.own[window])}


def later(*, own_stage, reads_it=False):
    """The same, and windows of a later stage, which are half a minute behind."""

    class Later(h.Program):
        own = h.WLocal(h.MergeMap(h.GCounter()), h.Tumbling("1s"), keep="3s")
        own.own_stage = own_stage
        long = h.WCRDT(h.GCounter(), h.Tumbling("30s"), stage=1)

        def process(self, events):
            self.own.insert((events["key"], 1), events.ts)

        @h.on_window(own)
        def short_ones(self, window):
            self.long.insert(len(self.own[window]), window)

        @h.on_window(long)
        def long_ones(self, window):
            last = h.Window(window.end - 1_000_000, window.end)
            yield {"n": self.long[window], "last": len(self.own[last]) if reads_it else 0}

    return Later()


@pytest.fixture
def world():
    """A world in which a node has run for a while, and stored where it is again and again."""
    return ran(Mine())


def ran(program):
    world = MemorySite({"in": MemoryLog(1)})
    for _ in running(world, program, Settings(checkpoint_s=0.5)):
        pass
    return world


def running(world, program, settings):
    """A node that reads a second of event time each time it is looked at."""
    node = Node("node-0", world.ports("node-0"), settings)
    node.add_job(JOB, h.job(program, "in"))
    for second in range(100):
        world.inputs["in"].append(0, pa.record_batch({"ts": np.full(ROWS, second * 1_000_000), "key": np.arange(ROWS)}))
        world.clock.sleep_s(0.1)
        node.tick()
        assert not node.failures
        yield node


def stored(world, kind):
    name = f"{JOB}/0/{kind}"
    return [world.records.get(name, position) for position in world.records.positions(name)]


def loaded(world):
    return Checkpoints(world.records, JOB, 0, h.job(Mine(), "in")).load(
        lambda: (0, world.inputs["in"].end(0)), lambda channel: 2**62
    )


class SlowlyRead:
    """A store whose reader stands still between window records and process records, while the owner goes on."""

    def __init__(self, store, go_on):
        self._store, self._go_on = store, [go_on]

    def positions(self, name):
        if name.endswith("/process") and self._go_on:
            self._go_on.pop()()
        return self._store.positions(name)

    def get(self, name, position):
        return self._store.get(name, position)


def test_records_that_were_replaced_while_they_were_read_are_read_again():
    world = MemorySite({"in": MemoryLog(1)})
    owner = running(world, Mine(), Settings(checkpoint_s=0.5))
    for _ in range(50):
        next(owner)

    def go_on():
        for _ in range(30):
            next(owner)

    before = world.records.positions(f"{JOB}/0/window")
    checkpoints = Checkpoints(SlowlyRead(world.records, go_on), JOB, 0, h.job(Mine(), "in"))
    records = checkpoints.load(lambda: (0, world.inputs["in"].end(0)), lambda channel: 2**62)
    assert not set(before) & set(world.records.positions(f"{JOB}/0/window"))
    assert records.window in stored(world, "window")
    assert records.process in stored(world, "process")


class Headers:
    """A job of whose records nothing is read but that they rely on nothing."""

    def process_header(self, data):
        return RecordHeader({})

    window_header = process_header


def test_bounds_that_records_have_overtaken_are_looked_up_again_even_if_no_window_was_emitted():
    store, name, left = MemoryStore(), f"{JOB}/0/process", [2]
    store.put(name, (1, 0), b"")

    def bounds():
        end = store.positions(name)[-1][0]
        if left[0]:  # its owner goes on while the reader stands still
            left[0] -= 1
            for offset in (end + 1, end + 2):
                store.put(name, (offset, 0), b"%d" % offset)
            store.drop(name, (end + 1, 0))
        return 0, end

    records = Checkpoints(store, JOB, 0, Headers()).load(bounds, lambda channel: 0)
    assert (left, records.process) == ([0], b"5")


def tear(world, kind, count=1):
    name = f"{JOB}/0/{kind}"
    for position in world.records.positions(name)[-count:]:
        world.records.replace(name, position, world.records.get(name, position)[:-1])


def test_a_process_record_holds_what_windows_to_come_may_read_and_no_more(world):
    newest = ProgramRun(h.job(Mine(), "in"), 0, 1, resume=loaded(world))
    held = newest._process.local_panes[0].present
    assert len(held) <= 5, "five windows pass between two checkpoints, and three are kept"
    assert newest.progress.forgotten_to == newest.progress.emitted_to


@pytest.mark.parametrize(("own_stage", "fewest", "most"), [(True, 3, 5), (False, 10, 35)])
def test_what_no_later_stage_reads_need_not_wait_for_one(own_stage, fewest, most):
    program = later(own_stage=own_stage)
    newest = ProgramRun(h.job(program, "in"), 0, 1, resume=loaded(ran(program)))
    assert newest.progress.emitted_to[0] > newest.progress.emitted_to[1] + 5_000_000
    assert fewest <= len(newest._process.local_panes[0].present) <= most
    needed = newest.progress.forgotten_to
    assert needed[0] == (newest.progress.emitted_to[0] if own_stage else needed[1])
    assert past(newest.progress.emitted_to, needed)
    assert not past([needed[0] - 1, *newest.progress.emitted_to[1:]], needed)
    assert past([newest.progress.emitted_to[0], BEGINNING], needed) == own_stage
    assert not past([], needed)


def test_a_later_stage_does_not_read_what_is_not_kept_for_it():
    world = MemorySite({"in": MemoryLog(1)})
    node = Node("node-0", world.ports("node-0"), Settings())
    node.add_job(JOB, h.job(later(own_stage=True, reads_it=True), "in"))
    world.inputs["in"].append(0, pa.record_batch({"ts": np.arange(0, 40_000_000, 1_000_000), "key": np.arange(40)}))
    for _ in range(100):
        world.clock.sleep_s(0.1)
        node.tick()
    assert "its own stage alone" in str(node.failures[JOB])


def test_what_windows_have_read_is_forgotten_without_waiting_for_a_checkpoint():
    held = []
    for node in running(MemorySite({"in": MemoryLog(1)}), Mine(), Settings(checkpoint_s=1e9)):
        held += [len(one.run._process.local_panes[0].present) for one in node.jobs[JOB].tasklets.values()]
    assert len(held) > 50
    assert max(held) <= 25, "what was there at the start is read at once"
    assert max(held[10:]) <= 5


class SlowStore(MemoryStore):
    """Records are durable a while after they were stored, as in the memory of other nodes."""

    def __init__(self, clock) -> None:
        super().__init__()
        self.stored_at_s = {}
        self.clock = clock
        self.lacking = []
        """For each process record, whether there was no durable window record yet for what it lacks."""

    def put(self, name, position, data):
        super().put(name, position, data)
        self.stored_at_s.setdefault((name, position), self.clock.now_s())
        if name.endswith("/process"):
            newest = self.durable(name.replace("/process", "/window"))[-1:]
            self.lacking.append(not past(newest[0][1:] if newest else (), PROCESS.header(data).forgotten_to))

    def durable(self, name):
        now_s = self.clock.now_s()
        return [at for at in self.positions(name) if now_s - self.stored_at_s[name, at] > 0.3]


def test_a_process_record_waits_until_the_window_record_that_it_needs_is_durable():
    world = MemorySite({"in": MemoryLog(1)})
    world.records = SlowStore(world.clock)
    for node in running(world, Mine(), Settings(checkpoint_s=0.5)):
        tasklets = node.jobs[JOB].tasklets if JOB in node.jobs else {}
    assert len(world.records.lacking) > 10
    assert not any(world.records.lacking)
    assert max(len(one.run._process.local_panes[0].present) for one in tasklets.values()) <= 25
    resumed = ProgramRun(h.job(Mine(), "in"), 0, 1, resume=loaded(world))
    assert past(resumed.progress.emitted_to, resumed.progress.forgotten_to)
    assert resumed.progress.offset > 80 * ROWS


class EachWindow(h.Program):
    """A window for each row."""

    seen = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.seen.insert(1, events.ts)

    def on_window(self, window):
        yield {"n": self.seen[window]}


def test_windows_are_emitted_before_more_rows_are_read():
    world = MemorySite({"in": MemoryLog(1)})
    node = Node("node-0", world.ports("node-0"), Settings(rows_max=10, calls_max=1))
    node.add_job(JOB, h.job(EachWindow(), "in"))
    world.inputs["in"].append(0, pa.record_batch({"ts": np.arange(0, 100_000_000, 1_000_000)}))
    waited = []
    for _ in range(300):
        world.clock.sleep_s(0.1)
        node.tick()
        for tasklet in node.jobs[JOB].tasklets.values():
            waited.append(tasklet.run.progress.read_to - tasklet.run.progress.calls)
    assert max(waited) <= 21, "windows of two reads wait: of one before they are known to be complete, and the next"
    assert len(world.collected(JOB)["on_window"][0]) == 99


def test_that_everything_is_out_is_told_and_heard_within_a_moment():
    """Two nodes, of which one has nothing to do: both know of the end long before the next heartbeat is due."""
    world = MemorySite({"in": MemoryLog(1)})
    nodes = [Node(f"node-{number}", world.ports(f"node-{number}"), Settings()) for number in range(2)]
    for node in nodes:
        node.add_job(JOB, h.job(Mine(), "in"))
    for _ in range(50):
        world.clock.sleep_s(0.1)
        for node in nodes:
            node.tick()
    assert not any(node.finished for node in nodes)
    world.inputs["in"].append(0, pa.record_batch({"ts": np.arange(ROWS), "key": np.arange(ROWS)}))
    world.inputs["in"].mark(0, END.ts)
    began_s = world.clock.now_s()
    while not all(node.finished for node in nodes):
        world.clock.sleep_s(0.001)
        for node in nodes:
            node.tick()
    assert world.clock.now_s() - began_s < 0.05


@pytest.mark.parametrize("closed", [True, False])
def test_nodes_that_end_as_they_should_are_not_taken_for_dead_of_what_they_ran(closed):
    """Each of four nodes ends as soon as it has begun. Three deaths at one place are the program's; three ends are not."""
    world, stopped = MemorySite({"in": MemoryLog(1)}), []
    for number in range(4):
        node = Node(f"node-{number}", world.ports(f"node-{number}"), Settings())
        node.add_job(JOB, h.job(Mine(), "in"))
        for _ in range(200):
            world.clock.sleep_s(0.1)
            node.tick()
            if JOB in node.stopped or node._heartbeats.listed:  # the others know what it is about to touch
                break
        stopped = list(node.stopped.values())
        if closed:
            node.close()
    assert [one.kind for one in stopped] == ([] if closed else ["Poison"])


@pytest.mark.parametrize(
    ("torn", "process", "window"),
    [([], -1, -1), (["process"], -2, -1), (["window"], -2, -2), (["process", "window"], -2, -2)],
)
def test_the_newest_records_that_go_together_are_loaded(world, torn, process, window):
    expected = stored(world, "process")[process], stored(world, "window")[window]
    for kind in torn:
        tear(world, kind)
    assert tuple(loaded(world)) == expected


def test_a_process_record_alone_is_not_enough_if_it_has_let_go_of_something(world):
    tear(world, "window", count=2)
    with pytest.raises(CheckpointLost, match="the other records"):
        loaded(world)
