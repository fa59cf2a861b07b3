"""Nodes on Spark: each one a long-lived task, in a job of its own, so that they are added, drained and lost one by one.

Spark places, ships, isolates and restarts them; they coordinate themselves. Whatever Spark does to a task, the other nodes
go on, and take its partitions over long before Spark has brought it back. A task that Spark runs again is a new node.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import dropwhile
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.resource import ResourceProfile
from pyspark.sql import SparkSession

from holons.engines.driver import Birth, Driver, live
from holons.engines.endings import Ending
from holons.engines.spark.jobs import SparkJob, Work
from holons.engines.spark.session import check_session, executor_cores, session, whole_executor
from holons.errors import NodesSilent
from holons.node import Settings, Site

_ATTEMPTS_MAX = 1_000

logger = logging.getLogger("holons.nodes")


class SparkNodes(Driver):
    """Nodes over a site on this machine, each in a task of its own.

    With `one_node_per_executor` each has an executor to itself; else Spark puts them wherever there is a free core.
    """

    silent_s = 180.0  # a JVM's first task takes its time on a busy machine

    def __init__(
        self,
        site: Site,
        settings: Settings | None = None,
        *,
        nodes: int = 1,
        spark_session: SparkSession | None = None,
        master: str | None = None,
        one_node_per_executor: bool = False,
    ) -> None:
        self.spark = spark_session or session(nodes, master)
        self._profile = whole_executor(self.spark) if one_node_per_executor else None
        self._has_executors = executor_cores(self.spark) > 0
        check_session(self.spark, nodes, self._profile)
        super().__init__(site, settings)

    def launch(self, birth: Birth) -> NodeTask:
        return NodeTask(self.spark, birth, self._profile)

    def replace_the_dead(self) -> list[str]:
        """Also starts a new node for each whose executor is to go, and lets that one hand over while it still can."""
        if not all(task.alive() for task in self.running.values()) and not self._spark_is_there():
            raise NodesSilent(
                "Spark has gone, and all nodes with it: its JVM was killed, or its session stopped",
                hint="run it again over the same site: it goes on where it was",
            )
        if self._has_executors:
            for name in [name for name, task in self.running.items() if cast(NodeTask, task).must_go()]:
                self.retire(name)
        for name, task in self.running.items():
            if not task.alive() and (error := cast(NodeTask, task).error) is not None:
                logger.warning("%s: Spark gave its task up: %s", name, error)
        return super().replace_the_dead()

    def not_started(self) -> str:
        with suppress(Exception):  # whatever the gateway says: nobody answers
            queued = sum(cast(NodeTask, task).executor() is None for task in self.running.values())
            return f"free slots of Spark for {queued} of {len(self.running)} nodes" if queued else ""
        return ""

    def _spark_is_there(self) -> bool:
        try:
            return not self.spark.sparkContext._jsc.sc().isStopped()
        except Exception:  # noqa: BLE001 - whatever the gateway says: nobody answers
            return False


class NodeTask(SparkJob):
    """A Spark job of one task, which is a node."""

    def __init__(self, spark: SparkSession, birth: Birth, profile: ResourceProfile | None = None) -> None:
        self._endings: list[Ending] = []
        work = node_task(birth, [str(Path(place).absolute()) for place in sys.path])
        super().__init__(spark, birth.name, work, profile=profile)

    def endings(self) -> list[Ending]:
        """How attempts have failed. Spark knows that at once; the next one may come up only when everything is out."""
        with suppress(Exception):  # whatever the gateway says: nobody answers
            self._endings = [
                ending_of(str(task.errorMessage())) for task in self._attempts() if _status(task) == "FAILED"
            ]
        if not self._endings and not self.alive():
            return [Ending(f"Spark gave its task up: {self.error}", raised=False)]
        return self._endings

    def executor(self) -> str | None:
        """The executor that it runs on now, as Spark calls it."""
        return next((str(task.executorId()) for task in self._attempts() if _status(task) == "RUNNING"), None)

    def _attempts(self) -> list[Any]:
        """What Spark knows of each. Stages have counts too, but Spark does not always bring them up to date."""
        context = self.spark.sparkContext
        tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self.group)]
        stages = [stage for job in jobs if job is not None for stage in job.stageIds]
        lists = [store.taskList(stage, 0, _ATTEMPTS_MAX) for stage in stages]
        return [tasks.apply(number) for tasks in lists for number in range(tasks.length())]

    def must_go(self) -> bool:
        """Whether its executor is being decommissioned."""
        executor = self.executor()
        scheduler = self.spark.sparkContext._jsc.sc().taskScheduler()
        return executor is not None and bool(scheduler.getExecutorDecommissionState(executor).isDefined())


def _status(task: Any) -> str:  # noqa: ANN401 - an object of the JVM
    return str(task.status())


def ending_of(message: str) -> Ending:
    """Returns how an attempt ended, from what Spark says of it: a node's own error is at the end of a traceback.

    >>> ending_of("ExecutorLostFailure (executor 1 exited)\\n and so on")
    Ending(reason='ExecutorLostFailure (executor 1 exited)', raised=False)
    """
    trace = message.rpartition("Traceback (most recent call last):\n")[2].partition("\n\tat ")[0].rstrip()
    if trace == message.partition("\n\tat ")[0].rstrip():
        return Ending(message.partition("\n")[0], raised=False)
    error = "\n".join(dropwhile(lambda line: line.startswith(" "), trace.split("\n")))
    kind, _, story = error.partition(":")
    name = kind.rpartition(".")[2]
    return Ending(f"{name}:{story}", raised=name != NodesSilent.__name__)


def node_task(birth: Birth, path: Sequence[str]) -> Work:
    """What Spark runs: the whole life of a node. It finds modules wherever the driver does, after its own places."""

    def run_node(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sys.path += [place for place in path if place not in sys.path]
        parent, context = os.getppid(), TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        name = f"{birth.name}.{attempt}" if attempt else birth.name
        for _ in batches:
            live(replace(birth, name=name), lambda: os.getppid() == parent)
        if os.getppid() != parent:  # a failed task's process ends at once; one that is done would wait to be used again
            raise NodesSilent("pyspark.daemon was killed", hint="Spark starts another one, and this node again")
        yield from ()

    return run_node
