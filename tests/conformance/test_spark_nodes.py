"""Nodes in Spark tasks: killed, drained, refused where they could not run."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.simulation.test_at_least_once import check_at_least_once
from tests.simulation.test_count_processes import counted_rows, sales
from tests.simulation.test_memory_store import check_no_checkpoint_in_files, trimmed
from tests.simulation.test_processes import runs_something
from tests.workloads import Threads, load

import holons as h
from holons.clock import SystemClock
from holons.engines.directory_site import DirectorySite
from holons.engines.simulator.scenarios import CountedSales
from holons.engines.spark.nodes import SparkNodes
from holons.engines.spark.session import check_java, check_session, session, whole_executor
from holons.errors import BadInput, JavaMissing
from holons.node import Settings
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import END

pytestmark = pytest.mark.spark
PARTITIONS = 4
SLOWLY = Settings(rows_max=20, checkpoint_s=0.05, failure_timeout_s=0.5)


def bids(partition: int) -> pl.DataFrame:
    rng = np.random.default_rng(partition)
    return pl.DataFrame({"ts": np.sort(rng.integers(0, 60_000_000, 4_000)), "kind": rng.choice(["bid", "x"], 4_000)})


def until(condition, why: str, within_s: float = 600.0) -> None:
    clock = SystemClock()
    until_s = clock.now_s() + within_s
    while not condition():
        assert clock.now_s() < until_s, why
        clock.sleep_s(0.02)


@pytest.fixture
def workload(tmp_path):
    job, rows = load("bid_share"), [bids(partition) for partition in range(PARTITIONS)]
    site = DirectorySite(tmp_path)
    site.load({"bids": rows})
    return job, site, canonical(run_oracle(job, {"bids": [[frame, END] for frame in rows]}, rows_per_call=500))


def test_a_python_worker_is_killed_and_the_others_take_over(workload):
    job, site, expected = workload
    with SparkNodes(site, SLOWLY, nodes=3) as nodes:
        nodes.submit(job)
        names = [nodes.start() for _ in range(3)]
        until(lambda: set(names) <= set(nodes.watcher.pids()), "the nodes did not come up")
        until(lambda: site.collected(job.name), "no row came out")
        os.kill(nodes.watcher.pids()[names[0]], signal.SIGKILL)
        assert nodes.wait(600.0), "the survivors did not finish"
        assert not nodes.stopped()
    assert canonical(site.collected(job.name)) == expected


@pytest.mark.slow  # the same on processes: tests/simulation/test_count_processes.py
def test_a_worker_that_counts_is_killed_and_the_others_count_on(tmp_path):
    job, site = h.job(CountedSales(), "sales", disorder="700ms"), DirectorySite(tmp_path)
    rows = [sales(partition) for partition in range(3)]
    site.load({"sales": rows})
    with SparkNodes(site, SLOWLY, nodes=3) as nodes:
        nodes.submit(job)
        names = [nodes.start() for _ in range(3)]
        until(lambda: set(names) <= set(nodes.watcher.pids()), "the nodes did not come up")
        until(lambda: counted_rows(site, job), "no count window came out")
        before = counted_rows(site, job)
        os.kill(nodes.watcher.pids()[next(name for name in names if runs_something(site, name))], signal.SIGKILL)
        assert nodes.wait(600.0), "the survivors did not finish"
        assert not nodes.stopped()
    assert counted_rows(site, job) > before, "it was killed when all was over"
    expected = run_oracle(job, {"sales": [[frame, END] for frame in rows]}, rows_per_call=500)
    assert canonical(site.collected(job.name)) == canonical(expected)


def test_nodes_are_added_and_drained_while_a_job_runs(workload):
    job, site, expected = workload
    with SparkNodes(site, SLOWLY, nodes=3) as nodes:
        nodes.submit(job)
        first = nodes.start()
        until(lambda: site.collected(job.name), "no row came out")
        nodes.start()
        nodes.drain(first)
        assert first not in nodes.running
        assert nodes.wait(600.0)
        pids = nodes.watcher.pids()
    assert canonical(site.collected(job.name)) == expected
    assert pids


def test_a_node_is_one_thread_also_in_polars_and_other_queries_are_left_alone(tmp_path):
    site, job = DirectorySite(tmp_path), h.job(Threads(), "bids")
    site.load({"bids": [bids(0)]})
    with SparkNodes(site, nodes=1) as nodes:
        nodes.submit(job)
        nodes.start()
        assert nodes.wait(600.0)
        rows = nodes.spark.range(1).mapInArrow(_threads_here, "threads bigint").collect()
    found = site.collected(job.name)["on_window"]
    assert {row["threads"] for row in found[0]} == {1}
    assert [row.threads for row in rows] == [pl.thread_pool_size()]


def _threads_here(batches):
    import polars

    yield from (pa.RecordBatch.from_pydict({"threads": [polars.thread_pool_size()]}) for _ in batches)


def test_sessions_that_will_not_do_are_refused_with_the_fix():
    spark = session()
    with pytest.raises(BadInput, match="slots") as refused:
        check_session(spark, 1000)
    assert "local[1002]" in refused.value.hint
    with pytest.raises(BadInput, match="Spark Connect"):
        check_session(_connected(), 1)
    with pytest.raises(BadInput, match="on this machine"):
        check_session(_Elsewhere(spark, master="spark://somewhere:7077"), 1)
    with pytest.raises(BadInput, match="speculation"):
        check_session(_Elsewhere(spark, speculation="true"), 1)
    with pytest.raises(BadInput, match="has no executors"):
        whole_executor(spark)
    check_session(spark, 3)


def test_a_session_of_ours_is_not_opened_over_spark_connect(monkeypatch):
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("SPARK_REMOTE", "sc://somewhere")
    with pytest.raises(BadInput, match="Spark Connect"):
        session()


@pytest.mark.parametrize(
    ("told", "error"),
    [('openjdk version "11.0.2" 2019-01-15', "and .* is 11"), ("not a JVM", "is not Java"), (None, "none was found")],
)
def test_java_that_is_missing_or_old_is_named_before_spark_starts(tmp_path, monkeypatch, told, error):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    if told is not None:
        java.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
        java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=error) as refused:
        check_java()
    assert "install Java 17" in refused.value.hint


class _Elsewhere:
    """A session with another master, or other settings."""

    def __init__(self, spark: SparkSession, master: str | None = None, speculation: str = "false") -> None:
        self.sparkContext = type(
            "Context", (), {"master": master or spark.sparkContext.master, "defaultParallelism": 10}
        )
        self.conf = {"spark.speculation": speculation}


def _connected():
    connected = type("SparkSession", (), {})
    connected.__module__ = "pyspark.sql.connect.session"
    return connected()


@pytest.mark.slow
def test_at_least_once_a_worker_is_killed_and_a_dataframe_has_every_row(workload):
    job, site, _ = workload
    settings = Settings(guarantee="at-least-once", rows_max=20, checkpoint_s=0.05, failure_timeout_s=0.5, replicas=2)
    with SparkNodes(site, settings, nodes=3) as nodes:
        version = nodes.submit(job)
        names = [nodes.start() for _ in range(3)]
        until(lambda: set(names) <= set(nodes.watcher.pids()), "the nodes did not come up")
        until(lambda: site.collected(job.name), "no row came out")
        os.kill(nodes.watcher.pids()[names[0]], signal.SIGKILL)
        assert nodes.wait(600.0), "the survivors did not finish"
        assert not nodes.stopped()
        spark = nodes.spark
    rows = [[bids(partition), END] for partition in range(PARTITIONS)]
    assert check_at_least_once(site.collected(job.name), run_oracle(job, {"bids": rows}, rows_per_call=500)) > 0
    source = spark.read.format("holons").option("job", job.name).option("positions", "true")
    found = source.load(str(site.directory)).orderBy("_partition", "_offset").collect()
    mine = {"on_window": {}}
    for row in found:
        mine["on_window"].setdefault(row["_partition"], []).append({"window": row["window"], "share": row["share"]})
        assert row["_offset"] == len(mine["on_window"][row["_partition"]]) - 1
    assert canonical(mine) == canonical(site.collected(version.name))


@pytest.mark.slow
def test_with_records_in_memory_a_worker_is_killed_and_the_others_have_what_it_held(workload):
    job, site, expected = workload
    site = DirectorySite(site.directory, "memory")
    with SparkNodes(site, replace(SLOWLY, snapshot_deltas=4), nodes=3) as nodes:
        nodes.submit(job)
        names = [nodes.start() for _ in range(3)]
        until(lambda: set(names) <= set(nodes.watcher.pids()), "the nodes did not come up")
        until(lambda: trimmed(site), "nothing was trimmed: no record was held twice")
        os.kill(nodes.watcher.pids()[names[0]], signal.SIGKILL)
        assert nodes.wait(600.0), "the survivors did not finish"
        assert not nodes.stopped()
    assert canonical(site.collected(job.name)) == expected
    check_no_checkpoint_in_files(site)
