"""Rows for tests of aggregates: written by hand, or many at once; and folds of them."""

from __future__ import annotations

import numpy as np

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
