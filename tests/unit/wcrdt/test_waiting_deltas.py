"""Deltas that come too early wait, all of them: what one says, another need not have said."""

from __future__ import annotations

import itertools

import pytest

import holons as h
from holons.errors import NondeterministicProgram
from holons.wcrdt import Delta, Handle, Replica, Seal
from holons.windows import BEGINNING, Window

COUNT = Handle("n", h.GCounter(), h.Tumbling("1s"))
SECOND = 1_000_000


def delta(start, end, value=1):
    """What partition 0 sealed in some seconds: the same count in each of them."""
    payload = COUNT.aggregate.encode((COUNT.aggregate.zero(1)[0] + value,))
    seals = tuple(Seal(0, second, payload) for second in range(start, end))
    return Delta(0, 0, start * SECOND, end * SECOND, seals)


FIRST = Delta(0, 0, BEGINNING, 0)


@pytest.mark.parametrize("order", list(itertools.permutations([delta(0, 1), delta(0, 3), delta(0, 2)])))
def test_of_those_with_one_start_the_longest_is_not_lost(order):
    replica = Replica([COUNT], 1)
    for early in order:
        replica.apply(early)
    replica.apply(FIRST)
    assert replica.watermark(0) == 3 * SECOND
    assert [replica.value(0, Window(s * SECOND, (s + 1) * SECOND)) for s in range(3)] == [1, 1, 1]
    assert replica.gaps() == []


@pytest.mark.parametrize("pair", [(delta(0, 1, 1), delta(0, 1, 2)), (delta(0, 2, 1), delta(0, 1, 2))])
def test_two_that_disagree_are_found_once_their_time_has_come(pair):
    replica = Replica([COUNT], 1)
    for early in pair:
        replica.apply(early)
    with pytest.raises(NondeterministicProgram):
        replica.apply(FIRST)
