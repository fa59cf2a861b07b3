"""Some of Nexmark's queries in stock Structured Streaming, from Parquet files to results.

As fast as we could make them: one micro-batch for everything there is (small ones cost about 0.4 s each), few large files,
as many scan and shuffle partitions as cores (`frames.tuned`), append mode, state in the memory of the default store.
q5 counts bids by second first and slides over those counts; sliding over the bids themselves would copy each one ten
times. The watermark passes the last window by a row far beyond it, so that all windows come out.

What has no windows goes to Spark's own sink that throws rows away; windows come out into memory, as few as they are.
q4 averages by the second in which auctions were opened: a running average over everything would need a second stateful
step without a window, which Spark does not take behind a join. It is the cheaper of the two.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

from holons.errors import BadInput

_BID: Final = "auction long, bidder long, price long, channel string, url string, date_time long, extra string"
_AUCTION: Final = (
    "id long, item_name string, description string, initial_bid long, reserve long, date_time long, expires long, "
    "seller long, category long, extra string"
)
_SINK: Final = "holons_stock_nexmark"
WINDOWED: Final = ("q4", "q5", "q7")


class StockNexmark:
    """Queries over directories of Parquet files, `bid` and `auction`; `spark` is a session of its own (`tuned`)."""

    def __init__(self, spark: SparkSession, files: Path) -> None:
        self._spark = spark
        self._files = files

    def run(self, query: str, timed: Callable[[Callable[[], None]], None]) -> list[Row]:
        """Runs a query over everything there is, inside `timed`; returns what came out, if it was not thrown away."""
        if query not in _QUERIES:
            raise BadInput(f"no query {query!r} for stock Spark", hint=f"use one of: {', '.join(_QUERIES)}")
        frame = _QUERIES[query](self)
        with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=self._files.parent) as checkpoint:
            timed(lambda: self._to_end(frame, checkpoint, query in WINDOWED))
        if query not in WINDOWED:
            return []
        try:
            return self._spark.table(_SINK).collect()
        finally:
            self._spark.catalog.dropTempView(_SINK)

    def _to_end(self, frame: DataFrame, checkpoint: str, kept: bool) -> None:
        sink = (
            frame.writeStream.option("checkpointLocation", checkpoint).outputMode("append").trigger(availableNow=True)
        )
        kind = sink.format("memory").queryName(_SINK) if kept else sink.format("noop")
        query: StreamingQuery = kind.start()
        query.awaitTermination()

    def bids(self) -> DataFrame:
        """Returns all bids, with their time as Spark wants it."""
        return self._read("bid", _BID)

    def auctions(self) -> DataFrame:
        """Returns all auctions."""
        return self._read("auction", _AUCTION)

    def _read(self, table: str, schema: str) -> DataFrame:
        rows = self._spark.readStream.schema(schema).parquet(str(self._files / table))
        return rows.withColumn("ts", F.timestamp_micros("date_time")).withWatermark("ts", "0 seconds")


def _q4(site: StockNexmark) -> DataFrame:
    bids = site.bids().select("auction", "price", F.col("ts").alias("bid_ts"))
    auctions = site.auctions().select("id", "category", "ts", F.timestamp_micros("expires").alias("expires_ts"))
    open_then = F.expr("auction = id AND bid_ts >= ts AND bid_ts <= expires_ts AND bid_ts <= ts + INTERVAL 1 SECOND")
    winners = bids.join(auctions, open_then).groupBy(F.window("ts", "1 second"), "id", "category")
    best = winners.agg(F.max("price").alias("price"))
    return best.groupBy("window", "category").agg(F.avg("price").alias("average"))


def _q5(site: StockNexmark) -> DataFrame:
    counts = site.bids().groupBy(F.window("ts", "1 second"), "auction").agg(F.count("*").alias("bids"))
    sliding = counts.groupBy(F.window("window", "10 seconds", "1 second"), "auction").agg(F.sum("bids").alias("bids"))
    return sliding.groupBy("window").agg(F.max(F.struct("bids", "auction")).alias("most"))


def _q7(site: StockNexmark) -> DataFrame:
    best = F.max(F.struct("price", "auction", "bidder", "date_time")).alias("best")
    return site.bids().groupBy(F.window("ts", "10 seconds")).agg(best)


_QUERIES: Final[dict[str, Callable[[StockNexmark], DataFrame]]] = {
    "q0": lambda site: site.bids().select("auction", "bidder", "price", "date_time", "extra"),
    "q1": lambda site: site.bids().select("auction", "bidder", 0.908 * F.col("price"), "date_time", "extra"),
    "q2": lambda site: site.bids().filter("auction % 123 = 0").select("auction", "price"),
    "q4": _q4,
    "q5": _q5,
    "q7": _q7,
}
