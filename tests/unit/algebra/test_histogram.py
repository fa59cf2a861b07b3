"""Histograms against counting with Python's comparisons, which are exact between integers and floats."""

import math
from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.algebra.rows_by_hand import read

from holons.algebra import Groups, Histogram, rows_of
from holons.errors import BadElement, BadProgram

HARD = [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1, 2**64, -1e300, -0.5, 0.1, 0.5, float(2**53), 9.3e18, 1e300]
EDGES = st.lists(st.one_of(st.sampled_from(HARD), st.floats(-10, 10)), min_size=1, max_size=6).map(
    lambda edges: sorted(set(edges))  # in Python 1 and 1.0 are one member, 2**53 and 2**53 + 1 are two
)
VALUES = st.one_of(
    st.lists(st.one_of(st.sampled_from([x for x in HARD if isinstance(x, int) and x < 2**63]), st.integers(-9, 9))),
    st.lists(st.one_of(st.sampled_from([x for x in HARD if isinstance(x, float)]), st.floats())),
)


def counted(edges, values):
    """Buckets by the definition."""
    counts = [0] * (len(edges) + 2)
    for value in values:
        counts[-1 if value != value else bisect_right(edges, value)] += 1
    return counts


@given(EDGES, VALUES, st.booleans())
def test_every_row_is_in_its_bucket(edges, values, many_edges):
    if many_edges:  # searched instead of compared
        edges = sorted({*edges, *range(100, 200)})
    ids = np.arange(len(values)) % 2
    histogram = Histogram(edges)
    state = histogram.fold(Groups.scatter(ids, 2), rows_of(values))
    assert [histogram.value(state, group) for group in range(2)] == [
        counted(edges, values[0::2]),
        counted(edges, values[1::2]),
    ]


def test_edges_between_two_floats():
    assert read(Histogram([2**53 + 1]), [2.0**53, 2.0**53 + 2]) == [1, 1, 0]
    assert read(Histogram([2**53 + 1]), [2**53, 2**53 + 1]) == [1, 1, 0]
    assert read(Histogram([0.5]), [0, 1]) == [1, 1, 0]


def test_large_batches():
    values = np.random.default_rng(3).normal(size=100_000)
    expected = np.histogram(values, bins=[-np.inf, -1, 0, 1, np.inf])[0].tolist()
    assert read(Histogram([-1, 0, 1]), values) == [*expected, 0]


def test_infinities_and_nan():
    assert read(Histogram([0]), [-math.inf, math.inf, math.nan, math.nan]) == [1, 1, 2]


def test_numpy_edges_and_scalars():
    assert read(Histogram(np.arange(3)), 1) == [0, 0, 1, 0, 0]
    assert Histogram([1, 2]) == Histogram((1, 2))


def test_edges_make_sense():
    for edges in ([], [1, 1], [2, 1], [0, math.inf], [math.nan]):
        with pytest.raises(BadProgram):
            Histogram(edges)
    with pytest.raises(BadElement, match="takes numbers"):
        read(Histogram([0]), ["a"])
