"""Columns on their way into aggregates that keep rows, and back: plain values out of any type, and nulls beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from holons.errors import BadElement

_PLAIN: Final = (pl.Int64, pl.Float64, pl.String, pl.Boolean)


def plain(column: pl.Series) -> pl.Series:
    """Returns a column of integers, floats, strings or booleans with the same information."""
    dtype = column.dtype
    if dtype in _PLAIN:
        return column
    if dtype.is_temporal():
        return column.to_physical().cast(pl.Int64)
    if dtype.is_integer():
        return column.cast(pl.Int64)
    if dtype.is_float():
        return column.cast(pl.Float64)
    if dtype in (pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    if dtype == pl.Null:
        return column.cast(pl.Int64)
    raise BadElement(
        f"column {column.name!r} is {dtype}", hint="keep numbers, strings, booleans and times; unnest others"
    )


def packed(frame: pl.DataFrame, names: Sequence[str]) -> tuple[pl.Series | bool, ...]:
    """Returns for each column its values, then for each whether a row has a value: no nulls are left."""
    columns = [plain(frame[name]) for name in names]
    filled = [column.fill_null(_nothing(column.dtype)) if column.null_count() else column for column in columns]
    return *filled, *(column.is_not_null() if column.null_count() else True for column in columns)


def packed_names(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the columns of `packed`."""
    return *names, *(f"{name}?" for name in names)


def unpacked(
    kept: dict[str, npt.NDArray[np.generic]], names: Sequence[str], schema: pl.Schema | None, *more: pl.Series
) -> pl.DataFrame:
    """Returns the columns again, with nulls, and with their types where these are known; then `more` columns."""
    columns = []
    for name in names:
        column = restored(pl.Series(name, kept[name]), schema.get(name) if schema else None)
        present = kept[f"{name}?"].astype(np.bool_)
        if not present.all():
            column = pl.select(pl.when(pl.Series(present)).then(column).alias(name)).to_series()
        columns.append(column)
    return pl.DataFrame([*columns, *more])


def restored(column: pl.Series, dtype: pl.DataType | None) -> pl.Series:
    """Returns a plain column in the type that it had."""
    if dtype is None or dtype == column.dtype or dtype == pl.Null:
        return column
    return column.cast(dtype)


def _nothing(dtype: pl.DataType) -> object:
    return "" if dtype == pl.String else False if dtype == pl.Boolean else 0.0 if dtype.is_float() else 0
