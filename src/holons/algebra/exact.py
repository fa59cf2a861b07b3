"""Exact sums of floats: no rounding until somebody reads the value.

Every finite float is a whole number of 2**-1074, so a sum of floats is a whole number too, and whole numbers add up
alike in any order (invariant: exact folds). A state has four columns: the sum as a Python integer in units of
2**-1074, and how many NaN, +inf and -inf there were. Equal sums have equal bytes, and `subtract` undoes `merge`.

The value is the float nearest to the true sum; NaN if there was a NaN or both infinities; an infinity if there was
one, or if the true sum is beyond the largest float.

>>> state = fold(Groups.single(4), np.array([1e308, 1.0, -1e308, 2.0**-1074]))
>>> value(state, 0)
1.0
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from holons.algebra.aggregate import State
from holons.algebra.groups import Groups

Floats = npt.NDArray[np.float64]

COLUMNS: Final = 4
_UNIT_BITS: Final = 1074
_MANTISSA_BITS: Final = 53


def zero(n: int) -> State:
    """As many sums of nothing."""
    return (_totals(n), *(np.zeros(n, dtype=np.int64) for _ in range(3)))


def fold(groups: Groups, values: Floats) -> State:
    """The exact sum of each group."""
    nan, up, down = (np.zeros(groups.n, dtype=np.int64) for _ in range(3))
    finite = np.isfinite(values)
    if not finite.all():
        odd = np.flatnonzero(~finite)
        rare, ids = values[odd], groups.ids()[odd]
        nan, up, down = (
            np.bincount(ids[mask], minlength=groups.n).astype(np.int64, copy=False)
            for mask in (np.isnan(rare), rare == np.inf, rare == -np.inf)
        )
        values = np.where(finite, values, 0.0)
    return _finite_totals(groups, values), nan, up, down


def merge(a: State, b: State) -> State:
    """Group by group: the sum of both."""
    return tuple(np.add(left, right) for left, right in zip(a, b, strict=True))


def subtract(a: State, b: State) -> State:
    """Group by group: the sum `a` without the summands of `b`."""
    return tuple(np.subtract(left, right) for left, right in zip(a, b, strict=True))


def value(state: State, group: int) -> float:
    """The float nearest to the sum."""
    return quotient(state, group, 1)


def quotient(state: State, group: int, divisor: int) -> float:
    """The float nearest to the sum divided by `divisor`: rounded once, not twice."""
    total, nan, up, down = (column[group] for column in state)
    if nan or (up and down):
        return math.nan
    if up or down:
        return math.inf if up else -math.inf
    try:
        return int(total) / (divisor << _UNIT_BITS)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


# --- the fold -------------------------------------------------------------------------------------------------------


def _totals(n: int) -> npt.NDArray[np.object_]:
    totals = np.empty(n, dtype=np.object_)
    totals[:] = 0
    return totals


def _finite_totals(groups: Groups, values: Floats) -> npt.NDArray[np.object_]:
    """Sums of the leading bits of all values, then of the next bits of what is left, until nothing is left.

    At each level the values are cut at one place, a power of two: the part above is a whole number of it with so few
    bits that `groups.count` of them add up in 64 bits, the part below is again a float. Scaling by powers of two,
    truncation and the difference are all exact. Two levels do unless values differ by many orders of magnitude.
    """
    totals = _totals(groups.n)
    bits = min(_MANTISSA_BITS - 1, 63 - groups.count.bit_length())
    rest = values.copy()
    while groups.count and (largest := max(-float(rest.min()), float(rest.max()))) > 0.0:
        cut = max(math.frexp(largest)[1] - bits, -_UNIT_BITS)
        leading = _scaled(rest, -cut)
        whole = leading.astype(np.int64)
        totals += groups.sums(whole).astype(object) << (cut + _UNIT_BITS)
        np.copyto(leading, whole)
        rest -= _scaled(leading, cut)
        if 0 < np.count_nonzero(rest) < groups.count // 4:
            left = np.flatnonzero(rest)
            groups, rest = groups.take(left), rest[left]
    return totals


def _scaled(values: Floats, exponent: int) -> Floats:
    """`values * 2**exponent`, in two steps where 2**exponent itself is no float."""
    if -1022 <= exponent <= 1023:
        return values * math.ldexp(1.0, exponent)
    half = exponent // 2
    return values * math.ldexp(1.0, half) * math.ldexp(1.0, exponent - half)
