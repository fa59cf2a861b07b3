"""The sealed panes of one handle, and the window values folded from them.

Values fold partitions in partition order within each pane, then panes in time order (invariant: fixed fold). Since
every aggregate is an exact monoid, sliding windows may be maintained incrementally and still give the same bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from holons import codec
from holons.algebra import Keyed, Slide, State
from holons.wcrdt.handle import Handle
from holons.wcrdt.records import PanesRecord, check_fits
from holons.windows import BEGINNING, Window

_WINDOWS_CACHED = 16

Held: TypeAlias = "bytes | State"
"""A seal: its canonical bytes, or the state itself if it has not left this partition yet."""


@dataclass
class _Folded:
    """A window's state, and its value if that is a map of plain values: a value that a reader may change is made anew."""

    state: State
    keyed: Keyed[Any] | None = None


class SealedPanes:
    """All seals of one handle, by pane and then by partition."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.present: list[int] = []
        """The panes into which some partition has inserted rows, ascending."""
        self.trimmed_to = BEGINNING
        self._aggregate = handle.pane_aggregate
        self._seals: dict[int, dict[int, Held]] = {}
        self._bases: dict[int, Held] = {}
        self._by_partition: dict[int, list[int]] = {}
        self._folded: dict[int, State] = {}
        self._windows: OrderedDict[int, _Folded] = OrderedDict()
        self._slide: Slide | None = None
        self._slide_panes = 0
        self._slide_end = BEGINNING

    def add(self, pane: int, partition: int, payload: Held) -> None:
        """Adds a seal; the caller knows that it is new."""
        seals = self._seals.get(pane)
        if seals is None:
            insort(self.present, pane)
            seals = self._seals[pane] = {}
        seals[partition] = payload
        if self.handle.accumulate:
            insort(self._by_partition.setdefault(partition, []), pane)

    def get(self, pane: int, partition: int) -> bytes | None:
        """Returns the seal of one partition, if it has inserted anything."""
        seal = self._seals.get(pane, {}).get(partition)
        return None if seal is None else self._bytes(seal)

    def between(self, start: int, end: int) -> list[int]:
        """Returns the present panes that end in `(start, end]`, ascending."""
        present, pane_at = self.present, self.handle.window.pane_at
        return present[bisect_left(present, pane_at(start)) : bisect_left(present, pane_at(end))]

    def state(self, window: Window) -> State:
        """Returns the state of a window that all partitions have sealed."""
        return self.handle.aggregate_state(self._window(window).state)

    def last_time(self, window: Window) -> int:
        """Returns when the last row of a completed count window was."""
        return self.handle.last_time(self._window(window).state)

    def value(self, window: Window) -> Any:  # noqa: ANN401 - whatever the aggregate's value is
        """Returns the value of such a window. A plain map is read once for all partitions of this node."""
        folded = self._window(window)
        if folded.keyed is not None:
            return folded.keyed
        value = self.handle.aggregate.value(self.handle.aggregate_state(folded.state))
        folded.keyed = value if isinstance(value, Keyed) and value.plain else None
        return value

    def _window(self, window: Window) -> _Folded:
        folded = self._windows.get(window.end)
        if folded is None:
            folded = self._windows[window.end] = _Folded(self._compute(window))
            if len(self._windows) > _WINDOWS_CACHED:
                self._windows.popitem(last=False)
        return folded

    def state_so_far(self, window: Window) -> State | None:
        """Returns what is sealed of a window so far; None if no partition has sealed anything."""
        panes = self.handle.window.panes(window)
        if self.handle.accumulate:
            newest = self._newest(panes[-1])
            return self._fold(newest) if newest else None
        seals = [seal for pane in panes if pane in self._seals for seal in sorted(self._seals[pane].items())]
        return self.handle.aggregate_state(self._fold(seals)) if seals else None

    def pane_state(self, pane: int) -> State:
        """Returns the fold of all contributions to one sealed pane, in partition order."""
        state = self._folded.get(pane)
        if state is None:
            state = self._folded[pane] = self._fold(sorted(self._seals.get(pane, {}).items()))
        return state

    def _compute(self, window: Window) -> State:
        panes = self.handle.window.panes(window)
        if self.handle.accumulate:
            return self._fold(self._newest(panes[-1]))
        if len(panes) == 1:
            return self.pane_state(panes[0])
        if self._slide is None or window.end <= self._slide_end or len(panes) != self._slide_panes:
            self._slide, self._slide_panes = Slide(self._aggregate, len(panes)), len(panes)
            self._slide_end = window.start
        for pane in self.between(max(self._slide_end, window.start), window.end):
            self._slide.push(pane, self.pane_state(pane))
        if panes[-1] not in self._seals:
            self._slide.push(panes[-1], None)
        self._slide_end = window.end
        return self._slide.state()

    def _newest(self, pane: int) -> list[tuple[int, Held]]:
        """Returns each partition's newest seal at or before a pane: with `accumulate`, absence means unchanged."""
        newest = dict(self._bases)
        for partition, panes in self._by_partition.items():
            where = bisect_right(panes, pane)
            if where:
                newest[partition] = self._seals[panes[where - 1]][partition]
        return sorted(newest.items())

    def _bytes(self, seal: Held) -> bytes:
        return seal if isinstance(seal, bytes) else self._aggregate.encode(seal)

    def _fold(self, seals: list[tuple[int, Held]]) -> State:
        state: State | None = None
        for _, seal in seals:
            part = self._aggregate.decode(seal) if isinstance(seal, bytes) else seal
            state = part if state is None else self._aggregate.merge(state, part)
        return self._aggregate.zero(1) if state is None else state

    def trim(self, limit: int) -> int:
        """Drops the panes whose last window ends at or before `limit`, and returns how many. Bases stay."""
        if limit <= self.trimmed_to:
            return 0
        self.trimmed_to = limit
        count = bisect_right(self.present, limit, key=self.handle.window.pane_needed_until)
        dropped, self.present = self.present[:count], self.present[count:]
        for pane in dropped:
            seals = self._seals.pop(pane)
            self._folded.pop(pane, None)
            if self.handle.accumulate:
                self._bases.update(seals)
        if dropped:
            for panes in self._by_partition.values():
                del panes[: bisect_right(panes, dropped[-1])]
        for end in [end for end in self._windows if end <= limit]:
            del self._windows[end]
        return count

    def record(self) -> tuple[PanesRecord, list[Held]]:
        """Returns a record to resume from, and the seals that it lists."""
        seals = [(pane, partition) for pane in self.present for partition in sorted(self._seals[pane])]
        bases = sorted(self._bases)
        held = [self._seals[pane][partition] for pane, partition in seals]
        return PanesRecord(self.trimmed_to, seals, bases), held + [self._bases[partition] for partition in bases]

    def restore(self, record: PanesRecord, payloads: Sequence[bytes]) -> None:
        """Resumes from what `record` returned, all of it in canonical bytes."""
        check_fits(len(record.seals) + len(record.bases) == len(payloads))
        remaining = iter(payloads)
        self.trimmed_to = record.trimmed_to
        for (pane, partition), payload in zip(record.seals, remaining, strict=False):
            self.add(pane, partition, payload)
        self._bases = dict(zip(record.bases, remaining, strict=False))

    def encoded(self, seals: Iterable[Held]) -> list[bytes]:
        """Returns what partitions have sealed in canonical bytes."""
        return [self._bytes(seal) for seal in seals]

    def bytes_held(self) -> int:
        """Returns the size of all seals."""
        return sum(len(self._bytes(seal)) for seals in self._seals.values() for seal in seals.values())


def nested(seals: Iterable[Held]) -> list[object]:
    """Returns what partitions have sealed, as what the codec writes as canonical bytes without copying them twice."""
    return [seal if isinstance(seal, bytes) else codec.NestedBytes(seal) for seal in seals]
