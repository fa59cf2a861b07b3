"""Exact sums against fractions and `math.fsum`."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from holons.algebra import Groups, exact
from holons.codec import decode, encode

FINITE = st.floats(allow_nan=False, allow_infinity=False)
FLOATS = st.lists(st.one_of(FINITE, st.floats(-1000, 1000), st.sampled_from([5e-324, -5e-324, 1.7976931348623157e308])))


def fold(values, ids=None, n=1):
    groups = Groups.single(len(values)) if ids is None else Groups.scatter(np.array(ids, dtype=np.int64), n)
    return exact.fold(groups, np.array(values, dtype=np.float64))


def nearest(total):
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@given(FLOATS)
@example([1.7976931348623157e308] * 3)
@example([1.7976931348623157e308, 5e-324, -1.7976931348623157e308])
@example([2.0**-1073, 2.0**-1074, 0.0, -0.0])
def test_the_value_is_the_float_nearest_to_the_true_sum(values):
    assert exact.value(fold(values), 0) == nearest(sum(map(Fraction, values), Fraction(0)))


@given(FLOATS.filter(bool))
def test_a_mean_is_rounded_once(values):
    assert exact.quotient(fold(values), 0, len(values)) == float(sum(map(Fraction, values)) / len(values))


@given(st.lists(st.tuples(st.integers(0, 3), st.floats())), st.data())
def test_any_cut_and_any_order_give_the_same_bytes(rows, data):
    def state(part):
        return fold([value for _, value in part], [group for group, _ in part], 4)

    cut = data.draw(st.integers(0, len(rows)))
    mixed = data.draw(st.permutations(rows))
    whole = encode(state(rows))
    assert encode(state(mixed)) == whole
    assert encode(exact.merge(state(mixed[:cut]), state(mixed[cut:]))) == whole
    assert encode(exact.subtract(state(rows), state(mixed[cut:]))) == encode(state(mixed[:cut]))
    assert encode(decode(whole)) == whole


def test_infinities_and_nan():
    inf, nan = math.inf, math.nan
    for values, expected in [([inf, 1.0], inf), ([-inf, 1.0], -inf), ([inf, -inf], nan), ([nan, 1.0], nan), ([], 0.0)]:
        got = exact.value(fold(values), 0)
        assert got == expected or (math.isnan(got) and math.isnan(expected))
    assert exact.value(exact.subtract(fold([inf, nan, 2.0]), fold([nan, inf])), 0) == 2.0


def test_many_rows_of_every_magnitude():
    rng = np.random.default_rng(7)
    values = np.ldexp(rng.normal(size=20_000), rng.integers(-1074, 1000, 20_000))
    ids = rng.integers(0, 3, 20_000)
    state = fold(values, ids, 3)
    for group in range(3):
        assert exact.value(state, group) == math.fsum(values[ids == group].tolist())
    largest = np.full(3_000_000, 1.9999999)
    assert exact.value(fold(largest), 0) == float(Fraction(1.9999999) * 3_000_000)
