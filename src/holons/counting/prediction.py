"""Where a partition's next cuts are expected. Predictions decide what is sent early; no result depends on them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

DIFFERENCES: Final = 4  # how many differences between successive sizes the expected error is the mean of
ERROR_MIN: Final = 8  # rows
PACES: Final = 6  # between the newest cuts, from which the time of the next ones is predicted
DEVIATIONS: Final = 4  # so many mean deviations of these paces a cut may come earlier or later


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


@dataclass(frozen=True)
class CutTimes:
    """When the newest cuts were: all partitions' rates together, which change less than those of each.

    >>> times = CutTimes().saw(100, 1_000).saw(200, 2_000).saw(300, 3_020)
    >>> times.ready, [round(time) for time in times.around(400)]
    (True, [3990, 4070])
    """

    rank: int = 0
    time: int | None = None
    paces: tuple[float, ...] = ()
    """Between the newest cuts, how long a row of all partitions took."""

    def saw(self, rank: int, time: int) -> CutTimes:
        """What is known after one more cut, at a global rank and a time."""
        if self.time is None:
            return CutTimes(rank, time)
        pace = (time - self.time) / (rank - self.rank)
        return CutTimes(rank, time, (*self.paces, pace)[-PACES:])

    @property
    def ready(self) -> bool:
        """Whether there is anything to go by: two paces, and their difference."""
        return len(self.paces) >= 2

    def around(self, rank: int) -> tuple[float, float]:
        """Between which times the cut at a global rank is expected; the further ahead, the wider."""
        rows, mean = rank - self.rank, sum(self.paces) / len(self.paces)
        error = DEVIATIONS * sum(abs(pace - mean) for pace in self.paces) / len(self.paces)
        expected = (self.time or 0) + rows * mean
        return expected - rows * error, expected + rows * error

    def rows_around(self, rank: int) -> float:
        """How many rows of all partitions are expected between these times."""
        first, last = self.around(rank)
        return (last - first) * len(self.paces) / max(sum(self.paces), 1e-9)
