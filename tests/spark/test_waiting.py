"""What a run on Spark waits for: slots that others have; and a live stream that goes quiet closes its windows there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import polars as pl
import pytest

import holons as h
from holons.clock import SystemClock
from holons.engines.spark.session import session, slots

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
]  # otherwise in tests/unit/engines/test_waiting.py and tests/unit/node/test_quiet.py
JOB = h.source("clicks").window(h.Tumbling("1s")).agg(n=h.count()).to("counts")
GROUP = "somebody else"


def until(condition: Callable[[], object], why: Callable[[], object]) -> None:
    clock = SystemClock()
    until_s = clock.now_s() + 300
    while not condition():
        assert clock.now_s() < until_s, why()
        clock.sleep_s(0.02)


@pytest.fixture
def occupied() -> Iterator[Callable[[], None]]:
    """All slots of Spark are taken by a job of somebody else; calls what it yields to end that job."""
    spark = session()
    context, count = spark.sparkContext, slots(spark)

    def sleep() -> None:
        context.setJobGroup(GROUP, "sleeps", interruptOnCancel=True)
        sleeping = spark.range(0, count, 1, count).selectExpr("java_method('java.lang.Thread', 'sleep', 3600000L)")
        try:
            sleeping.write.format("noop").mode("overwrite").save()
        except Exception:  # noqa: BLE001 - it was cancelled
            return

    sleeper = threading.Thread(target=sleep, daemon=True)

    def leave() -> None:
        context.cancelJobGroup(GROUP)
        sleeper.join(60.0)

    sleeper.start()
    tracker = context.statusTracker()
    running = lambda: sum(  # noqa: E731
        info.numActiveTasks
        for job in tracker.getJobIdsForGroup(GROUP)
        for stage in tracker.getJobInfo(job).stageIds
        if (info := tracker.getStageInfo(stage))
    )
    until(lambda: running() == count, lambda: f"{running()} of {count} slots are taken")
    yield leave
    leave()


def test_a_run_without_free_slots_says_so_and_goes_on_once_there_are_some(occupied):
    rows = pl.DataFrame({"ts": [1_000_000, 5_000_000]})
    with h.run(JOB, {"clicks": [rows, rows]}, engine="spark", nodes=2) as run:
        until(lambda: run.progress.waiting_for and "Spark" in run.progress.waiting_for.reason, lambda: run)
        assert run.progress.waiting_for.reason == "free slots of Spark for 2 of 2 nodes"
        assert run.progress.state == "starting"
        assert "waits: free slots of Spark for 2 of 2 nodes, for " in repr(run.progress)
        occupied()
        assert len(run.wait(300.0).results().rows()) == 2


def test_a_live_stream_that_goes_quiet_closes_its_windows_on_spark():
    over = threading.Event()

    def rows() -> Iterator[pl.DataFrame]:
        yield pl.DataFrame({"ts": [SystemClock().utc_us()] * 3})
        over.wait()

    settings = h.Settings(idle_s=0.5)
    with h.run(JOB, {"clicks": [rows(), rows()]}, engine="spark", nodes=2, settings=settings) as run:
        until(lambda: sum(row["n"] for row in run.results().rows()) == 6, lambda: run)
        words = "new rows or the end: partitions 0, 1 of clicks are quiet at "
        until(lambda: words in str(run.progress.waiting_for), lambda: run)
        over.set()
        assert run.wait(300.0).progress.windows in (1, 2)
