"""HyperLogLog: about how many distinct elements, in a few kilobytes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from holons.algebra.aggregate import IdempotentAggregate, IntArray, State
from holons.algebra.groups import Groups
from holons.algebra.hashing import hash64
from holons.algebra.rows import Rows, column
from holons.errors import BadElement, BadProgram

_BLOCK_ROWS: Final = 1 << 15
_ALPHA: Final = 0.7213475204444817  # 1 / (2 ln 2)


@dataclass(frozen=True)
class HyperLogLog(IdempotentAggregate[int]):
    """About how many distinct elements: `insert(user, ts)`, elements being integers, floats, strings or booleans.

    m = 2**precision registers of one byte; the standard error is 1.04 / sqrt(m), 1.6 % for the default of 12. Each
    register holds the longest run of leading zeros seen among the hashes that fall to it, joined by maximum: so rows
    and sketches may be repeated, cut and reordered, and the bytes are the same. Hashes never change (`hashing.py`).

    The estimate is Ertl's (2017): it needs no correction for small or large numbers, and only addition,
    multiplication, division and square roots, which IEEE 754 rounds alike everywhere. Null: the row is not there. NaN
    is one element, -0.0 and 0.0 are one element; 1 and 1.0 are two, True and 1 are one.

    >>> from holons.algebra import Groups, rows_of
    >>> users = HyperLogLog()
    >>> users.value(users.fold(Groups.single(4), rows_of(["ann", "bob", "ann", "cy"])))
    3
    """

    precision: int = 12

    def __post_init__(self) -> None:
        if not 4 <= self.precision <= 18:
            raise BadProgram(f"HyperLogLog of precision {self.precision!r}", hint="choose 4 to 18; 12 errs by 1.6 %")

    @property
    def standard_error(self) -> float:
        """The expected relative error."""
        return 1.04 / math.sqrt(1 << self.precision)

    def zero(self, n: int) -> State:
        return (np.zeros((n, 1 << self.precision), dtype=np.uint8),)

    def fold(self, groups: Groups, rows: Rows) -> State:
        (registers,) = self.zero(groups.n)
        if rows.count == 0:
            return (registers,)
        if isinstance(rows.element, tuple | dict):
            raise BadElement("HyperLogLog takes one value per row", hint="combine the columns into one first")
        values = column(rows.element, rows.count)
        ids = groups.ids() if groups.n > 1 else None
        flat = registers.reshape(-1)
        for low in range(0, rows.count, _BLOCK_ROWS):  # intermediate columns stay in the cache
            block = slice(low, low + _BLOCK_ROWS)
            places, runs = self._places_and_runs(hash64(values[block]))
            if ids is not None:
                places += ids[block] << self.precision
            np.maximum.at(flat, places, runs)
        return (registers,)

    def _places_and_runs(self, hashes: npt.NDArray[np.uint64]) -> tuple[IntArray, npt.NDArray[np.uint8]]:
        """The register of each hash (its first bits), and one plus the zeros that the other bits begin with."""
        width = 64 - self.precision
        places = (hashes >> np.uint64(width)).astype(np.int64)
        rest = (hashes & np.uint64((1 << width) - 1)).view(np.int64)
        return places, (width + 1 - bit_length(rest)).astype(np.uint8)

    def merge(self, a: State, b: State) -> State:
        return (np.maximum(a[0], b[0]),)

    def touched(self, state: State) -> npt.NDArray[np.bool_]:
        return np.any(state[0], axis=1)

    def value(self, state: State, group: int = 0) -> int:
        histogram = np.bincount(state[0][group], minlength=66 - self.precision)
        return round(_estimate(histogram.tolist(), self.precision))

    def values(self, state: State) -> npt.NDArray[np.generic]:
        return np.array([self.value(state, group) for group in range(len(state[0]))], dtype=np.int64)

    def describe(self) -> str:
        return f"HyperLogLog({self.precision})"


def bit_length(values: IntArray) -> IntArray:
    """The number of significant bits of non-negative integers, read off the exponent of a float.

    >>> bit_length(np.array([0, 1, 2, 3, 2**62 - 1])).tolist()
    [0, 1, 2, 2, 62]
    """
    safe = values & ~(values >> 1)  # same leading bit, but a zero behind it: rounding cannot reach the next power
    exponents: IntArray = (safe.astype(np.float64).view(np.int64) >> 52) - 1022
    return np.maximum(exponents, 0)


def _estimate(histogram: list[int], precision: int) -> float:
    """Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017, algorithm 6."""
    m = 1 << precision
    width = 64 - precision
    z = m * _tau(1.0 - histogram[width + 1] / m)
    for run in range(width, 0, -1):
        z = 0.5 * (z + histogram[run])
    z += m * _sigma(histogram[0] / m)
    if z == 0:  # every register is full: as many as there are hashes
        return 2.0**64
    return _ALPHA * m * m / z


def _sigma(x: float) -> float:
    if x == 1.0:
        return math.inf
    power, total, before = 1.0, x, -1.0
    while total != before:
        x *= x
        before = total
        total += x * power
        power += power
    return total


def _tau(x: float) -> float:
    if x in (0.0, 1.0):
        return 0.0
    power, total, before = 1.0, 1.0 - x, -1.0
    while total != before:
        x = math.sqrt(x)
        before = total
        power *= 0.5
        total -= (1.0 - x) ** 2 * power
    return total / 3.0
