"""The k best rows of a window, in one total order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from holons.algebra import keys
from holons.algebra.aggregate import IntArray
from holons.algebra.cells import Cell, CellAggregate, CellTable, rows_by_group
from holons.algebra.groups import Groups
from holons.algebra.order import ascending, descending, numbers
from holons.algebra.rows import Element, Origin, Rows, column, take_element
from holons.errors import BadElement, BadProgram

Entry: TypeAlias = int | float | tuple[int | float, int | str]

_LONG_RUN: Final = 2048
"""Rows of a group from which on looking for a threshold first is cheaper than sorting all."""


@dataclass(frozen=True)
class TopK(CellAggregate[list[Entry]]):
    """The k best rows: `insert(score, ts)` or `insert((score, payload), ts)`, largest first unless `largest=False`.

    Rows are ordered by score, then the earlier (event time, partition, offset), then the smaller payload: a total
    order, so equal scores have the same winner everywhere. It is a set of rows: one row inserted twice counts once.
    Scores are integers or floats, payloads integers or strings. Null in either: the row is not there. NaN is worse
    than every number, whichever way the order goes.

    The value lists scores, or (score, payload) pairs, best first.

    >>> from holons.algebra import Groups, rows_of
    >>> top = TopK(2)
    >>> top.value(top.fold(Groups.single(3), rows_of(([5, 9, 7], ["a", "b", "c"]))))
    [(9, 'b'), (7, 'c')]
    """

    k: int
    largest: bool = True

    def __post_init__(self) -> None:
        if self.k < 1:
            raise BadProgram(f"TopK of {self.k!r} rows", hint="k is a positive integer")

    def table(self, groups: Groups, rows: Rows) -> CellTable:
        element = rows.element if isinstance(rows.element, tuple) else (rows.element,)
        if not 1 <= len(element) <= 2:
            raise BadElement(f"TopK takes a score or (score, payload), not {len(element)} columns")
        scores = numbers(element[0], rows.count, "TopK")
        chosen = self._candidates(groups, scores, rows)
        ids = groups.ids()[chosen] if groups.n > 1 else np.zeros(len(chosen), dtype=np.int64)
        origin = rows.origin.take(chosen)
        partitions = np.full(len(chosen), origin.partition, dtype=np.int64)
        columns: Cell = scores[chosen], rows.ts[chosen], partitions, origin.offsets()
        if len(element) == 2:
            columns = (*columns, _payload(take_element(element[1], chosen), len(chosen)))
        return CellTable(ids, columns)

    def settle(self, table: CellTable) -> CellTable:
        """Sorted best first, each row once, k of each group."""
        ids, (scores, *ties) = table
        keyed = descending(scores) if self.largest else ascending(scores)
        order = np.lexsort((*reversed(ties), keyed, ids))
        ids, columns = ids[order], tuple(part[order] for part in (keyed, *ties))
        fresh = np.ones(len(ids), dtype=np.bool_)
        fresh[1:] = ids[1:] != ids[:-1]
        for part in columns:
            fresh[1:] |= part[1:] != part[:-1]
        order, ids = order[fresh], ids[fresh]
        rank = np.arange(len(ids)) - np.searchsorted(ids, ids)
        kept = order[rank < self.k]
        return CellTable(table.ids[kept], tuple(part[kept] for part in table.columns))

    def read(self, cell: Cell) -> list[Entry]:
        if not cell:
            return []
        scores = cell[0].tolist()
        return list(zip(scores, cell[4].tolist(), strict=True)) if len(cell) == 5 else scores

    def describe(self) -> str:
        return f"TopK({self.k})" if self.largest else f"TopK({self.k}, largest=False)"

    # --- leaving out early what cannot be among the best ------------------------------------------------------------

    def _candidates(self, groups: Groups, scores: npt.NDArray[np.generic], rows: Rows) -> IntArray:
        """The rows that may be among the k best of their group: all of these, and few others."""
        if rows.count < _LONG_RUN * groups.n or not _are_distinct(rows.origin):
            return np.arange(rows.count)
        chosen = []
        for members in rows_by_group(groups):
            best = self._best(scores[members], rows.ts[members])
            chosen.append(best + members.start if isinstance(members, slice) else members[best])
        return np.concatenate(chosen)

    def _best(self, scores: npt.NDArray[np.generic], ts: IntArray) -> IntArray:
        """The k best of one group's rows, which come in the order of their offsets."""
        rows = self._above_threshold(scores)
        keyed = descending(scores[rows]) if self.largest else ascending(scores[rows])
        better, tied = _smallest(keyed, self.k)
        earlier, simultaneous = _smallest(ts[rows[tied]], self.k - len(better))
        first = simultaneous[: self.k - len(better) - len(earlier)]
        return rows[np.concatenate((better, tied[earlier], tied[first]))]

    def _above_threshold(self, scores: npt.NDArray[np.generic]) -> IntArray:
        """Rows at least as good as the k-th best of a sample, which the k-th best of all cannot be below."""
        step = int(np.sqrt(len(scores) / self.k))
        sample = scores[:: max(step, 1)]
        if sample.dtype.kind == "f":
            sample = sample[sample == sample]
        if step < 4 or len(sample) < self.k:
            return np.arange(len(scores))
        if self.largest:
            return np.flatnonzero(scores >= np.partition(sample, len(sample) - self.k)[len(sample) - self.k])
        return np.flatnonzero(scores <= np.partition(sample, self.k - 1)[self.k - 1])


def _smallest(values: IntArray, k: int) -> tuple[IntArray, IntArray]:
    """Which rows are certainly among the k smallest, and which share the k-th value."""
    if len(values) <= k:
        return np.arange(len(values)), np.zeros(0, dtype=np.int64)
    threshold = np.partition(values, k - 1)[k - 1]
    return np.flatnonzero(values < threshold), np.flatnonzero(values == threshold)


def _are_distinct(origin: Origin) -> bool:
    """Whether every row has an offset of its own, in ascending order."""
    return origin.index is None or bool(np.all(origin.index[1:] > origin.index[:-1]))


def _payload(element: Element, count: int) -> npt.NDArray[np.generic]:
    values = column(element, count)
    if isinstance(values, pl.Series):
        return np.array(values.to_list(), dtype=keys.TEXT)
    if values.dtype.kind not in "bi":
        raise BadElement(f"TopK's payload is an integer or a string, not {values.dtype}")
    return values.astype(np.int64, copy=False)
