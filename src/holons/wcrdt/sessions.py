"""Sessions, and other windows that are stitched from completed panes.

A pane holds one fragment per key: first event, last event, partial. Fragments that continue each other belong to one
session, whichever partitions they come from (`StitchedSpec.continues`). A session closes once everything before its end
is known. It then waits in `closed` to be emitted, in the order (end, start, key).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from holons.algebra import Aggregate, State
from holons.algebra.aggregate import concat, pick, take
from holons.algebra.maps import cell_of
from holons.wcrdt.handle import Handle
from holons.wcrdt.panes import SealedPanes
from holons.wcrdt.records import StitchedRecord, check_fits
from holons.windows import BEGINNING, Window

Order: TypeAlias = tuple[int, int, tuple[int, int | str]]
"""The sort key of a closed session: see `Window.order`. No two sessions of a handle have the same."""


class Open(NamedTuple):
    """A session that may still grow."""

    first: int
    last: int
    state: State


class Sessions:
    """The sessions of one handle, as far as panes are completed."""

    def __init__(
        self,
        handle: Handle,
    ) -> None:
        self._window = handle.window.stitched
        self._aggregate: Aggregate[Any] = handle.aggregate
        self._fragment = handle.fragment
        self.stitched_to = BEGINNING
        self.open: dict[int | str, Open] = {}
        self.closed: list[tuple[Order, State]] = []
        """A heap: the session to emit next is the first."""

    def stitch(self, panes: SealedPanes, upto: int) -> None:
        """Stitches all panes that end at or before `upto`, and closes the sessions that end by then.

        A pane is known whole or not at all: an `upto` within a pane counts as the beginning of that pane.
        """
        upto = self._window.boundary(upto)
        if upto <= self.stitched_to:
            return
        for pane in panes.between(self.stitched_to, upto):
            self._add_pane(panes.pane_state(pane))
        self.stitched_to = upto
        for key in [key for key, session in self.open.items() if self._window.end_after(session.last) <= upto]:
            self._close(key)

    def _add_pane(self, pane: State) -> None:
        keys, fragments = cell_of(pane)
        parts = {name: (aggregate, state) for name, aggregate, state in self._fragment.parts(fragments)}
        firsts, lasts = (aggregate.values(state).tolist() for aggregate, state in (parts["first"], parts["last"]))
        partials, grown = parts["partial"][1], []
        for place, key in enumerate(keys.tolist()):
            session = self.open.get(key)
            if session is not None and self._window.continues(session.last, firsts[place]):
                grown.append((place, key, session))
                continue
            if session is not None:
                self._close(key)
            self.open[key] = Open(firsts[place], lasts[place], pick(partials, place))
        if grown:  # merged all at once: that costs little more for many keys than for one
            known = concat([session.state for _, _, session in grown])
            merged = self._aggregate.merge(known, take(partials, np.array([place for place, _, _ in grown])))
            for number, (place, key, session) in enumerate(grown):
                self.open[key] = Open(session.first, lasts[place], pick(merged, number))

    def _close(self, key: int | str) -> None:
        session = self.open.pop(key)
        window = Window(session.first, self._window.end_after(session.last), key)
        heappush(self.closed, (window.order(), session.state))

    def next_closed(self) -> Window | None:
        """Returns the session to emit next."""
        if not self.closed:
            return None
        end, start, (_, key) = self.closed[0][0]
        return Window(start, end, key)

    def take(self) -> State:
        """Removes the session to emit next, and returns its state."""
        return heappop(self.closed)[1]

    def restore(self, record: StitchedRecord, states: Sequence[State]) -> None:
        """Resumes from what `record` returned."""
        check_fits(len(record.open) + len(record.closed) == len(states))
        remaining = iter(states)
        self.stitched_to = record.stitched_to
        self.open = {
            key: Open(first, last, state) for (key, first, last), state in zip(record.open, remaining, strict=False)
        }
        self.closed = list(zip(record.closed, remaining, strict=False))

    def record(self) -> tuple[StitchedRecord, list[State]]:
        """Returns a record to resume from, and the states that it lists. They are sorted: a sorted list is a heap too."""
        opened = sorted(self.open.items(), key=lambda item: (isinstance(item[0], str), item[0]))
        closed = sorted(self.closed, key=lambda item: item[0])
        ranges = [(key, session.first, session.last) for key, session in opened]
        states = [session.state for _, session in opened] + [state for _, state in closed]
        return StitchedRecord(self.stitched_to, ranges, [order for order, _ in closed]), states
