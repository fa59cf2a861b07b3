"""Total orders on numbers, against Python's sort."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.algebra.order import ascending, descending, numbers
from holons.errors import BadElement

FLOATS = st.lists(st.floats(width=64), min_size=1, max_size=12)
INTS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=12)


def nan_last(value):
    return (True, 0.0) if math.isnan(value) else (False, value)


@given(FLOATS)
def test_floats_ascend_with_nan_last(values):
    keys = ascending(np.array(values)).tolist()
    for x, key_x in zip(values, keys):
        for y, key_y in zip(values, keys):
            assert (key_x < key_y) == (nan_last(x) < nan_last(y))


@given(FLOATS)
def test_floats_descend_with_nan_last(values):
    keys = descending(np.array(values)).tolist()
    for x, key_x in zip(values, keys):
        for y, key_y in zip(values, keys):
            assert (key_x < key_y) == (nan_last(-x) < nan_last(-y))


@given(INTS)
def test_integers_keep_their_order_to_the_last(values):
    column = np.array(values, dtype=np.int64)
    assert column[np.argsort(ascending(column), kind="stable")].tolist() == sorted(values)
    assert column[np.argsort(descending(column), kind="stable")].tolist() == sorted(values, reverse=True)


def test_zeros_and_nans_are_one():
    odd_nan = np.array([0x7FF8000000000001, 0xFFF8000000000000], dtype=np.uint64).view(np.float64)
    assert len(set(ascending(np.append(odd_nan, np.nan)).tolist())) == 1
    assert len(set(ascending(np.array([0.0, -0.0])).tolist())) == 1


def test_numbers_are_numbers():
    assert numbers(True, 2, "Test").tolist() == [1, 1]
    assert numbers(2.5, 1, "Test").dtype == np.float64
    with pytest.raises(BadElement, match="Test takes numbers"):
        numbers("x", 1, "Test")
