"""Pairs within a time, against a loop over all of them: whichever way they are found."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.algebra.ranked import TIME
from holons.program.dataflow import joining
from holons.program.dataflow.plan import Bounds, Join, Source
from holons.windows import Tumbling

BOUNDS = Bounds(before_us=5, after_us=2)
KEYS = st.integers(-4, 4) | st.sampled_from([2**62, -(2**63), 2**63 - 1]) | st.none()
TIMES = st.integers(0, 12)


def join(dtype: pl.DataType) -> Join:
    left = Source("left", "ts", "0s", None, pl.Schema({"ts": pl.Int64, "key": dtype, "a": pl.Int64}))
    right = Source("right", "at", "0s", None, pl.Schema({"at": pl.Int64, "id": dtype, "b": pl.Int64}))
    return Join(left, right, (("key", "id"),), "inner", Tumbling("10us"), BOUNDS)


def frame(rows: list[tuple[int | None, int]], key: str, value: str, time: str, dtype: pl.DataType) -> pl.DataFrame:
    keys = pl.Series(key, [one for one, _ in rows], dtype=pl.Int64).cast(dtype)
    times = pl.Series(time, [at for _, at in rows], dtype=pl.Int64)
    return pl.DataFrame([keys, pl.Series(value, range(len(rows)), dtype=pl.Int64), times])


@pytest.mark.parametrize("dtype", [pl.Int64(), pl.String()])
@given(
    st.lists(st.tuples(KEYS, TIMES), max_size=30),
    st.lists(st.tuples(KEYS, TIMES), max_size=12)
    | st.lists(st.tuples(KEYS, TIMES), max_size=9, unique_by=lambda one: one[0]),
)
def test_pairs_are_those_of_a_loop(dtype, left, right):
    found = joining.close_pairs(
        join(dtype), BOUNDS, frame(left, "key", "a", TIME, dtype), frame(right, "id", "b", joining.RIGHT_TIME, dtype)
    )
    expected = [
        (key, a, b)
        for a, (key, at) in enumerate(left)
        for b, (other, then) in enumerate(right)
        if key is not None and key == other and -BOUNDS.before_us <= then - at <= BOUNDS.after_us
    ]
    assert found.columns == ["key", "a", "b"]
    assert [(int(key), a, b) for key, a, b in found.rows()] == expected


def test_places_are_looked_up_where_each_right_key_is_there_once(monkeypatch):
    monkeypatch.setattr(joining, "joined", None)
    left, right = ([(key, 0) for key in keys] for keys in ([1, 1, 3], [3, 1]))
    sides = frame(left, "key", "a", TIME, pl.Int64()), frame(right, "id", "b", joining.RIGHT_TIME, pl.Int64())
    assert joining.close_pairs(join(pl.Int64()), BOUNDS, *sides).rows() == [(1, 0, 1), (1, 1, 1), (3, 2, 0)]


def test_of_the_right_side_nothing_but_its_key_may_be_kept():
    left, right = ([(key, 0) for key in keys] for keys in ([1, 1, 3, 4], [3, 1]))
    sides = frame(left, "key", "a", TIME, pl.Int64()), frame(right, "id", "b", joining.RIGHT_TIME, pl.Int64()).drop("b")
    assert joining.close_pairs(join(pl.Int64()), BOUNDS, *sides).rows() == [(1, 0), (1, 1), (3, 2)]
