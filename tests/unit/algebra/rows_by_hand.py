"""Rows for tests of aggregates: written by hand, or many at once; and folds of them."""

from __future__ import annotations

import numpy as np
import pytest

from holons.algebra import Aggregate, Groups, Origin, Rows, State, rows_of
from holons.algebra.rows import prepare


def folded(aggregate: Aggregate[object], element: object, ts: object | None = None, **origin: int) -> State:
    """All rows in one group."""
    rows = rows_of(element, ts, **origin)
    return aggregate.fold(Groups.single(rows.count), rows)


def read(aggregate: Aggregate[object], element: object, ts: object | None = None, **origin: int) -> object:
    """What a user reads after folding all rows into one group."""
    return aggregate.value(folded(aggregate, element, ts, **origin))


def rows_at(element: object, ts: list[int], offsets: list[int], partition: int = 0) -> Rows:
    """Rows with offsets of their own, repeated or not."""
    index = np.array(offsets, dtype=np.int64)
    return prepare(element, np.array(ts, dtype=np.int64), Origin(partition, 0, len(index), index))


class Many:
    """So many rows that only some are looked at closely: scores of one shape, in groups that lie in one way."""

    each_shape = pytest.mark.parametrize(
        "shape", ["random", "ascending", "descending", "ties", "nan", "mostly nan", "constant"]
    )
    each_layout = pytest.mark.parametrize("layout", ["one", "runs", "scattered"])

    def __init__(self, shape: str, layout: str, n: int = 30_000) -> None:
        random = np.random.default_rng(5)
        ts = random.integers(0, 50, n)
        scores = {
            "random": random.normal(size=n),
            "ascending": np.arange(n),
            "descending": -np.arange(n),
            "ties": random.integers(0, 3, n),
            "nan": np.where(random.random(n) < 0.5, np.nan, random.normal(size=n)),
            "mostly nan": np.where(np.arange(n) % 9999 != 3, np.nan, 1.0),
            "constant": np.full(n, 2**62),
        }[shape]
        ids = {"one": np.zeros(n, dtype=np.int64), "runs": np.arange(n) // 10_000, "scattered": np.arange(n) * 7 % 3}
        self._ids = ids[layout]
        self.groups = Groups.scatter(self._ids, 3) if layout == "scattered" else Groups.by_label(self._ids)[1]
        self.rows = Rows((scores, np.arange(n)), ts, Origin(0, 100, n))
        self._one_by_one = [
            (s, t, 0, 100 + o, o) for s, t, o in zip(scores.tolist(), ts.tolist(), range(n), strict=True)
        ]

    def of_group(self, group: int) -> list[tuple[float, int, int, int, int]]:
        """Score, time, partition, offset and payload of each row."""
        return [row for row, its in zip(self._one_by_one, self._ids, strict=True) if its == group]
