"""Windows of one size on a regular grid: tumbling, and sliding."""

from __future__ import annotations

import math
from dataclasses import dataclass

from holons.algebra import IntArray
from holons.errors import BadWindow
from holons.windows.duration import Duration, Instant, duration_text, instant, micros
from holons.windows.specs import AlignedSpec, RegularPanes, WindowSpec
from holons.windows.window import Window


@dataclass(frozen=True, init=False)
class FixedSpec(RegularPanes, AlignedSpec):
    """Windows on a fixed grid: window k is `[k * every, k * every + size)`. Panes are their largest common slices.

    >>> Tumbling("1s").at(-1)
    Window(start=-1000000, end=0, key=None)
    """

    size_us: int
    every_us: int

    def __init__(self, size_us: int, every_us: int) -> None:
        object.__setattr__(self, "size_us", size_us)
        object.__setattr__(self, "every_us", every_us)
        object.__setattr__(self, "pane_us", math.gcd(size_us, every_us))

    @property
    def slides(self) -> bool:
        return self.size_us != self.every_us

    @property
    def default_keep_us(self) -> int:
        return self.size_us

    @property
    def panes_per_window(self) -> int:
        return self.size_us // self.pane_us

    def number_at(self, ts: int) -> int:
        return ts // self.every_us

    def start_of(self, number: int) -> int:
        return number * self.every_us

    def end_of(self, number: int) -> int:
        return number * self.every_us + self.size_us

    def last_ended(self, ts: int) -> int:
        return (ts - self.size_us) // self.every_us

    def grid(self, ts: IntArray) -> IntArray:
        return (ts - self.size_us) // self.every_us

    def windows_of(self, ts: Instant) -> list[Window]:
        moment = instant(ts)
        newest = moment - moment % self.every_us
        starts = range(newest, moment - self.size_us, -self.every_us)
        return [Window(start, start + self.size_us) for start in reversed(starts)]

    def is_made_of(self, grain: WindowSpec) -> bool:
        if not isinstance(grain, FixedSpec):
            return False
        return self.size_us % grain.every_us == 0 and self.every_us % grain.every_us == 0

    def keep_to_reach(self, reach_us: int) -> int:
        return -(-reach_us // self.every_us) * self.every_us


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
