"""Slots: any aggregate as a CRDT."""

import numpy as np
import pytest
from tests.unit.algebra.rows_by_hand import folded

from holons.algebra import GCounter, GSet, Slots, TopK
from holons.errors import BadElement, NondeterministicProgram

BIDS = Slots(GCounter())


def count(n):
    return (np.array([n]),)


def test_each_partition_counts_once_however_often_it_is_heard():
    left = BIDS.put(BIDS.bottom(), 0, 10, count(3))
    right = BIDS.put(BIDS.bottom(), 1, 7, count(4))
    both = BIDS.join(left, right).state
    assert BIDS.value(BIDS.join(BIDS.join(both, left).state, right).state) == 7


def test_the_newer_version_stays():
    new = BIDS.put(BIDS.bottom(), 0, 10, count(3))
    old = BIDS.put(BIDS.bottom(), 0, 9, count(2))
    assert BIDS.value(BIDS.join(old, new).state) == BIDS.value(BIDS.join(new, old).state) == 3
    assert BIDS.join(old, new).changed
    assert not BIDS.join(new, old).changed
    assert BIDS.leq(old, new)
    assert not BIDS.leq(new, old)


def test_two_values_under_one_version_stop_everything():
    one, other = (BIDS.put(BIDS.bottom(), 5, 8, count(n)) for n in (3, 4))
    for act in (BIDS.join, BIDS.leq):
        with pytest.raises(NondeterministicProgram) as raised:
            act(one, other)
        assert raised.value.where == {"partition": 5, "version": 8}
    assert not isinstance(raised.value, Exception), "a program must not swallow it"


def test_equal_values_under_one_version_are_fine():
    one, other = (BIDS.put(BIDS.bottom(), 5, 8, count(3)) for _ in range(2))
    assert not BIDS.join(one, other).changed


def test_states_never_change():
    state = BIDS.put(BIDS.bottom(), 0, 1, count(1))
    BIDS.put(state, 1, 1, count(1))
    assert list(state) == [0]
    with pytest.raises(TypeError):
        state[1] = state[0]


def test_bytes_do_not_depend_on_the_order_of_arrival():
    a, b = BIDS.put(BIDS.bottom(), 1, 1, count(1)), BIDS.put(BIDS.bottom(), 0, 1, count(2))
    one, other = BIDS.join(a, b).state, BIDS.join(b, a).state
    assert BIDS.encode(one) == BIDS.encode(other)
    assert BIDS.value(BIDS.decode(BIDS.encode(one))) == 3


def test_values_fold_in_partition_order():
    class Recorder(GCounter):
        order = []

        def merge(self, a, b):
            self.order.append(int(b[0][0]))
            return super().merge(a, b)

    slots = Slots(Recorder())
    state = slots.bottom()
    for partition in (10, 2, 33, 4):
        state = slots.put(state, partition, 1, count(partition))
    slots.value(state)
    assert Recorder.order == [2, 4, 10, 33]


def test_nothing_has_the_value_of_zero():
    assert BIDS.value(BIDS.bottom()) == 0
    assert Slots(GSet()).value(Slots(GSet()).bottom()) == frozenset()


def test_ragged_contributions():
    slots = Slots(TopK(2))
    state = slots.put(slots.bottom(), 0, 1, folded(TopK(2), [1, 5]))
    state = slots.put(state, 1, 1, folded(TopK(2), [4], partition=1))
    assert slots.value(slots.decode(slots.encode(state))) == [5, 4]


def test_a_slot_holds_one_group():
    with pytest.raises(BadElement, match="one group"):
        BIDS.put(BIDS.bottom(), 0, 1, GCounter().zero(2))
