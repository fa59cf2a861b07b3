"""What every store promises, against a dictionary."""

import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.store.grids import PatientGrid
from tests.unit.store.stores import STORES

from holons.errors import RecordDamaged


@pytest.fixture(params=sorted(STORES))
def make_store(request, tmp_path):
    return lambda: STORES[request.param](tmp_path)


NAMES = st.sampled_from(
    ["p", "P", "", ".", "..", "job/3/process", "größe", "a%2fb", "a/b", "x" * 300, "\ud800", "con\0"]
)
POSITIONS = st.lists(
    st.one_of(st.integers(-3, 12), st.integers(-(2**63), 2**64), st.sampled_from([-10, -9, -1, 0, 9, 10, 99, 100])),
    max_size=3,
).map(tuple)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES, POSITIONS, st.binary(max_size=40)),
        st.tuples(st.just("put"), NAMES, POSITIONS, st.just(bytes(5000))),
        st.tuples(st.just("drop"), NAMES, POSITIONS, st.none()),
    ),
    max_size=20,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_store_is_a_dictionary_that_keeps_the_first(make_store, steps):
    store, model, dropped = make_store(), {}, {}
    for step, name, position, data in steps:
        if step == "put":
            store.put(name, position, data)
            if not isinstance(store, PatientGrid) or position >= dropped.get(name, ()):  # the grid never goes back
                model.setdefault((name, position), data)
        else:
            store.drop(name, position)
            dropped[name] = max(dropped.get(name, ()), position)
            model = {key: kept for key, kept in model.items() if key[0] != name or key[1] >= position}
    for name in {name for _, name, _, _ in steps}:
        assert store.positions(name) == sorted(at for of, at in model if of == name)
    assert {key: store.get(*key) for key in model} == model


def test_a_new_store_is_empty(make_store):
    store = make_store()
    assert store.positions("p") == []
    store.drop("p", (10,))
    assert store.positions("p") == []


def test_a_missing_record_is_damaged(make_store):
    store = make_store()
    with pytest.raises(RecordDamaged, match="there is no record p at \\(1,\\)"):
        store.get("p", (1,))
    store.put("p", (1,), b"1")
    with pytest.raises(RecordDamaged):
        store.get("p", (2,))
    with pytest.raises(RecordDamaged):
        store.get("q", (1,))


def test_positions_are_ordered_as_numbers(make_store):
    store = make_store()
    ascending = [(), (-100, 5), (-20,), (-3,), (0,), (2,), (2, -1), (2, 0), (10,), (10, 2), (10, 11), (2**64,)]
    for position in reversed(ascending):
        store.put("p", position, b"")
    assert store.positions("p") == ascending


def test_a_large_record_comes_back_whole(make_store):
    store, data = make_store(), bytes(range(256)) * 20_000
    store.put("p", (1,), data)
    assert store.get("p", (1,)) == data


def test_names_do_not_meet(make_store):
    store = make_store()
    store.put("p/1", (1,), b"slash")
    store.put("p", (1,), b"plain")
    store.put("P", (1,), b"capital")
    store.drop("p", (2,))
    assert store.positions("p") == []
    assert (store.get("p/1", (1,)), store.get("P", (1,))) == (b"slash", b"capital")


def test_a_store_travels_to_another_process(make_store):
    store = make_store()
    store.put("p", (1,), b"1")
    if not hasattr(store, "bytes_held"):
        assert pickle.loads(pickle.dumps(store)).get("p", (1,)) == b"1"
