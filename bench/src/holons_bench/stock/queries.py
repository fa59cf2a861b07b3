"""Three queries in stock Structured Streaming, from Parquet files to results.

As fast as we could make them: one micro-batch for everything there is (small ones cost about 0.4 s each), few large files,
as many scan and shuffle partitions as cores, append mode, state in the memory of the default store. Hot items counts
bids by second first and slides over those counts; sliding over the bids themselves would copy each one ten times.
The watermark passes the last window by a row far beyond it, so that all windows come out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

from holons_bench.bids import Expected

Query: TypeAlias = Literal["highest", "average", "hot items"]

_SCHEMA: Final = "ts timestamp, auction long, bidder long, price long, category long"
_SINK: Final = "holons_stock"


def tuned(spark: SparkSession, cores: int) -> SparkSession:
    """A session beside the given one, set up for these queries."""
    session = spark.newSession()
    for name, value in {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.files.minPartitionNum": str(cores),
        "spark.sql.files.maxPartitionBytes": "1g",
    }.items():
        session.conf.set(name, value)
    return session


class Stock:
    """Stock queries over a directory of Parquet files; `spark` is a session of its own (`tuned`)."""

    def __init__(self, spark: SparkSession, bids: Path) -> None:
        self._spark = spark
        self._bids = bids

    def run(self, query: Query, timed: Callable[[Callable[[], None]], None]) -> Expected:
        """Runs a query over everything there is, from start to end inside `timed`; returns what came out."""
        frame = _QUERIES[query](self._source())
        with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=self._bids.parent) as checkpoint:
            timed(lambda: self._to_end(frame, checkpoint))
        try:
            return {(row["second"], row["key"]): row["value"] for row in self._spark.table(_SINK).collect()}
        finally:
            self._spark.catalog.dropTempView(_SINK)

    def _source(self) -> DataFrame:
        return self._spark.readStream.schema(_SCHEMA).parquet(str(self._bids)).withWatermark("ts", "0 seconds")

    def _to_end(self, frame: DataFrame, checkpoint: str) -> None:
        sink = frame.writeStream.format("memory").queryName(_SINK).option("checkpointLocation", checkpoint)
        query: StreamingQuery = sink.outputMode("append").trigger(availableNow=True).start()
        query.awaitTermination()


def _highest(bids: DataFrame) -> DataFrame:
    highest = bids.groupBy(F.window("ts", "1 second")).agg(F.max("price").alias("value"))
    return highest.select(_second(), F.lit(0).alias("key"), "value")


def _average(bids: DataFrame) -> DataFrame:
    average = bids.groupBy(F.window("ts", "1 second"), "category").agg(F.avg("price").alias("value"))
    return average.select(_second(), F.col("category").alias("key"), "value")


def _hot_items(bids: DataFrame) -> DataFrame:
    counts = bids.groupBy(F.window("ts", "1 second"), "auction").agg(F.count("*").alias("bids"))
    sliding = counts.groupBy(F.window("window", "10 seconds", "1 second"), "auction").agg(F.sum("bids").alias("bids"))
    most = F.max(F.struct("bids", (-F.col("auction")).alias("first"))).alias("most")
    hottest = sliding.groupBy("window").agg(most)
    return hottest.select(_second(), (-F.col("most.first")).alias("key"), F.col("most.bids").alias("value"))


def _second() -> Column:
    return F.unix_seconds("window.start").alias("second")


_QUERIES: Final[dict[Query, Callable[[DataFrame], DataFrame]]] = {
    "highest": _highest,
    "average": _average,
    "hot items": _hot_items,
}
