"""Registers that keep the latest write: one for all (`LWWRegister`), or one for each partition (`MVRegister`).

Which write is later is decided by the rows themselves, never by who hears of them first: by stamp, then by origin,
then by the canonical bytes of the value (two writes made from one row). Values may be integers, floats, strings or
booleans, in any mixture. State columns of values hold Python objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from holons import codec
from holons.algebra.aggregate import IdempotentAggregate, IntArray, State, place, size
from holons.algebra.cells import Cell, CellAggregate, CellTable
from holons.algebra.groups import Groups
from holons.algebra.order import INT64_MIN
from holons.algebra.rows import Element, Origin, Rows, Scalar, column, integers, take_element
from holons.errors import BadElement

Objects: TypeAlias = "npt.NDArray[np.generic]"


@dataclass(frozen=True)
class LWWRegister(IdempotentAggregate[Scalar | None]):
    """The last write wins: `insert(value, ts)`, or `insert((value, stamp), ts)` with an integer stamp of your own.

    The later write is the one with the larger (stamp, partition, offset, bytes of the value); without a stamp of your
    own, it is the event time. None while nothing was written. Null in value or stamp: the row is not there. NaN is a
    value like any other.

    >>> from holons.algebra import Groups, rows_of
    >>> last = LWWRegister()
    >>> last.value(last.fold(Groups.single(3), rows_of(["b", "c", "a"], ts=[10, 30, 20])))
    'c'
    >>> last.value(last.fold(Groups.single(2), rows_of((["new", "old"], [7, 3]), ts=[10, 20])))
    'new'
    """

    def zero(self, n: int) -> State:
        return np.full(n, INT64_MIN), np.full(n, -1), np.full(n, -1), np.full(n, None, dtype=object)

    def fold(self, groups: Groups, rows: Rows) -> State:
        if rows.count == 0:
            return self.zero(groups.n)
        values, stamps = _value_and_stamp(rows)
        written, (partitions, winning, offsets, latest_values) = latest(groups, stamps, rows.origin, values)
        return place(self.zero(groups.n), written, (winning, partitions, offsets, latest_values))

    def merge(self, a: State, b: State) -> State:
        later = np.zeros(size(a), dtype=np.bool_)
        tied = np.ones(size(a), dtype=np.bool_)
        for mine, theirs in zip(a[:3], b[:3], strict=True):
            later |= tied & (theirs > mine)
            tied &= theirs == mine
        for group in np.flatnonzero(tied).tolist():
            later[group] = codec.encode(b[3][group]) > codec.encode(a[3][group])
        return tuple(np.where(later, theirs, mine) for mine, theirs in zip(a, b, strict=True))

    def touched(self, state: State) -> npt.NDArray[np.bool_]:
        return state[1] >= 0

    def value(self, state: State, group: int = 0) -> Scalar | None:
        written: Scalar | None = state[3][group]
        return written

    def values(self, state: State) -> npt.NDArray[np.generic]:
        return state[3]


@dataclass(frozen=True)
class MVRegister(CellAggregate[list[Scalar]]):
    """The latest value of each partition: later writes of a partition replace its own, those of others stay beside.

    Partitions do not know of each other's writes, so these are concurrent, and all are kept: the value lists them,
    distinct and sorted (booleans, then numbers with NaN last, then strings). Within a partition the larger
    (event time, offset, bytes of the value) is later. Null: the row is not there.

    >>> from holons.algebra import Groups, rows_of
    >>> kept = MVRegister()
    >>> left = kept.fold(Groups.single(2), rows_of(["a", "b"], ts=[1, 2], partition=0))
    >>> right = kept.fold(Groups.single(1), rows_of(["x"], ts=[1], partition=1))
    >>> kept.value(kept.merge(left, right))
    ['b', 'x']
    """

    def table(self, groups: Groups, rows: Rows) -> CellTable:
        return latest(groups, rows.ts, rows.origin, rows.element)

    def settle(self, table: CellTable) -> CellTable:
        ids, (partitions, stamps, offsets, values) = table
        order = np.lexsort((offsets, stamps, partitions, ids))
        slot = _changes(ids[order], partitions[order])
        write = _changes(slot, stamps[order], offsets[order])
        last = np.flatnonzero(np.append(slot[1:] != slot[:-1], True))
        winners = order[last]
        crowded = np.flatnonzero(np.bincount(write)[write[last]] > 1)
        for spot in crowded.tolist():  # one row wrote more than once: the largest bytes
            candidates = order[write == write[last[spot]]].tolist()
            winners[spot] = max(candidates, key=lambda row: codec.encode(values[row]))
        return CellTable(ids[winners], tuple(column[winners] for column in (partitions, stamps, offsets, values)))

    def read(self, cell: Cell) -> list[Scalar]:
        if not cell:
            return []
        distinct = {codec.encode(value): value for value in cell[3].tolist()}
        return sorted(distinct.values(), key=_sort_key)


def latest(groups: Groups, stamps: IntArray, origin: Origin, element: Element) -> CellTable:
    """Of every group with rows, the write with the largest (stamp, offset, bytes): partition, stamp, offset, value."""
    best = groups.maxima(stamps, np.full(groups.n, INT64_MIN))
    group_of = None if groups.n == 1 else groups.ids()
    rows = np.flatnonzero(stamps == (best[0] if group_of is None else best[group_of]))
    ids = np.zeros(len(rows), dtype=np.int64) if group_of is None else group_of[rows]
    offsets = origin.take(rows).offsets()
    best = Groups.scatter(ids, groups.n).maxima(offsets, np.full(groups.n, INT64_MIN))
    last = np.flatnonzero(offsets == best[ids])
    last = last[np.argsort(ids[last], kind="stable")]
    rows, ids, offsets, latest_values = rows[last], ids[last], offsets[last], _objects(element, rows[last])
    if len(ids) > 1 and not np.all(ids[1:] > ids[:-1]):  # a row wrote more than once
        winners: dict[int, int] = {}
        for spot, group in enumerate(ids.tolist()):
            other = winners.setdefault(group, spot)
            if codec.encode(latest_values[spot]) > codec.encode(latest_values[other]):
                winners[group] = spot
        chosen = np.fromiter(winners.values(), dtype=np.int64)
        rows, ids, offsets, latest_values = rows[chosen], ids[chosen], offsets[chosen], latest_values[chosen]
    return CellTable(ids, (np.full(len(ids), origin.partition, dtype=np.int64), stamps[rows], offsets, latest_values))


def _objects(element: Element, rows: IntArray) -> Objects:
    """The values of some rows as Python objects, with one NaN and one zero."""
    if isinstance(element, tuple | dict):
        raise BadElement("a register takes one value per row", hint="insert a value; LWWRegister also (value, stamp)")
    chosen = column(take_element(element, rows), len(rows))
    values = chosen.to_list() if isinstance(chosen, pl.Series) else chosen.tolist()
    return codec.object_array([value + 0.0 if isinstance(value, float) else value for value in values])


def _value_and_stamp(rows: Rows) -> tuple[Element, IntArray]:
    if not isinstance(rows.element, tuple):
        return rows.element, rows.ts
    if len(rows.element) != 2:
        raise BadElement(f"LWWRegister takes (value, stamp), not {len(rows.element)} columns")
    value, stamp = rows.element
    return value, integers(stamp, rows.count, "LWWRegister's stamp")


def _changes(*columns: npt.NDArray[np.generic]) -> IntArray:
    """A number for each run of equal rows, ascending."""
    different = np.zeros(len(columns[0]), dtype=np.bool_)
    for values in columns:
        different[1:] |= values[1:] != values[:-1]
    return np.cumsum(different)


def _sort_key(value: Scalar) -> tuple[int, bool, Scalar]:
    if isinstance(value, str):
        return 2, False, value
    return (0 if isinstance(value, bool) else 1), value != value, (0 if value != value else value)
