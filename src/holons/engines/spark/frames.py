"""Results as Spark DataFrames."""

from __future__ import annotations

from typing import Final, TypeAlias

import polars as pl
from pyspark.sql import DataFrame, SparkSession

from holons.engines.spark.session import session

SparkFrame: TypeAlias = DataFrame
__all__ = ["SparkFrame", "SparkSession", "spark_frame"]

_NEAREST: Final[dict[pl.DataType, pl.DataType]] = {
    pl.UInt8(): pl.Int16(),
    pl.UInt16(): pl.Int32(),
    pl.UInt32(): pl.Int64(),
    pl.UInt64(): pl.Decimal(20, 0),
}
"""Types that Spark does not have, and those that hold all of their values."""


def spark_frame(rows: pl.DataFrame, spark_session: SparkSession | None = None) -> SparkFrame:
    """A table as a DataFrame of the given session, or of the active one; column by column, without Python objects."""
    types = {name: _spark_type(dtype) for name, dtype in rows.schema.items()}
    return (spark_session or session()).createDataFrame(rows.cast(types).to_arrow())  # type: ignore[arg-type]


def _spark_type(dtype: pl.DataType) -> pl.DataType:
    if isinstance(dtype, pl.List | pl.Array):
        return pl.List(_spark_type(dtype.inner))  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        return pl.Struct([pl.Field(field.name, _spark_type(field.dtype)) for field in dtype.fields])  # type: ignore[arg-type]
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return pl.String()
    return _NEAREST.get(dtype, dtype)
