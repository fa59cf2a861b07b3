"""Producers on Spark: one job, with a task for each. Spark runs one that dies again, and it goes on where it was."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from holons.engines.driver import ProcessHandle
from holons.engines.producers import Feed, Producers, ProducerTask, produce
from holons.engines.spark.jobs import SparkJob, Work
from holons.engines.spark.session import session
from holons.node import Site


class SparkProducers(Producers):
    """A Spark task for each producer. They hold their slots until everything is written."""

    def __init__(
        self, site: Site, stream: str, feed: Feed, *, tasks: int = 1, spark_session: SparkSession | None = None
    ) -> None:
        self._spark = spark_session or session(tasks)
        super().__init__(site, stream, feed, tasks=tasks)

    def launch(self, tasks: Sequence[ProducerTask]) -> list[ProcessHandle]:
        return [SparkJob(self._spark, tasks[0].talk, producer_task(tasks), tasks=len(tasks))]


def producer_task(tasks: Sequence[ProducerTask]) -> Work:
    """What Spark runs: the whole life of the producers whose numbers it is given."""

    def run_producers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parent, context = os.getppid(), TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        for batch in batches:
            for number in batch["id"].to_pylist():
                produce(tasks[number], lambda: os.getppid() == parent, attempt=attempt)
        yield from ()

    return run_producers
