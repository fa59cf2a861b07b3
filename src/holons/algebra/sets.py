"""Sets of integers or strings: growing, with removal for ever, and with removal that a later add undoes.

All three are lattices: what a partition said about a member is joined by union or maximum. State: one cell of sorted
columns per group (`cells.py`, `keys.py`). Integers and strings never meet in one set (`BadElement`); booleans are 0
and 1; floats are no members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from holons.algebra import keys
from holons.algebra.aggregate import IntArray, State
from holons.algebra.cells import Cell, CellAggregate, CellTable
from holons.algebra.groups import Groups
from holons.algebra.keys import Key, Keys
from holons.algebra.rows import Column, Element, Rows, column
from holons.errors import BadElement


@dataclass(frozen=True)
class GSet(CellAggregate[frozenset[Key]]):
    """A set that only grows: `insert(user, ts)`. Joined by union.

    Null: the row is not there. NaN and other floats are no members (`BadElement`).

    >>> from holons.algebra import Groups, rows_of
    >>> seen = GSet()
    >>> sorted(seen.value(seen.fold(Groups.single(3), rows_of(["b", "a", "b"]))))
    ['a', 'b']
    """

    def table(self, groups: Groups, rows: Rows) -> CellTable:
        pairs = _pairs(groups, rows.element, rows.count)
        return CellTable(pairs.ids, (pairs.members,))

    def settle(self, table: CellTable) -> CellTable:
        pairs = _pairs(_groups(table), table.columns[0], len(table.ids))
        return CellTable(pairs.ids, (pairs.members,))

    def read(self, cell: Cell) -> frozenset[Key]:
        return frozenset(cell[0].tolist()) if cell else frozenset()


@dataclass(frozen=True)
class DistinctCount(GSet):
    """How many different elements, exactly: a set of which only the size is read.

    >>> from holons.algebra import Groups, rows_of
    >>> users = DistinctCount()
    >>> users.value(users.fold(Groups.single(3), rows_of(["b", "a", "b"])))
    2
    """

    def read(self, cell: Cell) -> int:  # type: ignore[override]
        return len(cell[0]) if cell else 0

    def values(self, state: State) -> npt.NDArray[np.generic]:
        return np.array([self.read(cell) for cell in state[0].tolist()], dtype=np.int64)


@dataclass(frozen=True)
class TwoPhaseSet(CellAggregate[frozenset[Key]]):
    """A set whose members can be removed once and for all: `insert((user, removed), ts)` with a boolean column.

    A removed member never comes back, whatever order the rows have. Null in either column: the row is not there.

    >>> from holons.algebra import Groups, rows_of
    >>> active = TwoPhaseSet()
    >>> rows = rows_of(([1, 2, 1, 1], [False, False, True, False]))
    >>> active.value(active.fold(Groups.single(4), rows))
    frozenset({2})
    """

    def table(self, groups: Groups, rows: Rows) -> CellTable:
        member, removed = _member_and_removed(rows, "TwoPhaseSet")
        return self._joined(groups, member, removed)

    def settle(self, table: CellTable) -> CellTable:
        members, removed = table.columns
        return self._joined(_groups(table), members, removed)

    def _joined(self, groups: Groups, members: Element, removed: npt.NDArray[np.generic]) -> CellTable:
        pairs = _pairs(groups, members, groups.count)
        return CellTable(pairs.ids, (pairs.members, pairs.maxima(removed.view(np.int8), 0).view(np.bool_)))

    def read(self, cell: Cell) -> frozenset[Key]:
        return frozenset(cell[0][np.logical_not(cell[1])].tolist()) if cell else frozenset()


@dataclass(frozen=True)
class ORSet(CellAggregate[frozenset[Key]]):
    """A set whose members can be removed and added again: `insert((user, removed), ts)` with a boolean column.

    A remove undoes the adds before it *in its own partition*: it cannot have observed others. Kept for each member
    and partition: the largest offset of an add, and of a remove (-1 for none), joined by maximum. A member is in the
    set if in some partition its last add is not before its last remove; where one row does both, the add wins.
    Null in either column: the row is not there.

    >>> from holons.algebra import Groups, rows_of
    >>> online = ORSet()
    >>> rows = rows_of((["ann", "bob", "ann", "bob", "bob"], [False, False, True, True, False]))
    >>> online.value(online.fold(Groups.single(5), rows))
    frozenset({'bob'})
    """

    def table(self, groups: Groups, rows: Rows) -> CellTable:
        member, removed = _member_and_removed(rows, "ORSet")
        offsets = rows.origin.offsets()
        pairs = _pairs(groups, member, rows.count)
        partitions = np.full(len(pairs.ids), rows.origin.partition, dtype=np.int64)
        last_add = pairs.maxima(np.where(removed, -1, offsets), -1)
        last_remove = pairs.maxima(np.where(removed, offsets, -1), -1)
        return CellTable(pairs.ids, (pairs.members, partitions, last_add, last_remove))

    def settle(self, table: CellTable) -> CellTable:
        members, partitions, added, removed = table.columns
        places = keys.encode(partitions, len(partitions))
        coded = keys.encode(members, len(members))
        width = len(places.keys)
        labels = (table.ids * len(coded.keys) + coded.codes) * width + places.codes
        distinct, each = Groups.by_label(labels)
        slots, codes = np.divmod(distinct, width)
        ids, member_codes = np.divmod(slots, len(coded.keys))
        start = np.full(each.n, -1, dtype=np.int64)
        return CellTable(
            ids,
            (
                coded.keys[member_codes],
                places.keys[codes],
                each.maxima(added, start.copy()),
                each.maxima(removed, start.copy()),
            ),
        )

    def read(self, cell: Cell) -> frozenset[Key]:
        if not cell:
            return frozenset()
        members, _, added, removed = cell
        return frozenset(members[added >= removed].tolist())  # type: ignore[operator]


class _Pairs(NamedTuple):
    """The distinct pairs of group and member, in order, and how to reduce the rows of each."""

    ids: IntArray
    members: Keys
    each: Groups
    chosen: IntArray | slice

    def maxima(self, values: npt.NDArray[np.generic], least: int) -> npt.NDArray[np.generic]:
        return self.each.maxima(values, np.full(self.each.n, least, dtype=values.dtype))[self.chosen]


def _pairs(groups: Groups, members: Element, count: int) -> _Pairs:
    coded = keys.encode(members, count)
    width = len(coded.keys)
    labels = coded.codes if groups.n == 1 else groups.ids() * width + coded.codes
    if groups.n * width <= 4 * count + 4096:  # a table of all pairs is not larger than the rows
        marks = np.zeros(groups.n * width, dtype=np.bool_)
        marks[labels] = True
        distinct = np.flatnonzero(marks)
        ids, codes = np.divmod(distinct, width)
        return _Pairs(ids, coded.keys[codes], Groups.scatter(labels, groups.n * width), distinct)
    distinct, each = Groups.by_label(labels)
    ids, codes = np.divmod(distinct, width)
    return _Pairs(ids, coded.keys[codes], each, slice(None))


def _groups(table: CellTable) -> Groups:
    """The groups of a table's rows. Their number does not matter: cells are cut by id."""
    return Groups.scatter(table.ids, int(table.ids.max()) + 1)


def _member_and_removed(rows: Rows, who: str) -> tuple[Element, npt.NDArray[np.generic]]:
    if not isinstance(rows.element, tuple) or len(rows.element) != 2:
        raise BadElement(f"{who} takes (member, removed)", hint="insert((member, False), ts) adds a member")
    member, removed = rows.element
    flags: Column = column(removed, rows.count)
    if not isinstance(flags, np.ndarray) or flags.dtype != np.bool_:
        raise BadElement(f"{who}: `removed` must be true or false, not {flags.dtype}", hint="compare, or cast to bool")
    return member, flags
