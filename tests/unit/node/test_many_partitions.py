"""A job of very many partitions: what a node does for each of them does not depend on how many there are."""

from __future__ import annotations

import cProfile
import pstats

import pyarrow as pa
import pytest

import holons as h
from holons.engines.memory_site import MemorySite, TurnClock
from holons.node import Node, Settings
from holons.streams import MemoryLog
from holons.windows import ENDING

TURN_S = 0.01


class Count(h.Program):
    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.n.insert(1, events.ts)

    def on_window(self, window):
        yield {"n": self.n[window]}


class SlowLog(MemoryLog):
    """A log that takes a millisecond to say where a partition ends."""

    clock: TurnClock

    def end(self, partition: int) -> int:
        self.clock.sleep_s(0.001)
        return super().end(partition)


def node_of(log: MemoryLog, clock: TurnClock | None = None, heartbeat_s: float = Settings.heartbeat_s) -> Node:
    rows = pa.record_batch({"ts": [0, 1_000_000, 2_000_000]})
    for partition in range(log.partitions):
        log.append(partition, rows)
        log.mark(partition, ENDING)
    site = MemorySite({"in": log}, clock)
    node = Node("node-0", site.ports("node-0"), Settings(max_ahead_s=1.0, heartbeat_s=heartbeat_s))
    node.add_job("count", h.job(Count(), "in"))
    return node


def run_to_end(node: Node) -> None:
    while not node.finished or not node.jobs["count"].tasklets:
        node.tick()
        node.ports.clock.sleep_s(TURN_S)
        assert node.ports.clock.now_s() < 100.0, "it spends its time on something else"


def calls(partitions: int) -> int:
    """How many functions are called to run a job of so many partitions to its end, by one node."""
    node, profile = node_of(MemoryLog(partitions)), cProfile.Profile()
    profile.runcall(run_to_end, node)
    return pstats.Stats(profile).total_calls


def test_work_grows_with_the_number_of_partitions_not_with_its_square():
    few = calls(50)
    assert calls(200) < 4.4 * few


@pytest.mark.parametrize("partitions", [1, 300])
def test_heartbeats_that_take_long_leave_time_for_the_work(partitions):
    clock = TurnClock()
    log = SlowLog(partitions)
    log.clock = clock
    run_to_end(node_of(log, clock))


class MovingClock(TurnClock):
    """A clock that moves whenever somebody looks at it, as real ones do."""

    def now_s(self) -> float:
        self.sleep_s(1e-6)
        return super().now_s()


def test_partitions_start_even_if_a_heartbeat_is_always_due():
    run_to_end(node_of(MemoryLog(3), MovingClock(), heartbeat_s=0.0))
