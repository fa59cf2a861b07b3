"""Key columns against Python's sets and dictionaries."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.algebra import keys
from holons.codec import encode
from holons.errors import BadElement

INTEGERS = st.one_of(
    st.lists(st.integers(-5, 5)), st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.integers(2000, 9000))
)
LONG = st.text(max_size=4).map(lambda text: f"NumPy keeps longer ones elsewhere: {text}")
TEXTS = st.lists(st.text(max_size=4) | LONG)
EITHER = st.one_of(INTEGERS, TEXTS)
PAIRS = st.one_of(st.tuples(INTEGERS, INTEGERS), st.tuples(TEXTS, TEXTS), st.tuples(EITHER, st.just([])))


def column(values):
    return pl.Series(values, dtype=pl.String) if any(isinstance(v, str) for v in values) else np.array(values, np.int64)


WIDE = st.integers(-5, 40) | st.sampled_from([-(2**63), 2**63 - 1, 2**62, -(2**62)])


@given(EITHER)
def test_codes_lead_back_to_the_rows_and_the_table_is_ascending(values):
    coded = keys.encode(column(values), len(values))
    assert coded.keys[coded.codes].tolist() == values
    table = coded.keys.tolist()
    assert table == sorted(set(table))
    assert keys.distinct(column(values), len(values)).tolist() == sorted(set(values))


@given(EITHER)
def test_equal_sets_have_equal_bytes(values):
    expected = encode(keys.of(values))
    assert encode(keys.of(reversed(values))) == expected
    assert encode(keys.distinct(column(values), len(values))) == expected


@given(PAIRS)
def test_align_is_the_union_with_places(pair):
    a, b = map(keys.of, pair)
    merged, left, right = keys.align(a, b)
    assert merged.tolist() == sorted(set(a.tolist()) | set(b.tolist())) == keys.union(b, a).tolist()
    assert merged[left].tolist() == a.tolist()
    assert merged[right].tolist() == b.tolist()
    assert keys.same(a, b) == (a.tolist() == b.tolist())


@given(PAIRS)
def test_positions_are_those_of_a_dictionary(pair):
    table, wanted = keys.of(pair[0]), column(pair[1])
    wanted = np.array(wanted.to_list(), dtype=keys.TEXT) if isinstance(wanted, pl.Series) else wanted
    places = {key: place for place, key in enumerate(table.tolist())}
    assert keys.positions(table, wanted).tolist() == [places.get(key, -1) for key in pair[1]]
    assert [keys.position(table, key) for key in pair[1]] == [places.get(key, -1) for key in pair[1]]


@given(st.lists(WIDE, max_size=30), st.lists(WIDE, max_size=30))
def test_only_places_are_those_of_a_dictionary_unless_something_is_there_twice(values, wanted):
    places = {value: place for place, value in enumerate(values)}
    found = keys.only_places(np.array(values, dtype=np.int64), np.array(wanted, dtype=np.int64))
    if len(places) < len(values):
        assert found is None
    else:
        assert found is not None
        assert found.tolist() == [places.get(one, -1) for one in wanted]


@given(PAIRS)
def test_a_finder_finds_all_or_none(pair):
    table, wanted = keys.of(pair[0]), keys.of(pair[1])
    found = keys.Finder(table).find(wanted)
    if set(wanted.tolist()) <= set(table.tolist()):
        assert table[found].tolist() == wanted.tolist()
    else:
        assert found is None


@given(PAIRS, st.data())
def test_keys_at_places_are_those_of_indexing(pair, data):
    table = keys.of(pair[0])
    places = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=len(table), max_size=len(table))))
    found = keys.at(table, places)
    assert found.tolist() == table[places].tolist()
    assert found.dtype == (table.dtype if len(places) else np.int64)


def test_ranges_of_keys_are_found_and_read_without_a_table():
    for low in (0, -2, 5):
        table = np.arange(low, low + 4)
        assert keys.is_range(table)
        assert keys.at(table, np.array([1, 3])).tolist() == [low + 1, low + 3]
        assert keys.Finder(table).find(np.array([low + 1, low + 3])).tolist() == [1, 3]
    assert not keys.is_range(keys.empty())
    assert not keys.is_range(keys.of([1, 3]))
    assert not keys.is_range(keys.of("ab"))


def test_a_scalar_key_a_boolean_key_and_a_sliced_series():
    assert keys.encode("x", 2).codes.tolist() == [0, 0]
    assert keys.distinct(np.array([True, True]), 2).tolist() == [1]
    assert keys.distinct(pl.Series(["z", "b", "a"]).slice(1), 2).tolist() == ["a", "b"]


def test_there_is_one_empty_key_column():
    nothing = keys.present(keys.of(["a"]), np.array([False]))
    assert encode(nothing) == encode(keys.empty()) == encode(keys.distinct(pl.Series([], dtype=pl.String), 0))


def test_what_cannot_be_a_key_says_so():
    with pytest.raises(BadElement, match="float"):
        keys.encode(np.array([1.5]), 1)
    for mixing in (lambda: keys.of([1, "a"]), lambda: keys.align(keys.of([1]), keys.of(["a"]))):
        with pytest.raises(BadElement, match="integer keys and string keys"):
            mixing()
