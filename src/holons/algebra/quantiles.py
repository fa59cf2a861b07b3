"""Quantiles with a guaranteed relative error, from counts in buckets cut out of the bits of a float.

The usual sketches (t-digest, KLL) depend on the order of the rows, so they are no aggregates here. Counting is exact
in any order; what is approximate is the bucket, and its width is known.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from holons.algebra.aggregate import Aggregate, IntArray, State, size
from holons.algebra.cells import CellColumn, CellTable, empty_cells, flatten, split
from holons.algebra.counters import checked_add
from holons.algebra.groups import Groups
from holons.algebra.rows import Rows, floats
from holons.errors import BadElement, BadProgram

_MANTISSA: Final = 52
_MAGNITUDE: Final = 2**63 - 1
_BLOCK_ROWS: Final = 1 << 15


@dataclass(frozen=True)
class Quantiles(Aggregate["Distribution"]):
    """The distribution of a column: `insert(latency, ts)`, then `value.quantile(0.99)`.

    A bucket is a sign, a binary exponent and the first b bits of the mantissa, taken from the double's own bits: pure
    integer arithmetic, the same on every machine. b is the least number for which half a bucket is within
    `relative_error` of everything in it; so a quantile that is v exactly is reported within v ± relative_error * |v|.

    Zero has its own bucket, and so have both infinities. Magnitudes below 2.3e-308 (subnormal) count as zero.
    Integers are taken as floats. Null: the row is not there. NaN has no rank: such rows are counted apart, in `nans`.

    >>> from holons.algebra import Groups, rows_of
    >>> q = Quantiles(0.01)
    >>> median = q.value(q.fold(Groups.single(101), rows_of(list(range(101))))).quantile(0.5)
    >>> abs(median - 50) <= 0.01 * 50
    True
    """

    invertible: ClassVar[bool] = True

    relative_error: float = 0.01

    def __post_init__(self) -> None:
        if not 1e-6 <= self.relative_error < 1:
            raise BadProgram(f"Quantiles with a relative error of {self.relative_error!r}", hint="0.01 means 1 %")

    @property
    def mantissa_bits(self) -> int:
        """How many bits of the mantissa tell buckets apart: half a bucket is less than the error, by a rounding."""
        return next(bits for bits in range(_MANTISSA) if 2.0 ** -(bits + 1) < self.relative_error * (1 - 2.0**-40))

    def zero(self, n: int) -> State:
        return empty_cells(n), np.zeros(n, dtype=np.int64)

    def fold(self, groups: Groups, rows: Rows) -> State:
        if rows.count == 0:
            return self.zero(groups.n)
        values = floats(rows.element, rows.count, "Quantiles")
        nans = np.isnan(values)
        missing = np.zeros(groups.n, dtype=np.int64)
        if nans.any():
            missing = groups.take(nans).counts()
            groups, values = groups.take(~nans), values[~nans]
        ids = None if groups.n == 1 else groups.ids()
        buckets = np.empty(len(values), dtype=np.int64)
        for low in range(0, len(values), _BLOCK_ROWS):  # intermediate columns stay in the cache
            buckets[low : low + _BLOCK_ROWS] = self._buckets(values[low : low + _BLOCK_ROWS])
        return split(_counted(ids, buckets, None), groups.n), missing

    def _buckets(self, values: npt.NDArray[np.float64]) -> IntArray:
        """Bucket numbers, ascending with the values."""
        bits: IntArray = values.view(np.int64)
        magnitude = (bits & _MAGNITUDE) >> (_MANTISSA - self.mantissa_bits)
        magnitude *= magnitude >= 1 << self.mantissa_bits
        sign = bits >> 63  # 0, or -1: then x ^ sign - sign is -x
        return (magnitude ^ sign) - sign

    def merge(self, a: State, b: State) -> State:
        return self._added(a[0], b[0]), checked_add(a[1], b[1])

    def subtract(self, a: State, b: State) -> State:
        taken = empty_cells(size(b))
        for group, cell in enumerate(b[0].tolist()):
            taken[group] = (cell[0], -cell[1]) if cell else ()
        return self._added(a[0], taken), a[1] - b[1]

    def _added(self, a: CellColumn, b: CellColumn) -> CellColumn:
        table = flatten(a, b)
        if not table.columns:
            return a
        buckets, counts = table.columns
        return split(_counted(table.ids, buckets, counts), len(a))  # type: ignore[arg-type]

    def touched(self, state: State) -> npt.NDArray[np.bool_]:
        filled = np.fromiter(map(bool, state[0].tolist()), dtype=np.bool_, count=size(state))
        return filled | (state[1] > 0)

    def value(self, state: State, group: int = 0) -> Distribution:
        cell = state[0][group]
        buckets, counts = (tuple(part.tolist()) for part in cell) if cell else ((), ())
        return Distribution(buckets, counts, int(state[1][group]), self.mantissa_bits)

    def describe(self) -> str:
        return f"Quantiles({self.relative_error})"


@dataclass(frozen=True)
class Distribution:
    """What `Quantiles` knows of a window: buckets in ascending order, and how many rows each has."""

    buckets: tuple[int, ...]
    counts: tuple[int, ...]
    nans: int
    mantissa_bits: int

    @property
    def count(self) -> int:
        """How many rows, without those that are NaN."""
        return sum(self.counts)

    def quantile(self, q: float) -> float | None:
        """The value at rank ceil(q * count) of the sorted rows, at least the first; None without rows.

        `q` means the decimal number as it is written: 0.07 of 100 rows is the 7th, though the float is a little more.
        """
        if not 0 <= q <= 1:
            raise BadElement(f"there is no quantile {q!r}", hint="quantiles go from 0 to 1; the median is 0.5")
        rank = max(1, math.ceil(Fraction(repr(float(q))) * self.count))
        seen = 0
        for bucket, count in zip(self.buckets, self.counts, strict=True):
            seen += count
            if seen >= rank:
                return self._middle(bucket)
        return None

    @property
    def minimum(self) -> tuple[float, float] | None:
        """Bounds between which the smallest value lies, both included; None without rows."""
        return self.bounds(self.buckets[0]) if self.buckets else None

    @property
    def maximum(self) -> tuple[float, float] | None:
        """Bounds between which the largest value lies, both included; None without rows."""
        return self.bounds(self.buckets[-1]) if self.buckets else None

    def bounds(self, bucket: int) -> tuple[float, float]:
        """The least and the greatest float of a bucket."""
        if bucket < 0:
            low, high = self.bounds(-bucket)
            return -high, -low
        shift = _MANTISSA - self.mantissa_bits
        low = _float_of(bucket << shift)
        return (low, low) if bucket == 0 or math.isinf(low) else (low, _float_of(((bucket + 1) << shift) - 1))

    def _middle(self, bucket: int) -> float:
        low, high = self.bounds(bucket)
        return low if low == high else low + (high - low) / 2


def _float_of(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def _counted(ids: IntArray | None, buckets: IntArray, counts: IntArray | None) -> CellTable:
    """One row for each (group, bucket) in order, with the sum of its counts (or of its rows), none of them zero."""
    if len(buckets) == 0:
        return CellTable(np.zeros(0, dtype=np.int64), ())
    low = int(buckets.min())
    width = int(buckets.max()) - low + 1
    labels = buckets - low if ids is None else ids * width + (buckets - low)
    span = width if ids is None else width * (int(ids.max()) + 1)
    if counts is None and span <= 4 * len(labels) + _BLOCK_ROWS:
        dense = np.bincount(labels)
        distinct = np.flatnonzero(dense)
        totals = dense[distinct]
    else:
        distinct, each = Groups.by_label(labels)
        totals = each.counts() if counts is None else each.sums(counts)
        distinct, totals = distinct[totals != 0], totals[totals != 0]
    if len(distinct) == 0:
        return CellTable(distinct, ())
    owners, places = np.divmod(distinct, width)
    return CellTable(owners, (places + low, totals))
