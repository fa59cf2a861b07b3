"""Sets against Python's sets and a replay of the rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.algebra.rows_by_hand import folded, read

from holons.algebra import Groups, GSet, ORSet, TwoPhaseSet, rows_of
from holons.errors import BadElement

MEMBERS = [st.integers(-2, 3), st.sampled_from([-(2**63), 0, 2**63 - 1]), st.sampled_from(["", "a", "b", "é"])]
COMMANDS = st.sampled_from(MEMBERS).flatmap(lambda member: st.lists(st.tuples(member, st.booleans()), max_size=14))


@pytest.mark.parametrize("member", MEMBERS, ids=str)
@given(data=st.data())
def test_growing_sets_hold_what_was_inserted(member, data):
    values = data.draw(st.lists(member, max_size=12))
    ids = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values))), dtype=np.int64)
    state = GSet().fold(Groups.scatter(ids, 3), rows_of(values))
    expected = [{value for value, owner in zip(values, ids) if owner == group} for group in range(3)]
    assert GSet().values(state).tolist() == expected


@given(COMMANDS)
def test_removed_for_ever(commands):
    members, removed = ([*column] for column in zip(*commands)) if commands else ([], [])
    expected = set(members) - {member for member, gone in commands if gone}
    assert read(TwoPhaseSet(), (members, removed)) == expected


def replay(commands):
    """What is left of one partition's commands, done one after the other."""
    alive = set()
    for member, removed in commands:
        (alive.discard if removed else alive.add)(member)
    return alive


@given(
    st.sampled_from(MEMBERS).flatmap(lambda m: st.lists(st.lists(st.tuples(m, st.booleans()), max_size=8), max_size=3))
)
def test_observed_removes_only_see_their_own_partition(partitions):
    online = ORSet()
    state, expected = online.zero(1), set()
    for partition, commands in enumerate(partitions):
        expected |= replay(commands)
        for first in range(0, len(commands), 3):
            members, removed = ([*column] for column in zip(*commands[first : first + 3]))
            state = online.merge(folded(online, (members, removed), partition=partition, offset=first), state)
    assert online.value(state) == expected


def test_where_one_row_adds_and_removes_the_add_wins():
    online = ORSet()
    add, remove = folded(online, ([1], False), offset=5), folded(online, ([1], True), offset=5)
    assert online.value(online.merge(add, remove)) == online.value(online.merge(remove, add)) == {1}


def test_a_removal_before_any_add_does_not_count_against_it_in_an_observed_remove_set():
    assert read(ORSet(), ([1, 1], [True, False])) == {1}
    assert read(TwoPhaseSet(), ([1, 1], [True, False])) == set()


def test_scalars_and_columns_mix():
    assert read(ORSet(), ("x", [False, True, False])) == {"x"}
    assert read(TwoPhaseSet(), ([4, 5], False)) == {4, 5}
    assert read(GSet(), [True, False]) == {0, 1}


def test_sparse_members_in_many_groups():
    values = np.arange(0, 10**12, 10**9)
    ids = np.arange(len(values)) % 7
    for aggregate, element, read_back in (
        (GSet(), values, set),
        (ORSet(), (values, np.zeros(len(values), dtype=np.bool_)), set),
        (TwoPhaseSet(), (values, np.zeros(len(values), dtype=np.bool_)), set),
    ):
        state = aggregate.fold(Groups.scatter(ids, 7), rows_of(element))
        assert [read_back(aggregate.value(state, group)) for group in range(7)] == [
            set(values[ids == group].tolist()) for group in range(7)
        ]


def test_what_cannot_be_a_member():
    with pytest.raises(BadElement, match="float cannot be a key"):
        read(GSet(), [1.5])
    with pytest.raises(BadElement, match="member, removed"):
        read(ORSet(), [1])
    with pytest.raises(BadElement, match="true or false"):
        read(TwoPhaseSet(), ([1], [0]))
