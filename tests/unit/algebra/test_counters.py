"""Counters never wrap around: neither within a batch, nor between batches, windows and partitions."""

from __future__ import annotations

import pytest

import holons as h
from holons.algebra import Groups, rows_of
from holons.errors import IntegerOverflow

MOST = 2**63 - 1

COUNTERS = {
    "GCounter": (h.GCounter(), 1),
    "PNCounter, up": (h.PNCounter(), 1),
    "PNCounter, down": (h.PNCounter(), -1),
    "Sum": (h.Sum("int"), 1),
    "Average": (h.Average("int"), 1),
    "in a map": (h.MergeMap(h.GCounter()), 1),
}


def folded(counter, element):
    element = ("a", [element]) if isinstance(counter, h.MergeMap) else [element]
    return counter.fold(Groups.single(1), rows_of(element))


@pytest.mark.parametrize("name", COUNTERS)
def test_the_largest_sum_is_reached_and_one_more_is_refused(name):
    counter, sign = COUNTERS[name]
    most = counter.merge(folded(counter, sign * (MOST - 1)), folded(counter, sign))
    with pytest.raises(IntegerOverflow):
        counter.merge(most, folded(counter, sign))


@pytest.mark.parametrize("element", [MOST, [MOST, 1]])
def test_a_batch_whose_sum_does_not_fit_is_refused(element):
    rows = rows_of(element, [0, 0])
    with pytest.raises(IntegerOverflow):
        h.GCounter().fold(Groups.single(2), rows)
