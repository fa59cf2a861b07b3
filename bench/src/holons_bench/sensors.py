"""Rows of position sensors, as they reach the partitions of a count window: evenly, at rates that change.

Each partition's rate is drawn anew so many times in each window, evenly from the mean less and plus a part of it. What a
sensor says is its position, which moves a little from row to row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from holons.algebra import IntArray, Origin, Rows

SEED: Final = 7
POSITION: Final = 1_000_000  # micrometres from the corner, at first
STEP_MAX: Final = 50


@dataclass(frozen=True)
class SensorTrace:
    """So many windows of `window` rows of all partitions: one row each microsecond, on average."""

    partitions: int
    window: int
    windows: int
    change: float
    """By which part of the mean a rate may be lower or higher."""
    redraws: int = 1
    """How often rates are drawn anew in each window."""
    floats: bool = False

    @cached_property
    def rows(self) -> list[Rows]:
        """All rows of each partition, in memory."""
        rng = np.random.default_rng(SEED)
        mean, span = self.window / self.partitions / self.redraws, self.window / self.redraws
        drawn = rng.uniform(1 - self.change, 1 + self.change, (self.partitions, self.windows * self.redraws))
        return [self._partition(number, np.rint(mean * rates), span) for number, rates in enumerate(drawn)]

    def _partition(self, number: int, counts: IntArray, span: float) -> Rows:
        counts = counts.astype(np.int64)
        interval = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(interval)) - np.repeat(np.cumsum(counts) - counts, counts)
        phase = (number + 0.5) / self.partitions
        ts = ((interval + (within + phase) / counts[interval]) * span).astype(np.int64)
        moves = np.random.default_rng([SEED, number]).integers(-STEP_MAX, STEP_MAX + 1, len(ts))
        values = POSITION + np.cumsum(moves)
        return Rows(values / 1000.0 if self.floats else values, ts, Origin(number, 0, len(ts)), ascending=True)

    @property
    def count(self) -> int:
        """How many rows all partitions have."""
        return sum(rows.count for rows in self.rows)

    def steps(self, rows_read: int) -> Iterator[list[Rows]]:
        """Yields what each partition reads at once, about so many rows: those of the same stretch of time."""
        stretch = min(rows_read * self.partitions, 9 * self.window // 10)
        times = np.arange(stretch, self.windows * self.window + stretch, stretch)
        ends = [np.searchsorted(rows.ts, times).tolist() for rows in self.rows]
        for step in range(len(times)):
            yield [
                rows.between(end[step - 1] if step else 0, end[step]) for rows, end in zip(self.rows, ends, strict=True)
            ]
