"""A window: a half-open slice of event time, with a key if it is a session."""

from __future__ import annotations

from dataclasses import dataclass
from functools import total_ordering

from holons.windows.duration import instant_text


@total_ordering
@dataclass(frozen=True, slots=True)
class Window:
    """`[start, end)` in microseconds. Windows are ordered by (end, start, key), the order in which they are emitted.

    >>> Window(0, 10) < Window(5, 15)
    True
    """

    start: int
    end: int
    key: int | str | None = None

    @property
    def last(self) -> int:
        """The last instant of the window, at which its results are inserted into a later stage."""
        return self.end - 1

    @property
    def size_us(self) -> int:
        return self.end - self.start

    def order(self) -> tuple[int, int, tuple[int, int | str]]:
        """Returns the sort key of the window; keys of any type can be compared."""
        return self.end, self.start, (int(isinstance(self.key, str)), 0 if self.key is None else self.key)

    def __contains__(self, ts: int) -> bool:
        return self.start <= ts < self.end

    def __lt__(self, other: Window) -> bool:
        return self.order() < other.order()

    def __str__(self) -> str:
        key = "" if self.key is None else f" of {self.key!r}"
        return f"[{instant_text(self.start)}, {instant_text(self.end)}){key}"
