"""Count windows on the axis of ranks, and the panes that they are made of.

The **global rank** of a row is its place in the order of all keys, from 1. Window k holds the ranks from `k * every + 1` to
`k * every + size`: on the axis of ranks it is `Window(k * every, k * every + size)`. There are no windows that begin before
the first row, and none is emitted before it is full.

**Panes come in pairs.** Every start and every end of a window is a boundary, so a sliding window has at most two panes for
each step. Slices of the greatest common divisor would be one row each for a window of 1,000,000 every 999,999.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from holons.algebra import IntArray
from holons.errors import BadWindow
from holons.windows import AlignedSpec, Window

SIZE_MAX: Final = 2**62
"""The largest number of rows that a window may have."""


@dataclass(frozen=True, init=False)
class CountWindow(AlignedSpec):
    """Windows of `size` rows, a new one after `every` as many (by default each where the one before ends).

    With `partial`, the windows that the end of all partitions cuts short are emitted too.

    >>> window = CountWindow(10, every=4)
    >>> [window.pane_start(pane) for pane in range(7)]
    [0, 4, 8, 10, 12, 14, 16]
    >>> window.window(1)
    Window(start=4, end=14, key=None)
    """

    counted = True
    noun = "a count window"

    size: int
    every: int
    partial: bool = False

    def __init__(self, size: int, every: int | None = None, partial: bool = False) -> None:
        object.__setattr__(self, "size", _rows(size, "size", "a count window"))
        object.__setattr__(self, "every", self.size if every is None else _rows(every, "every", "the step"))
        object.__setattr__(self, "partial", bool(partial))
        if self.every > self.size:
            raise BadWindow(
                f"a window of {self.size} rows every {self.every} rows would leave gaps",
                hint="`every` must not be larger than the size; filter the rows if you mean to skip some",
            )

    def __str__(self) -> str:
        every = f", every={self.every}" if self.slides else ""
        return f"CountWindow({self.size}{every}{', partial=True' if self.partial else ''})"

    @property
    def slides(self) -> bool:
        return self.size != self.every

    def text(self, window: Window) -> str:
        return f"rows {window.start + 1:,} to {window.end:,}"

    @property
    def awaitable(self) -> bool:
        return False  # no partition knows by itself when one is complete

    @property
    def may_accumulate(self) -> bool:
        return False

    @property
    def default_keep_us(self) -> int:
        return self.size

    # --- boundaries ------------------------------------------------------------------------------------------------

    def after(self, rank: int) -> int:
        """Returns the least boundary above a rank."""
        return self.pane_end(self.pane_at(rank))

    def boundaries(self, above: int, upto: int) -> IntArray:
        """Returns all boundaries in `(above, upto]`, ascending."""
        if upto <= above:
            return np.zeros(0, dtype=np.int64)
        step, remainder = self.every, self.size % self.every
        starts = np.arange(above // step + 1, upto // step + 1, dtype=np.int64) * step
        if not remainder:
            return starts
        first = self.last_ended(above) + 1
        ends = np.arange(first, (upto - self.size) // step + 1, dtype=np.int64) * step + self.size
        return np.sort(np.concatenate((starts, ends)))

    # --- windows by number, and panes ------------------------------------------------------------------------------

    def number_at(self, ts: int) -> int:
        return ts // self.every

    def start_of(self, number: int) -> int:
        return number * self.every

    def end_of(self, number: int) -> int:
        return number * self.every + self.size

    def last_ended(self, ts: int) -> int:
        return max((ts - self.size) // self.every, -1)

    def pane_at(self, ts: int) -> int:
        if not self.size % self.every:
            return ts // self.every
        return ts // self.every + self.last_ended(ts) + 1

    def pane_start(self, pane: int) -> int:
        steps_before_end = self.size // self.every
        if not self.size % self.every or pane <= steps_before_end:
            return pane * self.every
        pair, second = divmod(pane - steps_before_end - 1, 2)
        return (steps_before_end + 1 + pair) * self.every if second else pair * self.every + self.size

    def panes_of(self, ts: IntArray) -> IntArray:
        panes = ts // self.every
        return panes + np.maximum((ts - self.size) // self.every + 1, 0) if self.size % self.every else panes


def _rows(value: object, name: str, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise BadWindow(
            f"{name}={value!r}: {what} is a whole number of rows",
            hint="write CountWindow(1_000_000); windows of some length of time are h.Tumbling and h.Sliding",
        )
    if not 1 <= value <= SIZE_MAX:
        raise BadWindow(f"{name}={value}: {what} has at least one row, and at most 2^62", hint="CountWindow(1_000_000)")
    return int(value)
