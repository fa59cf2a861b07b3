"""The best rows, against sorted()."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.algebra.rows_by_hand import Many, folded, read, rows_at

from holons.algebra import Groups, Origin, Rows, TopK
from holons.errors import BadElement, BadProgram

SCORES = st.one_of(
    st.lists(st.integers(-2, 2), max_size=14),
    st.lists(st.sampled_from([-(2**63), 2**63 - 1, 0]), max_size=14),
    st.lists(st.sampled_from([0.0, -1.5, math.inf, -math.inf, math.nan]), max_size=14),
)


def best(rows, k, largest):
    """The k best distinct rows (score, ts, partition, offset, payload), by the definition."""

    def key(row):
        score = row[0]
        return (score != score, 0 if score != score else (-score if largest else score), *row[1:])

    distinct = {repr(row): row for row in rows}
    return [(row[0], row[4]) for row in sorted(distinct.values(), key=key)[:k]]


@given(SCORES, st.integers(1, 4), st.booleans(), st.data())
def test_the_best_rows_of_two_partitions(scores, k, largest, data):
    n = len(scores)
    ts, offsets = (data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)) for _ in range(2))
    payloads = data.draw(st.lists(st.sampled_from(["", "a", "b"]), min_size=n, max_size=n))
    top = TopK(k, largest=largest)
    state, everything = top.zero(1), []
    for partition, part in ((0, slice(0, n, 2)), (1, slice(1, n, 2))):
        rows = rows_at((scores[part], payloads[part]), ts[part], offsets[part], partition)
        state = top.merge(state, top.fold(Groups.single(rows.count), rows))
        columns = zip(scores[part], ts[part], [partition] * n, offsets[part], payloads[part])
        everything.extend(columns)
    assert repr(top.value(state)) == repr(best(everything, k, largest))


@pytest.mark.parametrize("largest", [True, False])
@Many.each_shape
@Many.each_layout
def test_early_selection_leaves_out_nothing(shape, layout, largest):
    many, k = Many(shape, layout), 7
    top = TopK(k, largest=largest)
    state = top.fold(many.groups, many.rows)
    for group in range(many.groups.n):
        assert repr(top.value(state, group)) == repr(best(many.of_group(group), k, largest))


def test_rows_that_come_twice_count_once_also_in_large_batches():
    n = 10_000
    top = TopK(3)
    twice = Origin(0, 0, n, np.repeat(np.arange(n // 2), 2))
    state = top.fold(Groups.single(n), Rows(np.repeat(np.arange(n // 2), 2), np.zeros(n, dtype=np.int64), twice))
    assert top.value(state) == [4999, 4998, 4997]


def test_ties_go_to_the_earlier_row():
    assert read(TopK(1), ([5, 5], ["late", "early"]), ts=[20, 10]) == [(5, "early")]
    assert read(TopK(1), ([5, 5], ["first", "second"]), ts=[10, 10]) == [(5, "first")]


def test_scores_alone():
    assert read(TopK(2), [3, 1, 2]) == [3, 2]
    assert read(TopK(2, largest=False), [3.5, 1.0, math.nan]) == [1.0, 3.5]
    assert read(TopK(5), [math.nan, 1.0]) == pytest.approx([1.0, math.nan], nan_ok=True)
    assert TopK(2).value(TopK(2).zero(1)) == []


def test_one_kind_of_score_and_payload():
    top = TopK(2)
    with pytest.raises(BadElement, match="different types"):
        top.merge(folded(top, [1]), folded(top, [1.5]))
    with pytest.raises(BadElement, match="different types"):
        top.merge(folded(top, [1]), folded(top, ([1], ["a"])))
    with pytest.raises(BadElement, match="payload is an integer or a string"):
        folded(top, ([1], [0.5]))
    with pytest.raises(BadElement, match="not 3 columns"):
        folded(top, ([1], [2], [3]))
    with pytest.raises(BadElement, match="takes numbers"):
        folded(top, ["a"])


def test_k_is_positive():
    with pytest.raises(BadProgram):
        TopK(0)
