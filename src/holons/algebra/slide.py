"""Sliding over panes: the merge of the last few, kept up to date as panes come and go.

A sliding window is a run of panes, and consecutive windows share all but a few. `Slide` holds the panes of one
window and the means to move on: it subtracts what leaves where the aggregate can do that, counts panes per key where
it is a map of such, and keeps two stacks of partial merges where it cannot.

Law: `state()` has the very bytes of merging the panes from scratch, in order. So nothing is lost by rebuilding a
slide from its panes after a restart, and a slide itself is never stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Final, TypeAlias

import numpy as np

from holons import codec
from holons.algebra import keys as key_columns
from holons.algebra.aggregate import Aggregate, IntArray, State, place, size, take
from holons.algebra.keys import Finder, Keys
from holons.algebra.maps import MergeMap, cell_of
from holons.algebra.product import Product
from holons.errors import BadWindow

_Pane: TypeAlias = "tuple[int, State]"

_SPARE_KEYS: Final = 1024


class Slide:
    """The merge of the last `panes` panes. Push panes in ascending order; what is not pushed is empty.

    >>> from holons.algebra import GCounter
    >>> slide = Slide(GCounter(), panes=3)
    >>> for index, count in [(0, 5), (1, 7), (9, 1), (11, 2)]:
    ...     slide.push(index, (np.array([count]),))
    ...     print(index, GCounter().value(slide.state()))
    0 5
    1 12
    9 1
    11 3
    """

    def __init__(self, aggregate: Aggregate[object], panes: int) -> None:
        if panes < 1:
            raise BadWindow(f"a window of {panes} panes", hint="a sliding window spans one pane at least")
        self._panes = panes
        self._last: int | None = None
        self._sum = _moving(aggregate)

    def push(self, index: int, pane: State | None) -> None:
        """Move on to the window that ends with pane `index`, whose state is `pane` (None: empty). Gaps cost nothing."""
        assert self._last is None or index > self._last, f"pane {index} after pane {self._last}"
        assert pane is None or size(pane) == 1, "a pane is a state of one group"
        self._last = index
        self._sum.drop(index - self._panes)
        if pane is not None:
            self._sum.add(index, pane)

    def state(self) -> State:
        """The merge of the panes in the window: a state of one group, zero if there are none."""
        return self._sum.state()


class _Moving(ABC):
    """A merge of panes that loses its oldest ones."""

    @abstractmethod
    def add(self, index: int, pane: State) -> None:
        """Put in the newest pane."""

    @abstractmethod
    def drop(self, last: int) -> None:
        """Take out the panes up to `last`."""

    @abstractmethod
    def state(self) -> State:
        """The merge of what is in."""


def _moving(aggregate: Aggregate[object]) -> _Moving:
    if aggregate.invertible:
        return _Subtracting(aggregate)
    if isinstance(aggregate, MergeMap) and aggregate.inner.invertible:
        return _CountingKeys(aggregate)
    if isinstance(aggregate, Product):
        return _FieldByField(aggregate)
    return _TwoStacks(aggregate)


class _Subtracting(_Moving):
    """For invertible aggregates: one subtraction for each pane that leaves."""

    def __init__(self, aggregate: Aggregate[object]) -> None:
        self._aggregate = aggregate
        self._held: deque[_Pane] = deque()
        self._total = aggregate.zero(1)

    def add(self, index: int, pane: State) -> None:
        self._held.append((index, pane))
        self._total = self._aggregate.merge(self._total, pane)

    def drop(self, last: int) -> None:
        if self._held and self._held[-1][0] <= last:
            self._held.clear()
            self._total = self._aggregate.zero(1)
        while self._held and self._held[0][0] <= last:
            self._total = self._aggregate.subtract(self._total, self._held.popleft()[1])

    def state(self) -> State:
        return self._total


class _TwoStacks(_Moving):
    """For any aggregate: the older panes as merges of each suffix, the newer ones as one merge.

    When the last suffix leaves, the newer panes become the suffixes: every pane is merged twice at most.
    """

    def __init__(self, aggregate: Aggregate[object]) -> None:
        self._aggregate = aggregate
        self._older: list[_Pane] = []  # (first pane, merge from there to the last older one); the oldest is on top
        self._newer: deque[_Pane] = deque()
        self._newer_total: State | None = None

    def add(self, index: int, pane: State) -> None:
        self._newer.append((index, pane))
        self._newer_total = pane if self._newer_total is None else self._aggregate.merge(self._newer_total, pane)

    def drop(self, last: int) -> None:
        while self._older and self._older[-1][0] <= last:
            self._older.pop()
        if self._older or not self._newer or self._newer[0][0] > last:
            return
        while self._newer and self._newer[0][0] <= last:
            self._newer.popleft()
        suffix: State | None = None
        for index, pane in reversed(self._newer):
            suffix = pane if suffix is None else self._aggregate.merge(pane, suffix)
            self._older.append((index, suffix))
        self._newer.clear()
        self._newer_total = None

    def state(self) -> State:
        older = self._older[-1][1] if self._older else None
        if older is None or self._newer_total is None:
            return older or self._newer_total or self._aggregate.zero(1)
        return self._aggregate.merge(older, self._newer_total)


class _CountingKeys(_Moving):
    """For maps of invertible aggregates: totals per key, and in how many panes each key is.

    A key leaves the map when the last pane with it leaves; only then is the subtraction exact in bytes too. Keys that
    left keep their place in the table for a while, since most come back.
    """

    def __init__(self, aggregate: MergeMap[object]) -> None:
        self._inner: Aggregate[object] = aggregate.inner
        self._held: deque[tuple[int, Keys, State]] = deque()
        self._reset()

    def _reset(self) -> None:
        self._finder = Finder(key_columns.empty())
        self._totals = self._inner.zero(0)
        self._counts: IntArray = np.zeros(0, dtype=np.int64)

    def add(self, index: int, pane: State) -> None:
        keys, state = cell_of(pane)
        if len(keys) == 0:
            return
        self._held.append((index, keys, state))
        places = self._places(keys)
        if places is None:
            self._totals = _copy(self._inner.merge(self._totals, state))
            self._counts += 1
        else:
            self._put(places, self._inner.merge(take(self._totals, places), state))
            self._counts[places] += 1

    def drop(self, last: int) -> None:
        if self._held and self._held[-1][0] <= last:
            self._held.clear()
            self._reset()
        while self._held and self._held[0][0] <= last:
            _, keys, state = self._held.popleft()
            places = self._places(keys)
            if places is None:
                self._totals = _copy(self._inner.subtract(self._totals, state))
                self._counts -= 1
            else:
                self._put(places, self._inner.subtract(take(self._totals, places), state))
                self._counts[places] -= 1

    def state(self) -> State:
        keys, there = self._finder.keys, self._counts > 0
        if there.all():
            return _map_of(keys, _copy(self._totals))
        chosen = np.flatnonzero(there)
        if len(chosen) == 0:
            return _map_of(key_columns.empty(), self._inner.zero(0))
        chosen_keys, totals = keys[chosen], take(self._totals, chosen)
        if len(keys) > 2 * len(chosen) + _SPARE_KEYS:
            self._finder, self._totals, self._counts = Finder(chosen_keys), _copy(totals), self._counts[chosen]
        return _map_of(chosen_keys, totals)

    def _places(self, keys: Keys) -> IntArray | None:
        """Where the keys are in the table, which grows if need be; None if they are all of it."""
        if key_columns.same(self._finder.keys, keys):
            return None
        places = self._finder.find(keys)
        if places is not None:
            return places
        table, old, places = key_columns.align(self._finder.keys, keys)
        self._totals = place(self._inner.zero(len(table)), old, self._totals)
        counts = np.zeros(len(table), dtype=np.int64)
        counts[old] = self._counts
        self._finder, self._counts = Finder(table), counts
        return places

    def _put(self, places: IntArray, state: State) -> None:
        """In place: nobody else holds the totals."""
        self._totals = place(self._totals, places, state)


def _map_of(keys: Keys, inner: State) -> State:
    return (codec.object_array([(keys, inner)]),)


def _copy(state: State) -> State:
    return tuple(column.copy() for column in state)


class _FieldByField(_Moving):
    """For products: each field in its own best way."""

    def __init__(self, aggregate: Product) -> None:
        self._aggregate = aggregate
        self._fields = [_moving(field) for _, field in aggregate.fields]

    def add(self, index: int, pane: State) -> None:
        for moving, (_, _, part) in zip(self._fields, self._aggregate.parts(pane), strict=True):
            moving.add(index, part)

    def drop(self, last: int) -> None:
        for moving in self._fields:
            moving.drop(last)

    def state(self) -> State:
        return tuple(column for moving in self._fields for column in moving.state())
