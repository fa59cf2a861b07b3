"""Any aggregate as a measure: its values become a column, whatever they are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from holons import codec
from holons.algebra import Aggregate, Custom, Keyed
from holons.errors import BadElement
from holons.program.dataflow.measure import Column, Measure, Values, column, column_name, dtype_of, in_words


@dataclass(frozen=True, eq=False)
class Using(Measure):
    """Any aggregate, applied to some columns."""

    aggregate: Aggregate[Any]
    columns: tuple[Column, ...]
    where: pl.Expr | None = None

    def crdt(self, schema: pl.Schema | None) -> Aggregate[Any]:
        for what in self.columns:
            dtype_of(what, schema)
        return self.aggregate

    def element(self, frame: pl.DataFrame) -> object:
        columns = tuple(column(frame, what, self.where) for what in self.columns)
        return columns[0] if len(columns) == 1 else columns

    def check(self, schema: pl.Schema | None) -> None:
        super().check(schema)
        self.read(codec.object_array(list(self._examples)), schema)

    def read(self, values: Values, schema: pl.Schema | None) -> pl.Series:
        if values.dtype.kind != "O":
            return pl.Series(values)
        plain = [_as_column_value(value) for value in values.tolist()]
        if self._sample_dtype is None:
            return pl.Series(plain, strict=False)
        series = pl.Series(plain, dtype=self._sample_dtype, strict=False)
        for value, stored in zip(plain, series.to_list(), strict=True):
            if not _same(value, stored):
                raise BadElement(
                    f"{self.aggregate.describe()}: its sample gave values of type {self._sample_dtype}, "
                    f"and a window gave {value!r}",
                    hint="let value(...) always give the same type and fields, e.g. float(...), or None; "
                    "and take a sample like the columns that it is given",
                )
        return series

    @property
    def _examples(self) -> tuple[Any, ...]:
        return self.aggregate.examples if isinstance(self.aggregate, Custom) else ()

    @cached_property
    def _sample_dtype(self) -> pl.DataType | None:
        """The type of the values, if the aggregate has a sample from which it is clear."""
        dtype = pl.Series([_as_column_value(value) for value in self._examples], strict=False).dtype
        return None if _is_unclear(dtype) else dtype

    def __str__(self) -> str:
        return in_words(self.aggregate.describe(), ", ".join(map(column_name, self.columns)), self.where)


def _same(value: object, stored: object) -> bool:
    """Returns whether a value kept all of itself in a column: 1 may be 1.0 there, 1.5 may not be 1."""
    if isinstance(value, dict) and isinstance(stored, dict):
        return value.keys() == stored.keys() and all(_same(value[name], stored[name]) for name in value)
    if isinstance(value, list) and isinstance(stored, list):
        return len(value) == len(stored) and all(map(_same, value, stored))
    return bool(value == stored) or (value != value and stored != stored)


def _is_unclear(dtype: pl.DataType) -> bool:
    """Returns whether a few values do not fix a type, or one inside it: all were null, or decimals of some precision."""
    if isinstance(dtype, pl.List):
        return _is_unclear(dtype.inner)  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        return any(_is_unclear(field.dtype) for field in dtype.fields)  # type: ignore[arg-type]
    return dtype == pl.Null or dtype.is_decimal()


def _as_column_value(value: object) -> object:
    """Returns what an aggregate of any kind gives as lists and structs, in a fixed order."""
    if isinstance(value, frozenset | set):
        return sorted(value, key=lambda item: (type(item).__name__, item))
    if isinstance(value, Keyed):
        return [{"key": key, "value": _as_column_value(item)} for key, item in value.items()]
    if isinstance(value, np.ndarray):  # of any length, not always of the sample's
        return value.tolist()
    if isinstance(value, list):
        return [_as_column_value(item) for item in value]
    if type(value) is tuple:  # its parts may be of different types, those of a list may not
        return {f"field_{place}": _as_column_value(item) for place, item in enumerate(value)}
    return value
