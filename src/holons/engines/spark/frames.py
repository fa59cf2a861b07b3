"""Results as Spark DataFrames."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holons.engines.spark.session import session

SparkFrame: TypeAlias = DataFrame
__all__ = ["SparkFrame", "SparkSession", "spark_frame"]


def spark_frame(table: pa.Table, spark_session: SparkSession | None = None) -> SparkFrame:
    """A table as a DataFrame of the given session, or of the active one; column by column, without Python objects."""
    return (spark_session or session()).createDataFrame(table)
