"""Watermarks and lateness, by row position.

The watermark at row i is the largest time among the rows up to and including it, less the allowed disorder, or the
newest mark if that is later. Row i is late exactly if its time lies below that; a row is never late by itself.
Nothing here depends on how the log was cut into batches (invariant: batch-blind); marks have their own place in the
log (invariant: logged idleness).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from holons.windows.duration import BEGINNING, ENDING
from holons.windows.specs import WindowSpec

_FIRST_TIMES: Final = 1024


@dataclass(frozen=True)
class Mark:
    """A control row in a partition's log, at an offset of its own: no row below `ts` follows."""

    ts: int


END = Mark(ENDING)
"""The end of a stream: a mark at infinity."""


@dataclass(frozen=True)
class Observed:
    """The effect of a batch on the clock: which rows are late (None: none), and the watermark at each."""

    start: int
    disorder_us: int
    ts: npt.NDArray[np.int64]
    late: npt.NDArray[np.bool_] | None = None

    def watermarks(self) -> npt.NDArray[np.int64]:
        """Returns the watermark at each row."""
        return np.maximum(np.maximum.accumulate(self.ts - self.disorder_us), self.start)


def is_ascending(ts: npt.NDArray[np.int64]) -> bool:
    """Whether no time lies below the one before. Times out of order mostly show at the beginning, which is looked at first.

    >>> is_ascending(np.array([1, 1, 3])), is_ascending(np.array([1, 0]))
    (True, False)
    """
    first = ts[:_FIRST_TIMES]
    return bool(np.all(first[1:] >= first[:-1])) and bool(np.all(ts[1:] >= ts[:-1]))


class EventClock:
    """The clock of one partition: it follows event time, less the allowed disorder, and marks.

    >>> clock = EventClock(disorder_us=5)
    >>> clock.observe(np.array([10, 4, 20, 16])).late.tolist()
    [False, True, False, False]
    >>> clock.watermark
    15
    """

    def __init__(self, disorder_us: int = 0, watermark: int = BEGINNING) -> None:
        self.disorder_us = disorder_us
        self.watermark = watermark

    def observe(self, ts: npt.NDArray[np.int64], *, ascending: bool | None = None) -> Observed:
        """Moves the clock over the valid rows of a batch. Callers may know whether their times are `ascending`."""
        start = self.watermark
        if len(ts) == 0:
            return Observed(start, self.disorder_us, ts)
        in_order = int(ts[0]) >= start and (is_ascending(ts) if ascending is None else ascending)
        highest = int(ts[-1]) if in_order else int(ts.max())
        self.watermark = max(start, highest - self.disorder_us)
        observed = Observed(start, self.disorder_us, ts)
        if in_order:
            return observed
        late = ts < observed.watermarks()
        return Observed(start, self.disorder_us, ts, late) if late.any() else observed

    def mark(self, ts: int) -> None:
        """Moves the clock by a mark; a mark below the clock changes nothing."""
        self.watermark = max(self.watermark, min(ts, ENDING))


def seal_points(watermarks: npt.NDArray[np.int64], specs: tuple[WindowSpec, ...]) -> npt.NDArray[np.int64]:
    """Returns the rows at which a window is sealed, where a batch must be cut for awaits. The first row never counts."""
    crossed = np.zeros(max(len(watermarks) - 1, 0), dtype=np.bool_)
    for spec in specs:
        grid = spec.grid(watermarks)
        crossed |= grid[1:] != grid[:-1]
    return np.flatnonzero(crossed) + 1
