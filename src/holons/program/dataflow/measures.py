"""What a window is asked for: `agg(n=h.count(), best=h.max("price"))`. The functions at the end are what users write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import polars as pl

from holons.algebra import (
    Aggregate,
    Average,
    Custom,
    DistinctCount,
    GCounter,
    HyperLogLog,
    LWWRegister,
    MaxRegister,
    MinRegister,
    Quantiles,
    Ranked,
    Sum,
)
from holons.errors import BadElement, BadProgram
from holons.program.dataflow.columns import packed, packed_names, plain, restored, unpacked
from holons.program.dataflow.measure import (
    Column,
    Measure,
    ValueKind,
    Values,
    column,
    column_name,
    dtype_of,
    in_words,
    kind_of,
)
from holons.program.dataflow.using import Using
from holons.program.lines import line_of_user


@dataclass(frozen=True, eq=False)
class Count(Measure):
    """How many rows."""

    where: pl.Expr | None = None

    def crdt(self, schema: pl.Schema | None) -> Aggregate[Any]:
        return GCounter()

    def element(self, frame: pl.DataFrame) -> object:
        return 1 if self.where is None else column(frame, self.where).cast(pl.Int64).fill_null(0)

    def read(self, values: Values, schema: pl.Schema | None) -> pl.Series:
        return pl.Series(values.astype(np.int64))

    @property
    def uses_columns(self) -> bool:
        return False

    @property
    def counts_every_row(self) -> bool:
        return self.where is None

    def __str__(self) -> str:
        return in_words("count", "", self.where)


@dataclass(frozen=True, eq=False)
class Simple(Measure):
    """A sum, mean, minimum or maximum of one column."""

    what: Literal["sum", "mean", "min", "max"]
    column: Column
    kind: ValueKind | None = None
    where: pl.Expr | None = None

    def crdt(self, schema: pl.Schema | None) -> Aggregate[Any]:
        otherwise: ValueKind = "float" if self.what == "mean" else "int"
        dtype = dtype_of(self.column, schema)
        kind = kind_of(dtype, self.kind, otherwise)
        if self.what in ("sum", "mean"):
            if kind == "str" or (dtype is not None and dtype.is_temporal()):
                raise BadProgram(
                    f"the {self.what} of {'strings' if kind == 'str' else dtype}",
                    hint=f"h.{self.what} takes a column of numbers: cast it, e.g. pl.col(...).dt.total_seconds()",
                )
            return Sum(kind) if self.what == "sum" else Average(kind)
        return MinRegister(kind) if self.what == "min" else MaxRegister(kind)

    def element(self, frame: pl.DataFrame) -> object:
        return column(frame, self.column, self.where)

    def checked(self, frame: pl.DataFrame, schema: pl.Schema | None) -> object:
        values = column(frame, self.column, self.where)
        if schema is None and self.kind is None and values.dtype != pl.Null:
            needed = kind_of(values.dtype, None)
            if needed == "str" and self.what in ("sum", "mean"):
                raise BadElement(
                    f"{self}: {column_name(self.column)} is {values.dtype}", hint="take a column of numbers"
                )
            if needed != "int" and self.what != "mean":
                raise BadElement(
                    f"{self} takes integers unless it says otherwise, and {column_name(self.column)} is {values.dtype}",
                    hint=f'say h.{self.what}(..., kind="{needed}"), or give the source a schema',
                )
        return values

    def read(self, values: Values, schema: pl.Schema | None) -> pl.Series:
        if self.what == "mean":
            return pl.Series(values.tolist() if values.dtype.kind == "O" else values, dtype=pl.Float64)
        series = pl.Series(values.tolist()) if values.dtype.kind == "O" else pl.Series(values)
        if self.what == "sum":
            return series
        return restored(series, dtype_of(self.column, schema))

    def __str__(self) -> str:
        return in_words(self.what, column_name(self.column), self.where)


@dataclass(frozen=True, eq=False)
class Distinct(Measure):
    """How many different values: exactly, or about."""

    column: Column
    exact: bool = True
    precision: int = 12
    where: pl.Expr | None = None

    def crdt(self, schema: pl.Schema | None) -> Aggregate[Any]:
        dtype = dtype_of(self.column, schema)
        if self.exact and dtype is not None and dtype.is_float():
            raise BadProgram(
                f"{column_name(self.column)} is {dtype}: exactly equal floats are rarely meant",
                hint="round it and cast it to an integer, or take h.approx_count_distinct",
            )
        return DistinctCount() if self.exact else HyperLogLog(self.precision)

    def element(self, frame: pl.DataFrame) -> object:
        return plain(column(frame, self.column, self.where))

    def read(self, values: Values, schema: pl.Schema | None) -> pl.Series:
        return pl.Series(values.astype(np.int64))

    def __str__(self) -> str:
        return in_words(
            "count_distinct" if self.exact else "approx_count_distinct", column_name(self.column), self.where
        )


@dataclass(frozen=True, eq=False)
class Quantile(Measure):
    """A quantile within a relative error."""

    column: Column
    q: float
    relative_error: float = 0.01
    where: pl.Expr | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.q <= 1:
            raise BadProgram(
                f"{line_of_user()}: there is no quantile {self.q}", hint="0.5 is the median, 0.99 what 1 % are above"
            )

    def crdt(self, schema: pl.Schema | None) -> Aggregate[Any]:
        dtype = dtype_of(self.column, schema)
        if dtype is not None and not (dtype.is_integer() or dtype.is_float()):
            raise BadProgram(f"the quantile of {dtype}", hint="h.quantile takes a column of numbers: cast it")
        return Quantiles(self.relative_error)

    def element(self, frame: pl.DataFrame) -> object:
        return column(frame, self.column, self.where)

    def read(self, values: Values, schema: pl.Schema | None) -> pl.Series:
        return pl.Series([value.quantile(self.q) for value in values.tolist()], dtype=pl.Float64)

    def __str__(self) -> str:
        return in_words("quantile", f"{column_name(self.column)}, {self.q}", self.where)


@dataclass(frozen=True, eq=False)
class Last(Measure):
    """The value of the last row, by (time, partition, offset)."""

    column: Column
    where: pl.Expr | None = None

    def crdt(self, schema: pl.Schema | None) -> Aggregate[Any]:
        return LWWRegister()

    def element(self, frame: pl.DataFrame) -> object:
        return plain(column(frame, self.column, self.where))

    def read(self, values: Values, schema: pl.Schema | None) -> pl.Series:
        return restored(pl.Series(values.tolist()), dtype_of(self.column, schema))

    def __str__(self) -> str:
        return in_words("last", column_name(self.column), self.where)


@dataclass(frozen=True, eq=False)
class Top(Measure):
    """The first k rows in an order, as a list of rows (structs)."""

    k: int
    by: tuple[str, ...]
    descending: tuple[bool, ...]
    columns: tuple[str, ...]
    where: pl.Expr | None = None

    def crdt(self, schema: pl.Schema | None) -> Aggregate[Any]:
        missing = [name for name in (*self.by, *self.columns) if schema is not None and name not in schema]
        if missing:
            raise BadProgram(f"top_k: no column {missing[0]!r}", hint=f"there are {', '.join(schema or ())}")
        return Ranked((*(f"by {name}" for name in self.by), *packed_names(self.columns)), self.descending, self.k)

    def element(self, frame: pl.DataFrame) -> object:
        by = [plain(column(frame, name, self.where)) for name in self.by]
        return *by, *packed(frame, self.columns)

    def read(self, values: Values, schema: pl.Schema | None) -> pl.Series:
        lengths = [len(rows[self.columns[0]]) for rows in values.tolist()]
        full = [rows for rows, length in zip(values.tolist(), lengths, strict=True) if length]
        if not full:
            return pl.Series([[] for _ in lengths], dtype=self.dtype(schema) or pl.List(pl.Null))
        together = {name: np.concatenate([rows[name] for rows in full]) for name in packed_names(self.columns)}
        structs = unpacked(together, self.columns, schema).to_struct("row")
        edges = np.concatenate(([0], np.cumsum(lengths))).tolist()
        return pl.Series([structs[low:high] for low, high in pairwise(edges)])

    def dtype(self, schema: pl.Schema | None) -> pl.DataType | None:
        return None if schema is None else pl.List(pl.Struct({name: schema[name] for name in self.columns}))

    def __str__(self) -> str:
        by = ", ".join(f"{name}{'' if down else ' up'}" for name, down in zip(self.by, self.descending, strict=True))
        return in_words("top_k", f"{self.k} by {by}", self.where)


# --- what users write -------------------------------------------------------------------------------------------------


def count(*, where: pl.Expr | None = None) -> Measure:
    """Counts the rows, or those for which a condition holds."""
    return Count(where)


def sum(column: Column, kind: ValueKind | None = None, *, where: pl.Expr | None = None) -> Measure:  # noqa: A001
    """Adds a column up exactly; 0 where no row has a value. Without a schema say `kind="float"` for floats."""
    return Simple("sum", column, kind, where)


def mean(column: Column, *, where: pl.Expr | None = None) -> Measure:
    """Averages a column, rounded once; null where no row has a value."""
    return Simple("mean", column, None, where)


def min(column: Column, kind: ValueKind | None = None, *, where: pl.Expr | None = None) -> Measure:  # noqa: A001
    """Keeps the smallest value. Without a schema say `kind="float"` or `kind="str"` where it is not an integer."""
    return Simple("min", column, kind, where)


def max(column: Column, kind: ValueKind | None = None, *, where: pl.Expr | None = None) -> Measure:  # noqa: A001
    """Keeps the largest value. Without a schema say `kind="float"` or `kind="str"` where it is not an integer."""
    return Simple("max", column, kind, where)


def count_distinct(column: Column, *, where: pl.Expr | None = None) -> Measure:
    """Counts different values, exactly: every value is kept until the window is read."""
    return Distinct(column, where=where)


def approx_count_distinct(column: Column, *, precision: int = 12, where: pl.Expr | None = None) -> Measure:
    """Estimates how many different values there are, in a few kilobytes (HyperLogLog)."""
    return Distinct(column, exact=False, precision=precision, where=where)


def quantile(column: Column, q: float, *, relative_error: float = 0.01, where: pl.Expr | None = None) -> Measure:
    """Estimates a quantile: 0.5 is the median. The answer is within `relative_error` of the true one."""
    return Quantile(column, q, relative_error, where)


def last(column: Column, *, where: pl.Expr | None = None) -> Measure:
    """Keeps the value in the last row of the window, by (time, partition, offset)."""
    return Last(column, where)


def top_k(
    k: int,
    by: str | Sequence[str],
    columns: str | Sequence[str],
    *,
    descending: bool | Sequence[bool] = True,
    where: pl.Expr | None = None,
) -> Measure:
    """Keeps the first k rows in the order of some columns, as a list; of equal rows the earlier one."""
    names = (by,) if isinstance(by, str) else tuple(by)
    wanted = (columns,) if isinstance(columns, str) else tuple(columns)
    down = (descending,) * len(names) if isinstance(descending, bool) else tuple(descending)
    if len(down) != len(names) or not names or not wanted:
        raise BadProgram(
            f"{line_of_user()}: an order needs columns, and a direction for each",
            hint='top_k(3, by="price", columns="bidder")',
        )
    return Top(k, names, down, wanted, where)


def using(aggregate: Aggregate[Any], *columns: Column, where: pl.Expr | None = None) -> Measure:
    """Measures with any aggregate, also one of your own: `using(h.Histogram(...), "price")`."""
    if not isinstance(aggregate, Aggregate):
        raise BadProgram(
            f"{line_of_user()}: {aggregate!r} is not an aggregate",
            hint="an instance: h.Histogram(...), or of your own class",
        )
    if not columns:
        raise BadProgram(
            f"{line_of_user()}: h.using names no column",
            hint='name those that it is applied to: h.using(Mine(), "price")',
        )
    if isinstance(aggregate, Custom) and len(columns) != aggregate.columns:
        raise BadProgram(
            f"{line_of_user()}: {aggregate.describe()} takes as many columns as its sample has, {aggregate.columns}, "
            f"and h.using passes {len(columns)}",
            hint="a sample of several columns is a tuple of them",
        )
    return Using(aggregate, tuple(columns), where)
