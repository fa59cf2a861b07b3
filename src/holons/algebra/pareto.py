"""The Pareto front: the offers that no other offer beats on both counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from holons.algebra.aggregate import IntArray
from holons.algebra.cells import Cell, CellAggregate, CellTable, rows_by_group
from holons.algebra.groups import Groups
from holons.algebra.order import ascending, descending, numbers
from holons.algebra.rows import Rows
from holons.errors import BadElement

Point: TypeAlias = tuple[int | float, int | float]

_MANY: Final = 4096
_SAMPLE: Final = 256


@dataclass(frozen=True)
class ParetoFront(CellAggregate[list[Point]]):
    """The points that are not dominated: `insert((cost, gain), ts)`, less cost and more gain are better.

    A point is dominated by another with at most its cost and at least its gain; of equal points one is kept. The
    front of a union is the front of the union of the fronts, so this is a lattice. Costs and gains are integers or
    floats. Null in either: the row is not there. NaN is the worst cost, and the worst gain.

    The value lists (cost, gain), both ascending.

    >>> from holons.algebra import Groups, rows_of
    >>> front = ParetoFront()
    >>> front.value(front.fold(Groups.single(4), rows_of(([3, 1, 2, 2], [9, 4, 4, 6]))))
    [(1, 4), (2, 6), (3, 9)]
    """

    def table(self, groups: Groups, rows: Rows) -> CellTable:
        if not isinstance(rows.element, tuple) or len(rows.element) != 2:
            raise BadElement("ParetoFront takes (cost, gain)", hint="insert((cost, gain), ts)")
        cost, gain = (numbers(part, rows.count, "ParetoFront") for part in rows.element)
        if rows.count < _MANY * groups.n:
            return CellTable(groups.ids(), (cost, gain))
        chosen, ids = [], []
        for group, members in enumerate(rows_by_group(groups)):
            left = _undominated(cost[members], gain[members])
            chosen.append(left + members.start if isinstance(members, slice) else members[left])
            ids.append(np.full(len(left), group, dtype=np.int64))
        rows_left = np.concatenate(chosen)
        return CellTable(np.concatenate(ids), (cost[rows_left], gain[rows_left]))

    def settle(self, table: CellTable) -> CellTable:
        cost, gain = table.columns
        kept = _front(table.ids, ascending(cost), descending(gain))
        return CellTable(table.ids[kept], (cost[kept], gain[kept]))

    def read(self, cell: Cell) -> list[Point]:
        return list(zip(cell[0].tolist(), cell[1].tolist(), strict=True)) if cell else []


def _front(ids: IntArray, cost: IntArray, loss: IntArray) -> IntArray:
    """The rows of each group's front, in the order (group, cost): those with less loss than all before them."""
    order = np.lexsort((loss, cost, ids))
    ranks = np.unique(loss, return_inverse=True)[1].astype(np.int64, copy=False)
    # Later groups get lower numbers, so that one running minimum over all rows starts afresh with each group.
    level = (ranks - ids * (len(ids) + 1))[order]
    front = np.ones(len(level), dtype=np.bool_)
    front[1:] = level[1:] < np.minimum.accumulate(level)[:-1]
    return order[front]


def _undominated(cost: npt.NDArray[np.generic], gain: npt.NDArray[np.generic]) -> IntArray:
    """The rows of one group without most of those that are dominated: round by round, by the best point of a sample."""
    rows = np.arange(len(cost))
    while len(rows) > _MANY:
        costs, gains = (part[:: len(part) // _SAMPLE] for part in (cost, gain))
        strength = ((costs > costs[:, None]) & (gains <= gains[:, None])).sum(axis=1)  # type: ignore[operator]
        best = int(np.argmax(strength))
        left = np.flatnonzero(~((cost > costs[best]) & (gain <= gains[best])))
        if 4 * len(left) > 3 * len(rows):
            break
        rows, cost, gain = rows[left], cost[left], gain[left]
    return rows
