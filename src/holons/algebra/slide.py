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
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from holons import codec
from holons.algebra import keys as key_columns
from holons.algebra.aggregate import Aggregate, IntArray, State, place, size, take
from holons.algebra.counters import GCounter
from holons.algebra.keys import Finder, Keys
from holons.algebra.maps import MergeMap, cell_of
from holons.algebra.product import Product
from holons.errors import BadWindow

_Mask: TypeAlias = "npt.NDArray[np.bool_]"

_Pane: TypeAlias = "tuple[int, State]"
_Combine: TypeAlias = Callable[[State, State], State]

_SPARE_KEYS: Final = 1024

_MUCH: Final = 2
"""Keys of the table per key in use, up to which whole columns are cheaper than looking up places."""


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


class _KeyedPane(NamedTuple):
    """A pane in the window, as inner states for `keys`."""

    number: int
    keys: Keys
    state: State
    hidden: IntArray | slice | None
    """The keys whose rows the state does not show, by place (None: no key)."""


class _CountingKeys(_Moving):
    """For maps of invertible aggregates: totals per key, and in how many panes a key is that totals do not show.

    A key leaves the map when the last pane with it leaves; only then is the subtraction exact in bytes too. Keys that
    left keep their place in the table for a while, since most come back.

    A pane with much of the table is spread over all of it, zeros between its keys: scattered once, it comes and goes
    by whole columns. If the table has grown meanwhile, or the pane has few keys, they are looked up one by one. A table
    never shrinks while such a pane is in: it has at most `_MUCH` times the pane's keys, beside those of newer panes.
    """

    def __init__(self, aggregate: MergeMap[object]) -> None:
        self._inner: Aggregate[object] = aggregate.inner
        self._objects = any(column.dtype.hasobject for column in aggregate.inner.zero(0))
        self._held: deque[_KeyedPane] = deque()
        self._reset()

    def _reset(self) -> None:
        self._finder = Finder(key_columns.empty())
        self._totals = self._inner.zero(0)
        self._shared = False  # whether somebody else may hold the totals
        self._hidden: IntArray = np.zeros(0, dtype=np.int64)

    def add(self, index: int, pane: State) -> None:
        keys, state = cell_of(pane)
        if len(keys) == 0:
            return
        held = _KeyedPane(index, keys, state, _gaps(self._shown(state)))
        places, table = self._room(keys), self._finder.keys
        if places is None:
            held = held._replace(keys=table)
        elif held.hidden is None and len(table) <= _MUCH * len(keys):
            state = place(self._inner.zero(len(table)), places, state)
            held, places = _KeyedPane(index, table, state, None), None
        self._held.append(held)
        self._move(held, places, self._inner.merge, np.add)

    def drop(self, last: int) -> None:
        if self._held and self._held[-1].number <= last:
            self._held.clear()
            self._reset()
        while self._held and self._held[0].number <= last:
            pane = self._held.popleft()
            places = None if pane.keys is self._finder.keys else self._finder.find(pane.keys)
            assert places is not None or pane.keys is self._finder.keys, "a key is gone while a pane has it"
            self._move(pane, places, self._inner.subtract, np.subtract)

    def state(self) -> State:
        keys, shown = self._finder.keys, self._shown(self._totals)
        if shown.all() or (shown := shown | (self._hidden > 0)).all():
            self._shared = True
            return _map_of(keys, self._totals)
        chosen = np.flatnonzero(shown)
        if len(chosen) == 0:
            return _map_of(key_columns.empty(), self._inner.zero(0))
        chosen_keys, totals = keys[chosen], take(self._totals, chosen)
        if len(keys) > _MUCH * len(chosen) + _SPARE_KEYS:
            self._finder, self._hidden = Finder(chosen_keys), self._hidden[chosen]
            self._totals, self._shared = totals, True
        return _map_of(chosen_keys, totals)

    def _shown(self, state: State) -> _Mask:
        """Which groups have rows, as far as the state shows: a merge shows just those that one of its parts shows."""
        if isinstance(self._inner, GCounter):
            return np.greater(state[0], 0)
        touched = None if self._objects else self._inner.touched(state)
        return np.zeros(size(state), dtype=np.bool_) if touched is None else touched

    def _room(self, keys: Keys) -> IntArray | None:
        """Where the keys are in the table, which grows if need be; None if they are all of it."""
        if key_columns.same(self._finder.keys, keys):
            return None
        places = self._finder.find(keys)
        if places is not None:
            return places
        before = self._finder.keys
        fixed = key_columns.below(before, keys)  # keys often grow with time: then most of the table stays where it is
        tail, old, places = key_columns.align(before[fixed:], keys)
        table = np.concatenate((before[:fixed], tail)) if fixed else tail
        grown = place(self._inner.zero(len(table)), slice(fixed), take(self._totals, slice(fixed)))
        self._totals = place(grown, old + fixed, take(self._totals, slice(fixed, None)))
        hidden = np.zeros(len(table), dtype=np.int64)
        hidden[:fixed] = self._hidden[:fixed]
        hidden[old + fixed] = self._hidden[fixed:]
        self._finder, self._hidden, self._shared = Finder(table), hidden, False
        return places + fixed

    def _move(self, pane: _KeyedPane, places: IntArray | None, combine: _Combine, count: np.ufunc) -> None:
        """Put a pane in, or take it out, given the places of its keys (None: it is as wide as the table)."""
        if pane.hidden is not None:
            where = pane.hidden if places is None else places[pane.hidden]
            if isinstance(where, slice):
                count(self._hidden, 1, out=self._hidden)
            else:
                count.at(self._hidden, where, 1)
        if places is None:
            self._totals, self._shared = combine(self._totals, pane.state), True
            return
        if self._shared:
            self._totals, self._shared = _copy(self._totals), False
        self._totals = place(self._totals, places, combine(take(self._totals, places), pane.state))


def _gaps(mask: _Mask) -> IntArray | slice | None:
    """Where the mask is false: None for nowhere, a slice for everywhere."""
    if mask.all():
        return None
    return np.flatnonzero(~mask) if mask.any() else slice(None)


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
