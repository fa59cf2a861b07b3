"""Aggregates out of functions: right ones work like any other, wrong ones are refused at once."""

from datetime import UTC, date, datetime, time, timedelta

import numpy as np
import pytest
from tests.unit.algebra.rows_by_hand import folded

from holons import codec
from holons.algebra import Groups, Law, MergeMap, custom, laws, rows_of
from holons.errors import BadElement, BadInput, HolonsError, LawBroken

SAMPLE = [3, 1, 4, 1, 5, 9, 2, 6]
LARGEST = {
    "zero": lambda: None,
    "fold": lambda state, column: max([*([] if state is None else [state]), *column.to_list()]),
    "merge": lambda a, b: b if a is None else a if b is None else max(a, b),
}
ADD = {"zero": lambda: 0, "fold": lambda state, column: state + column.sum(), "merge": lambda a, b: a + b}


def test_a_right_one_folds_merges_and_reads():
    largest = custom(**LARGEST, value=lambda state: state or 0, sample=SAMPLE, name="largest")
    state = largest.merge(folded(largest, [3, 5]), folded(largest, [4]))
    assert largest.value(state) == 5
    assert largest.value(largest.zero(1)) == 0
    assert largest.describe() == "largest"


@pytest.mark.parametrize(
    "plain",
    [
        lambda low: low,
        lambda low: None if low is None else low / 4,
        lambda low: None if low is None else low > 3,
        lambda low: str(low).encode(),
        lambda low: {low},
        lambda low: frozenset((low, "x")),
        lambda low: {"least": [low, (low,)]},
        lambda low: date(2024, 5, 1) + timedelta(days=low or 0),
        lambda low: (datetime(2024, 5, 1, tzinfo=UTC), time(low or 0), timedelta(hours=low or 0)),
        lambda low: np.array([low or 0, 7]),
        lambda low: np.array([low == 1, True]),
    ],
)
def test_a_state_is_made_of_whatever_has_canonical_bytes(plain):
    def least(*found):
        return min((one for one in found if one is not None), default=None)

    made = custom(
        zero=lambda: (None, plain(None)),
        fold=lambda state, column: (least(state[0], *column), plain(least(state[0], *column))),
        merge=lambda a, b: (least(a[0], b[0]), plain(least(a[0], b[0]))),
        value=lambda state: state[0],
        sample=SAMPLE,
    )
    state = folded(made, [3, 2, 5])
    assert codec.encode(made.merge(state, made.zero(1))) == codec.encode(state)
    again = codec.decode(codec.encode(list(state)))
    assert type(again[0][0][1]) is type(plain(2))


def test_by_key_and_of_several_columns():
    total = custom(
        zero=lambda: 0,
        fold=lambda state, columns: state + (columns[0] * columns[1]).sum(),
        merge=lambda a, b: a + b,
        sample=([1, 2, 3, 4], [5, 6, 7, 8]),
    )
    by_key = MergeMap(total)
    value = by_key.value(by_key.fold(Groups.single(3), rows_of((["a", "b", "a"], ([1, 2, 3], [10, 10, 10])))))
    assert value.to_dict() == {"a": 40, "b": 20}


def test_constants_come_as_columns():
    total = custom(**ADD, sample=SAMPLE)
    rows = rows_of((["a", "b", "a"], 2))
    assert MergeMap(total).value(MergeMap(total).fold(Groups.single(3), rows)).to_dict() == {"a": 4, "b": 2}


def test_it_keeps_the_laws_of_every_aggregate():
    batches = [rows_of(SAMPLE), rows_of([7, 7], partition=1), rows_of([], partition=2)]
    for functions in (LARGEST, ADD):
        laws.check(custom(**functions, sample=SAMPLE), batches)


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        ({"merge": lambda a, b: a - b}, None),
        ({"merge": lambda a, b: a}, None),
        ({"merge": lambda a, b: a or b}, Law.COMMUTATIVE),
        ({"zero": lambda: 1}, Law.NEUTRAL),
        ({"fold": lambda state, column: state + len(column) ** 2}, Law.CUTS),
        ({"fold": lambda state, column: column[-1]}, None),
        ({"fold": lambda state, column: state + sum(i * x for i, x in enumerate(column.to_list()))}, None),
    ],
    ids=["subtracts", "forgets", "keeps one", "starts at one", "counts batches", "last row", "by place"],
)
def test_a_wrong_one_is_refused_when_it_is_made(broken, law):
    with pytest.raises(LawBroken) as error:
        custom(**{**ADD, **broken}, sample=SAMPLE)
    assert law is None or error.value.where["law"] == law


def test_a_state_that_is_not_plain_is_refused_when_it_is_made():
    class Mine:
        pass

    with pytest.raises(HolonsError) as error:
        custom(zero=Mine, fold=lambda state, column: state, merge=lambda a, b: a, sample=SAMPLE)
    assert "Mine" in str(error.value)


@pytest.mark.parametrize("sample", [1, [], [1], [1, 2, 3], ([1, 2], [3, 4])], ids=str)
def test_a_sample_that_says_little_is_refused(sample):
    with pytest.raises(BadInput, match="says little"):
        custom(**ADD, sample=sample)


def test_the_least_sample_shows_a_fold_that_looks_at_one_row_only():
    first = {"zero": lambda: 0, "fold": lambda state, column: max(state, column[0]), "merge": max}
    with pytest.raises(LawBroken):
        custom(**first, sample=[1, 2, 3, 4])


def test_the_whole_sample_is_folded_at_once_too():
    ends = {"zero": lambda: 0, "fold": lambda state, column: max(state, column[0], column[-1]), "merge": max}
    with pytest.raises(LawBroken):
        custom(**ends, sample=[1, 9, 2, 4])


def fails(*_):
    raise KeyError("lost")


@pytest.mark.parametrize("function", ["fold", "merge", "value"])
def test_a_function_that_raises_is_named(function):
    with pytest.raises(BadElement, match=f"mine: {function} raised KeyError: 'lost'"):
        custom(**{**ADD, function: fails}, sample=SAMPLE, name="mine")


def test_a_value_that_cannot_be_read_of_no_rows_says_so():
    mean = {"zero": lambda: (0, 0), "fold": lambda s, x: (s[0] + len(x), s[1] + x.sum())}
    with pytest.raises(BadElement, match=r"value raised ZeroDivisionError(?s:.*)state \(0, 0\); .* no rows"):
        custom(**mean, merge=lambda a, b: (a[0] + b[0], a[1] + b[1]), value=lambda s: s[1] / s[0], sample=SAMPLE)


def test_columns_that_are_not_as_in_the_sample_are_told_with_the_name():
    total = custom(**ADD, sample=SAMPLE, name="total")
    with pytest.raises(BadElement, match="total: fold raised"):
        folded(total, ["text"])
