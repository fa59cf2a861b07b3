"""A Spark job of ours: long-lived tasks that hold their slots, watched by a thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import pyarrow as pa
from pyspark import InheritableThread
from pyspark.resource import ResourceProfile
from pyspark.sql import SparkSession

from holons.engines.driver import ENVIRONMENT

_SCHEMA = "done boolean"

Work: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What a task does: it gets its own number, in a column `id`, and returns nothing."""


_environment = threading.Lock()


class SparkJob:
    """Runs so many tasks, each of which is run again if it dies. It ends when all are done, or Spark gives them up."""

    def __init__(
        self, spark: SparkSession, name: str, work: Work, *, tasks: int = 1, profile: ResourceProfile | None = None
    ) -> None:
        self.spark = spark
        self.group = f"holons {name}"
        self.error: Exception | None = None
        """Why Spark gave it up."""
        self._thread: threading.Thread = InheritableThread(
            target=self._run, args=(name, work, tasks, profile), daemon=True, name=self.group
        )
        self._thread.start()

    def _run(self, name: str, work: Work, tasks: int, profile: ResourceProfile | None) -> None:
        self.spark.sparkContext.setJobGroup(self.group, f"Holons {name}", interruptOnCancel=True)
        try:
            with _own_environment(self.spark):
                job = self.spark.range(tasks, numPartitions=tasks).mapInArrow(work, _SCHEMA, profile=profile)
            job.collect()
        except Exception as error:  # noqa: BLE001 - whatever Spark says: they are gone
            self.error = error

    def alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def kill(self) -> None:
        self.spark.sparkContext.cancelJobGroup(self.group)


@contextmanager
def _own_environment(spark: SparkSession) -> Iterator[None]:
    """What is made of Python functions meanwhile runs in workers with our environment; other queries keep theirs."""
    context = spark.sparkContext
    with _environment:
        theirs = context.environment
        context.environment = {name: value for name, value in ENVIRONMENT.items() if name not in os.environ} | theirs
        try:
            yield
        finally:
            context.environment = theirs
