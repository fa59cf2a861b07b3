"""Quantiles against sorted lists: the stated relative error is a guarantee."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.algebra.rows_by_hand import folded, read

from holons.algebra import Quantiles, rows_of
from holons.algebra.groups import Groups
from holons.errors import BadElement, BadProgram

ERRORS = [0.5, 0.1, 0.01, 2.0**-7, 0.001, 1e-6]
NORMAL = st.floats(allow_nan=False, allow_subnormal=False)


def exact(values, q):
    """The value at rank ceil(q * n), by the definition."""
    ranked = sorted(values)
    return ranked[max(1, math.ceil(q * len(ranked))) - 1]


@pytest.mark.parametrize("error", ERRORS)
@given(values=st.lists(NORMAL, min_size=1, max_size=20), q=st.sampled_from([0, 0.25, 0.5, 0.75, 1]))
def test_the_relative_error_is_guaranteed(error, values, q):
    true, found = exact(values, q), read(Quantiles(error), values).quantile(q)
    assert found == true if math.isinf(true) else abs(found - true) <= error * abs(true)


@pytest.mark.parametrize("error", ERRORS)
def test_the_error_is_guaranteed_at_the_edges_of_buckets(error):
    bits = Quantiles(error).mantissa_bits
    edges = np.array([1 + i / 2**bits for i in range(min(2**bits, 512))])
    for values in (edges, np.nextafter(edges, 0), edges * 2.0**-1022, edges * 2.0**1023, -edges):
        for value in values.tolist():
            if abs(value) >= 2.0**-1022:
                assert abs(read(Quantiles(error), [value]).quantile(0.5) - value) <= error * abs(value)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_integers(values):
    found = read(Quantiles(0.01), values).quantile(0.5)
    assert abs(int(found) - exact(values, 0.5)) <= 0.01 * abs(exact(values, 0.5)) + 1


@pytest.mark.parametrize("q", [0.0, 0.001, 0.5, 0.9, 0.99, 0.999, 1.0])
def test_a_large_batch(q):
    values = np.random.default_rng(2).lognormal(3, 2, 200_000)
    true = np.quantile(values, q, method="inverted_cdf")
    assert read(Quantiles(0.01), values).quantile(q) == pytest.approx(true, rel=0.01)


def test_ranks_are_exact_for_awkward_fractions():
    values = list(range(1, 11))
    assert [round(read(Quantiles(0.001), values).quantile(q / 10)) for q in range(11)] == [1, *values]
    assert round(read(Quantiles(0.001), list(range(1, 101))).quantile(0.07)) == 7  # 0.07 * 100 is 7.000000000000001
    assert round(read(Quantiles(0.001), values).quantile(np.float64(1e-5))) == 1


def test_counts_bounds_and_nan():
    seen = read(Quantiles(0.1), [1.0, -2.0, 0.0, -0.0, math.nan, math.inf])
    assert (seen.count, seen.nans) == (5, 1)
    low, high = seen.minimum
    assert low <= -2.0 <= high
    assert seen.maximum == (math.inf, math.inf)
    assert [read(Quantiles(0.1), [x]).quantile(0.5) for x in (5e-324, -1e-310, 2.2e-308)] == [0, 0, 0]


def test_nothing():
    empty = Quantiles().value(Quantiles().zero(1))
    assert (empty.count, empty.quantile(0.5), empty.minimum, empty.maximum) == (0, None, None, None)
    assert read(Quantiles(), [math.nan]).quantile(0.5) is None


@given(st.lists(st.floats(), max_size=12), st.lists(st.floats(), max_size=12))
def test_what_was_merged_can_be_taken_away(left, right):
    q = Quantiles(0.05)
    a, b = folded(q, np.array(left)), folded(q, np.array(right))
    assert q.encode(q.subtract(q.merge(a, b), b)) == q.encode(a)


def test_many_groups_dense_and_sparse():
    for values in (np.arange(1.0, 601.0), np.geomspace(1e-300, 1e300, 600)):
        ids = np.arange(600) % 200
        q = Quantiles(0.01)
        state = q.fold(Groups.scatter(ids, 200), rows_of(values))
        for group in range(200):
            assert q.value(state, group).quantile(0.5) == pytest.approx(values[200 + group], rel=0.01)


def test_parameters():
    for error in (0, 1, -0.1, math.nan):
        with pytest.raises(BadProgram):
            Quantiles(error)
    with pytest.raises(BadElement, match="from 0 to 1"):
        read(Quantiles(), [1.0]).quantile(99)
    with pytest.raises(BadElement, match="takes numbers"):
        read(Quantiles(), ["x"])
