"""Sessions: a key's activity without a pause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holons.algebra import IntArray
from holons.windows.duration import Duration, duration_text, micros
from holons.windows.specs import Key, RegularPanes, StitchedSpec
from holons.windows.window import Window

_PANES_PER_GAP = 4


@dataclass(frozen=True, init=False)
class Session(RegularPanes, StitchedSpec):
    """Activity of a key without a pause of `gap`: `[first event, last event + gap)`.

    Two events of one pane are always less than a gap apart, so a pane needs one fragment per key.
    """

    noun = "a session"

    gap_us: int

    def __init__(self, gap: Duration) -> None:
        object.__setattr__(self, "gap_us", micros(gap))
        object.__setattr__(self, "pane_us", max(1, self.gap_us // _PANES_PER_GAP))

    def continues(self, last: int, first: int) -> bool:
        return first - last < self.gap_us

    def end_after(self, last: int) -> int:
        return last + self.gap_us

    def panes(self, window: Window) -> range:
        return range(self.pane_at(window.start), self.pane_at(window.end - self.gap_us) + 1)

    def _boundary(self, ts: int) -> int:
        return ts // self.pane_us * self.pane_us

    def grid(self, ts: IntArray) -> IntArray:
        return self.panes_of(ts)

    def windows_holding(self, rows: Iterable[tuple[Key, int]]) -> set[Window]:
        times: dict[Key, list[int]] = {}
        for key, ts in rows:
            times.setdefault(key, []).append(ts)
        sessions = set()
        for key, active in times.items():
            active.sort()
            pauses = [place for place in range(1, len(active)) if active[place] - active[place - 1] >= self.gap_us]
            for first, end in zip([0, *pauses], [*pauses, len(active)], strict=True):
                sessions.add(Window(active[first], active[end - 1] + self.gap_us, key))
        return sessions

    def __str__(self) -> str:
        return f"Session({duration_text(self.gap_us)})"
