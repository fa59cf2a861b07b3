"""Who is idle, and what is marked then (invariant: logged idleness). Nodes take turns, so nothing here is by chance."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import holons as h
from holons.engines.inputs import partitions_in
from holons.engines.memory_site import MemorySite, TurnClock
from holons.errors import LogUnavailable
from holons.node import Node, Settings, messages
from holons.node.idle import who_is_idle
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.streams import JournaledLog, MemoryJournal, MemoryLog
from holons.windows import END, ENDING

SECOND = 1_000_000
START_S = 1000.0
IDLE = Settings(idle_s=0.5, failure_timeout_s=0.3)


class Count(h.Program):
    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.n.insert(1, events.ts)

    def on_window(self, window):
        yield {"window": window.start, "n": self.n[window]}


class Awaiting(h.Program):
    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    async def each(self, event):
        self.n.insert(1, event.ts)
        self.output({"before": await self.n.completed(self.n.window.before(self.n.window.at(event.ts)))})


class Table:
    """Some nodes around one input."""

    def __init__(self, partitions, program=None, nodes=2, settings=IDLE, foreign=False, **of_the_job):
        self.clock = TurnClock()
        self.clock.sleep_s(START_S)
        self.rows = MemoryLog(partitions, self.clock)
        self.log = JournaledLog(self.rows, journal := MemoryJournal()) if foreign else self.rows
        self.world = MemorySite({"in": self.rows}, self.clock)
        if foreign:
            self.world.journals = {"in": journal}
        self.job = h.job(program or Count(), "in", **of_the_job)
        self.nodes = []
        for number in range(nodes):
            name = f"node-{number}"
            ports = self.world.ports(name, replace(settings, idle_s=None))  # without a journal of its own making
            self.nodes.append(Node(name, ports, settings))
            self.nodes[-1].add_job(self.job.name, self.job)

    def row(self, partition, seconds):
        self.batch(partition, [seconds])

    def batch(self, partition, seconds, *, live=True):
        self.rows.append(partition, pa.record_batch({"ts": [int(at * SECOND) for at in seconds]}), live=live)

    def turn(self, seconds=0.01, count=1, nodes=None):
        for _ in range(count):
            self.world.clock.sleep_s(seconds)
            for node in self.nodes if nodes is None else nodes:
                node.tick()
                assert not node.failures

    def marks(self, partition):
        return [chunk.mark for chunk in self.log.read(partition, 0, 1000) if chunk.mark is not None]

    def windows(self):
        return [row["window"] // SECOND for row in self.emitted("on_window")]

    def emitted(self, channel, partition=0):
        return self.world.collected(self.job.name).get(channel, {}).get(partition, [])

    def judge(self):
        """Ends the input and compares with the oracle, which is given rows and marks in the order of the log."""
        for partition in range(self.rows.partitions):
            self.rows.mark(partition, END.ts)
        self.turn(count=30)
        expected = run_oracle(self.job, {"in": partitions_in(self.log)})
        assert canonical(self.world.collected(self.job.name)) == canonical(expected)


@pytest.fixture(params=[False, True], ids=["own", "foreign"])
def foreign(request):
    return request.param


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_an_idle_partition_does_not_hold_up_the_others(nodes, foreign):
    table = Table(3, nodes=nodes, foreign=foreign)
    table.row(1, 0.5)
    for second in range(20):
        table.row(0, second)
        table.turn(count=10)
    assert table.windows()[-1] >= 17
    table.judge()


def test_without_the_setting_nobody_is_ever_idle():
    table = Table(2, settings=Settings(idle_s=None))
    for second in range(20):
        table.row(0, second)
        table.turn(count=10)
    assert (table.windows(), table.marks(1)) == ([], [])


@pytest.mark.parametrize("nodes", [1, 2])
def test_idle_partitions_do_not_hold_up_each_other(nodes, foreign):
    """Whether they are run by one node or by two: what counts is the least of those that are not idle."""
    table = Table(3, nodes=nodes, foreign=foreign)
    table.row(1, 5)
    table.row(2, 7)
    for second in range(10, 40):
        table.row(0, second)
        table.turn(count=10)
    assert max(table.marks(1)) >= 37 * SECOND
    assert max(table.marks(2)) >= 37 * SECOND
    table.judge()


def test_marks_only_move_forward_and_are_only_made_where_they_move_something(foreign):
    table = Table(3, foreign=foreign)
    for tenth in range(100):
        table.row(0, tenth / 10)
        table.turn(count=5)
    for partition in (1, 2):
        marks = table.marks(partition)
        assert marks == sorted(set(marks))
        assert len(marks) <= 10, "at most one for each window"
    before = [table.marks(partition) for partition in range(3)]
    table.turn(count=300)
    after = [table.marks(partition) for partition in range(3)]
    assert [len(marks) for marks in after] == [len(marks) for marks in before], "nothing moves any more"


def test_if_all_are_idle_nobody_is_marked(foreign):
    """The one that falls idle last still counts for those that were idle before it; after that nothing moves."""
    table = Table(2, foreign=foreign)
    table.row(0, 5)
    table.row(1, 7)
    table.turn(count=60)
    table.row(1, 9)
    table.turn(count=300)
    assert table.marks(0)[-1:] == [9 * SECOND]
    assert table.marks(1) == []
    table.row(0, 11)
    table.turn(count=45)
    assert table.marks(1) == [11 * SECOND]


def test_partitions_that_have_ended_pull_nobody_to_the_end(foreign):
    table = Table(2, foreign=foreign)
    table.row(0, 5)
    table.rows.mark(0, END.ts)
    table.turn(count=300)
    assert table.marks(1) == [6 * SECOND], "only as far as rows wait for it"


def test_an_ended_partition_does_not_hide_one_that_is_not_idle(foreign):
    table = Table(3, foreign=foreign)
    table.rows.mark(0, END.ts)
    for second in range(20):
        table.row(1, second)
        table.turn(count=10)
    assert 17 * SECOND <= max(table.marks(2)) < ENDING


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_partition_that_waits_for_a_window_is_not_idle(nodes, foreign):
    """It waits for the idle one, which waits for somebody who is not: one of them must move."""
    table = Table(2, Awaiting(), nodes=nodes, foreign=foreign)
    table.row(0, 5)
    table.turn(count=200)
    assert table.world.collected(table.job.name)["process"][0] == [{"before": 0}]
    assert table.marks(1)[0] == 5 * SECOND
    table.judge()


def test_an_outage_of_the_log_makes_nobody_idle(monkeypatch):
    table = Table(2, nodes=1)
    table.row(0, 1)
    table.row(1, 1)
    table.turn(count=20)
    read = table.rows.read

    def outage(*_):
        raise LogUnavailable("down")

    monkeypatch.setattr(table.rows, "read", outage)
    table.turn(count=100)
    monkeypatch.setattr(table.rows, "read", read)
    table.row(0, 9)
    table.turn(count=20)
    assert table.marks(1) == []


def test_after_a_pause_of_its_own_a_node_reads_before_it_speaks():
    table = Table(2, nodes=1)
    table.row(0, 1)
    table.row(1, 1)
    table.turn(count=20)
    table.row(0, 2)
    table.row(1, 2)
    table.turn(seconds=30.0)
    assert not any(tasklet.idle for tasklet in table.nodes[0].jobs[table.job.name].tasklets.values())


# --- who says so ----------------------------------------------------------------------------------------------------


def told(node, sequence, partition, *, offset, idle, job="job"):
    running = messages.Running(job, partition, 0, 0, offset, 0, idle, parked=False, stored_to=0, emitted_to=(0,))
    return messages.Heartbeat(node, sequence, (running,))


def idle(node):
    return who_is_idle(node._reports(node.jobs["job"], of_the_dead=False)).partitions


@pytest.fixture
def listener():
    table = Table(4, nodes=1)
    table.job = h.job(Count(), "in", name="job")
    node = Node("me", table.world.ports("me"), IDLE)
    node.add_job("job", table.job)
    node._open_jobs()
    return node


def test_the_owner_who_has_read_the_most_knows_best(listener):
    listener.membership.receive(told("late", 1, 0, offset=3, idle=False))
    listener.membership.receive(told("ahead", 1, 0, offset=9, idle=True))
    listener.membership.receive(told("slow", 1, 1, offset=3, idle=True))
    listener.membership.receive(told("quick", 1, 1, offset=4, idle=False))
    assert idle(listener) == {0}


def test_of_two_who_have_read_the_same_the_one_who_waited_longer_knows_best(listener):
    listener.membership.receive(told("new", 1, 0, offset=9, idle=False))
    listener.membership.receive(told("old", 1, 0, offset=9, idle=True))
    assert idle(listener) == {0}


def test_other_jobs_have_partitions_of_their_own(listener):
    listener.membership.receive(told("peer", 1, 0, offset=9, idle=True, job="another"))
    assert idle(listener) == set()


def test_the_dead_know_nothing(listener):
    listener.membership.receive(told("peer", 1, 0, offset=9, idle=True))
    assert idle(listener) == {0}
    for now_s in range(10):
        listener.membership.watch(float(now_s), caught_up=True)
    assert idle(listener) == set()
