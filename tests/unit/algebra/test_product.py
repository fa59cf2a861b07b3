"""Products: every field is what it would be alone."""

import pickle

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.algebra import GCounter, Groups, GSet, PNCounter, rows_of
from holons.algebra.maps import MergeMap
from holons.algebra.product import Product
from holons.algebra.registers import MaxRegister, MinRegister
from holons.algebra.sums import Average
from holons.errors import BadElement, BadProgram

FIELDS = {"n": GCounter(), "mean": Average("float"), "high": MaxRegister("int"), "by": MergeMap(PNCounter())}
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(-9, 9)), max_size=15)


def elements(rows):
    values = np.array([value for _, _, value in rows], dtype=np.int64)
    keys = np.array([key for _, key, _ in rows], dtype=np.int64)
    return {"n": 1, "mean": values, "high": values, "by": (keys, values)}


def fold(aggregate, rows, field=None):
    element = elements(rows) if field is None else elements(rows)[field]
    groups = Groups.scatter(np.array([group for group, _, _ in rows], dtype=np.int64), 3)
    return aggregate.fold(groups, rows_of(element, np.zeros(len(rows), dtype=np.int64)))


@given(ROWS, st.data())
def test_fields_are_independent_and_cuts_do_not_matter(rows, data):
    product = Product(FIELDS)
    whole = fold(product, rows)
    for group in range(3):
        alone = {name: field.value(fold(field, rows, name), group) for name, field in FIELDS.items()}
        assert product.value(whole, group) == alone
    cut = data.draw(st.integers(0, len(rows)))
    merged = product.merge(fold(product, rows[cut:]), fold(product, rows[:cut]))
    assert product.encode(merged) == product.encode(whole)


@given(ROWS, ROWS)
def test_subtracting_undoes_merging(a, b):
    product = Product(n=GCounter(), mean=Average("float"))
    assert product.invertible

    def state(rows):
        values = {name: element for name, element in elements(rows).items() if name in ("n", "mean")}
        groups = Groups.scatter(np.array([group for group, _, _ in rows], dtype=np.int64), 3)
        return product.fold(groups, rows_of(values, np.zeros(len(rows), dtype=np.int64)))

    assert product.encode(product.subtract(product.merge(state(a), state(b)), state(b))) == product.encode(state(a))


def test_what_holds_for_all_fields_holds_for_the_product():
    registers = Product(a=MaxRegister(), b=MergeMap(MaxRegister()))
    assert registers.idempotent
    assert not registers.invertible
    assert not Product(a=MaxRegister(), b=GCounter()).idempotent
    state = registers.fold(Groups.single(2), rows_of({"a": [3, 5], "b": ([1, 2], [7, 8])}))
    assert not registers.join(state, state).changed
    assert registers.join(registers.bottom(), state).changed
    assert registers.leq(registers.bottom(), state)
    with pytest.raises(BadElement, match="no lattice"):
        Product(a=GCounter()).join(*[Product(a=GCounter()).zero(1)] * 2)


def test_one_element_for_all_fields():
    product = Product(total=PNCounter(), high=MaxRegister())
    state = product.fold(Groups.single(2), rows_of([3, 5]))
    assert product.value(state) == {"total": 8, "high": 5}


def test_errors_and_travel():
    with pytest.raises(BadProgram, match="nothing"):
        Product()
    with pytest.raises(BadElement, match="was given"):
        Product(a=GCounter()).fold(Groups.single(1), rows_of({"b": [1]}))
    product = Product(FIELDS)
    again = pickle.loads(pickle.dumps(product))
    assert again == product
    assert hash(again) == hash(product)
    assert (
        again.describe() == "Product(n=GCounter, mean=Average(float), high=MaxRegister('int'), by=MergeMap(PNCounter))"
    )


@given(st.lists(st.tuples(st.integers(0, 2), *[st.none() | st.integers(-9, 9)] * 2), max_size=15), st.integers(0, 15))
def test_each_field_has_its_own_nulls(rows, cut):
    product = Product(low=MinRegister(), high=MaxRegister(), n=GCounter())
    by_key = MergeMap(product)

    def element(part):
        low, high = (pl.Series([row[place] for row in part], dtype=pl.Int64) for place in (1, 2))
        return {"low": low, "high": high, "n": 1}

    def keyed(part):
        keys = pl.Series([row[0] for row in part], dtype=pl.Int64)
        return by_key.fold(Groups.single(len(part)), rows_of((keys, element(part)), [0] * len(part)))

    def expected(part):
        lows, highs = ([row[place] for row in part if row[place] is not None] for place in (1, 2))
        return {"low": min(lows, default=None), "high": max(highs, default=None), "n": len(part)}

    whole = product.fold(Groups.single(len(rows)), rows_of(element(rows), [0] * len(rows)))
    assert product.value(whole) == expected(rows)
    value = by_key.value(by_key.merge(keyed(rows[:cut]), keyed(rows[cut:])))
    assert value.to_dict() == {
        key: expected([row for row in rows if row[0] == key]) for key in sorted({r[0] for r in rows})
    }


def test_a_key_whose_row_has_only_nulls_is_there():
    by_key = MergeMap(Product(high=MaxRegister(), all=GSet()))
    nothing = pl.Series([None, None], dtype=pl.Int64)
    value = by_key.value(by_key.fold(Groups.single(2), rows_of((["a", "b"], {"high": nothing, "all": nothing}))))
    assert value.to_dict() == {key: {"high": None, "all": frozenset()} for key in ("a", "b")}
