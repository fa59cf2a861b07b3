"""Maximum and minimum registers, against Python's max and min."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.algebra.rows_by_hand import folded, read

from holons.algebra import Groups, MaxRegister, MinRegister, rows_of
from holons.errors import BadElement, BadProgram

VALUES = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=64),
    "str": st.text(st.characters(exclude_categories=["Cs"]), max_size=3).map(lambda text: text * 9),
}
NAN_LAST = {"int": int, "str": str, "float": lambda x: (math.isnan(x), 0.0 if math.isnan(x) else x)}


def same(a, b):
    return a == b or (a != a and b != b)


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_each_group_has_its_extreme(kind, data):
    values = data.draw(st.lists(VALUES[kind], max_size=12))
    ids = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values))), dtype=np.int64)
    rows = rows_of(np.array(values) if kind == "float" else values)
    for register, best in ((MaxRegister(kind), max), (MinRegister(kind), min)):
        state = register.fold(Groups.scatter(ids, 4), rows)
        for group in range(4):
            members = [value for value, owner in zip(values, ids) if owner == group]
            expected = best(members, key=NAN_LAST[kind], default=None)
            assert same(register.value(state, group), expected)


@pytest.mark.parametrize("register", [MaxRegister, MinRegister])
@pytest.mark.parametrize(("kind", "value"), [("int", 3), ("float", 2.5), ("str", "x"), ("int", True)])
def test_a_scalar_counts_for_all_rows(register, kind, value):
    rows = rows_of((value, [1, 2]))
    state = register(kind).fold(Groups.scatter(np.array([0, 2]), 3), rows.with_element(rows.element[0]))
    assert [register(kind).value(state, group) for group in range(3)] == [value, None, value]


@pytest.mark.parametrize("kind", VALUES)
def test_empty_is_none(kind):
    for register in (MaxRegister(kind), MinRegister(kind)):
        assert register.value(register.zero(2), 1) is None
        assert register.values(register.zero(2)).tolist() == [None, None]


def test_the_identity_itself_may_be_inserted():
    scattered = Groups.scatter(np.array([1]), 2)
    for register, value in (
        (MaxRegister(), -(2**63)),
        (MinRegister(), 2**63 - 1),
        (MaxRegister("float"), -math.inf),
        (MinRegister("float"), math.nan),
        (MaxRegister("str"), ""),
    ):
        state = register.fold(scattered, rows_of([value]))
        assert register.value(state, 0) is None
        assert same(register.value(state, 1), value)


def test_nan_wins_the_maximum_and_loses_the_minimum():
    assert math.isnan(read(MaxRegister("float"), [1.0, math.nan, math.inf]))
    assert read(MinRegister("float"), [math.inf, math.nan]) == math.inf


def test_zero_has_no_sign():
    state = folded(MaxRegister("float"), [-0.0])
    assert MaxRegister("float").encode(state) == MaxRegister("float").encode(folded(MaxRegister("float"), [0.0]))


def test_integers_may_go_into_a_float_register_but_not_the_reverse():
    assert read(MaxRegister("float"), [1, 2]) == 2.0
    with pytest.raises(BadElement, match="takes integers"):
        read(MaxRegister("int"), [1.5])
    with pytest.raises(BadElement, match="takes strings"):
        read(MaxRegister("str"), [1])


def test_there_is_no_other_kind():
    with pytest.raises(BadProgram, match="decimal"):
        MaxRegister("decimal")


def test_absent_strings_never_win():
    lowest = MinRegister("str")
    for state in (folded(lowest, ["b"]), folded(lowest, [""])):
        for merged in (lowest.merge(state, lowest.zero(1)), lowest.merge(lowest.zero(1), state)):
            assert lowest.encode(merged) == lowest.encode(state)


def test_many_short_runs_of_strings():
    values = [f"{i * 7919 % 1000:03}" for i in range(200)]
    _, groups = Groups.by_label(np.arange(200) // 2)
    state = MinRegister("str").fold(groups, rows_of(values))
    assert MinRegister("str").values(state).tolist() == [min(values[i : i + 2]) for i in range(0, 200, 2)]
