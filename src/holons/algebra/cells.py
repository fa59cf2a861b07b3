"""States of variable size: one object column, and in it a **cell** for each group.

A cell is a tuple of equally long NumPy columns, a little table in canonical order; a group without rows has the cell
`()`. To work on many groups at once, all cells are laid out flat, with the group of each row beside them (`flatten`),
settled by one sort over everything, and cut into cells again (`split`): no Python per row, little per group.

Law (`CellAggregate`): `settle` maps every table with the same rows to the same table, and settling a part first
changes nothing: settle(settle(A) + B) = settle(A + B). Then folding and merging are both "put together and settle",
and associativity, commutativity, idempotence and the equality of bytes all follow.

>>> ids, (column,) = flatten(codec.object_array([(np.array([3, 5]),), (), (np.array([4]),)]))
>>> ids.tolist(), column.tolist()
([0, 0, 2], [3, 5, 4])
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from holons import codec
from holons.algebra.aggregate import IdempotentAggregate, IntArray, State, size
from holons.algebra.groups import Groups
from holons.algebra.rows import Rows
from holons.errors import BadElement

V_co = TypeVar("V_co", covariant=True)

Cell: TypeAlias = "tuple[npt.NDArray[np.generic], ...]"
CellColumn: TypeAlias = "npt.NDArray[np.generic]"
"""An object column of cells."""


class CellTable(NamedTuple):
    """The rows of many cells laid out flat: the group of each row, and the columns. Without rows: no columns."""

    ids: IntArray
    columns: Cell


def empty_cells(n: int) -> CellColumn:
    """Groups without rows, n of them."""
    cells = np.empty(n, dtype=object)
    cells.fill(())
    return cells


def flatten(*parts: CellColumn) -> CellTable:
    """The rows of all cells of one or more cell columns over the same groups."""
    filled = [(group, cell) for part in parts for group, cell in enumerate(part.tolist()) if cell]
    if not filled:
        return CellTable(np.zeros(0, dtype=np.int64), ())
    groups = np.array([group for group, _ in filled], dtype=np.int64)
    lengths = np.array([len(cell[0]) for _, cell in filled], dtype=np.int64)
    return CellTable(np.repeat(groups, lengths), concatenate([cell for _, cell in filled]))


def split(table: CellTable, n: int) -> CellColumn:
    """The cells of n groups; the table's ids must be ascending."""
    cells = empty_cells(n)
    if len(table.ids) == 0:
        return cells
    if n == 1:
        cells[0] = table.columns
        return cells
    return cut(table.columns, np.searchsorted(table.ids, np.arange(n + 1)))


def cut(columns: Cell, edges: IntArray) -> CellColumn:
    """The cells of groups that are runs of rows, between one edge and the next."""
    cells = empty_cells(len(edges) - 1)
    for group, (low, high) in enumerate(pairwise(edges.tolist())):
        if low < high:  # copied, or a group that outlives the others would keep all of them in memory
            cells[group] = tuple(part if is_constant(part) else part.copy() for part in (c[low:high] for c in columns))
    return cells


def constant(item: object, count: int) -> npt.NDArray[Any]:
    """A column of one and the same value, which takes no memory for each row: `concatenate` keeps it so."""
    return np.broadcast_to(np.asarray(item), count)


def is_constant(column: npt.NDArray[np.generic]) -> bool:
    """Whether a column was made by `constant`."""
    return column.strides == (0,)


def rows_by_group(groups: Groups) -> list[IntArray | slice]:
    """The rows of each group, in their order: slices where groups are runs, else positions."""
    if groups.bounds is not None:
        return [slice(low, high) for low, high in pairwise(groups.bounds.tolist())]
    ids = groups.ids()
    order = np.argsort(ids.astype(np.uint16) if groups.n <= 1 << 16 else ids, kind="stable")  # few bits: a radix sort
    return [*np.split(order, np.cumsum(groups.counts())[:-1])]


def concatenate(cells: Sequence[Cell]) -> Cell:
    """The rows of several cells, one after the other."""
    first = cells[0]
    if len(cells) == 1:
        return first
    kinds = {tuple(column.dtype.kind for column in cell) for cell in cells}
    if len(kinds) > 1:
        raise BadElement(
            f"elements of different types in one aggregate: {' and '.join(sorted(map(str, kinds)))}",
            hint="cast the columns to one type: all integers, all floats or all strings",
        )
    return tuple(map(_one_after_the_other, zip(*cells, strict=True)))


def _one_after_the_other(columns: Sequence[npt.NDArray[np.generic]]) -> npt.NDArray[np.generic]:
    first = columns[0]
    if all(is_constant(part) and part.dtype == first.dtype and part[0] == first[0] for part in columns):
        return constant(first[0], sum(map(len, columns)))
    return np.concatenate(columns)


class CellAggregate(IdempotentAggregate[V_co]):
    """An idempotent aggregate whose state is one column of cells. Say what a row's columns are, and how to settle."""

    @abstractmethod
    def table(self, groups: Groups, rows: Rows) -> CellTable:
        """Columns for the rows (never none of them); rows that cannot survive may be left out."""

    @abstractmethod
    def settle(self, table: CellTable) -> CellTable:
        """The canonical table with the same meaning: ids ascending, see the law above. Never called without rows."""

    @abstractmethod
    def read(self, cell: Cell) -> V_co:
        """What a user reads; an empty cell is `()`."""

    def zero(self, n: int) -> State:
        return (empty_cells(n),)

    def fold(self, groups: Groups, rows: Rows) -> State:
        if rows.count == 0:
            return self.zero(groups.n)
        return (split(self.settle(self.table(groups, rows)), groups.n),)

    def merge(self, a: State, b: State) -> State:
        if size(a) == 1 and not (a[0][0] and b[0][0]):
            return a if a[0][0] else b
        table = flatten(a[0], b[0])
        return (split(self.settle(table), size(a)),) if table.columns else a

    def touched(self, state: State) -> npt.NDArray[np.bool_]:
        return np.fromiter(map(bool, state[0].tolist()), dtype=np.bool_, count=size(state))

    def value(self, state: State, group: int = 0) -> V_co:
        return self.read(state[0][group])

    def values(self, state: State) -> npt.NDArray[np.generic]:
        return codec.object_array([self.read(cell) for cell in state[0].tolist()])
