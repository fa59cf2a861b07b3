"""What a run waits for, as users of `h.run` read it: in each case that may last, the words say which and where."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import polars as pl
import pytest
from tests.handles import alive, until

import holons as h
from holons.engines.embedded.processes import ProcessNodes
from holons.engines.memory_site import MemorySite
from holons.errors import JobFailed, LogUnavailable

SECOND = 1_000_000
JOB = h.source("clicks").window(h.Tumbling("1s")).agg(n=h.count()).to("counts")
AT_FIVE = "at 1970-01-01 00:00:05"


def clicks(*seconds: int) -> pl.DataFrame:
    return pl.DataFrame({"ts": [second * SECOND for second in seconds]})


@contextmanager
def endless(*partitions: pl.DataFrame) -> Iterator[dict[str, list[Iterator[pl.DataFrame]]]]:
    """A stream that has these rows, and no end before this is over."""
    over = threading.Event()

    def rows(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
        yield frame
        over.wait()

    yield {"clicks": [rows(frame) for frame in partitions]}
    over.set()


def reason(run: h.Run) -> str:
    waiting = run.progress.waiting_for
    return waiting.reason if waiting else ""


def until_it_says(run: h.Run, words: str) -> None:
    """Waits until exactly this is what the run waits for, and has been for a while."""
    said: list[str] = []

    def says() -> bool:
        if not said or said[-1] != reason(run):
            said.append(reason(run))
        assert not run.ended_within(0.0), f"it has ended, and said {said}"
        waiting = run.progress.waiting_for
        return waiting is not None and waiting.since_s > 0 and bool(re.fullmatch(words, waiting.reason))

    try:
        until(says, "", within_s=120.0)
    except AssertionError:
        raise AssertionError(f"it never said {words!r}, but {said}") from None


def test_a_live_stream_without_an_end_is_quiet():
    with (
        endless(clicks(1, 5), clicks(5)) as streams,
        h.run(JOB, streams, engine="embedded", settings=h.Settings(idle_s=0.05)) as run,
    ):
        until_it_says(run, r"new rows or the end: partitions 0, 1 of clicks are quiet at [\d:. -]+")
        assert reason(run).split(" at ")[1] >= "1970-01-01 00:00:05"


def test_all_rows_are_read_and_only_the_end_is_left():
    with (
        endless(clicks(1, 5), clicks(5)) as streams,
        h.run(JOB, streams, engine="embedded", settings=h.Settings(idle_s=None)) as run,
    ):
        until_it_says(run, f"new rows or the end of partitions 0, 1 of clicks on node-1, node-2 {AT_FIVE}")


def test_one_partition_that_has_no_rows_holds_up_the_others():
    with (
        endless(clicks(1, 9), clicks(5)) as streams,
        h.run(JOB, streams, engine="embedded", settings=h.Settings(idle_s=None)) as run,
    ):
        until_it_says(run, rf"partition 1 of clicks on node-\d {AT_FIVE}, which has no new rows")
        assert run.progress.waiting_for.partitions == (1,)


def test_all_is_read_and_the_last_windows_cannot_be_written(monkeypatch):
    full, output = threading.Event(), MemorySite.output

    def unwritable(self, *arguments, **named):
        if full.is_set():
            raise LogUnavailable("the disk is full")
        return output(self, *arguments, **named)

    full.set()
    monkeypatch.setattr(MemorySite, "output", unwritable)
    with h.run(JOB, {"clicks": [clicks(1, 5)]}, engine="embedded", nodes=1) as run:
        until_it_says(run, "the last windows to be emitted: partition 0 of clicks on node-1 has been read")
        full.clear()
        assert len(run.wait(60.0).results().rows()) == 2


@pytest.fixture
def started(monkeypatch) -> list[int]:
    """The processes of nodes that were started; each is stopped at once, before it can say anything."""
    pids, launch = [], ProcessNodes.launch

    def launch_stopped(self, birth):
        process = launch(self, birth)
        os.kill(process.pid, signal.SIGSTOP)
        pids.append(process.pid)
        return process

    monkeypatch.setattr(ProcessNodes, "launch", launch_stopped)
    return pids


def go_on(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def test_no_node_is_up_and_a_late_one_takes_everything(tmp_path, started):
    with h.run(JOB, {"clicks": [clicks(1, 5), clicks(2)]}, engine="embedded", log=tmp_path / "site") as run:
        try:
            until_it_says(run, "nodes to start")
            assert (run.progress.state, run.progress.waiting_for.since_s > 0) == ("starting", True)
            go_on(started[1:])
            until(lambda: run.progress.nodes, "the late one did not come up")
            assert [node.label for node in run.progress.nodes] == ["node-2"]
            go_on(started[:1])
            run.wait(120.0)
        finally:
            go_on(started)
    assert run.progress.waiting_for is None
    assert not any(map(alive, started))


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_node_that_hangs_is_named_until_others_have_taken_over(tmp_path, nodes):
    settings = h.Settings(failure_timeout_s=6.0, idle_s=None)
    with (
        endless(clicks(1, 5), clicks(1, 5)) as streams,
        h.run(JOB, streams, engine="embedded", nodes=nodes, log=tmp_path / "site", settings=settings) as run,
    ):
        until(lambda: {len(node.partitions) for node in run.progress.nodes} == {2 // nodes}, "they do not share")
        hangs = run.progress.nodes[-1]
        (partition, *_) = hangs.partitions
        os.kill(hangs.process, signal.SIGSTOP)
        try:
            if nodes == 1:
                until_it_says(run, "heartbeats: all nodes have gone silent, node-1 last")
            else:
                words = f"a node to run partition {partition} of clicks; {hangs.label}, which ran it, has gone silent"
                until_it_says(run, words)
                assert run.progress.waiting_for.partitions == (partition,)
                others = run.progress.nodes[0].label
                until_it_says(run, f"new rows or the end of partitions 0, 1 of clicks on {others} {AT_FIVE}")
        finally:
            os.kill(hangs.process, signal.SIGCONT)
        until_it_says(run, rf"new rows or the end of partitions 0, 1 of clicks on [\w, -]+ {AT_FIVE}")


class Deadly(h.Program):
    """Kills its process at one row."""

    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        if 7 * SECOND in events["ts"]:
            os.kill(os.getpid(), signal.SIGKILL)
        self.n.insert(1, events.ts)

    def on_window(self, window):
        yield {"n": self.n[window]}


@pytest.mark.slow
def test_nobody_takes_a_partition_that_may_be_deadly_and_the_dead_are_named(tmp_path):
    streams = {"clicks": [clicks(1, 7), clicks(1, 2)]}
    settings = h.Settings(failure_timeout_s=2.0, rows_max=1)
    with h.run(h.job(Deadly(), "clicks"), streams, engine="embedded", log=tmp_path / "site", settings=settings) as run:
        until_it_says(
            run, r"a node to run partition 0 of clicks; node-\d, node-\d, node-\d, which ran it, have gone silent"
        )
        with pytest.raises(JobFailed, match=r"Poison.*partition 0"):
            run.wait(120.0)
