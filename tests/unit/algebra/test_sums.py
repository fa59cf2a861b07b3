"""Sums and averages against fractions."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.algebra import Groups, rows_of
from holons.algebra.sums import Average, Sum
from holons.errors import BadElement, BadProgram, IntegerOverflow

INTS = st.lists(st.integers(-(2**58), 2**58), max_size=12)
FLOATS = st.lists(st.floats(-1e300, 1e300), max_size=12)
COLUMNS = st.one_of(st.tuples(st.just("int"), INTS), st.tuples(st.just("float"), FLOATS))


def fold(aggregate, values, dtype):
    return aggregate.fold(Groups.single(len(values)), rows_of(np.array(values, dtype=dtype)))


@given(COLUMNS)
def test_sum_and_average_are_rounded_once(column):
    kind, values = column
    dtype = np.int64 if kind == "int" else np.float64
    total, mean = Sum(kind), Average(kind)
    true_sum = sum(map(Fraction, values), Fraction(0))
    state = fold(total, values, dtype)
    assert total.value(state) == (int(true_sum) if kind == "int" else float(true_sum))
    assert total.values(state).tolist() == [total.value(state)]
    state = fold(mean, values, dtype)
    assert mean.value(state) == (float(true_sum / len(values)) if values else None)
    assert mean.values(state).tolist() == [mean.value(state)]


@given(COLUMNS, st.data())
def test_any_cut_merges_to_the_same_bytes_and_subtracts_again(column, data):
    kind, values = column
    dtype = np.int64 if kind == "int" else np.float64
    cut = data.draw(st.integers(0, len(values)))
    for aggregate in (Sum(kind), Average(kind)):
        whole, left, right = (fold(aggregate, part, dtype) for part in (values, values[:cut], values[cut:]))
        assert aggregate.encode(aggregate.merge(right, left)) == aggregate.encode(whole)
        assert aggregate.encode(aggregate.subtract(whole, right)) == aggregate.encode(left)
        assert aggregate.encode(aggregate.decode(aggregate.encode(whole))) == aggregate.encode(whole)


def test_floats_of_integers_and_columns_with_empty_groups():
    mean = Average()
    state = mean.fold(Groups.scatter(np.array([0, 2, 2]), 3), rows_of([1, 2, 5]))
    assert mean.values(state).tolist() == [1.0, None, 3.5]
    assert mean.touched(state).tolist() == [True, False, True]
    assert math.isnan(mean.value(fold(mean, [1.0, math.nan], np.float64)))


def test_average_of_large_integers_does_not_round_twice():
    values = [2**62, 2**53 + 1, 1]
    mean = Average("int")
    state = fold(mean, values, np.int64)
    assert mean.value(state) == mean.values(state)[0] == float(Fraction(sum(values), 3))


def test_errors():
    with pytest.raises(BadProgram):
        Sum("decimal")
    with pytest.raises(BadElement):
        fold(Sum("int"), [0.5], np.float64)
    with pytest.raises(IntegerOverflow):
        fold(Average("int"), [2**62, 2**62], np.int64)


def test_descriptions_travel():
    for aggregate in (Sum("float"), Average("int")):
        assert pickle.loads(pickle.dumps(aggregate)) == aggregate
        assert hash(aggregate) == hash(pickle.loads(pickle.dumps(aggregate)))
