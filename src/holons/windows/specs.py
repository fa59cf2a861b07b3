"""Window specifications: tumbling, sliding, session. Frozen values; they hold no data.

All three are made of **panes**: fixed, aligned slices of event time into which rows are folded once, whatever the
number of windows they belong to. Pane p covers `[p * pane_us, (p + 1) * pane_us)`. A tumbling window is one pane, a
sliding one a run of panes, and a session is stitched from the panes in which its key was seen.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holons.errors import BadWindow, UnknownWindow
from holons.windows.duration import BEGINNING, ENDING, Duration, Instant, duration_text, instant, micros
from holons.windows.window import Window

_PANES_PER_GAP = 4


@dataclass(frozen=True, init=False)
class WindowSpec:
    """What all specifications share: panes, and the grid of instants at which windows may end."""

    pane_us: int

    def panes_of(self, ts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The pane of each timestamp."""
        return ts // self.pane_us

    def pane_end(self, pane: int) -> int:
        """Where a pane ends."""
        return (pane + 1) * self.pane_us

    def boundary(self, ts: int) -> int:
        """The largest instant at or before `ts` at which a window of this kind may end."""
        if ts >= ENDING or ts <= BEGINNING:
            return ts
        return self._boundary(ts)

    def _boundary(self, ts: int) -> int:
        return ts // self.pane_us * self.pane_us

    def grid(self, ts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """A number for each instant that changes exactly where `boundary` does."""
        return ts // self.pane_us

    def pane_needed_until(self, pane: int) -> int:
        """The end of the last window that a pane belongs to."""
        return self.pane_end(pane)


@dataclass(frozen=True, init=False)
class FixedSpec(WindowSpec):
    """Windows on a fixed grid: window k is `[k * every, k * every + size)`."""

    size_us: int
    every_us: int

    def __init__(self, size_us: int, every_us: int) -> None:
        object.__setattr__(self, "size_us", size_us)
        object.__setattr__(self, "every_us", every_us)
        object.__setattr__(self, "pane_us", math.gcd(size_us, every_us))

    @property
    def panes_per_window(self) -> int:
        return self.size_us // self.pane_us

    def at(self, ts: Instant) -> Window:
        """The newest window that contains an instant.

        >>> Tumbling("1s").at(-1)
        Window(start=-1000000, end=0, key=None)
        """
        start = instant(ts) // self.every_us * self.every_us
        return Window(start, start + self.size_us)

    def before(self, window: Window) -> Window:
        """The window before a window, one slide earlier."""
        self.check(window)
        return Window(window.start - self.every_us, window.end - self.every_us)

    def windows_of(self, ts: Instant) -> list[Window]:
        """All windows that contain an instant, oldest first."""
        newest, moment = self.at(ts), instant(ts)
        count = -(-(newest.end - moment) // self.every_us)
        starts = range(newest.start - (count - 1) * self.every_us, newest.start + 1, self.every_us)
        return [Window(start, start + self.size_us) for start in starts]

    def check(self, window: Window) -> None:
        """Raises `UnknownWindow` unless this specification produces that window."""
        if window.key is None and window.size_us == self.size_us and window.start % self.every_us == 0:
            return
        raise UnknownWindow(
            f"{window} is not a window of {self}",
            hint=f"use the window that on_window was given, or `handle.window.at(ts)`, here e.g. {self.at(window.start)}",
        )

    def panes(self, window: Window) -> range:
        """The panes of a window."""
        return range(window.start // self.pane_us, window.end // self.pane_us)

    def pane_needed_until(self, pane: int) -> int:
        return pane * self.pane_us // self.every_us * self.every_us + self.size_us

    def next_window(self, after_end: int, panes: Sequence[int]) -> Window | None:
        """The first window that ends after `after_end` and holds one of the (sorted) panes. Gaps cost nothing."""
        first = (after_end - self.size_us) // self.every_us + 1
        where = bisect_left(panes, first * self.every_us // self.pane_us) if after_end > BEGINNING else 0
        if where == len(panes):
            return None
        oldest = -(-(self.pane_end(panes[where]) - self.size_us) // self.every_us)
        start = (oldest if after_end <= BEGINNING else max(first, oldest)) * self.every_us
        return Window(start, start + self.size_us)

    def grid(self, ts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return (ts - self.size_us) // self.every_us

    def _boundary(self, ts: int) -> int:
        return (ts - self.size_us) // self.every_us * self.every_us + self.size_us


@dataclass(frozen=True, init=False)
class Tumbling(FixedSpec):
    """Windows of one size, side by side: `Tumbling("1s")`."""

    def __init__(self, size: Duration) -> None:
        size_us = micros(size)
        super().__init__(size_us, size_us)

    def __str__(self) -> str:
        return f"Tumbling({duration_text(self.size_us)})"


@dataclass(frozen=True, init=False)
class Sliding(FixedSpec):
    """Windows of one size, a new one every so often: `Sliding("10s", every="1s")`."""

    def __init__(self, size: Duration, every: Duration) -> None:
        size_us, every_us = micros(size), micros(every)
        if every_us > size_us:
            raise BadWindow(
                f"a window of {duration_text(size_us)} every {duration_text(every_us)} would leave gaps",
                hint="`every` must not be longer than the window; filter the events if you mean to skip some",
            )
        super().__init__(size_us, every_us)

    def __str__(self) -> str:
        return f"Sliding({duration_text(self.size_us)}, every={duration_text(self.every_us)})"


@dataclass(frozen=True, init=False)
class Session(WindowSpec):
    """Activity of a key without a pause of `gap`: `[first event, last event + gap)`.

    Two events of one pane are always less than a gap apart, so a pane needs one fragment per key.
    """

    gap_us: int

    def __init__(self, gap: Duration) -> None:
        object.__setattr__(self, "gap_us", micros(gap))
        object.__setattr__(self, "pane_us", max(1, self.gap_us // _PANES_PER_GAP))

    def __str__(self) -> str:
        return f"Session({duration_text(self.gap_us)})"
