"""Counters: sums of integers that never wrap around."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from holons.algebra.aggregate import Aggregate, IntArray, State
from holons.algebra.groups import Groups
from holons.algebra.rows import NEGATIVE, Rows, integers, unsigned_max
from holons.errors import BadElement, IntegerOverflow


@dataclass(frozen=True)
class GCounter(Aggregate[int]):
    """A counter that only grows: `insert(1, ts)` counts rows, `insert(n, ts)` adds n >= 0.

    Null: the row is not there. Overflow of 64 bits raises; since all summands are positive, whether it raises does
    not depend on the order of the rows.

    >>> from holons.algebra import rows_of, Groups
    >>> g = GCounter()
    >>> g.value(g.fold(Groups.single(3), rows_of([1, 2, 3])))
    6
    """

    invertible: ClassVar[bool] = True

    def zero(self, n: int) -> State:
        return (np.zeros(n, dtype=np.int64),)

    def fold(self, groups: Groups, rows: Rows) -> State:
        return (non_negative_sums(groups, rows, "GCounter"),)

    def merge(self, a: State, b: State) -> State:
        return (checked_add(a[0], b[0]),)

    def subtract(self, a: State, b: State) -> State:
        return (a[0] - b[0],)

    def value(self, state: State, group: int = 0) -> int:
        return int(state[0][group])

    def values(self, state: State) -> npt.NDArray[np.generic]:
        return state[0]


@dataclass(frozen=True)
class PNCounter(Aggregate[int]):
    """A counter that goes up and down, kept as what was added and what was taken away.

    Two growing halves make overflow a property of the rows, not of their order. Null: the row is not there.
    """

    invertible: ClassVar[bool] = True

    def zero(self, n: int) -> State:
        return np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)

    def fold(self, groups: Groups, rows: Rows) -> State:
        if isinstance(rows.element, int) and rows.element >= 0:
            return non_negative_sums(groups, rows, "PNCounter"), np.zeros(groups.n, dtype=np.int64)
        values = integers(rows.element, rows.count, "PNCounter")
        if rows.count and (largest := unsigned_max(values)) < NEGATIVE:
            return groups.sums(values, largest), np.zeros(groups.n, dtype=np.int64)
        return groups.sums(np.maximum(values, 0)), groups.sums(-np.minimum(values, 0))

    def merge(self, a: State, b: State) -> State:
        return checked_add(a[0], b[0]), checked_add(a[1], b[1])

    def subtract(self, a: State, b: State) -> State:
        return a[0] - b[0], a[1] - b[1]

    def value(self, state: State, group: int = 0) -> int:
        return int(state[0][group]) - int(state[1][group])

    def values(self, state: State) -> npt.NDArray[np.generic]:
        return state[0] - state[1]


def checked_add(a: np.ndarray, b: np.ndarray) -> IntArray:
    """The sum of two columns of non-negative int64, or `IntegerOverflow`."""
    total: IntArray = a + b
    if total.size and int(total.min()) < 0:
        raise IntegerOverflow("a sum does not fit into 64 bits", hint='use h.Sum("float"), or smaller units')
    return total


def non_negative_sums(groups: Groups, rows: Rows, who: str) -> IntArray:
    """Sums of elements that must not be negative; a scalar element only needs the rows counted."""
    element = rows.element
    if isinstance(element, int):
        if element < 0:
            raise _negative(who, element)
        if element * rows.count > 2**63 - 1:
            raise IntegerOverflow("a sum does not fit into 64 bits")
        counts = groups.counts()
        return counts if element == 1 else counts * int(element)
    values = integers(element, rows.count, who)
    largest = unsigned_max(values) if rows.count else 0
    if largest >= NEGATIVE:
        raise _negative(who, int(values.min()))
    return groups.sums(values, largest)


def _negative(who: str, value: int) -> BadElement:
    return BadElement(f"{who} only grows, but was given {value}", hint="use h.PNCounter() for signed numbers")
