"""Nodes on executors of their own, really killed: the others take over before Spark has brought anything back.

One `local-cluster` session for all: another than the one that Spark's other tests share.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession
from tests.spark.live_input import PARTITIONS, LiveInput, Witness, parent, running, until

from holons.engines.spark.nodes import SparkNodes
from holons.engines.spark.session import check_session, slots, whole_executor
from holons.errors import BadInput
from holons.node import Settings

pytestmark = [pytest.mark.spark, pytest.mark.own_spark]
NODES, EXECUTORS = 2, 3
SETTINGS = Settings(
    heartbeat_s=0.05, failure_timeout_s=1.0, stagger_s=0.05, checkpoint_s=0.1, residence_s=0.5, max_ahead_s=None
)


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    if before := SparkSession.getActiveSession():
        before.stop()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = Path(sys.modules["holons.engines.spark"].__file__).with_name("log4j2.properties").as_uri()
    directory = tmp_path_factory.mktemp("spark")  # a JVM that was started here keeps it for good
    options = f"-Dlog4j2.configurationFile={settings} -Djava.io.tmpdir={directory} -XX:TieredStopAtLevel=1"
    spark = (
        SparkSession.builder.appName("holons-cluster")
        .master(f"local-cluster[{EXECUTORS},1,600]")
        .config("spark.executor.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(directory))
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.executor.extraJavaOptions", options)
        .config("spark.decommission.enabled", "true")
        .getOrCreate()
    )
    work = Path(_find_spark_home()) / "work" / spark.sparkContext.applicationId
    yield spark
    spark.stop()
    shutil.rmtree(work, ignore_errors=True)  # where executors run: Spark keeps it for people who look for their output


@pytest.fixture
def live(tmp_path):
    return LiveInput(tmp_path)


class Run:
    """Nodes on the cluster that have begun to work."""

    def __init__(self, live: LiveInput, nodes: SparkNodes) -> None:
        self.live, self.nodes, self.witness = live, nodes, Witness(live.site)
        nodes.submit(live.job)
        self.names = [nodes.start() for _ in range(NODES)]
        until(self._all_at_work, "the nodes did not come up")
        self.pids = {name: self.witness.newest[name].pid for name in self.names}

    def _all_at_work(self) -> bool:
        self.live.more()
        self.witness.look()
        told = [self.witness.runs(name) for name in self.names]
        return all(told) and sum(map(len, told)) == PARTITIONS and bool(self.live.site.collected(self.live.job.name))

    def _finished(self) -> bool:
        self.nodes.replace_the_dead()
        return self.nodes.wait(0.5)

    def end(self) -> None:
        self.live.end()
        until(self._finished, "the nodes did not finish")
        assert not self.nodes.stopped()


def check_takeover(run: Run, victims: list[str], kill, *, before_spark: bool) -> None:
    """Others own everything, and went on reading all the while; `before_spark`: a replacement has not beaten once."""
    witness, live = run.witness, run.live
    survivors = [name for name in run.names if name not in victims]
    lost = {partition for name in victims for partition in witness.owned_by(name)}
    assert lost
    before = {name: (witness.newest[name].sequence, _kept(witness, name, lost)) for name in survivors}
    kill()
    went_on: set[str] = set()

    def taken_over() -> bool:
        live.more()
        witness.look()
        replacements = set(witness.newest) - set(run.names)
        assert not (before_spark and replacements), "a replacement was there first"
        for name in survivors:
            sequence, offsets = before[name]
            now = _kept(witness, name, lost)
            further = [now[partition] > at for partition, at in offsets.items() if partition in now]
            if witness.newest[name].sequence > sequence and all(further):
                went_on.add(name)
        return all(witness.owners[partition][1] in {*survivors, *replacements} for partition in lost)

    until(taken_over, "nobody took over")
    new_owners = {witness.owners[partition][1] for partition in lost}
    assert new_owners & set(survivors) <= went_on, "they stood still until they took over"
    rows = live.site.collected(live.job.name)
    until(lambda: live.more() or live.site.collected(live.job.name) != rows, "no window came out after it")


def _kept(witness: Witness, name: str, lost: set[int]) -> dict[int, int]:
    """How far a survivor is in partitions that were its own before."""
    return {partition: at for partition, at in witness.runs(name).items() if partition not in lost}


def check_survivors(run: Run, victims: list[str]) -> None:
    """They are the same processes from beginning to end."""
    run.witness.look()
    for name in set(run.names) - set(victims):
        heartbeats = run.witness.heartbeats[name]
        assert all(one.sequence < after.sequence for one, after in pairwise(heartbeats))
        assert {heartbeat.pid for heartbeat in heartbeats} == {run.pids[name]}
        assert f"{name}.1" not in run.witness.heartbeats


def test_an_executor_is_killed_and_the_others_take_over_before_spark_has_restarted_anything(spark, live, caplog):
    with SparkNodes(live.site, SETTINGS, nodes=NODES, spark_session=spark) as nodes:
        run = Run(live, nodes)
        victim = run.names[0]
        executor = parent(parent(run.pids[victim]))
        (spare,) = executors(parent(executor)) - {parent(parent(pid)) for pid in run.pids.values()}
        os.kill(
            spare, signal.SIGSTOP
        )  # Spark gives it the task of the one that is killed, and has nothing back meanwhile
        try:
            with caplog.at_level(logging.WARNING, logger="holons.nodes"):
                check_takeover(run, [victim], lambda: os.kill(executor, signal.SIGKILL), before_spark=True)
        finally:
            os.kill(spare, signal.SIGCONT)
        with caplog.at_level(logging.WARNING, logger="holons.nodes"):
            until(lambda: nodes.finished() or f"from {victim}, which has" in caplog.text, "nobody said so")
        run.end()
        check_survivors(run, [victim])
    assert not running(run.pids[victim])
    assert live.found() == live.expected()


def executors(jvm: int) -> set[int]:
    """The executors that a driver's JVM has started."""
    found = set()
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                if (
                    parent(int(place.name)) == jvm
                    and b"CoarseGrainedExecutorBackend" in (place / "cmdline").read_bytes()
                ):
                    found.add(int(place.name))
    return found


@pytest.mark.slow  # otherwise in one JVM: tests/conformance/test_spark_nodes.py
def test_a_python_worker_is_killed_and_the_others_go_on(spark, live):
    with SparkNodes(live.site, SETTINGS, nodes=NODES, spark_session=spark) as nodes:
        run = Run(live, nodes)
        victim = run.names[0]
        # before_spark: to fork another worker may take Spark less time than it takes us to miss this one
        check_takeover(run, [victim], lambda: os.kill(run.pids[victim], signal.SIGKILL), before_spark=False)
        run.end()
        check_survivors(run, [victim])
    assert live.found() == live.expected()


@pytest.mark.slow
def test_a_daemon_is_killed_its_workers_end_themselves_and_the_others_take_over(spark, live):
    with SparkNodes(live.site, SETTINGS, nodes=NODES, spark_session=spark) as nodes:
        run = Run(live, nodes)
        victim = run.names[0]
        daemon = parent(run.pids[victim])
        assert b"pyspark.daemon" in Path(f"/proc/{daemon}/cmdline").read_bytes()
        os.kill(daemon, signal.SIGKILL)
        until(lambda: not running(run.pids[victim]), "the worker outlives its daemon")
        until(lambda: run.witness.look() or not run.witness.owned_by(victim), "nobody took over")
        run.end()
        check_survivors(run, [victim])
    assert live.found() == live.expected()


@pytest.mark.slow
def test_a_decommissioned_executor_hands_its_partitions_over_and_goes(spark, live):
    with SparkNodes(live.site, SETTINGS, nodes=NODES, spark_session=spark) as nodes:
        run = Run(live, nodes)
        victim = run.names[0]
        task = nodes.running[victim]
        executor, lost = task.executor(), run.witness.owned_by(victim)
        context = spark.sparkContext
        context._jsc.sc().schedulerBackend().decommissionExecutor(executor, _decommission(context._jvm), False, False)
        until(lambda: nodes.replace_the_dead() or victim not in nodes.running, "nobody noticed")
        assert len(nodes.running) == NODES
        until(lambda: not task.alive(), "it did not go")
        assert task.error is None, "it went by itself"
        run.witness.look()
        assert run.witness.newest[victim].leaving
        assert not run.witness.owned_by(victim)
        assert all(run.witness.owners[partition][1] != victim for partition in lost)
        run.end()
        check_survivors(run, [victim])
    assert live.found() == live.expected()


def _decommission(jvm):
    return jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("as a test", jvm.scala.Option.empty())


@pytest.mark.slow
def test_one_node_has_an_executor_to_itself(spark, live):
    with SparkNodes(live.site, SETTINGS, nodes=NODES, spark_session=spark, one_node_per_executor=True) as nodes:
        run = Run(live, nodes)
        executors = [nodes.running[name].executor() for name in run.names]
        assert len(set(executors)) == NODES
        run.end()
    assert live.found() == live.expected()


def test_too_few_executors_are_refused_with_the_fix(spark, monkeypatch):
    monkeypatch.setattr("holons.engines.spark.session._EXECUTORS_S", 0.2)
    until(lambda: slots(spark) >= EXECUTORS, "the executors did not come up")
    with pytest.raises(BadInput, match=r"9 nodes need 10 slots .* and there are \d") as refused:
        check_session(spark, 9)
    assert "more executors" in refused.value.hint
    with pytest.raises(BadInput, match="9 nodes need 10 executors"):
        check_session(spark, 9, whole_executor(spark))
    check_session(spark, 2)
