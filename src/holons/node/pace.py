"""How much a tasklet does in one slice: no more than takes a moment, or its node would look dead to the others."""

from __future__ import annotations

from typing import Final

_SLICE_S: Final = 0.05
_STUCK_S: Final = 0.25


class Pace:
    """The size of slices, of rows or of calls, learned from how long slices took."""

    def __init__(self, first: int, most: int) -> None:
        self.size = min(first, most)
        self._most = most

    def learn(self, done: int, worked_s: float, passed_s: float) -> None:
        """Takes note of a slice: what it did of `size`, how long its thread worked, how much time passed.

        A slice of much work makes the next as small as it should have been. If time passed without work, the program may
        have waited for something, or others may have had the processor: that says little, so it is halved at most.
        """
        if done and worked_s > _SLICE_S:
            self.size = max(1, min(self.size, int(done * _SLICE_S / worked_s)))
        elif done and passed_s > _STUCK_S:
            self.size = max(1, self.size // 2)
        elif 2 * done >= self.size:
            self.size = min(2 * self.size, self._most)
