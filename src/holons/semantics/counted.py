"""Count windows for the oracle: all counted rows are sorted, and cut by rank.

Rows of one offset count in the order in which they were inserted, and a row whose whole element is null does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from holons.algebra import Groups, Rows, State
from holons.algebra.rows import Masked
from holons.semantics.scopes import Inserted
from holons.wcrdt.handle import Handle
from holons.windows import ENDING, Window, WindowSpec


class CountedRow(NamedTuple):
    """A row with its place in the order of all rows: time, partition, number in its partition."""

    time: int
    partition: int
    number: int
    rows: Rows
    row: int


class CountedRows(NamedTuple):
    """The rows of all partitions in order, as far as none can follow between them."""

    ordered: list[CountedRow]
    ended: bool

    @staticmethod
    def of(inserted: Sequence[Sequence[Inserted]], clocks: Sequence[int]) -> CountedRows:
        """Sorts what each partition has inserted; `clocks` say below which time nothing follows."""
        counted: list[CountedRow] = []
        frontiers = []
        for partition, (blocks, clock) in enumerate(zip(inserted, clocks, strict=True)):
            arrived = [(int(offset), b.rows, row) for b in blocks for row, offset in enumerate(b.rows.origin.offsets())]
            arrived.sort(key=lambda came: came[0])  # what came at one offset stays in the order of its inserts
            counting = [(rows, row) for _, rows, row in arrived if _counts(rows, row)]
            for number, (rows, row) in enumerate(counting):
                counted.append(CountedRow(int(rows.ts[row]), partition, number, rows, row))
            frontiers.append((clock, partition, len(counting) - 1))
        frontier = min(frontiers)
        counted.sort(key=lambda row: row[:3])
        return CountedRows([row for row in counted if row[:3] <= frontier], min(clocks) >= ENDING)

    def windows(self, spec: WindowSpec) -> list[Window]:
        """Returns all windows that are full, then those that the end of all partitions cuts short, if they are wanted."""
        total, found, number = len(self.ordered), list[Window](), 0
        every, size = spec.every, spec.size  # type: ignore[attr-defined]
        while number * every < total:
            window = Window(number * every, number * every + size)
            if window.end <= total or (self.ended and spec.partial):  # type: ignore[attr-defined]
                found.append(window)
            number += 1
        return found

    def rows(self, window: Window, partition: int) -> list[tuple[Rows, int]]:
        """Returns one partition's rows of a window."""
        return [(row.rows, row.row) for row in self.ordered[window.start : window.end] if row.partition == partition]

    def last_time(self, window: Window) -> int:
        """Returns when the last row of a window was."""
        return self.ordered[window.start : window.end][-1].time


def _counts(rows: Rows, row: int) -> bool:
    """Whether a row has anything in it: nulls alone are no row."""
    if not isinstance(rows.element, Mapping):
        return True
    return any(not isinstance(part, Masked) or bool(part.present[row]) for part in rows.element.values())


def fold_rows(handle: Handle, chosen: Iterable[tuple[Rows, int]]) -> State:
    """Folds rows one by one."""
    state = handle.aggregate.zero(1)
    for rows, row in chosen:
        one = handle.aggregate.fold(Groups.single(1), rows.take(np.array([row])))
        state = handle.aggregate.merge(state, one)
    return state
