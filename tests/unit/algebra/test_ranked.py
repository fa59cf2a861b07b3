"""Rows kept whole, against sorted()."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.algebra.rows_by_hand import Many, folded, read, rows_at

from holons.algebra import Groups, MergeMap, Ranked, rows_of
from holons.algebra.aggregate import pick
from holons.algebra.ranked import TIME
from holons.errors import BadElement, BadProgram

SCORES = st.one_of(
    st.lists(st.integers(-2, 2), max_size=12),
    st.lists(st.sampled_from([-(2**63), 2**63 - 1, 0]), max_size=12),
    st.lists(st.sampled_from([0.0, -1.5, math.inf, -math.inf, math.nan]), max_size=12),
    st.lists(st.sampled_from(["", "a", "b", "ab", "é"]), max_size=12),
    st.lists(st.booleans(), max_size=12),
)


def in_order(rows, k, down):
    """The first k rows (score, ts, partition, offset, payload) by the definition: NaN is the last, either way."""
    ranks = {repr(score): place for place, score in enumerate(sorted({row[0] for row in rows if row[0] == row[0]}))}

    def key(row):
        rank = ranks.get(repr(row[0]), 0)
        return (row[0] != row[0], -rank if down else rank, *row[1:4])

    return [(row[0], row[4]) for row in sorted(rows, key=key)][:k]


def kept(value):
    return list(zip(value["score"].tolist(), value["payload"].tolist()))


@given(SCORES, st.sampled_from([1, 2, 5, None]), st.booleans(), st.data())
def test_rows_of_two_partitions_in_order(scores, k, down, data):
    n = len(scores)
    ts, offsets = (data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)) for _ in range(2))
    ranked = Ranked(("score", "payload"), (down,), k)
    state, everything = ranked.zero(1), []
    for partition, part in ((0, slice(0, n, 2)), (1, slice(1, n, 2))):
        payloads = [offset * 10 + partition for offset in offsets[part]]  # rows that tie in everything are alike
        rows = rows_at((scores[part], payloads), ts[part], offsets[part], partition)
        state = ranked.merge(ranked.fold(Groups.single(rows.count), rows), state)
        everything.extend(zip(scores[part], ts[part], [partition] * n, offsets[part], payloads))
    assert repr(kept(ranked.value(state))) == repr(in_order(everything, k, down))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12), st.permutations(range(12)))
def test_several_columns_each_up_or_down(scores, order):
    ranked = Ranked(("a", "b", "place"), (True, False))
    places = [place for place in order if place < len(scores)]
    rows = rows_at(([scores[p][0] for p in places], [scores[p][1] for p in places], places), [0] * len(places), places)
    value = ranked.value(ranked.fold(Groups.single(rows.count), rows))
    expected = sorted(range(len(scores)), key=lambda place: (-scores[place][0], scores[place][1], place))
    assert value["place"].tolist() == expected


def test_without_an_order_it_is_a_bag_by_partition_and_offset():
    bag = Ranked(("x",))
    late = folded(bag, [7, 7, 1], ts=[0, 0, 0], partition=1)
    early = folded(bag, [7, 9], ts=[5, 5], partition=0, offset=3)
    assert bag.value(bag.merge(late, early))["x"].tolist() == [7, 9, 7, 7, 1]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 4)), max_size=8), st.permutations(range(8)))
def test_a_bag_does_not_tell_how_it_was_put_together(pieces, order):
    """Pieces of two partitions, each with the next offsets of its own, and windows that a piece may lie across."""
    bag, parts, expected, ends = Ranked(("x",)), [], {}, [0, 0]
    for partition, count in pieces:
        first, ends[partition] = ends[partition], ends[partition] + count
        offsets = range(first, ends[partition])
        windows, groups = Groups.by_step(np.array([offset // 3 for offset in offsets]), 1, ascending=True)
        state = bag.fold(groups, rows_of(list(offsets), [0] * count, partition=partition, offset=first))
        parts.append([(window, pick(state, group)) for group, window in enumerate(windows.tolist())])
        for offset in offsets:
            expected.setdefault(offset // 3, []).append((partition, offset))
    merged = {}
    for number in (place for place in order if place < len(parts)):
        for window, state in parts[number]:
            merged[window] = bag.merge(merged.get(window, bag.zero(1)), state)
    for window, state in merged.items():
        assert bag.value(state)["x"].tolist() == [offset for _, offset in sorted(expected[window])]


def test_rows_that_are_alike_are_two_rows():
    for ranked in (Ranked(("x", "y")), Ranked(("x", "y"), (True,)), Ranked(("x", "y"), (True,), k=9)):
        rows = rows_at(([5, 5], ["a", "a"]), [0, 0], [3, 3])
        assert ranked.value(ranked.fold(Groups.single(2), rows))["y"].tolist() == ["a", "a"]


def test_ties_go_to_the_earlier_row():
    one = Ranked(("score", "who"), (True,), k=1)
    assert read(one, ([5, 5], ["late", "early"]), ts=[20, 10])["who"].tolist() == ["early"]
    assert read(one, ([5, 5], ["first", "second"]), ts=[10, 10])["who"].tolist() == ["first"]
    merged = one.merge(folded(one, ([5], ["p1"]), partition=1), folded(one, ([5], ["p0"]), partition=0, offset=9))
    assert one.value(merged)["who"].tolist() == ["p0"]


def test_null_in_any_column_and_the_row_is_not_there():
    assert read(Ranked(("a", "b")), ([1, None, 3], ["x", "y", None]))["a"].tolist() == [1]


@pytest.mark.parametrize("down", [True, False])
@Many.each_shape
@Many.each_layout
def test_early_selection_leaves_out_nothing(shape, layout, down):
    many, k = Many(shape, layout), 7
    ranked = Ranked(("score", "payload"), (down,), k)
    state = ranked.fold(many.groups, many.rows)
    for group in range(many.groups.n):
        assert repr(kept(ranked.value(state, group))) == repr(in_order(many.of_group(group), k, down))


def test_in_a_map_each_key_has_its_own():
    best = MergeMap(Ranked(("price",), (True,), k=1))
    value = best.value(best.fold(Groups.single(3), rows_of((["a", "b", "a"], ([5, 9, 7],)))))
    assert {key: row["price"].tolist() for key, row in value.items()} == {"a": [7], "b": [9]}


def test_mistakes():
    for wrong in ({"names": ()}, {"names": ("a",), "descending": (True, True)}, {"names": ("a",), "k": 0}):
        with pytest.raises(BadProgram) as error:
            Ranked(**wrong)
        assert error.value.hint
    with pytest.raises(BadElement, match="2 columns for a"):
        folded(Ranked(("a",)), ([1], [2]))


def test_nothing_is_empty_columns():
    assert {name: part.tolist() for name, part in Ranked(("a", "b")).value(Ranked(("a", "b")).zero(1)).items()} == {
        "a": [],
        "b": [],
        TIME: [],
    }
