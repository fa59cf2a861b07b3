"""Last-writer-wins and multi-value registers, against sorted lists of writes."""

import math
from operator import itemgetter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.algebra.rows_by_hand import folded, read, rows_at

from holons import codec
from holons.algebra import Groups, LWWRegister, MVRegister
from holons.errors import BadElement

WRITES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([-1, 0, 7, 200, 2**40])), min_size=1, max_size=12
)


def one_group(aggregate, rows):
    return aggregate.fold(Groups.single(rows.count), rows)


@given(st.dictionaries(st.integers(0, 2), WRITES, min_size=1))
def test_the_last_write_wins(writes):
    last = LWWRegister()
    state = last.zero(1)
    for partition, rows in writes.items():
        stamps, offsets, values = (list(column) for column in zip(*rows))
        state = last.merge(state, one_group(last, rows_at(values, stamps, offsets, partition)))
    everything = [
        (stamp, partition, offset, codec.encode(value), value)
        for partition, rows in writes.items()
        for stamp, offset, value in rows
    ]
    assert last.value(state) == max(everything, key=itemgetter(0, 1, 2, 3))[-1]


@given(st.dictionaries(st.integers(0, 2), WRITES, min_size=1))
def test_each_partition_keeps_its_latest(writes):
    kept = MVRegister()
    state = kept.zero(1)
    for partition, rows in writes.items():
        half = len(rows) // 2
        for part in (rows[half:], rows[:half]):
            if part:
                stamps, offsets, values = (list(column) for column in zip(*part))
                state = kept.merge(state, one_group(kept, rows_at(values, stamps, offsets, partition)))
    latest = {max(rows, key=lambda row: (row[0], row[1], codec.encode(row[2])))[-1] for rows in writes.values()}
    assert kept.value(state) == sorted(latest)


def test_a_stamp_of_ones_own_beats_the_event_time():
    assert read(LWWRegister(), (["new", "old"], [9, 1]), ts=[1, 100]) == "new"
    assert read(LWWRegister(), (["x", "y"], 5), ts=[1, 100]) == "y"


def test_equal_stamps_go_to_the_larger_partition_then_offset():
    last = LWWRegister()
    low, high = folded(last, ["low"], partition=1, offset=9), folded(last, ["high"], partition=2, offset=0)
    assert last.value(last.merge(low, high)) == last.value(last.merge(high, low)) == "high"
    assert read(last, ["first", "second"], ts=[3, 3]) == "second"


def test_one_row_that_writes_twice_has_one_winner():
    last = LWWRegister()
    first, second = rows_at(["a"], [1], [4]), rows_at(["b"], [1], [4])
    both = rows_at(["b", "a"], [1, 1], [4, 4])
    states = [
        last.merge(one_group(last, first), one_group(last, second)),
        last.merge(one_group(last, second), one_group(last, first)),
        one_group(last, both),
    ]
    assert [last.value(state) for state in states] == ["b", "b", "b"]


@pytest.mark.parametrize("value", [0, -(2**63), 1.5, math.inf, "", "é", True, False])
def test_values_keep_their_type(value):
    for register, expected in ((LWWRegister(), value), (MVRegister(), [value])):
        state = register.decode(register.encode(folded(register, [value])))
        assert repr(register.value(state)) == repr(expected)
        assert repr(read(register, value)) == repr(expected)


def test_nan_is_a_value():
    assert math.isnan(read(LWWRegister(), [1.0, math.nan]))
    kept = MVRegister()
    state = folded(kept, [math.nan])
    for partition, value in ((1, math.nan), (2, 1.0), (3, True), (4, "x")):
        state = kept.merge(state, folded(kept, [value], partition=partition))
    assert repr(kept.value(state)) == "[True, 1.0, nan, 'x']"


def test_empty():
    assert LWWRegister().value(LWWRegister().zero(1)) is None
    assert MVRegister().value(MVRegister().zero(1)) == []


def test_many_groups():
    last = LWWRegister()
    groups = Groups.scatter(np.array([3, 0, 3, 0]), 4)
    state = last.fold(groups, rows_at([1, 2, 3, 4], [5, 9, 4, 9], [0, 1, 2, 3]))
    assert last.values(state).tolist() == [4, None, None, 1]


def test_a_tuple_is_not_a_value():
    with pytest.raises(BadElement, match="one value per row"):
        read(MVRegister(), ([1], [2]))
    with pytest.raises(BadElement, match="not 3 columns"):
        read(LWWRegister(), ([1], [2], [3]))
    with pytest.raises(BadElement, match="stamp takes integers"):
        read(LWWRegister(), ([1], [2.5]))
