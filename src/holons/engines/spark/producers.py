"""Producers on Spark: one job, with a task for each. Spark runs one that dies again, and it goes on where it was."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark import InheritableThread, TaskContext
from pyspark.sql import SparkSession

from holons.engines.driver import Process
from holons.engines.producers import Feed, Producers, ProducerTask, produce
from holons.engines.site import Site
from holons.engines.spark.session import session

_SCHEMA = "done boolean"


class SparkProducers(Producers):
    """A Spark task for each producer. They hold their slots until everything is written."""

    def __init__(
        self, site: Site, stream: str, feed: Feed, *, tasks: int = 1, spark: SparkSession | None = None
    ) -> None:
        self._spark = spark or session(tasks)
        super().__init__(site, stream, feed, tasks=tasks)

    def launch(self, tasks: Sequence[ProducerTask]) -> list[Process]:
        return [ProducerJob(self._spark, tasks)]


class ProducerJob:
    """The Spark job of all producers of a stream, watched by a thread of ours."""

    def __init__(self, spark: SparkSession, tasks: Sequence[ProducerTask]) -> None:
        self._spark = spark
        self._group = f"holons {tasks[0].talk}"
        self._tasks = tasks
        self.error: Exception | None = None
        """Why Spark gave it up."""
        self._thread = InheritableThread(target=self._run, daemon=True, name=self._group)
        self._thread.start()

    def _run(self) -> None:
        self._spark.sparkContext.setJobGroup(self._group, f"Holons {self._tasks[0].stream}", interruptOnCancel=True)
        count = len(self._tasks)
        try:
            self._spark.range(count, numPartitions=count).mapInArrow(producer_task(self._tasks), _SCHEMA).collect()
        except Exception as error:  # noqa: BLE001 - whatever Spark says: they are gone
            self.error = error

    def alive(self) -> bool:
        thread: threading.Thread = self._thread
        return thread.is_alive()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def kill(self) -> None:
        self._spark.sparkContext.cancelJobGroup(self._group)


def producer_task(
    tasks: Sequence[ProducerTask],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What Spark runs: the whole life of the producers whose numbers it is given."""

    def run_producers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parent, context = os.getppid(), TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        for batch in batches:
            for number in batch["id"].to_pylist():
                produce(tasks[number], lambda: os.getppid() == parent, attempt=attempt)
        yield from ()

    return run_producers
