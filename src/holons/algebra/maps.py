"""Maps: another aggregate for each key. How global group-bys are kept without a shuffle."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from holons import codec
from holons.algebra import keys as key_columns
from holons.algebra.aggregate import Aggregate, IdempotentAggregate, IntArray, Joined, State, concat, place, size, take
from holons.algebra.counters import GCounter
from holons.algebra.groups import Groups
from holons.algebra.keyed import Keyed
from holons.algebra.keys import Coded, Keys
from holons.algebra.product import Product
from holons.algebra.rows import Element, Rows
from holons.errors import BadElement

V = TypeVar("V")

_RUN_ROWS: Final = 4096
"""Rows in a run from which NumPy's overhead for each call no longer matters."""

_DENSE: Final = 8
"""Table cells per row up to which clearing and scanning a table is cheaper than sorting the rows."""

_APART: Final = 4096
"""So many keys below all of the other map's are worth being left alone."""

Cell: TypeAlias = "tuple[Keys, State]"
"""One group's map: its key column, and the inner state of as many groups."""


@dataclass(frozen=True)
class MergeMap(IdempotentAggregate[Keyed[V]]):
    """A map from keys to an inner aggregate: `insert((keys, element), ts)`, or `insert((keys, a, b), ts)` for tuples.

    Law: a key is in the map exactly if some row has it (also where that row adds 0), and its value is the inner
    aggregate of its rows; merging merges key by key. Keys are integers, booleans (as 0 and 1) or strings, one kind in
    one map. Null, as a key or as an element: the row is not there.

    Idempotent exactly if the inner aggregate is; only then `join` and `leq` are those of a lattice. Never
    `invertible`, since a state does not tell how many rows a key had: `slide.Slide` counts panes instead.

    >>> from holons.algebra import GCounter, Groups, rows_of
    >>> counts = MergeMap(GCounter())
    >>> counts.value(counts.fold(Groups.single(3), rows_of((["a", "b", "a"], 1))))
    Keyed({'a': 2, 'b': 1}, 2 keys)
    """

    inner: Aggregate[V]
    invertible: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "idempotent", self.inner.idempotent)

    def zero(self, n: int) -> State:
        return (_column([self._nothing()] * n),)

    def fold(self, groups: Groups, rows: Rows) -> State:
        key, element = _split(rows.element)
        coded = key_columns.encode(key, rows.count)
        rows, span = rows.with_element(element), len(coded.keys)
        if rows.count == 0:
            return self.zero(groups.n)
        if groups.n == 1:
            return (_column([self._cell(coded, rows)]),)
        if groups.bounds is not None and groups.n * (span + _RUN_ROWS) <= 2 * rows.count:
            return (_column(self._run_by_run(groups, coded, rows)),)
        places = groups.ids() * span
        places += coded.codes
        if groups.n * span <= _DENSE * rows.count + 4096:
            return (_column(self._dense(groups.n, places, coded, rows)),)
        return (_column(self._sparse(groups.n, places, coded, rows)),)

    def merge(self, a: State, b: State) -> State:
        pairs = zip(a[0].tolist(), b[0].tolist(), strict=True)
        return (_column([self._merge_cells(left, right) for left, right in pairs]),)

    def value(self, state: State, group: int = 0) -> Keyed[V]:
        keys, inner = state[0][group]
        return Keyed(keys, self.inner.columns(inner) if isinstance(self.inner, Product) else self.inner.values(inner))

    def join(self, a: State, b: State) -> Joined[State]:
        if not self.idempotent:
            raise BadElement(f"{self.describe()} is no lattice by itself", hint="wrap it: `slots.Slots(aggregate)`")
        return super().join(a, b)

    def describe(self) -> str:
        return f"MergeMap({self.inner.describe()})"

    # --- the fold, three ways ---------------------------------------------------------------------------------------

    def _run_by_run(self, groups: Groups, coded: Coded, rows: Rows) -> list[Cell]:
        """Groups are slices with many rows: fold each by itself, in a table that stays in the cache."""
        assert groups.bounds is not None
        edges = groups.bounds.tolist()
        return [
            self._cell(Coded(coded.codes[low:high], coded.keys), rows.between(low, high))
            for low, high in pairwise(edges)
        ]

    def _dense(self, n: int, places: IntArray, coded: Coded, rows: Rows) -> list[Cell]:
        """One table of all groups and keys."""
        span = len(coded.keys)
        state, has_rows = self._fold_inner(Groups.scatter(places, n * span), rows)
        return [
            self._compress(coded.keys, take(state, part), has_rows[part])
            for part in (slice(group * span, (group + 1) * span) for group in range(n))
        ]

    def _sparse(self, n: int, places: IntArray, coded: Coded, rows: Rows) -> list[Cell]:
        """Only the pairs of group and key that occur: most of the table would be empty."""
        order = np.argsort(places)
        ascending = places[order]
        edges = np.concatenate(([0], np.flatnonzero(ascending[1:] != ascending[:-1]) + 1, [len(order)]))
        occupied = ascending[edges[:-1]]
        state = self.inner.fold(Groups(len(occupied), len(order), bounds=edges), rows.take(order))
        keys = coded.keys[occupied % len(coded.keys)]
        limits = np.searchsorted(occupied, np.arange(n + 1) * len(coded.keys)).tolist()
        return [
            (keys[low:high].copy(), _copy(take(state, slice(low, high)))) if low < high else self._nothing()
            for low, high in pairwise(limits)
        ]

    def _cell(self, coded: Coded, rows: Rows) -> Cell:
        state, has_rows = self._fold_inner(Groups.scatter(coded.codes, len(coded.keys)), rows)
        return self._compress(coded.keys, state, has_rows)

    def _fold_inner(self, groups: Groups, rows: Rows) -> tuple[State, npt.NDArray[np.bool_]]:
        """The inner states, and which of them have rows: read from the state where it tells, else counted."""
        state = self.inner.fold(groups, rows)
        if isinstance(self.inner, GCounter) and isinstance(rows.element, int) and rows.element > 0:
            return state, np.greater(state[0], 0)
        touched = self.inner.touched(state)
        if touched is None and isinstance(self.inner, Product):
            touched = self.inner.touched_by(rows, state)
        return state, groups.counts() > 0 if touched is None else touched

    def _compress(self, keys: Keys, state: State, has_rows: npt.NDArray[np.bool_]) -> Cell:
        if has_rows.all():
            return keys, state if state[0].base is None else _copy(state)
        chosen = np.flatnonzero(has_rows)
        return (key_columns.at(keys, chosen), take(state, chosen)) if len(chosen) else self._nothing()

    # --- the merge --------------------------------------------------------------------------------------------------

    def _merge_cells(self, a: Cell, b: Cell) -> Cell:
        if len(a[0]) == 0 or len(b[0]) == 0:
            return a if len(a[0]) else b
        if key_columns.same(a[0], b[0]):
            return a[0], self.inner.merge(a[1], b[1])
        low, high = (a, b) if key_columns.below(a[0], b[0]) else (b, a)
        apart = key_columns.below(low[0], high[0])
        if apart >= _APART:  # keys often grow with time: those of one map below all of the other's stay as they are
            rest = self._merge_cells((low[0][apart:], take(low[1], slice(apart, None))), high)
            return np.concatenate((low[0][:apart], rest[0])), concat([take(low[1], slice(apart)), rest[1]])
        keys, left, right = key_columns.align(a[0], b[0])
        return keys, self.inner.merge(self._spread(keys, left, a), self._spread(keys, right, b))

    def _spread(self, keys: Keys, places: IntArray, cell: Cell) -> State:
        """The cell's inner state over a larger key column."""
        if len(places) == len(keys):
            return cell[1]
        return place(self.inner.zero(len(keys)), places, cell[1])

    def _nothing(self) -> Cell:
        return key_columns.empty(), self.inner.zero(0)


def _split(element: Element) -> tuple[Element, Element]:
    """The key, and what goes into the inner aggregate."""
    if not isinstance(element, tuple) or len(element) < 2:
        raise BadElement("a map takes a tuple of key and element", hint="insert((keys, element), ts)")
    return element[0], element[1] if len(element) == 2 else element[1:]


def _copy(state: State) -> State:
    """The state without the larger one that it is a slice of: that one would stay in memory."""
    return tuple(column.copy() for column in state)


def _column(cells: list[Cell]) -> npt.NDArray[np.generic]:
    return codec.object_array(cells)  # type: ignore[arg-type]


def cell_of(state: State) -> Cell:
    """The only group's map."""
    assert size(state) == 1, f"{size(state)} groups"
    cell: Cell = state[0][0]
    return cell
