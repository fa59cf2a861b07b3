"""Counts per bucket, for buckets known beforehand."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from holons.algebra.aggregate import Aggregate, IntArray, State
from holons.algebra.counters import checked_add
from holons.algebra.groups import Groups
from holons.algebra.order import INT64_MAX, INT64_MIN, numbers
from holons.algebra.rows import Rows
from holons.errors import BadProgram

_FEW_EDGES: Final = 64
_BLOCK_ROWS: Final = 1 << 15


@dataclass(frozen=True, init=False)
class Histogram(Aggregate[list[int]]):
    """How many rows fall into each bucket: `Histogram([0, 10, 100])`, then `insert(latency, ts)`.

    n edges make n + 2 buckets: below the first edge; n - 1 half-open ones [edge, next edge); at or above the last
    edge; and, as the last entry, the rows that are NaN. Null: the row is not there. Comparison with the edges is
    exact for all integers and floats.

    >>> from holons.algebra import Groups, rows_of
    >>> latencies = Histogram([0, 10, 100])
    >>> latencies.value(latencies.fold(Groups.single(4), rows_of([-1, 0, 9, 100])))
    [1, 2, 0, 1, 0]
    """

    invertible: ClassVar[bool] = True

    edges: tuple[int | float, ...]

    def __init__(self, edges: Iterable[int | float]) -> None:
        chosen = tuple(edges)
        if not chosen or not all(math.isfinite(edge) for edge in chosen):
            raise BadProgram(f"Histogram needs finite edges, not {chosen}", hint="the outer buckets are unbounded")
        if any(low >= high for low, high in pairwise(chosen)):
            raise BadProgram(f"Histogram's edges must ascend: {chosen}", hint="sort them, each one once")
        object.__setattr__(self, "edges", chosen)

    @property
    def buckets(self) -> int:
        """How many buckets there are, with the one for NaN."""
        return len(self.edges) + 2

    def zero(self, n: int) -> State:
        return (np.zeros((n, self.buckets), dtype=np.int64),)

    def fold(self, groups: Groups, rows: Rows) -> State:
        if rows.count == 0:
            return self.zero(groups.n)
        bucket = self._bucket(numbers(rows.element, rows.count, "Histogram"))
        labels = bucket if groups.n == 1 else groups.ids() * self.buckets + bucket
        counts = np.bincount(labels, minlength=groups.n * self.buckets).astype(np.int64, copy=False)
        return (counts.reshape(groups.n, self.buckets),)

    def _bucket(self, values: npt.NDArray[np.generic]) -> npt.NDArray[np.integer]:
        whole = values.dtype.kind == "i"
        edges = self._integer_edges() if whole else self._float_edges()
        if len(edges) > _FEW_EDGES:
            bucket = np.searchsorted(edges, values, side="right")
        else:  # comparing with each edge beats searching, whose branches cannot be predicted
            bucket = np.zeros(len(values), dtype=np.uint8)
            for low in range(0, len(values), _BLOCK_ROWS):
                block = values[low : low + _BLOCK_ROWS]
                for edge in edges:
                    bucket[low : low + _BLOCK_ROWS] += block >= edge
        if not whole:
            bucket[np.isnan(values)] = self.buckets - 1
        return bucket

    def _integer_edges(self) -> IntArray:
        """An integer is >= an edge if it is >= the edge rounded up; edges that no int64 reaches are left out."""
        rounded = [max(math.ceil(edge), INT64_MIN) for edge in self.edges]
        return np.array([edge for edge in rounded if edge <= INT64_MAX], dtype=np.int64)

    def _float_edges(self) -> npt.NDArray[np.float64]:
        """A float is >= an edge if it is >= the least float at or above the edge."""
        nearest = [(edge, float(edge)) for edge in self.edges]
        return np.array([near if near >= edge else math.nextafter(near, math.inf) for edge, near in nearest])

    def merge(self, a: State, b: State) -> State:
        return (checked_add(a[0], b[0]),)

    def subtract(self, a: State, b: State) -> State:
        return (a[0] - b[0],)

    def touched(self, state: State) -> npt.NDArray[np.bool_]:
        return np.any(state[0], axis=1)

    def value(self, state: State, group: int = 0) -> list[int]:
        return state[0][group].tolist()

    def describe(self) -> str:
        return f"Histogram({list(self.edges)})"
