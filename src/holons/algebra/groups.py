"""Which group each row falls into, and the reductions that kernels are made of.

Streams are almost sorted by time, so the rows of one window mostly form one run: then a group is a slice, and NumPy
reduces whole slices. Where groups are scattered (disorder, keys), ids and scatter operations take over. Kernels ask
for a reduction and never see which.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from holons.algebra.aggregate import IntArray
from holons.errors import IntegerOverflow

_FEW_RUNS = 64
_FEW_GROUPS = 12
_MANY_ROWS = 8192
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class Groups:
    """n groups over `count` rows: as runs (`bounds`, none of them empty), or as one id per row (`scattered`)."""

    n: int
    count: int
    bounds: IntArray | None = None
    scattered: IntArray | None = None

    @staticmethod
    def single(count: int) -> Groups:
        """All rows in one group."""
        return (
            Groups(1, count, scattered=np.zeros(0, dtype=np.int64))
            if count == 0
            else Groups(1, count, bounds=np.array([0, count], dtype=np.int64))
        )

    @staticmethod
    def scatter(ids: IntArray, n: int) -> Groups:
        """Row i belongs to group `ids[i]` of n; groups may be empty."""
        return Groups(n, len(ids), scattered=ids)

    @staticmethod
    def by_label(labels: IntArray) -> tuple[IntArray, Groups]:
        """One group for each distinct label, ascending; returns the labels and the groups.

        >>> Groups.by_label(np.array([7, 7, 9]))[0].tolist()
        [7, 9]
        """
        count = len(labels)
        if count == 0:
            return labels, Groups(0, 0, scattered=labels)
        changes = labels[1:] != labels[:-1]
        if np.count_nonzero(changes) <= int(labels[-1]) - int(labels[0]):  # else they cannot all be ascents
            edges = np.flatnonzero(changes) + 1
            if bool(np.all(labels[edges] > labels[edges - 1])):
                bounds = np.concatenate(([0], edges, [count])).astype(np.int64, copy=False)
                return labels[bounds[:-1]], Groups(len(bounds) - 1, count, bounds=bounds)
        low, high = int(labels.min()), int(labels.max())
        if high - low < 4 * count + 1024:
            ids = labels - low
            present = np.bincount(ids, minlength=high - low + 1) > 0
            distinct = np.flatnonzero(present)
            if len(distinct) < len(present):
                ids = (np.cumsum(present) - 1)[ids]
            return distinct + low, Groups.scatter(ids, len(distinct))
        distinct, inverse = np.unique(labels, return_inverse=True)
        return distinct, Groups.scatter(inverse.astype(np.int64, copy=False), len(distinct))

    @staticmethod
    def by_step(values: IntArray, step: int, *, ascending: bool = False) -> tuple[IntArray, Groups]:
        """One group for each distinct `value // step`, ascending; returns those, and the groups.

        Values that are known to be `ascending` are not looked at one by one.

        >>> Groups.by_step(np.array([70, 71, 90]), 10)[0].tolist()
        [7, 9]
        """
        if len(values) == 0:
            return Groups.by_label(values)
        low, high = (values[0], values[-1]) if ascending else (values.min(), values.max())
        first, last = int(low) // step, int(high) // step
        if first == last:  # mostly a batch is shorter than a window
            return np.array([first], dtype=np.int64), Groups.single(len(values))
        if last - first < _FEW_RUNS:
            runs = _runs(values, step, first, last, ascending=ascending)
            if runs is not None:
                return runs
        return Groups.by_label(values // step)

    def ids(self) -> IntArray:
        """Each row's group."""
        if self.scattered is not None:
            return self.scattered
        assert self.bounds is not None
        return np.repeat(np.arange(self.n, dtype=np.int64), np.diff(self.bounds))

    def take(self, chosen: npt.NDArray[np.generic]) -> Groups:
        """The same groups over some of the rows, by mask or by position."""
        return Groups.scatter(self.ids()[chosen], self.n)

    def counts(self) -> IntArray:
        """How many rows each group has; read-only, since several may ask."""
        return self._counts

    @cached_property
    def _counts(self) -> IntArray:
        counts = self._count()
        counts.setflags(write=False)
        return counts

    def _count(self) -> IntArray:
        if self.bounds is not None:
            return np.diff(self.bounds)
        assert self.scattered is not None
        if self.n <= _FEW_GROUPS and self.count >= _MANY_ROWS:  # a byte is compared eight times as fast as a word
            narrow = self.scattered.astype(np.uint8)
            return np.array([np.count_nonzero(narrow == group) for group in range(self.n)], dtype=np.int64)
        return np.bincount(self.scattered, minlength=self.n).astype(np.int64, copy=False)

    def sums(self, values: IntArray, largest: int | None = None) -> IntArray:
        """Sums of integers; raises `IntegerOverflow` rather than wrap around. None is further from 0 than `largest`."""
        if self.count == 0:
            return np.zeros(self.n, dtype=np.int64)
        if largest is None:
            largest = max(abs(int(values.max())), abs(int(values.min())))
        if largest * self.count > _INT64_MAX:
            return self._wide_sums(values)
        return self._reduce(np.add, values, np.zeros(self.n, dtype=np.int64))

    def _wide_sums(self, values: IntArray) -> IntArray:
        """Sums that might overflow: high and low halves apart, put together in Python's integers."""
        high = self._reduce(np.add, values >> 32, np.zeros(self.n, dtype=np.int64))
        low = self._reduce(np.add, values & 0xFFFFFFFF, np.zeros(self.n, dtype=np.int64))
        totals = [(int(h) << 32) + int(part) for h, part in zip(high, low, strict=True)]
        if any(not -_INT64_MAX <= total <= _INT64_MAX for total in totals):
            raise IntegerOverflow("a sum does not fit into 64 bits", hint='use h.Sum("float"), or smaller units')
        return np.array(totals, dtype=np.int64)

    def maxima(self, values: npt.NDArray[np.generic], least: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """The largest value of each group, where `least` has the answer for an empty one. Uses up `least`."""
        return self._reduce(np.maximum, values, least)

    def minima(self, values: npt.NDArray[np.generic], most: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """The smallest value of each group (NaN only if there is nothing else). Uses up `most`."""
        return self._reduce(np.fmin if values.dtype.kind == "f" else np.minimum, values, most)

    def _reduce(self, ufunc: np.ufunc, values: npt.NDArray[np.generic], start: npt.NDArray[np.generic]) -> npt.NDArray:
        if self.count == 0:
            return start
        if self.bounds is None:
            assert self.scattered is not None
            with np.errstate(invalid="ignore"):  # `at` warns of NaN, though maximum and minimum are defined for it
                ufunc.at(start, self.scattered, values)
            return start
        if self.n <= _FEW_RUNS:  # whole slices use the vector unit; reduceat does not always
            edges = self.bounds.tolist()
            parts = [ufunc.reduce(values[lo:hi]) for lo, hi in itertools.pairwise(edges)]
            return ufunc(start, np.array(parts, dtype=values.dtype))
        return ufunc(start, ufunc.reduceat(values, self.bounds[:-1]))


def _runs(values: IntArray, step: int, first: int, last: int, *, ascending: bool) -> tuple[IntArray, Groups] | None:
    """`by_step` where each group is one run, as in a stream that is sorted by time; else None.

    Found by bisection, as if sorted; then, unless they are known to be, each run is asked for its least and its largest
    value, which costs less than to divide every one.
    """
    edges = [0, *np.searchsorted(values, np.arange(first + 1, last + 1) * step).tolist(), len(values)]
    labels, bounds = [], [0]
    for label, (low, high) in enumerate(itertools.pairwise(edges), start=first):
        if low == high:
            continue
        run = values[low:high]
        if not ascending and (low > high or int(run.min()) < label * step or int(run.max()) >= (label + 1) * step):
            return None
        labels.append(label)
        bounds.append(high)
    groups = Groups(len(labels), len(values), bounds=np.array(bounds, dtype=np.int64))
    return np.array(labels, dtype=np.int64), groups
