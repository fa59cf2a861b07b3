"""Registers that keep an extreme: the largest or the smallest value ever seen.

Both are lattices in the plainest sense: a total order, joined by maximum or minimum. Integers by size; strings by
code points; floats by -inf < ... < inf < NaN, with -0.0 the same as 0.0. So NaN wins every maximum (it cannot be
overlooked) and loses every minimum against any number.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from holons.algebra import keys
from holons.algebra.aggregate import IdempotentAggregate, State
from holons.algebra.groups import Groups
from holons.algebra.order import INT64_MAX, INT64_MIN
from holons.algebra.rows import Rows, column, floats, integers
from holons.errors import BadElement, BadProgram

Kind: TypeAlias = Literal["int", "float", "str"]
Extreme: TypeAlias = int | float | str | None
Column: TypeAlias = "npt.NDArray[np.generic]"

_DTYPES: Final[dict[str, np.dtype[np.generic]]] = {
    "int": np.dtype(np.int64),
    "float": np.dtype(np.float64),
    "str": keys.TEXT,  # type: ignore[dict-item]
}
_FEW_RUNS: Final = 64
_LEAST: Final[dict[str, int | float | str]] = {"int": INT64_MIN, "float": -np.inf, "str": ""}
_MOST: Final[dict[str, int | float | str]] = {"int": INT64_MAX, "float": np.nan, "str": ""}


@dataclass(frozen=True)
class _Extreme(IdempotentAggregate[Extreme]):
    """What both registers share. State: the values, and which groups have one; an absent value is the identity."""

    kind: Kind = "int"

    _largest: ClassVar[bool]

    def __post_init__(self) -> None:
        if self.kind not in _DTYPES:
            raise BadProgram(f"{type(self).__name__} knows no kind {self.kind!r}", hint='use "int", "float" or "str"')

    def _identity(self) -> int | float | str:
        """What an empty group holds: every number beats it, or is equal to it."""
        return _LEAST[self.kind] if self._largest else _MOST[self.kind]

    def _reduce(self, groups: Groups, values: Column, start: Column) -> Column:
        return groups.maxima(values, start) if self._largest else groups.minima(values, start)

    def _start(self, n: int) -> Column:
        return np.full(n, self._identity(), dtype=_DTYPES[self.kind])

    def zero(self, n: int) -> State:
        return self._start(n), np.zeros(n, dtype=np.bool_)

    def fold(self, groups: Groups, rows: Rows) -> State:
        if rows.count == 0:
            return self.zero(groups.n)
        if self.kind == "str":
            return self._fold_text(groups, rows)
        who = type(self).__name__
        if self.kind == "int":
            values: Column = integers(rows.element, rows.count, who)
        else:
            values = floats(rows.element, rows.count, who)
        best = self._reduce(groups, values, self._start(groups.n))
        return best, self._present(groups, best, values)

    def _present(self, groups: Groups, best: Column, values: Column) -> npt.NDArray[np.bool_]:
        """Which groups have rows: seen from the result, and counted only if a row may have had the identity."""
        if groups.bounds is not None:
            return np.ones(groups.n, dtype=np.bool_)
        identity = self._identity()
        present: npt.NDArray[np.bool_] = best != identity if identity == identity else best == best
        if present.all() or (self._largest and values.min() > identity):
            return present
        return groups.counts() > 0

    def _fold_text(self, groups: Groups, rows: Rows) -> State:
        values = column(rows.element, rows.count)
        if not isinstance(values, pl.Series):
            raise BadElement(f"{type(self).__name__}('str') takes strings, not {values.dtype}")
        if groups.bounds is not None and groups.n <= _FEW_RUNS:
            edges = pairwise(groups.bounds.tolist())
            runs = (values[low:high] for low, high in edges)
            best_of = [run.max() if self._largest else run.min() for run in runs]
            return np.array(best_of, dtype=keys.TEXT), np.ones(groups.n, dtype=np.bool_)
        coded = keys.encode(values, rows.count)
        identity = -1 if self._largest else len(coded.keys)
        best = self._reduce(groups, coded.codes, np.full(groups.n, identity, dtype=np.int64))
        present = best != identity
        extremes = self.zero(groups.n)[0]
        extremes[present] = coded.keys[best[present]]
        return extremes, present

    def merge(self, a: State, b: State) -> State:
        (mine, have), (theirs, has) = a, b
        if self.kind == "str":
            better = theirs > mine if self._largest else theirs < mine
            best = np.where(has & (np.logical_not(have) | better), theirs, mine)
        elif self._largest:
            best = np.maximum(mine, theirs)
        else:
            best = (np.fmin if self.kind == "float" else np.minimum)(mine, theirs)
        return best, have | has

    def touched(self, state: State) -> npt.NDArray[np.bool_]:
        return state[1].astype(np.bool_, copy=False)

    def value(self, state: State, group: int = 0) -> Extreme:
        return state[0][group : group + 1].tolist()[0] if state[1][group] else None

    def values(self, state: State) -> Column:
        best, present = state
        if present.all():
            return best
        result = best.astype(object)
        result[np.logical_not(present)] = None
        return result

    def describe(self) -> str:
        return f"{type(self).__name__}({self.kind!r})"


@dataclass(frozen=True)
class MaxRegister(_Extreme):
    """The largest value: `insert(price, ts)`. None while there is none.

    Null: the row is not there. NaN counts as larger than every number.

    >>> from holons.algebra import Groups, rows_of
    >>> highest = MaxRegister()
    >>> highest.value(highest.fold(Groups.single(2), rows_of([3, None, 8])))
    8
    >>> highest.value(highest.zero(1)) is None
    True
    """

    _largest: ClassVar[bool] = True


@dataclass(frozen=True)
class MinRegister(_Extreme):
    """The smallest value: `insert(latency, ts)`. None while there is none.

    Null: the row is not there. NaN counts as larger than every number, so it is the minimum only where nothing else is.

    >>> from holons.algebra import Groups, rows_of
    >>> lowest = MinRegister("str")
    >>> lowest.value(lowest.fold(Groups.single(2), rows_of(["pear", "apple"])))
    'apple'
    """

    _largest: ClassVar[bool] = False
