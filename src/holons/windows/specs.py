"""What every kind of window answers for itself. Specifications are frozen values; they hold no data.

All kinds are made of **panes**: slices of event time without gaps, numbered in ascending order, into which rows are folded
once, whatever the number of windows they belong to. There are two families, and no other room asks for more than this:

- `AlignedSpec`: the edges of windows follow from the specification alone: they are **known ahead** (`Tumbling`, `Sliding`).
- `StitchedSpec`: every key has windows of its own, which its rows make, by stitching the fragments of panes (`Session`).

A new kind of window is a subclass of one of them, in a file of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from holons.algebra import Groups, IntArray
from holons.errors import InvariantBroken, UnknownWindow
from holons.windows.duration import BEGINNING, ENDING, Instant, instant
from holons.windows.window import Window

Key: TypeAlias = int | str | None


@dataclass(frozen=True, init=False)
class WindowSpec(ABC):
    """A kind of window, with its parameters."""

    known_ahead: ClassVar[bool]
    """Whether the edges of windows are known without any row: only then can a window be awaited, or read by others."""
    counted: ClassVar[bool] = False
    """Whether windows lie on the axis of ranks, not of event time: they are cut by how many rows came before."""
    noun: ClassVar[str] = "a window"
    """What error messages call one of these windows."""

    def text(self, window: Window) -> str:
        """A window as messages tell it."""
        return str(window)

    @property
    def awaitable(self) -> bool:
        """Whether `process` may await such a window."""
        return self.known_ahead

    @property
    def keyed(self) -> bool:
        """Whether every key has windows of its own, so that a key is inserted beside the element."""
        return not self.known_ahead

    @property
    @abstractmethod
    def may_accumulate(self) -> bool:
        """Whether a window may carry on with what the window before it held."""

    @property
    @abstractmethod
    def default_keep_us(self) -> int:
        """How long completed windows can be read if nobody says how long."""

    @property
    def aligned(self) -> AlignedSpec:
        """This specification, if its windows are known ahead."""
        raise InvariantBroken(f"the windows of {self} are not known ahead")

    @property
    def stitched(self) -> StitchedSpec:
        """This specification, if its windows are stitched from fragments."""
        raise InvariantBroken(f"the windows of {self} are not stitched from fragments")

    # --- panes -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def pane_at(self, ts: int) -> int:
        """The pane of an instant; also of `BEGINNING` and `ENDING`."""

    @abstractmethod
    def pane_start(self, pane: int) -> int:
        """Where a pane begins."""

    def pane_end(self, pane: int) -> int:
        """Where a pane ends."""
        return self.pane_start(pane + 1)

    @abstractmethod
    def panes_of(self, ts: IntArray) -> IntArray:
        """The pane of each timestamp."""

    def group_by_pane(self, ts: IntArray, *, ascending: bool = False) -> tuple[IntArray, Groups]:
        """The panes that timestamps fall into, and which rows fall into which; whether they are `ascending` may be known."""
        return Groups.by_label(self.panes_of(ts))

    @abstractmethod
    def panes(self, window: Window) -> range:
        """The panes that may hold rows of a window."""

    @abstractmethod
    def pane_needed_until(self, pane: int) -> int:
        """The end of the last window that a pane belongs to."""

    # --- where windows end -----------------------------------------------------------------------------------------

    def boundary(self, ts: int) -> int:
        """The largest instant at or before `ts` at which a window of this kind may end."""
        return ts if ts >= ENDING or ts <= BEGINNING else self._boundary(ts)

    @abstractmethod
    def _boundary(self, ts: int) -> int: ...

    @abstractmethod
    def grid(self, ts: IntArray) -> IntArray:
        """A number for each instant that changes exactly where `boundary` does."""

    @abstractmethod
    def emission_limit(self, watermark: int) -> int:
        """How far windows can be emitted when all rows before `watermark` are known."""

    # --- which windows ---------------------------------------------------------------------------------------------

    def starting(self, ts: int) -> Window | None:
        """The window that starts at an instant, as far as that is known ahead."""
        return None

    @abstractmethod
    def windows_holding(self, rows: Iterable[tuple[Key, int]]) -> set[Window]:
        """Returns every window that holds one of these rows; a row is its key and its time.

        This is the definition, for the oracle: what runs never asks for it.
        """

    def is_made_of(self, grain: WindowSpec) -> bool:
        """Whether all instants of one window of `grain` fall into the same windows of this kind."""
        return False


@dataclass(frozen=True, init=False)
class RegularPanes(WindowSpec):
    """Panes of one length: pane p covers `[p * pane_us, (p + 1) * pane_us)`."""

    pane_us: int

    def pane_at(self, ts: int) -> int:
        return ts // self.pane_us

    def pane_start(self, pane: int) -> int:
        return pane * self.pane_us

    def pane_end(self, pane: int) -> int:
        return (pane + 1) * self.pane_us

    def panes_of(self, ts: IntArray) -> IntArray:
        return ts // self.pane_us

    def group_by_pane(self, ts: IntArray, *, ascending: bool = False) -> tuple[IntArray, Groups]:
        return Groups.by_step(ts, self.pane_us, ascending=ascending)


@dataclass(frozen=True, init=False)
class AlignedSpec(WindowSpec):
    """Windows that are the same for all rows and keys. They are numbered: starts ascend with the number, and so do ends.

    As written here, windows lie side by side and each is one pane. Windows that overlap answer anew what is asked about
    panes and about ends.
    """

    known_ahead = True

    @property
    def aligned(self) -> AlignedSpec:
        return self

    @property
    def slides(self) -> bool:
        """Whether windows overlap."""
        return False

    @property
    def may_accumulate(self) -> bool:
        return not self.slides

    # --- windows by number -----------------------------------------------------------------------------------------

    @abstractmethod
    def number_at(self, ts: int) -> int:
        """The number of the newest window that contains an instant."""

    @abstractmethod
    def start_of(self, number: int) -> int:
        """Where a window starts."""

    def end_of(self, number: int) -> int:
        """Where a window ends."""
        return self.start_of(number + 1)

    def last_ended(self, ts: int) -> int:
        """The number of the last window that ends at or before an instant."""
        return self.number_at(ts) - 1

    def window(self, number: int) -> Window:
        """A window by its number."""
        return Window(self.start_of(number), self.end_of(number))

    # --- panes -----------------------------------------------------------------------------------------------------

    def pane_at(self, ts: int) -> int:
        return self.number_at(ts)

    def pane_start(self, pane: int) -> int:
        return self.start_of(pane)

    def panes(self, window: Window) -> range:
        return range(self.pane_at(window.start), self.pane_at(window.end))

    def pane_needed_until(self, pane: int) -> int:
        return self.end_of(self.number_at(self.pane_start(pane)))

    # --- where windows end -----------------------------------------------------------------------------------------

    def _boundary(self, ts: int) -> int:
        return self.end_of(self.last_ended(ts))

    def grid(self, ts: IntArray) -> IntArray:
        return self.panes_of(ts)

    def emission_limit(self, watermark: int) -> int:
        return watermark

    # --- which windows ---------------------------------------------------------------------------------------------

    def at(self, ts: Instant) -> Window:
        """The newest window that contains an instant."""
        return self.window(self.number_at(instant(ts)))

    def before(self, window: Window) -> Window:
        """The window before a window."""
        self.check(window)
        return self.window(self.number_at(window.start) - 1)

    def starting(self, ts: int) -> Window | None:
        window = self.at(ts)
        return window if window.start == ts else None

    def windows_of(self, ts: Instant) -> list[Window]:
        """All windows that contain an instant, oldest first."""
        moment = instant(ts)
        return [self.window(number) for number in range(self.last_ended(moment) + 1, self.number_at(moment) + 1)]

    def windows_between(self, start: int, end: int) -> list[Window]:
        """All windows that overlap `[start, end)`, oldest first."""
        if start >= end:
            return []
        return [self.window(number) for number in range(self.last_ended(start) + 1, self.number_at(end - 1) + 1)]

    def windows_holding(self, rows: Iterable[tuple[Key, int]]) -> set[Window]:
        return {window for ts in {ts for _, ts in rows} for window in self.windows_of(ts)}

    def check(self, window: Window) -> None:
        """Raises `UnknownWindow` unless this specification produces that window."""
        number = self.number_at(window.start)
        if (window.start, window.end, window.key) != (self.start_of(number), self.end_of(number), None):
            raise UnknownWindow(
                f"{window} is not a window of {self}",
                hint="use the window that on_window is called with, or `handle.window.at(ts)`, "
                f"here e.g. {self.at(window.start)}",
            )

    def next_window(self, after_end: int, panes: Sequence[int]) -> Window | None:
        """The first window that ends after `after_end` and holds one of the (sorted) panes. Gaps cost nothing."""
        first = self.last_ended(after_end) + 1 if after_end > BEGINNING else None
        place = 0 if first is None else bisect_left(panes, self.pane_at(self.start_of(first)))
        if place == len(panes):
            return None
        oldest = self.last_ended(self.pane_end(panes[place]) - 1) + 1
        return self.window(oldest if first is None else max(first, oldest))

    def keep_to_reach(self, reach_us: int) -> int:
        """How long windows must be kept so that later ones can read all that overlap the `reach_us` before them."""
        return reach_us + self.default_keep_us if reach_us else 0


@dataclass(frozen=True, init=False)
class StitchedSpec(WindowSpec):
    """Windows that each key has for itself: a pane holds a fragment of each key, and fragments that continue are stitched.

    Panes must be so short that all rows of a key in one pane belong to the same window.
    """

    known_ahead = False

    @property
    def stitched(self) -> StitchedSpec:
        return self

    @property
    def may_accumulate(self) -> bool:
        return False

    @property
    def default_keep_us(self) -> int:
        return 0

    @abstractmethod
    def continues(self, last: int, first: int) -> bool:
        """Whether a fragment that begins at `first` belongs to the window whose last row so far is at `last`."""

    @abstractmethod
    def end_after(self, last: int) -> int:
        """Where a window ends whose last row is at `last`: nothing at or after it continues the window."""

    def pane_needed_until(self, pane: int) -> int:
        return self.pane_end(pane)

    def emission_limit(self, watermark: int) -> int:
        return self.boundary(watermark)  # panes are known whole, or not at all
