"""Pareto fronts against the definition."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.algebra.rows_by_hand import folded, read

from holons.algebra import Groups, ParetoFront, rows_of
from holons.errors import BadElement

NUMBERS = {
    "small": st.integers(-3, 3),
    "extreme": st.sampled_from([-(2**63), 2**63 - 1, 0]),
    # few digits, so that some are equal; without bounds, Hypothesis discards those that do not fit
    "floats": st.floats(-65504, 65504, width=16) | st.sampled_from([math.inf, -math.inf, math.nan]),
}


def front(points):
    """All points that no other point dominates, NaN being the worst of both."""

    def cost(point):
        return (True, 0.0) if math.isnan(point[0]) else (False, point[0])

    def gain(point):
        return (False, 0.0) if math.isnan(point[1]) else (True, point[1])

    distinct = {(cost(p), gain(p)): p for p in points}
    kept = [
        p
        for key, p in distinct.items()
        if not any(other != key and other[0] <= key[0] and other[1] >= key[1] for other in distinct)
    ]
    return sorted(kept, key=cost)


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@given(data=st.data())
def test_the_front_of_each_group(number, data):
    points = data.draw(st.lists(st.tuples(number, number), max_size=14))
    costs, gains = ([*column] for column in zip(*points)) if points else ([], [])
    ids = np.arange(len(points)) % 3
    aggregate = ParetoFront()
    state = aggregate.fold(Groups.scatter(ids, 3), rows_of((costs, gains)))
    for group in range(3):
        assert repr(normal(aggregate.value(state, group))) == repr(normal(front(points[group::3])))


def normal(points):
    return [(cost + 0, gain + 0) for cost, gain in points]


@pytest.mark.parametrize("shape", ["independent", "trade-off", "all on the front", "nan"])
@pytest.mark.parametrize("layout", ["one", "runs", "scattered"])
def test_early_pruning_leaves_out_nothing(shape, layout):
    n = 15_000
    random = np.random.default_rng(7)
    cost = random.random(n) if shape != "all on the front" else np.arange(n) / 4
    gain = {
        "independent": random.random(n),
        "trade-off": cost + 0.1 * random.random(n),
        "all on the front": np.arange(n) * 2.0,
        "nan": np.where(random.random(n) < 0.3, np.nan, random.random(n)),
    }[shape]
    ids = {"one": np.zeros(n, dtype=np.int64), "runs": np.arange(n) // 5_000, "scattered": np.arange(n) * 7 % 3}[layout]
    groups = Groups.scatter(ids, 3) if layout == "scattered" else Groups.by_label(ids)[1]
    aggregate = ParetoFront()
    state = aggregate.fold(groups, rows_of((cost, gain)))
    for group in range(groups.n):
        order = sorted(zip(cost[ids == group].tolist(), gain[ids == group].tolist()), key=lambda p: (p[0], -p[1]))
        best, expected = -math.inf, []
        for point in order:  # no costs are equal here, so a running maximum is the definition
            gain_or_least = -1.0 if math.isnan(point[1]) else point[1]
            if gain_or_least > best:
                best = gain_or_least
                expected.append(point)
        assert repr(aggregate.value(state, group)) == repr(expected)


def test_equal_points_are_one():
    assert read(ParetoFront(), ([1, 1, 1], [2, 2, 1])) == [(1, 2)]


def test_what_it_takes():
    assert ParetoFront().value(ParetoFront().zero(1)) == []
    with pytest.raises(BadElement, match="cost, gain"):
        read(ParetoFront(), [1])
    whole, decimal = folded(ParetoFront(), ([1], [1])), folded(ParetoFront(), ([1.0], [1]))
    with pytest.raises(BadElement, match="different types"):
        ParetoFront().merge(whole, decimal)
