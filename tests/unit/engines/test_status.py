"""One status of a run: who holds the others up and since when, and how it is shown."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

import holons as h
from holons.cli.status import status_table
from holons.engines.memory_site import TurnClock
from holons.engines.watching import Watcher
from holons.node import Heartbeat, Running
from holons.streams import MemoryHub
from holons.windows import BEGINNING, ENDING
from holons.wire import encode

SECOND = 1_000_000


def running(partition: int, watermark: int, offset: int = 10, lag: int = 0, **flags: bool) -> Running:
    plain = {"idle": False, "parked": False, "stored_to": 0, "emitted_to": (0,), **flags}
    return Running("job", partition, 0, 0, offset, 3, lag=lag, watermark=watermark, **plain)


class Cluster:
    """Nodes that say what a test lets them say, and a watcher."""

    def __init__(self) -> None:
        self.hub, self.clock = MemoryHub(), TurnClock()
        self.watcher = Watcher(self.hub.open("watcher"), self.clock)
        self.sequence = 0

    def heartbeat(self, node: str, *parts: Running) -> None:
        self.sequence += 1
        self.hub.open(node).append(encode(Heartbeat(node, self.sequence, parts, pid=7)))

    def look(self, partitions: int = 2) -> h.Status:
        return self.watcher.look("job", partitions)


def test_the_slowest_partition_its_owner_and_since_when_are_named():
    cluster = Cluster()
    for _ in range(4):
        cluster.clock.sleep_s(1.0)
        cluster.heartbeat("node-1#x", running(0, cluster.sequence * SECOND + 9 * SECOND))
        cluster.heartbeat("node-2#x.1", running(1, 2 * SECOND, lag=5_000))
        status = cluster.look()
    assert status.waiting_for is not None
    assert status.waiting_for.reason == "partition 1 on node-2.1, which has 5,000 rows to read"
    assert (status.waiting_for.partitions, status.waiting_for.since_s) == ((1,), 3.0)
    assert [part.unmoved_s for part in status.partitions] == [0.0, 3.0]
    cluster.heartbeat("node-2#x.1", running(1, 3 * SECOND, offset=20, lag=4_000))
    waiting = cluster.look().waiting_for
    assert waiting is not None
    assert waiting.since_s == 0.0, "it has moved"


@pytest.mark.parametrize(
    ("first", "second", "reason", "partitions"),
    [
        (running(0, SECOND), running(1, 2 * SECOND), "partition 0 on a, which has no new rows", (0,)),
        (running(0, SECOND, parked=True), running(1, 2 * SECOND), "partition 0 on a, which waits for a window", (0,)),
        (running(0, SECOND), running(1, SECOND), "new rows in partitions 0, 1", (0, 1)),
        (running(0, SECOND, lag=2), running(1, SECOND, lag=1), "3 rows to be read in partitions 0, 1", (0, 1)),
        (
            running(0, SECOND, idle=True),
            running(1, SECOND, idle=True),
            "rows: all open partitions are idle",
            (0, 1),
        ),
        (running(0, ENDING), running(1, ENDING, finished=True), "the last windows to be emitted", (0,)),
        (running(0, ENDING, finished=True), running(1, SECOND), "partition 1 on b, which has no new rows", (1,)),
    ],
)
def test_what_a_run_waits_for_is_said(first, second, reason, partitions):
    cluster = Cluster()
    cluster.heartbeat("a#1", first)
    cluster.heartbeat("b#1", second)
    waiting = cluster.look().waiting_for
    assert waiting is not None
    assert (waiting.reason, waiting.partitions) == (reason, partitions)


def test_partitions_without_an_owner_and_silent_nodes_are_named():
    cluster = Cluster()
    cluster.clock.sleep_s(2.0)
    assert str(cluster.look().waiting_for) == "nodes to start, for 2.0 s"
    cluster.heartbeat("a#1", running(0, SECOND))
    assert cluster.look(3).waiting_for is not None
    assert str(cluster.look(3).waiting_for) == "an owner of partitions 1, 2, for 0.0 s"
    cluster.clock.sleep_s(4.0)
    status = cluster.look()
    assert (status.state, status.nodes) == ("starting", ())
    assert str(status.waiting_for) == "heartbeats: all nodes have gone silent, for 4.0 s"


def test_nothing_is_waited_for_once_all_have_finished():
    cluster = Cluster()
    cluster.heartbeat("a#1", running(0, ENDING, finished=True), running(1, ENDING, finished=True))
    assert cluster.look().waiting_for is None


def test_terminal_notebook_text_and_json_show_the_same_value():
    cluster = Cluster()
    for _ in range(2):
        cluster.heartbeat("node-1#x", running(0, 5 * SECOND, parked=True), running(1, BEGINNING, lag=1_234))
        status = cluster.look()
        cluster.clock.sleep_s(2.5)
        status = cluster.look()
    out = io.StringIO()
    Console(file=out, width=120).print(status_table(status))
    for shown in (out.getvalue(), status._repr_html_(), repr(status)):
        for text in ("job", "node-1", "1,234 rows to read", "partition 1", "5.0 s"):
            assert text in shown
    assert "0* 1" in out.getvalue()
    record = json.loads(json.dumps(status.record()))
    assert record["waiting_for"]["partitions"] == [1]
    assert record["nodes"][0]["partitions"] == [0, 1]
    assert [part["activity"] for part in record["partitions"]] == ["waiting", "reading"]


def test_a_finished_run_waits_for_nothing():
    import polars as pl

    run = h.run(h.source("s").to("out"), {"s": [pl.DataFrame({"ts": [1]})]}, engine="embedded").wait()
    assert (run.progress.state, run.progress.waiting_for) == ("finished", None)
    assert [(part.partition, part.activity) for part in run.progress.partitions] == [(0, "finished")]
