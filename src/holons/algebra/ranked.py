"""Rows kept whole: all of a window, or the first k of each group in an order of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from holons import codec
from holons.algebra import keys
from holons.algebra.aggregate import Aggregate, IntArray, State, size
from holons.algebra.cells import Cell, CellTable, concatenate, constant, cut, empty_cells, flatten, rows_by_group, split
from holons.algebra.groups import Groups
from holons.algebra.order import ascending, descending
from holons.algebra.rows import Element, Rows, column, take_element
from holons.errors import BadElement, BadProgram

Kept: TypeAlias = "dict[str, npt.NDArray[np.generic]]"
"""Rows as a user reads them: a column for each name, in order, and `TIME`."""

TIME: Final = "time!"
"""The event time of each row, in microseconds."""

_ORIGIN: Final = 3
_LONG_RUN: Final = 2048


@dataclass(frozen=True)
class Ranked(Aggregate[Kept]):
    """Rows with named columns, in order: `insert((score, name), ts)` for `Ranked(("score", "name"), (True,), k=10)`.

    The first `len(descending)` columns order the rows, each up or down; then the earlier (event time, partition, offset).
    Without such columns rows are ordered by (partition, offset, event time). What one row inserted goes by its values.
    Of each group the first k are kept, or all of them.

    It is a bag: two rows that are alike are two rows. Columns are integers, floats, booleans or strings; null in any of
    them: the row is not there.

    >>> from holons.algebra import rows_of
    >>> best = Ranked(("price", "who"), (True,), k=2)
    >>> kept = best.value(best.fold(Groups.single(3), rows_of(([5, 9, 7], ["a", "b", "c"]))))
    >>> kept["who"].tolist()
    ['b', 'c']
    """

    names: tuple[str, ...]
    descending: tuple[bool, ...] = ()
    k: int | None = None
    invertible: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.names or len(self.descending) > len(self.names):
            raise BadProgram(
                "Ranked needs columns, and orders by some of them", hint='Ranked(("price",), (True,), k=3)'
            )
        if self.k is not None and self.k < 1:
            raise BadProgram(f"the first {self.k} rows", hint="k is a positive integer")

    def zero(self, n: int) -> State:
        return (empty_cells(n),)

    def fold(self, groups: Groups, rows: Rows) -> State:
        if rows.count == 0:
            return self.zero(groups.n)
        element = rows.element if isinstance(rows.element, tuple) else (rows.element,)
        if len(element) != len(self.names):
            raise BadElement(f"{len(element)} columns for {', '.join(self.names)}", hint="a tuple with each of them")
        chosen = self._candidates(groups, element[0], rows.count)
        if chosen is not None:
            groups, rows = groups.take(chosen), rows.take(chosen)
            element = tuple(take_element(part, chosen) for part in element)
        columns = tuple(_values(part, rows.count) for part in element)
        partitions = constant(np.int64(rows.origin.partition), rows.count)
        columns = *columns, rows.ts, partitions, rows.origin.offsets()
        if self._as_they_come and groups.bounds is not None and rows.origin.index is None:
            return (cut(columns, groups.bounds),)
        return (split(self._settle(CellTable(groups.ids(), columns)), groups.n),)

    def merge(self, a: State, b: State) -> State:
        if size(a) == 1 and not (a[0][0] and b[0][0]):
            return a if a[0][0] else b
        if self._as_they_come and size(a) == 1 and _follows(b[0][0], a[0][0]):
            return (codec.object_array([concatenate([a[0][0], b[0][0]])]),)
        table = flatten(a[0], b[0])
        return (split(self._settle(table), size(a)),) if table.columns else a

    def touched(self, state: State) -> npt.NDArray[np.bool_]:
        return np.fromiter(map(bool, state[0].tolist()), dtype=np.bool_, count=size(state))

    def value(self, state: State, group: int = 0) -> Kept:
        return self._read(state[0][group])

    def values(self, state: State) -> npt.NDArray[np.generic]:
        return codec.object_array([self._read(cell) for cell in state[0].tolist()])

    def describe(self) -> str:
        by = ", ".join(
            f"{name} {'down' if down else 'up'}" for name, down in zip(self.names, self.descending, strict=False)
        )
        first = "all rows" if self.k is None else f"first {self.k}"
        return f"Ranked({first}{' by ' if by else ''}{by})"

    def _read(self, cell: Cell) -> Kept:
        if not cell:
            return {name: np.zeros(0, dtype=np.int64) for name in (*self.names, TIME)}
        return dict(zip((*self.names, TIME), cell[: 1 - _ORIGIN], strict=True))

    @property
    def _as_they_come(self) -> bool:
        """Whether all rows are kept in the order of partition and offset: then most of them need no sorting."""
        return self.k is None and not self.descending

    def _settle(self, table: CellTable) -> CellTable:
        """In order, k of each group."""
        order = self._order(table)
        if order is not None:
            table = CellTable(table.ids[order], tuple(part[order] for part in table.columns))
        if self.k is None:
            return table
        rank = np.arange(len(table.ids)) - np.searchsorted(table.ids, table.ids)
        kept = np.flatnonzero(rank < self.k)
        return (
            table if len(kept) == len(rank) else CellTable(table.ids[kept], tuple(part[kept] for part in table.columns))
        )

    def _order(self, table: CellTable) -> IntArray | None:
        """What puts the rows in order; None if they are."""
        ts, partitions, offsets = table.columns[-_ORIGIN:]
        by = [
            (descending if down else ascending)(_comparable(part))
            for part, down in zip(table.columns, self.descending, strict=False)
        ]
        wanted = (table.ids, *by, ts, partitions, offsets) if by else (table.ids, partitions, offsets, ts)
        order = None if _ascend(*wanted) else np.lexsort(wanted[::-1])
        if not _repeats(*(part if order is None else part[order] for part in (table.ids, partitions, offsets, ts))):
            return order
        others = [ascending(_comparable(part)) for part in table.columns[len(by) : -_ORIGIN]]
        return np.lexsort((*reversed(others), *wanted[::-1]))  # one row may insert several: then their values decide

    def _candidates(self, groups: Groups, first: Element, count: int) -> IntArray | None:
        """The rows that may be among the first k of their group, as the first column tells; None: all."""
        if self.k is None or not self.descending or count < _LONG_RUN * groups.n or not isinstance(first, np.ndarray):
            return None
        keyed = (descending if self.descending[0] else ascending)(first)
        chosen = []
        for members in rows_by_group(groups):
            best = _at_most_kth(keyed[members], self.k)
            chosen.append(best + members.start if isinstance(members, slice) else members[best])
        return np.sort(np.concatenate(chosen))


def _at_most_kth(keyed: IntArray, k: int) -> IntArray:
    """Rows whose key is at most the k-th smallest; found by way of a sample, whose k-th cannot be below it."""
    step = int(np.sqrt(len(keyed) / k))
    if step < 4:
        return np.arange(len(keyed))
    sample = keyed[::step]
    if len(sample) < k:
        return np.arange(len(keyed))
    rows = np.flatnonzero(keyed <= np.partition(sample, k - 1)[k - 1])
    return rows[keyed[rows] <= np.partition(keyed[rows], k - 1)[k - 1]]


def _follows(later: Cell, earlier: Cell) -> bool:
    """Whether all rows of a settled cell come from behind those of another, by partition and offset."""
    (_, partitions, offsets), (_, before, last) = later[-_ORIGIN:], earlier[-_ORIGIN:]
    return bool((partitions[0], offsets[0]) > (before[-1], last[-1]))


def _ascend(*columns: npt.NDArray[np.generic]) -> bool:
    """Whether rows are in the order of these integer columns."""
    tied = np.ones(max(len(columns[0]) - 1, 0), dtype=np.bool_)
    for part in columns:
        if np.any(tied & (part[1:] < part[:-1])):  # type: ignore[operator]
            return False
        tied &= part[1:] == part[:-1]
    return True


def _repeats(*columns: npt.NDArray[np.generic]) -> bool:
    """Whether a row equals the one before it in all of these columns."""
    tied = np.ones(max(len(columns[0]) - 1, 0), dtype=np.bool_)
    for part in columns:
        tied &= part[1:] == part[:-1]
    return bool(tied.any())


def _comparable(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Numbers as they are, strings as their ranks."""
    return np.unique(values, return_inverse=True)[1] if keys.is_text(values) else values


def _values(element: Element, count: int) -> npt.NDArray[np.generic]:
    if isinstance(element, bool | int | float):
        return constant(element, count)
    values = column(element, count)
    return np.array(values.to_list(), dtype=keys.TEXT) if isinstance(values, pl.Series) else values
