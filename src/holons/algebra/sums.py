"""Sums and averages that are exact, so that they may be cut, reordered and subtracted at will."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from holons import codec
from holons.algebra import exact
from holons.algebra.aggregate import Aggregate, State
from holons.algebra.counters import PNCounter, checked_add
from holons.algebra.groups import Groups
from holons.algebra.rows import Rows, floats
from holons.errors import BadProgram

Kind = Literal["int", "float"]

_INTEGERS = PNCounter()
_EXACT_FLOAT_MAX = 2**53


@dataclass(frozen=True)
class Sum(Aggregate[int | float]):
    """The sum of a column. `Sum("int")` is a `PNCounter`; `Sum("float")` adds exactly and rounds once, when read.

    Null: the row is not there. NaN, or both infinities, make the sum NaN; no rows make it 0. Integers raise rather than
    overflow 64 bits; floats never do.

    >>> from holons.algebra import rows_of, Groups
    >>> s = Sum("float")
    >>> s.value(s.fold(Groups.single(10), rows_of([0.1] * 10)))
    1.0
    """

    kind: Kind = "int"
    invertible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self.kind)

    def zero(self, n: int) -> State:
        return _INTEGERS.zero(n) if self.kind == "int" else exact.zero(n)

    def fold(self, groups: Groups, rows: Rows) -> State:
        return _fold(self.kind, groups, rows, "Sum")

    def merge(self, a: State, b: State) -> State:
        return _INTEGERS.merge(a, b) if self.kind == "int" else exact.merge(a, b)

    def subtract(self, a: State, b: State) -> State:
        return _INTEGERS.subtract(a, b) if self.kind == "int" else exact.subtract(a, b)

    def value(self, state: State, group: int = 0) -> int | float:
        return _INTEGERS.value(state, group) if self.kind == "int" else exact.value(state, group)

    def values(self, state: State) -> npt.NDArray[np.generic]:
        if self.kind == "int":
            return _INTEGERS.values(state)
        return np.array([exact.value(state, group) for group in range(len(state[0]))], dtype=np.float64)

    def describe(self) -> str:
        return f"Sum({self.kind})"


@dataclass(frozen=True)
class Average(Aggregate[float | None]):
    """The mean of a column: the exact sum and the number of rows, divided and rounded once, when read.

    Null: the row is not there. No rows: None. NaN, or both infinities, make the mean NaN.

    >>> from holons.algebra import rows_of, Groups
    >>> a = Average()
    >>> a.value(a.fold(Groups.single(3), rows_of([0.1, 0.2, 0.3])))
    0.2
    """

    kind: Kind = "float"
    invertible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self.kind)

    def zero(self, n: int) -> State:
        return *(_INTEGERS.zero(n) if self.kind == "int" else exact.zero(n)), np.zeros(n, dtype=np.int64)

    def fold(self, groups: Groups, rows: Rows) -> State:
        return *_fold(self.kind, groups, rows, "Average"), groups.counts()

    def merge(self, a: State, b: State) -> State:
        merge = _INTEGERS.merge if self.kind == "int" else exact.merge
        return *merge(a[:-1], b[:-1]), checked_add(a[-1], b[-1])

    def subtract(self, a: State, b: State) -> State:
        subtract = _INTEGERS.subtract if self.kind == "int" else exact.subtract
        return *subtract(a[:-1], b[:-1]), np.subtract(a[-1], b[-1])

    def touched(self, state: State) -> npt.NDArray[np.bool_]:
        return np.greater(state[-1], 0)

    def value(self, state: State, group: int = 0) -> float | None:
        count = int(state[-1][group])
        if count == 0:
            return None
        if self.kind == "int":
            return _INTEGERS.value(state, group) / count
        return exact.quotient(state[:-1], group, count)

    def values(self, state: State) -> npt.NDArray[np.generic]:
        """One float for each group; a column of objects if some group has no rows, hence None."""
        counts = state[-1]
        if counts.all():
            if self.kind == "int":
                totals = _INTEGERS.values(state)
                if len(totals) == 0 or max(abs(int(totals.min())), abs(int(totals.max()))) < _EXACT_FLOAT_MAX:
                    return np.true_divide(totals, counts)
            return np.array([self.value(state, group) for group in range(len(counts))], dtype=np.float64)
        return codec.object_array([self.value(state, group) for group in range(len(counts))])

    def describe(self) -> str:
        return f"Average({self.kind})"


def _fold(kind: Kind, groups: Groups, rows: Rows, who: str) -> State:
    if kind == "int":
        return _INTEGERS.fold(groups, rows)
    return exact.fold(groups, floats(rows.element, rows.count, who))


def _check(kind: str) -> None:
    if kind not in ("int", "float"):
        raise BadProgram(f"there is no sum of kind {kind!r}", hint='use "int" or "float"')
