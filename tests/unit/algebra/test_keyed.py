"""What is read from a map: columns, shares and tables."""

import pickle

import numpy as np
import pytest

from holons.algebra import GCounter, Groups, Keyed, MaxRegister, MergeMap, Product, rows_of
from holons.algebra.keys import TEXT
from holons.errors import WrongScope

BOTH = MergeMap(Product(n=GCounter(), high=MaxRegister()))


def read(keys=("b", "a", "b", "c"), high=(1, None, 3, 4)):
    return BOTH.value(BOTH.fold(Groups.single(len(keys)), rows_of((list(keys), {"n": 1, "high": list(high)}))))


def test_fields_are_columns_and_values_are_rows():
    value = read()
    assert {name: part.tolist() for name, part in value.fields.items()} == {"n": [1, 2, 1], "high": [None, 3, 4]}
    assert value["b"] == {"n": 2, "high": 3}
    assert value.get("z") is None
    assert value.to_dict()["a"] == {"n": 1, "high": None}
    assert Keyed(np.array([1]), np.array([2])).fields is None


def test_to_frame_has_a_column_for_each_field():
    assert read().to_frame().to_dicts() == [
        {"key": "a", "n": 1, "high": None},
        {"key": "b", "n": 2, "high": 3},
        {"key": "c", "n": 1, "high": 4},
    ]
    assert Keyed(np.array([3, 5]), np.array([1.5, 2.5])).to_frame().to_dicts() == [
        {"key": 3, "value": 1.5},
        {"key": 5, "value": 2.5},
    ]


@pytest.mark.parametrize("keys", [np.array(["a", "c", "zz"], dtype=TEXT), np.array([], dtype=TEXT)])
def test_only_some_keys(keys):
    some = read().placed(0, 1).only(keys)
    assert some.to_dict() == {key: value for key, value in read().items() if key in keys.tolist()}
    assert {name: len(part) for name, part in some.fields.items()} == {"n": len(some), "high": len(some)}
    assert some.share() == some, "it still knows who reads it"


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_shares_are_everything_once(partitions):
    value = read(keys=[f"k{n}" for n in range(50)], high=range(50))
    shares = [value.share(number, partitions) for number in range(partitions)]
    assert sorted(key for share in shares for key in share) == sorted(value)
    assert all(share[key] == value[key] for share in shares for key in share)
    assert all(value.placed(number, partitions).share() == share for number, share in enumerate(shares))
    assert sum(len(share) > 0 for share in shares) == partitions
    assert all(list(share) == sorted(share) for share in shares), "in the order of the keys"
    again = read(keys=[f"k{n}" for n in range(50)], high=range(50))
    assert value.share(0, 3) == again.share(0, 3), "of as many as asked for, whoever asked before"


def test_a_share_is_somebodys():
    with pytest.raises(WrongScope):
        read().share()


def test_it_travels_with_its_fields():
    again = pickle.loads(pickle.dumps(read()))
    assert again == read()
    assert list(again.fields) == ["n", "high"]
