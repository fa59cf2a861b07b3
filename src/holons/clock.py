"""The only place that touches time and randomness, so that the simulator can take its place.

Everything that waits, measures or draws lots takes a `Clock`; nothing else in Holons imports `time` or `random`.
"""

from __future__ import annotations

import random
import time
from typing import Protocol

Random = random.Random


def seeded(seed: int | str) -> Random:
    """Randomness that can be replayed: for the simulator, never for secrets."""
    return random.Random(seed)  # noqa: S311


class Clock(Protocol):
    """Time and randomness as a node sees them."""

    def now_s(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def worked_s(self) -> float:
        """Seconds that this thread has computed: time in which others had the processor does not count."""
        ...

    def utc_us(self) -> int:
        """Microseconds since 1970 in the calendar of this machine, which may be wrong, and may go back."""
        ...

    def sleep_s(self, seconds: float) -> None:
        """Let that much time pass."""
        ...

    def random(self) -> Random:
        """This clock's source of randomness."""
        ...


class SystemClock:
    """The machine's own time and randomness."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - for backing off, not for secrets

    def now_s(self) -> float:
        return time.perf_counter()

    def worked_s(self) -> float:
        return time.thread_time()

    def utc_us(self) -> int:
        return time.time_ns() // 1_000

    def sleep_s(self, seconds: float) -> None:
        time.sleep(seconds)

    def random(self) -> Random:
        return self._random
