"""Rows on their way into an aggregate: columns of elements, and where each row came from.

The origin gives rows a total order (time, partition, offset) that no message timing can change, so that ties
between equal elements always have the same winner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, Union

import numpy as np
import numpy.typing as npt
import polars as pl

from holons.algebra.aggregate import IntArray
from holons.errors import BadElement, IntegerOverflow

Column: TypeAlias = Union["npt.NDArray[np.generic]", pl.Series]
"""Prepared values: int64, float64 or bool in NumPy; strings as a polars Series. Never null."""

Scalar: TypeAlias = int | float | str | bool
Element: TypeAlias = Union[Scalar, Column, "Masked", "tuple[Element, ...]", "Mapping[str, Element]"]

NEGATIVE: Final = 2**63
"""From here on an unsigned integer stands for a negative one."""

_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)


@dataclass(frozen=True)
class Masked:
    """A named part of an element that some rows do not have: it was null there."""

    part: Element
    present: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Origin:
    """Where rows came from: offset `base + index` of one partition (all of a batch if `index` is None)."""

    partition: int
    base: int
    count: int
    index: IntArray | None = None

    def offsets(self) -> IntArray:
        """Each row's offset."""
        if self.index is None:
            return np.arange(self.base, self.base + self.count, dtype=np.int64)
        return self.index + self.base

    @property
    def first(self) -> int:
        """The first row's offset."""
        return self.base + (0 if self.index is None else int(self.index[0]))

    @property
    def end(self) -> int:
        """The offset after the last row's."""
        return self.base + (self.count if self.index is None else int(self.index[-1]) + 1)

    def take(self, chosen: npt.NDArray[np.generic]) -> Origin:
        """The origins of some rows, by mask or by position."""
        if chosen.dtype == np.bool_:
            chosen = np.flatnonzero(chosen)
        index = chosen.astype(np.int64, copy=False) if self.index is None else self.index[chosen]
        return replace(self, index=index, count=len(index))

    def between(self, first: int, last: int) -> Origin:
        """The origins of the rows from `first` up to `last`."""
        if self.index is None:
            return replace(self, base=self.base + first, count=last - first)
        return replace(self, index=self.index[first:last], count=last - first)


@dataclass(frozen=True)
class Rows:
    """Elements with their event times (microseconds) and origins. `element` is scalar, column, tuple or mapping."""

    element: Element
    ts: IntArray
    origin: Origin = field(repr=False)
    ascending: bool = False
    """Whether the times are known never to step back."""

    @property
    def count(self) -> int:
        return len(self.ts)

    @property
    def earliest(self) -> int:
        """The least time; there must be rows."""
        return int(self.ts[0] if self.ascending else self.ts.min())

    def with_element(self, element: Element) -> Rows:
        """The same rows carrying something else."""
        return replace(self, element=element)

    def take(self, chosen: npt.NDArray[np.generic]) -> Rows:
        """Some rows, by mask or by position."""
        ascending = self.ascending and chosen.dtype == np.bool_
        return Rows(take_element(self.element, chosen), self.ts[chosen], self.origin.take(chosen), ascending)

    def between(self, first: int, last: int) -> Rows:
        """The rows from `first` up to `last`, without copying."""
        element = slice_element(self.element, first, last)
        return Rows(element, self.ts[first:last], self.origin.between(first, last), self.ascending)


def rows_of(element: object, ts: object | None = None, *, partition: int = 0, offset: int = 0) -> Rows:
    """Rows made by hand, for tests and for folding outside a program. Nulls are dropped.

    >>> rows_of([3, None, 5]).count
    2
    """
    count = element_length(element)
    times = np.zeros(1 if count is None else count, dtype=np.int64) if ts is None else np.asarray(ts, dtype=np.int64)
    return prepare(element, times, Origin(partition, offset, len(times)))


def prepare(element: object, ts: IntArray, origin: Origin, *, ascending: bool = False) -> Rows:
    """Rows from what a user passed to `insert`: columns made uniform, rows with a null left out.

    In a mapping each part has nulls of its own: see `Masked`.
    """
    prepared, valid = _prepare(element, len(ts))
    rows = Rows(prepared, ts, origin, ascending)
    return rows if valid is None else rows.take(valid)


def take_element(element: Element, chosen: npt.NDArray[np.generic]) -> Element:
    """Some rows of an element, by mask or by position; scalars stay scalars."""
    if isinstance(element, np.ndarray):
        return element[chosen]
    if isinstance(element, Masked):
        return Masked(take_element(element.part, chosen), element.present[chosen])
    if isinstance(element, pl.Series):
        return element.filter(pl.Series(chosen)) if chosen.dtype == np.bool_ else element.gather(chosen)
    if isinstance(element, tuple):
        return tuple(take_element(part, chosen) for part in element)
    if isinstance(element, Mapping):
        return {name: take_element(part, chosen) for name, part in element.items()}
    return element


def slice_element(element: Element, first: int, last: int) -> Element:
    """The rows of an element from `first` up to `last`, without copying; scalars stay scalars."""
    if isinstance(element, np.ndarray):
        return element[first:last]
    if isinstance(element, Masked):
        return Masked(slice_element(element.part, first, last), element.present[first:last])
    if isinstance(element, pl.Series):
        return element.slice(first, last - first)
    if isinstance(element, tuple):
        return tuple(slice_element(part, first, last) for part in element)
    if isinstance(element, Mapping):
        return {name: slice_element(part, first, last) for name, part in element.items()}
    return element


def column(element: Element, count: int) -> Column:
    """An element as a whole column: a scalar is repeated."""
    if isinstance(element, np.ndarray | pl.Series):
        return element
    if isinstance(element, tuple | Mapping | Masked):
        raise BadElement("one column is needed, not several", hint="this aggregate takes a single value per row")
    if isinstance(element, str):
        return pl.Series([element], dtype=pl.String).new_from_index(0, count)
    return np.full(count, element)


def integers(element: Element, count: int, who: str) -> IntArray:
    """An element as int64, or a clear error."""
    values = column(element, count)
    if isinstance(values, np.ndarray) and values.dtype == np.bool_:
        return values.astype(np.int64)
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:
        raise BadElement(f"{who} takes integers, not {_kind(values)}", hint=_float_hint(values))
    return values  # type: ignore[return-value]


def unsigned_max(values: IntArray) -> int:
    """The largest of some integers, if none is negative; else 2**63 or more. One pass tells both bounds.

    >>> unsigned_max(np.array([3, 5])), unsigned_max(np.array([3, -5])) >= NEGATIVE
    (5, True)
    """
    return int(values.view(np.uint64).max())


def floats(element: Element, count: int, who: str) -> npt.NDArray[np.float64]:
    """An element as float64 (integers are converted), or a clear error."""
    values = column(element, count)
    if not isinstance(values, np.ndarray):
        raise BadElement(f"{who} takes numbers, not {_kind(values)}")
    return values.astype(np.float64, copy=False)


def _float_hint(values: Column) -> str:
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return 'cast the column, or use the float kind, e.g. h.Sum("float") or h.Average("float")'
    return "select a numeric column"


def _kind(values: Column) -> str:
    return str(values.dtype)


def element_length(element: object) -> int | None:
    """How many rows an element describes; None if it is all scalars."""
    if isinstance(element, tuple):
        lengths = {n for n in map(element_length, element) if n is not None}
        return next(iter(lengths), None)
    if isinstance(element, Mapping):
        return element_length(tuple(element.values()))
    return len(element) if isinstance(element, list | np.ndarray | pl.Series) else None


def _prepare(element: object, count: int) -> tuple[Element, npt.NDArray[np.bool_] | None]:
    """A prepared element, and which rows are valid (None: all of them)."""
    if element is None:
        return 0, np.zeros(count, dtype=np.bool_)
    if isinstance(element, tuple):
        parts = [_prepare(part, count) for part in element]
        return tuple(part for part, _ in parts), _both(valid for _, valid in parts)
    if isinstance(element, Mapping):
        named = {str(name): _prepare(part, count) for name, part in element.items()}
        return {name: part if valid is None else Masked(part, valid) for name, (part, valid) in named.items()}, None
    if isinstance(element, bool | np.bool_):
        return bool(element), None
    if isinstance(element, int | np.integer):
        return _checked_int(int(element)), None
    if isinstance(element, float | np.floating):
        return float(element) + 0.0, None
    if isinstance(element, str):
        return element, None
    series = _series(element)
    if len(series) != count:
        raise BadElement(
            f"{len(series)} elements for {count} timestamps",
            hint="filter both alike: take the elements and `.ts` from the same events",
        )
    return _prepare_series(series)


def _checked_int(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise IntegerOverflow(f"{value} does not fit into 64 bits")
    return value


def _series(element: object) -> pl.Series:
    if isinstance(element, pl.Series):
        return element
    try:
        return pl.Series(element)  # type: ignore[arg-type]
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise BadElement(
            f"cannot insert a {type(element).__name__}", hint="insert numbers, strings or columns"
        ) from error


def _prepare_series(series: pl.Series) -> tuple[Element, npt.NDArray[np.bool_] | None]:
    valid: npt.NDArray[np.bool_] | None = None
    if series.null_count():
        valid = series.is_not_null().to_numpy()
        series = series.fill_null(strategy="zero") if series.dtype.is_numeric() else series
    dtype = series.dtype
    if dtype in _INTEGERS:
        return series.to_numpy().astype(np.int64, copy=False), valid
    if dtype == pl.UInt64:
        if len(series) and series.max() >= 2**63:  # type: ignore[operator]
            raise IntegerOverflow("an unsigned value does not fit into 64 signed bits", hint="cast the column first")
        return series.to_numpy().astype(np.int64), valid
    if dtype.is_float():
        return series.cast(pl.Float64).to_numpy() + 0.0, valid
    if dtype == pl.Boolean:
        return series.fill_null(False).to_numpy(), valid
    if dtype.is_temporal():
        return series.to_physical().cast(pl.Int64).fill_null(0).to_numpy(), valid
    if dtype == pl.String:
        return series, valid
    if dtype in (pl.Categorical, pl.Enum):
        return series.cast(pl.String), valid
    if dtype == pl.Null:
        return np.zeros(len(series), dtype=np.int64), np.zeros(len(series), dtype=np.bool_)
    raise BadElement(f"cannot insert a column of {dtype}", hint="use integers, floats, booleans, strings or times")


def _both(masks: object) -> npt.NDArray[np.bool_] | None:
    result: npt.NDArray[np.bool_] | None = None
    for mask in masks:  # type: ignore[attr-defined]
        if mask is not None:
            result = mask if result is None else result & mask
    return result
