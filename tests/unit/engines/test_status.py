"""One status of a run: who holds the others up and since when, and how it is shown."""

from __future__ import annotations

import io
import json
import queue
from dataclasses import replace

import polars as pl
import pytest
from rich.console import Console

import holons as h
from holons.cli.status import WaitingLines, status_table
from holons.engines.memory_site import MemorySite, TurnClock
from holons.engines.node_logs import with_logged_failures
from holons.engines.watching import Watcher
from holons.errors import StoreUnavailable
from holons.node import Heartbeat, Running
from holons.store import MemoryStore
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
        return self.watcher.look("job", [("in", partitions)])


def test_the_slowest_partition_its_owner_and_since_when_are_named():
    cluster = Cluster()
    for _ in range(4):
        cluster.clock.sleep_s(1.0)
        cluster.heartbeat("node-1#x", running(0, cluster.sequence * SECOND + 9 * SECOND))
        cluster.heartbeat("node-2#x.1", running(1, 2 * SECOND, lag=5_000))
        status = cluster.look()
    assert status.waiting_for is not None
    assert status.waiting_for.reason == (
        "partition 1 of in on node-2.1 at 1970-01-01 00:00:02, which has 5,000 rows to read"
    )
    assert (status.waiting_for.partitions, status.waiting_for.since_s) == ((1,), 3.0)
    assert [part.unmoved_s for part in status.partitions] == [0.0, 3.0]
    cluster.heartbeat("node-2#x.1", running(1, 3 * SECOND, offset=20, lag=4_000))
    waiting = cluster.look().waiting_for
    assert waiting is not None
    assert waiting.since_s == 0.0, "it has moved"


@pytest.mark.parametrize(
    ("first", "second", "reason", "partitions"),
    [
        (
            running(0, SECOND),
            running(1, 2 * SECOND),
            "partition 0 of in on a at 1970-01-01 00:00:01, which has no new rows",
            (0,),
        ),
        (
            running(0, SECOND, parked=True),
            running(1, 2 * SECOND),
            "partition 0 of in on a at 1970-01-01 00:00:01, which waits for a window",
            (0,),
        ),
        (
            running(0, SECOND),
            running(1, SECOND),
            "new rows or the end of partitions 0, 1 of in on a, b at 1970-01-01 00:00:01",
            (0, 1),
        ),
        (
            running(0, SECOND, lag=2),
            running(1, SECOND, lag=1),
            "partitions 0, 1 of in on a, b at 1970-01-01 00:00:01, which have 3 rows to read",
            (0, 1),
        ),
        (
            running(0, SECOND, idle=True),
            running(1, SECOND, idle=True),
            "new rows or the end: partitions 0, 1 of in are quiet at 1970-01-01 00:00:01",
            (0, 1),
        ),
        (
            running(0, ENDING),
            running(1, ENDING, finished=True),
            "the last windows to be emitted: partition 0 of in on a has been read",
            (0,),
        ),
        (
            running(0, ENDING, finished=True),
            running(1, SECOND, idle=True),
            "new rows or the end: partition 1 of in is quiet at 1970-01-01 00:00:01",
            (1,),
        ),
        (
            running(0, ENDING, finished=True),
            running(1, SECOND),
            "new rows or the end of partition 1 of in on b at 1970-01-01 00:00:01",
            (1,),
        ),
        (
            running(0, BEGINNING, offset=0),
            running(1, 90 * SECOND, held=True),
            "partition 0 of in on a, which never had a row; partition 1 of in is held back until then",
            (0,),
        ),
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
    assert str(cluster.look(3).waiting_for) == "a node to run partitions 1, 2 of in, for 0.0 s"
    cluster.clock.sleep_s(4.0)
    status = cluster.look()
    assert (status.state, status.nodes) == ("starting", ())
    assert str(status.waiting_for) == "heartbeats: all nodes have gone silent, a last, for 4.0 s"


def test_a_partition_whose_owners_fall_silent_one_after_the_other_is_named():
    """Until somebody knows whether it is the rows, nobody may take it."""
    cluster = Cluster()
    for node in ("a#1", "b#1"):
        cluster.heartbeat(node, running(1, SECOND))
        cluster.look()
        cluster.clock.sleep_s(4.0)
    cluster.heartbeat("c#1", running(0, SECOND))
    waiting = cluster.look().waiting_for
    assert waiting is not None
    assert waiting.reason == "a node to run partition 1 of in; a, b, which ran it, have gone silent"


def test_a_partition_that_waits_until_it_is_tried_is_named_with_those_who_died_of_it():
    cluster = Cluster()
    cluster.heartbeat("a#1", running(0, SECOND, lag=3), running(1, SECOND, lag=3))
    cluster.look()
    cluster.clock.sleep_s(4.0)
    cluster.heartbeat("b#1", running(0, 2 * SECOND, offset=20, lag=3), running(1, SECOND, lag=3, touched=False))
    waiting = cluster.look().waiting_for
    assert waiting is not None
    assert waiting.reason == (
        "partition 1 of in on b at 1970-01-01 00:00:01, which has 3 rows to read; a, which ran it, has gone silent, "
        "and what may be the cause is tried one partition at a time"
    )
    cluster.heartbeat("b#1", running(0, 2 * SECOND, offset=20), running(1, SECOND, lag=3))
    waiting = cluster.look().waiting_for
    assert waiting is not None
    assert "tried" not in waiting.reason, "its turn has come"


def test_many_partitions_are_named_in_few_words_and_what_a_heartbeat_makes_up_is_cut():
    cluster = Cluster()
    cluster.heartbeat("a#1", *(running(number, SECOND) for number in range(0, 1_000, 2)))
    waiting = cluster.look(1_000).waiting_for
    assert waiting is not None
    assert waiting.reason == "a node to run partitions 1, 3, 5, 7, 9, 11, 13, 15, … of in"
    cluster.heartbeat("a#1", running(10**6, SECOND))
    waiting = cluster.watcher.look("job").waiting_for
    assert waiting is not None
    assert len(waiting.partitions) == 1_000


def test_what_does_not_answer_a_node_is_said():
    cluster = Cluster()
    parts = running(0, SECOND), running(1, SECOND)
    trouble = "cannot write the store at s3://checkpoints: no route to host"
    cluster.hub.open("a#1").append(encode(Heartbeat("a#1", 1, parts, pid=7, trouble=trouble)))
    waiting = cluster.look().waiting_for
    assert waiting is not None
    assert waiting.reason == (
        f"new rows or the end of partitions 0, 1 of in on a at 1970-01-01 00:00:01; a cannot go on: {trouble}"
    )


def test_a_node_reports_what_does_not_answer_it_and_forgets_it_soon():
    clock, site = TurnClock(), MemorySite({})
    ports = with_logged_failures(replace(site.ports("a"), clock=clock, store=Broken()))
    assert ports.trouble() == ""
    with pytest.raises(StoreUnavailable):
        ports.store.positions("x")
    assert ports.trouble() == "the store does not answer"
    clock.sleep_s(5.0)
    assert ports.trouble() == ""


class Broken(MemoryStore):
    """A store that does not answer."""

    def positions(self, name):
        raise StoreUnavailable("the store does not answer")


def test_partitions_of_several_streams_are_named_with_their_stream():
    cluster = Cluster()
    cluster.heartbeat("a#1", running(0, 9 * SECOND), running(1, 9 * SECOND), running(2, SECOND))
    waiting = cluster.watcher.look("job", [("clicks", 2), ("prices", 1)]).waiting_for
    assert waiting is not None
    assert waiting.reason == "partition 2 (prices[0]) on a at 1970-01-01 00:00:01, which has no new rows"


def test_where_no_terminal_shows_a_table_each_reason_is_a_line_and_again_if_it_lasts():
    cluster, lines, said = Cluster(), WaitingLines(), []
    for second in range(40):
        cluster.heartbeat("a#1", running(0, 9 * SECOND), running(1, SECOND if second < 30 else 2 * SECOND))
        if line := lines.new_line(cluster.look()):
            said.append((second, line))
        cluster.clock.sleep_s(1.0)
    assert [second for second, _ in said] == [2, 8, 32, 38]
    reason = "partition 1 of in on a at 1970-01-01 00:00:01, which has no new rows"
    assert said[0][1] == f"job: 20 rows, 3 windows; waits for {reason}, for 2.0 s"


def test_a_live_run_says_which_partition_holds_the_others_up():
    more: queue.SimpleQueue[None] = queue.SimpleQueue()

    def rows(second):
        yield pl.DataFrame({"ts": [second * SECOND]})
        more.get()

    def live():
        return {"in": [rows(5), rows(1)]}

    job = h.source("in").window(h.Tumbling("1s")).agg(n=h.count()).to("out")
    with h.run(job, live(), engine="embedded", settings=h.Settings(idle_s=None)) as run:
        while run.progress.rows_read < 2 or run.progress.waiting_for is None:
            run.ended_within(0.01)
        waiting = run.progress.waiting_for
        assert waiting.reason.startswith("partition 1 of in on node-")
        assert waiting.reason.endswith("at 1970-01-01 00:00:01, which has no new rows")
        assert "partition 1 of in" in repr(run)
        assert "partition 1 of in" in run._repr_html_()
        assert run.progress.record()["waiting_for"]["partitions"] == (1,)
    with h.run(job, live(), engine="embedded", settings=h.Settings(idle_s=0.1)) as run:
        while not run.progress.waiting_for or "quiet" not in run.progress.waiting_for.reason:
            run.ended_within(0.01)
        assert run.progress.waiting_for.reason.startswith("new rows or the end: partitions 0, 1 of in are quiet at ")


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
    Console(file=out, width=80).print(status_table(status))
    for shown in (out.getvalue(), status._repr_html_(), repr(status)):
        for text in ("job", "node-1", "1,234 rows to read", "partition 1", "5.0 s"):
            assert text in shown
    record = json.loads(json.dumps(status.record()))
    assert record["waiting_for"]["partitions"] == [1]
    assert record["nodes"][0]["partitions"] == [0, 1]
    assert [part["activity"] for part in record["partitions"]] == ["waiting", "reading"]


def test_a_finished_run_waits_for_nothing():
    run = h.run(h.source("s").to("out"), {"s": [pl.DataFrame({"ts": [1]})]}, engine="embedded").wait()
    assert (run.progress.state, run.progress.waiting_for) == ("finished", None)
    assert [(part.partition, part.activity) for part in run.progress.partitions] == [(0, "finished")]
