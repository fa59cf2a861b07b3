"""What every measure answers: which aggregate keeps it, what is inserted for each row, and how values are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from holons.algebra import Aggregate, IntArray
from holons.errors import BadProgram
from holons.program.dataflow.expressions import words

Column: TypeAlias = str | pl.Expr
ValueKind: TypeAlias = Literal["int", "float", "str"]
Values: TypeAlias = "npt.NDArray[np.generic]"


class Measure(ABC):
    """One named result of a window. Frozen and picklable."""

    where: pl.Expr | None

    @abstractmethod
    def crdt(self, schema: pl.Schema | None) -> Aggregate[Any]:
        """Returns the aggregate that keeps it, for rows with these columns."""

    @abstractmethod
    def element(self, frame: pl.DataFrame) -> object:
        """Returns what is inserted: null where `where` does not hold."""

    def checked(self, frame: pl.DataFrame, schema: pl.Schema | None) -> object:
        """Returns the element, if the aggregate takes it; without a schema that is known only when rows come."""
        return self.element(frame)

    @abstractmethod
    def read(self, values: Values, schema: pl.Schema | None) -> pl.Series:
        """Returns the aggregate's values as a column, one for each group."""

    def check(self, schema: pl.Schema | None) -> None:
        """Raises unless rows with these columns can be measured so: it is tried on a frame without rows."""
        self.crdt(schema)
        if schema is None:
            return
        if self.where is not None and dtype_of(self.where, schema) != pl.Boolean:
            raise BadProgram(
                f"{self}: where is {dtype_of(self.where, schema)}, not a condition", hint='e.g. pl.col("price") > 100'
            )
        self.element(schema.to_frame())

    def dtype(self, schema: pl.Schema | None) -> pl.DataType | None:
        """Returns the type of the column that is read, if it is known: that of a column without groups."""
        if schema is None:
            return None
        crdt = self.crdt(schema)
        dtype = self.read(crdt.values(crdt.zero(0)), schema).dtype
        return None if dtype == pl.Null else dtype

    @property
    def uses_columns(self) -> bool:
        """Whether a null in a row can keep it from being measured, `where` aside."""
        return True

    @property
    def counts_every_row(self) -> bool:
        """Whether it grows by one with every row."""
        return False


def column(frame: pl.DataFrame, what: Column, where: pl.Expr | None = None) -> pl.Series:
    """Returns a column of a frame, null where a condition does not hold."""
    if isinstance(what, str) and what in frame.columns and where is None:
        return frame[what]
    wanted = pl.col(what) if isinstance(what, str) else what
    values = frame.select((wanted if where is None else pl.when(where).then(wanted)).alias("value")).to_series()
    return values if len(values) == len(frame) else values.new_from_index(0, len(frame))


def counting_rows(frame: pl.DataFrame, measures: Iterable[Measure]) -> IntArray | None:
    """Returns the places of the rows that count in a count window; None: all of them.

    A row counts unless it is null in all measures that use columns. `where` has no say in that, nor have measures that use
    no column, such as `count()`: so what is measured beside another measure does not change which rows that is over.
    """
    using = [replace(measure, where=None) for measure in measures if measure.uses_columns]  # type: ignore[type-var]
    counting = np.full(len(frame), not using)
    for measure in using:
        if counting.all():
            break
        counting |= _present(measure.element(frame), len(frame))
    return None if counting.all() else np.flatnonzero(counting).astype(np.int64, copy=False)


def _present(element: object, count: int) -> npt.NDArray[np.bool_]:
    parts = element if isinstance(element, tuple) else (element,)
    columns = [part.is_not_null().to_numpy() for part in parts if isinstance(part, pl.Series)]
    return np.logical_and.reduce(columns) if columns else np.ones(count, dtype=np.bool_)


def column_name(what: Column) -> str:
    """Returns a column's name, or its expression in words."""
    return what if isinstance(what, str) else words(what)


def dtype_of(what: Column, schema: pl.Schema | None) -> pl.DataType | None:
    """Returns the type of a column, if the schema is known."""
    if schema is not None and isinstance(what, str) and what in schema:
        return schema[what]
    return None if schema is None else column(schema.to_frame(), what).dtype


def kind_of(dtype: pl.DataType | None, stated: ValueKind | None, default: ValueKind = "int") -> ValueKind:
    """Returns the kind of values that an aggregate keeps: as the user states it, else by the column's type."""
    if stated is not None or dtype is None:
        return stated or default
    if dtype.is_float():
        return "float"
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "str"
    if dtype.is_integer() or dtype.is_temporal() or dtype == pl.Boolean:
        return "int"
    raise BadProgram(
        f"a column of {dtype} cannot be aggregated like this", hint="numbers, strings, booleans and times can"
    )


def in_words(what: str, arguments: str, where: pl.Expr | None) -> str:
    """Returns a measure as people read it: `sum(price where open)`."""
    condition = "" if where is None else f"where {words(where)}"
    return f"{what}({' '.join(part for part in (arguments, condition) if part)})"
