"""Where a partition's next cuts are expected. Predictions decide what is sent early; no result depends on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

DIFFERENCES: Final = 4  # how many differences between successive sizes the expected error is the mean of
ERROR_MIN: Final = 8  # rows
AHEAD: Final = 3  # how many cuts are predicted at once


@dataclass(frozen=True)
class Prediction:
    """The newest sizes of one partition's panes, and the rank at which the last one ended.

    >>> prediction = Prediction().saw(100).saw(200).saw(320)
    >>> prediction.size, prediction.error, prediction.at(1)
    (120, 10, 440)
    """

    rank: int = 0
    sizes: tuple[int, ...] = ()

    def saw(self, rank: int) -> Prediction:
        """The prediction after one more cut."""
        return Prediction(rank, (*self.sizes, rank - self.rank)[-(DIFFERENCES + 1) :])

    @property
    def ready(self) -> bool:
        """Whether there is anything to go by: two sizes, and their difference."""
        return len(self.sizes) >= 2

    @property
    def size(self) -> int:
        """The expected size: the last one."""
        return self.sizes[-1] if self.sizes else 0

    @property
    def error(self) -> int:
        """The expected error: the mean of the last differences, and never too small."""
        differences = [abs(later - earlier) for earlier, later in pairwise(self.sizes)]
        return max(ERROR_MIN, -(-sum(differences) // len(differences))) if differences else ERROR_MIN

    def at(self, steps: int) -> int:
        """The expected rank of the cut that is so many cuts ahead."""
        return self.rank + steps * self.size

    def zones(self, steps: int = AHEAD) -> Iterator[range]:
        """Yields the ranks among which the next cuts are expected; the further ahead, the wider."""
        for step in range(1, steps + 1):
            center, error = self.at(step), self.error * step
            yield range(max(self.rank, center - error) + 1, center + error + 2)
