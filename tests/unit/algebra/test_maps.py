"""Maps against Python dictionaries, by every way to fold and to merge."""

import math
import pickle
from collections import Counter, defaultdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.algebra import GCounter, Groups, PNCounter, maps, rows_of
from holons.algebra.hashing import hash64
from holons.algebra.keyed import Keyed
from holons.algebra.maps import MergeMap
from holons.algebra.registers import MaxRegister
from holons.algebra.sums import Average
from holons.errors import BadElement

WINDOWS = 4
INT_KEYS = st.one_of(st.integers(0, 5), st.integers(-(2**62), 2**62))
KIND = st.shared(st.sampled_from(["int", "str"]), key="kind")
ROW = st.tuples(st.integers(0, WINDOWS - 1), KIND, INT_KEYS, st.integers(-9, 9))
ROWS = st.lists(ROW, max_size=25).map(lambda rows: [(w, f"k{k}" if kind == "str" else k, v) for w, kind, k, v in rows])


def fold(aggregate, rows, *, sort=False, scalar=None):
    rows = sorted(rows, key=lambda row: row[0]) if sort else rows
    windows = np.array([row[0] for row in rows], dtype=np.int64)
    keys = [row[1] for row in rows]
    column = pl.Series(keys, dtype=pl.String) if keys and isinstance(keys[0], str) else np.array(keys, dtype=np.int64)
    element = np.array([row[2] for row in rows], dtype=np.int64) if scalar is None else scalar
    prepared = rows_of((column, element), np.zeros(len(rows), dtype=np.int64))
    if not sort:
        return aggregate.fold(Groups.scatter(windows, WINDOWS), prepared)
    labels, groups = Groups.by_label(windows)
    state = aggregate.zero(WINDOWS)
    state[0][labels] = aggregate.fold(groups, prepared)[0]
    return state


def oracle(rows, window, combine):
    result = defaultdict(list)
    for w, key, value in rows:
        if w == window:
            result[key].append(value)
    return {key: combine(values) for key, values in sorted(result.items())}


INNER = [
    (PNCounter(), sum),
    (MaxRegister("int"), max),
    (Average("int"), lambda values: sum(values) / len(values)),
]


@pytest.mark.parametrize(("inner", "combine"), INNER)
@pytest.mark.parametrize("way", ["run by run", "dense", "sparse"])
def test_fold_is_a_dictionary_of_inner_values(inner, combine, way, monkeypatch):
    monkeypatch.setattr(maps, "_RUN_ROWS", -1000 if way == "run by run" else 4096)
    monkeypatch.setattr(maps, "_DENSE", -(10**9) if way == "sparse" else 8)
    aggregate = MergeMap(inner)

    @given(ROWS)
    def check(rows):
        state = fold(aggregate, rows, sort=way == "run by run")
        for window in range(WINDOWS):
            assert aggregate.value(state, window).to_dict() == oracle(rows, window, combine)
        assert aggregate.encode(aggregate.decode(aggregate.encode(state))) == aggregate.encode(state)
        if way == "dense":
            assert aggregate.encode(fold(aggregate, rows, sort=True)) == aggregate.encode(state)

    check()


@given(ROWS, st.data())
def test_any_cut_and_any_order_give_the_same_bytes(rows, data):
    cut = data.draw(st.integers(0, len(rows)))
    mixed = data.draw(st.permutations(rows))
    for inner, _ in INNER:
        aggregate = MergeMap(inner)
        whole = aggregate.encode(fold(aggregate, rows))
        assert aggregate.encode(fold(aggregate, mixed)) == whole
        assert aggregate.encode(aggregate.merge(fold(aggregate, mixed[cut:]), fold(aggregate, mixed[:cut]))) == whole


@given(ROWS)
def test_a_key_is_there_even_if_its_rows_add_nothing(rows):
    for scalar, each in ((0, 0), (1, 1), (3, 3)):
        state = fold(MergeMap(GCounter()), rows, scalar=scalar)
        for window in range(WINDOWS):
            assert MergeMap(GCounter()).value(state, window).to_dict() == oracle(
                rows, window, lambda v, e=each: e * len(v)
            )


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from("ab"), st.integers(0, 9)), max_size=20))
def test_maps_of_maps(rows):
    aggregate = MergeMap(MergeMap(PNCounter()))

    def state(part):
        windows, outer, inner, values = zip(*part, strict=True) if part else ((), (), (), ())
        element = (np.array(outer, np.int64), pl.Series(inner, dtype=pl.String), np.array(values, np.int64))
        prepared = rows_of(element, np.zeros(len(part), np.int64))
        return aggregate.fold(Groups.scatter(np.array(windows, np.int64), 3), prepared)

    expected = [defaultdict(lambda: defaultdict(int)) for _ in range(3)]
    for window, outer, inner, value in rows:
        expected[window][outer][inner] += value
    whole = state(rows)
    for window in range(3):
        got = {key: value.to_dict() for key, value in aggregate.value(whole, window).items()}
        assert got == expected[window]
    half = len(rows) // 2
    assert aggregate.encode(aggregate.merge(state(rows[half:]), state(rows[:half]))) == aggregate.encode(whole)


def test_idempotent_exactly_if_the_inner_aggregate_is():
    highest = MergeMap(MaxRegister())
    state = highest.fold(Groups.single(2), rows_of(([1, 2], [5, 6])))
    assert highest.idempotent
    assert not highest.join(state, state).changed
    assert highest.join(highest.bottom(), state).changed
    assert highest.leq(highest.bottom(), state)
    assert not highest.leq(state, highest.bottom())
    counts = MergeMap(GCounter())
    assert not counts.idempotent
    assert not counts.invertible
    with pytest.raises(BadElement, match="no lattice"):
        counts.join(counts.zero(1), counts.zero(1))


def test_errors_and_travel():
    counts = MergeMap(GCounter())
    with pytest.raises(BadElement, match="tuple"):
        counts.fold(Groups.single(1), rows_of([1]))
    words = counts.fold(Groups.single(1), rows_of((["a"], 1)))
    numbers = counts.fold(Groups.single(1), rows_of(([1], 1)))
    with pytest.raises(BadElement, match="integer keys and string keys"):
        counts.merge(words, numbers)
    assert counts.encode(counts.merge(words, counts.zero(1))) == counts.encode(words)
    again = pickle.loads(pickle.dumps(counts))
    assert again == counts
    assert again.idempotent is False
    assert hash(again) == hash(counts)


# --- what users read ------------------------------------------------------------------------------------------------


@given(st.dictionaries(st.integers(-99, 99), st.one_of(st.integers(-3, 3), st.just(-(2**63)))), st.integers(0, 9))
def test_top_is_by_value_then_by_key(pairs, n):
    keyed = Keyed(
        np.array(sorted(pairs), dtype=np.int64), np.array([pairs[key] for key in sorted(pairs)], dtype=np.int64)
    )
    expected = sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))[:n]
    assert keyed.top(n) == expected
    assert Keyed(keyed.keys, keyed.values.astype(object)).top(n) == expected


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 9)), st.integers(1, 5))
def test_shares_are_disjoint_and_complete(pairs, partitions):
    aggregate = MergeMap(GCounter())
    columns = (pl.Series(list(pairs), dtype=pl.String), pl.Series(list(pairs.values()), dtype=pl.Int64))
    keyed = aggregate.value(aggregate.fold(Groups.single(len(pairs)), rows_of(columns)))
    shares = [keyed.share(partition, partitions) for partition in range(partitions)]
    together = [pair for share in shares for pair in share.items()]
    assert sorted(together) == sorted(pairs.items())
    for partition, share in enumerate(shares):
        assert all(int(h) % partitions == partition for h in hash64(share.keys))


def test_reading_a_map():
    keyed = Keyed(np.array([2, 4, 6]), np.array([0.5, math.nan, 1.5]))
    assert keyed[6] == 1.5
    assert isinstance(keyed[6], float)
    assert keyed.get(5) is None
    assert keyed.get(2**70, 1.0) == 1.0
    assert 4 in keyed
    assert "4" not in keyed
    with pytest.raises(KeyError):
        keyed[3]
    assert [key for key, _ in keyed.top(3)] == [6, 2, 4]
    assert keyed == pickle.loads(pickle.dumps(keyed))
    assert keyed != Keyed(np.array([2, 4, 6]), np.array([0.5, 1.0, 1.5]))
    frame = keyed.to_frame()
    assert frame.columns == ["key", "value"]
    assert frame["key"].to_list() == [2, 4, 6]
    assert repr(keyed) == "Keyed({2: 0.5, 4: nan, 6: 1.5}, 3 keys)"
    nested = MergeMap(MergeMap(GCounter()))
    frame = nested.value(nested.fold(Groups.single(2), rows_of(([1, 2], ["a", "b"], 1)))).to_frame()
    assert frame["value"].to_list() == [[{"key": "a", "value": 1}], [{"key": "b", "value": 1}]]


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("shift", [0, 10, 900, 1_000, 1_990, 2_000, 5_000])
def test_maps_whose_keys_grow_are_merged_like_any_others(shift, text, monkeypatch):
    """Keys of one map that are below all of the other's are left alone, if there are enough of them."""
    monkeypatch.setattr(maps, "_APART", 100)
    counts = MergeMap(GCounter())

    def map_of(first, step):
        keys = range(first, first + 2_000, step)
        return counts.fold(
            Groups.single(len(keys)), rows_of(([f"{key:09}" for key in keys] if text else list(keys), 1))
        )

    for one, other in ((map_of(0, 2), map_of(shift, 3)), (map_of(shift, 3), map_of(0, 2))):
        found = counts.value(counts.merge(one, other))
        expected = Counter(range(0, 2_000, 2)) + Counter(range(shift, shift + 2_000, 3))
        assert {int(key): count for key, count in found.items()} == expected
        assert list(found.keys) == sorted(found.keys)
