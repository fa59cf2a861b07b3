"""What one partition adds to its open windows, until it seals them.

A contribution depends on the partition's own input and on completed windows, never on merged state (invariant:
own-input): this class takes no replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holons.algebra import Rows, State
from holons.algebra.aggregate import pick
from holons.errors import InsertBelowWatermark
from holons.wcrdt.handle import Handle
from holons.wcrdt.records import ContributionsRecord, RecordFormat, check_fits, restoring
from holons.windows import BEGINNING, instant_text

CONTRIBUTIONS = RecordFormat(ContributionsRecord)


class Sealed(NamedTuple):
    """A pane that will not change any more: `handle` is an index into the program's handles."""

    handle: int
    pane: int
    state: State


class Contributions:
    """The open panes of one partition in one stage, for the handles with the given indices."""

    def __init__(self, handles: Sequence[Handle], indices: Sequence[int], resume: bytes | None = None) -> None:
        self._handles = {index: handles[index] for index in indices}
        self._aggregates = {index: handle.pane_aggregate for index, handle in self._handles.items()}
        self._open: dict[int, dict[int, State]] = {index: {} for index in indices}
        self._carried: dict[int, State] = {}
        self.watermark = BEGINNING
        if resume is not None:
            with restoring("contributions"):
                self.restore(*CONTRIBUTIONS.decode(resume))

    def insert(self, index: int, rows: Rows) -> None:
        """Folds rows into the panes that their times fall into. All times must be at or above the watermark."""
        if rows.count == 0:
            return
        handle, aggregate = self._handles[index], self._aggregates[index]
        first = rows.earliest
        if first < self.watermark:
            raise InsertBelowWatermark(
                f"{handle.name}: insert at {instant_text(first)}, below the watermark {instant_text(self.watermark)}",
                hint="insert at the event's own time, or allow more disorder",
            )
        labels, groups = handle.window.group_by_pane(rows.ts, ascending=rows.ascending)
        partial = aggregate.fold(groups, handle.pane_rows(rows))
        panes = self._open[index]
        for group, pane in enumerate(labels.tolist()):
            state, before = pick(partial, group), panes.get(pane)
            panes[pane] = state if before is None else aggregate.merge(before, state)

    def absorb(self, snapshot: bytes) -> None:
        """Merges panes that were folded elsewhere, from other rows of the same partition."""
        record, states = CONTRIBUTIONS.decode(snapshot)
        with restoring("a partial fold"):
            check_fits(
                record.open.keys() <= self._handles.keys() and sum(map(len, record.open.values())) <= len(states)
            )
        remaining = iter(states)
        for index, panes in record.open.items():
            handle, aggregate, ours = self._handles[index], self._aggregates[index], self._open[index]
            for pane, state in zip(panes, remaining, strict=False):
                if handle.window.pane_end(pane) <= self.watermark:
                    raise InsertBelowWatermark(
                        f"{handle.name}: an insert into a pane that is sealed, up to {instant_text(self.watermark)}",
                        hint="insert at the event's own time, or allow more disorder",
                    )
                before = ours.get(pane)
                ours[pane] = state if before is None else aggregate.merge(before, state)

    def seal(self, watermark: int) -> list[Sealed]:
        """Moves the watermark, and returns every non-empty pane that it has passed, by (end, handle)."""
        sealed = []
        for index, panes in self._open.items():
            pane_end = self._handles[index].window.pane_end
            for pane in sorted(pane for pane in panes if pane_end(pane) <= watermark):
                sealed.append(Sealed(index, pane, self._carry(index, panes.pop(pane))))
        self.watermark = max(self.watermark, watermark)
        return sorted(sealed, key=lambda seal: (self._handles[seal.handle].window.pane_end(seal.pane), seal.handle))

    def _carry(self, index: int, state: State) -> State:
        """Merges a pane with everything before it, if the handle accumulates."""
        if not self._handles[index].accumulate:
            return state
        carried = self._carried.get(index)
        state = state if carried is None else self._aggregates[index].merge(carried, state)
        self._carried[index] = state
        return state

    def encode(self, index: int, state: State) -> bytes:
        """Returns the canonical bytes of a sealed pane."""
        return self._aggregates[index].encode(state)

    def unsealed(self, index: int) -> dict[int, bytes]:
        """Returns the open panes of a handle as they are now, without what accumulated before: for previews."""
        return {pane: self._aggregates[index].encode(state) for pane, state in self._open[index].items()}

    def snapshot(self) -> bytes:
        """Returns the state to resume from as bytes."""
        return CONTRIBUTIONS.encode(*self.record())

    def record(self) -> tuple[ContributionsRecord, list[State]]:
        """Returns a record to resume from, and the states that it lists; they must be encoded at once."""
        panes = {index: sorted(opened) for index, opened in sorted(self._open.items())}
        carried = sorted(self._carried)
        states = [self._open[index][pane] for index, opened in panes.items() for pane in opened]
        return ContributionsRecord(self.watermark, panes, carried), states + [self._carried[index] for index in carried]

    def restore(self, record: ContributionsRecord, states: Sequence[State]) -> None:
        """Resumes from what `record` returned."""
        listed = sum(map(len, record.open.values())) + len(record.carried)
        check_fits(record.open.keys() == self._handles.keys() >= {*record.carried} and listed == len(states))
        remaining = iter(states)
        self.watermark = record.watermark
        self._open = {index: dict(zip(panes, remaining, strict=False)) for index, panes in record.open.items()}
        self._carried = dict(zip(record.carried, remaining, strict=False))

    def ends_by(self, watermark: int) -> bool:
        """Returns whether an open pane ends at or before a watermark."""
        return any(
            self._handles[index].window.pane_end(min(panes)) <= watermark
            for index, panes in self._open.items()
            if panes
        )

    def open_panes(self) -> dict[str, int]:
        """Returns how many panes are open, by handle, for display."""
        return {self._handles[index].name: len(panes) for index, panes in self._open.items()}
