"""What stock Spark does with DataFrames: reads them, and aggregates them in one batch; and how its session is set up."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from holons_bench.bids import Expected


def tuned(spark: SparkSession, cores: int) -> SparkSession:
    """Returns a session beside `spark`, set up for the queries here: as many scan and shuffle partitions as cores."""
    session = spark.newSession()
    for name, value in {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.files.minPartitionNum": str(cores),
        "spark.sql.files.maxPartitionBytes": "1g",
    }.items():
        session.conf.set(name, value)
    return session


def read_all(frame: DataFrame) -> None:
    """Reads every row and every column, and does nothing with them."""
    frame.write.format("noop").mode("overwrite").save()


def highest(spark: SparkSession, bids: Path) -> Expected:
    """Returns the highest price of each second."""
    return _values(
        spark.read.parquet(str(bids)).groupBy(F.window("ts", "1 second")).agg(F.max("price").alias("value")), F.lit(0)
    )


def averages(spark: SparkSession, bids: Path) -> Expected:
    """Returns the average price of each category and second."""
    grouped = spark.read.parquet(str(bids)).groupBy(F.window("ts", "1 second"), "category")
    return _values(grouped.agg(F.avg("price").alias("value")), F.col("category"))


def _values(frame: DataFrame, key: Column) -> Expected:
    rows = frame.select(F.unix_seconds("window.start").alias("second"), key.alias("key"), "value").collect()
    return {(row["second"], row["key"]): row["value"] for row in rows}
