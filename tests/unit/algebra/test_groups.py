"""Groups: however they are found, and however rows are counted, the answer is that of the plain way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.algebra import Groups

TIMES = st.lists(st.integers(-1000, 1000), max_size=60)


def same(values: np.ndarray, step: int) -> Groups:
    labels, groups = Groups.by_step(values, step)
    expected, inverse = np.unique(values // step, return_inverse=True)
    assert labels.tolist() == expected.tolist()
    assert groups.ids().tolist() == inverse.tolist()
    assert (groups.n, groups.count) == (len(expected), len(values))
    return groups


@given(TIMES, st.integers(1, 300))
def test_steps_of_any_values(times, step):
    same(np.array(times, dtype=np.int64), step)


@given(TIMES, st.integers(1, 300))
def test_steps_of_ascending_values_are_runs(times, step):
    assert same(np.array(sorted(times), dtype=np.int64), step).bounds is not None or not times


@given(TIMES, st.integers(1, 300))
def test_values_that_are_known_to_ascend_give_the_same(times, step):
    values = np.array(sorted(times), dtype=np.int64)
    labels, groups = Groups.by_step(values, step, ascending=True)
    expected, same_groups = Groups.by_step(values, step)
    assert labels.tolist() == expected.tolist()
    assert groups.ids().tolist() == same_groups.ids().tolist()


@given(TIMES, st.integers(1, 300), st.randoms())
def test_disorder_within_a_step_leaves_runs(times, step, rng):
    shuffled = sorted(times, key=lambda ts: (ts // step, rng.random()))
    same(np.array(shuffled, dtype=np.int64), step)


def test_a_single_row_out_of_place_is_found():
    values = np.arange(100)
    values[70] = 5
    assert same(values, 20).bounds is None


@pytest.mark.parametrize("n", [1, 2, 5, 12, 13, 300])
@pytest.mark.parametrize("count", [10, 8191, 8192, 50_000])
def test_rows_are_counted_whatever_the_way(n, count):
    ids = np.random.default_rng(n).integers(0, n, count)
    counts = Groups.scatter(ids, n).counts()
    assert counts.dtype == np.int64
    assert counts.tolist() == [int((ids == group).sum()) for group in range(n)]
