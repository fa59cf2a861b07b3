"""Nodes on Spark: each one a long-lived task, in a job of its own, so that they are added, drained and lost one by one.

Spark places, ships, isolates and restarts them; they coordinate themselves. Whatever Spark does to a task, the other nodes
go on, and take its partitions over long before Spark has brought it back. A task that Spark runs again is a new node.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark import InheritableThread, TaskContext
from pyspark.sql import SparkSession

from holons.engines.driver import Birth, Driver, live
from holons.engines.site import Site
from holons.engines.spark.session import check_session, session
from holons.node import Settings

_SCHEMA = "done boolean"


class SparkNodes(Driver):
    """Nodes over a site on this machine, each in a task of its own."""

    def __init__(
        self,
        site: Site,
        settings: Settings | None = None,
        *,
        nodes: int = 1,
        spark: SparkSession | None = None,
        master: str | None = None,
    ) -> None:
        self.spark = spark or session(nodes, master)
        check_session(self.spark, nodes)
        super().__init__(site, settings)

    def launch(self, birth: Birth) -> NodeTask:
        return NodeTask(self.spark, birth)


class NodeTask:
    """A Spark job of one task, watched by a thread of ours."""

    def __init__(self, spark: SparkSession, birth: Birth) -> None:
        self._spark = spark
        self._group = f"holons {birth.name}"
        self._birth = birth
        self.error: Exception | None = None
        """Why Spark gave it up."""
        self._thread = InheritableThread(target=self._run, daemon=True, name=self._group)
        self._thread.start()

    def _run(self) -> None:
        self._spark.sparkContext.setJobGroup(self._group, f"Holons {self._birth.name}", interruptOnCancel=True)
        try:
            self._spark.range(1, numPartitions=1).mapInArrow(node_task(self._birth), _SCHEMA).collect()
        except Exception as error:  # noqa: BLE001 - whatever Spark says: the node is gone
            self.error = error

    def alive(self) -> bool:
        thread: threading.Thread = self._thread
        return thread.is_alive()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def kill(self) -> None:
        self._spark.sparkContext.cancelJobGroup(self._group)


def node_task(birth: Birth) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What Spark runs: the whole life of a node."""

    def run_node(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parent, context = os.getppid(), TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        name = f"{birth.name}.{attempt}" if attempt else birth.name
        for _ in batches:
            live(
                replace(birth, name=name), lambda: os.getppid() == parent
            )  # killing pyspark.daemon would leave us behind
        yield from ()

    return run_node
