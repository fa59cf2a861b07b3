from __future__ import annotations

import contextlib
import datetime
import math
import os
import pickle
import random
import subprocess
import sys
from collections import OrderedDict
from decimal import Decimal
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.codec import NestedBytes, decode, encode, object_array
from holons.errors import CodecError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTEGERS = st.integers() | st.integers(min_value=-(2**80), max_value=2**80)
DATES = st.one_of(
    st.datetimes(), st.datetimes(timezones=st.just(datetime.UTC)), st.dates(), st.times(), st.timedeltas()
)
HASHABLE_SCALARS = (
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False) | TEXT | st.binary(max_size=8) | DATES
)
HASHABLE = st.recursive(
    HASHABLE_SCALARS,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.sets(HASHABLE, max_size=4)
    ),
    max_leaves=12,
)
DTYPES = st.sampled_from([np.bool_, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, np.float32, np.float64])


def same(a: object, b: object) -> bool:
    """Equal values of equal types, all the way down: 1, 1.0 and True differ."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a == b and all(same(a[key], b[key]) for key in a)
    return a == b


@given(VALUES)
def test_what_was_encoded_comes_back(value: object):
    assert same(decode(encode(value)), value)


@given(VALUES)
def test_what_comes_back_has_the_same_bytes(value: object):
    assert encode(decode(encode(value))) == encode(value)


@given(st.dictionaries(HASHABLE, HASHABLE, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_a_map_does_not_show(value: dict, shuffler: random.Random):
    items = list(value.items())
    shuffler.shuffle(items)
    assert encode(dict(items)) == encode(value)


@given(st.lists(HASHABLE, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_a_set_does_not_show(items: list, shuffler: random.Random):
    shuffled = shuffler.sample(items, len(items))
    assert encode(set(shuffled)) == encode(set(items))
    assert encode(frozenset(shuffled)) == encode(frozenset(items))


def test_sets_of_strings_do_not_depend_on_the_hash_seed():
    script = "from holons.codec import encode; print(encode({'x': {str(n) for n in range(1000)}}).hex())"
    told = {
        subprocess.check_output([sys.executable, "-c", script], env=os.environ | {"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    }
    assert len(told) == 1


@given(HASHABLE, HASHABLE)
def test_different_values_have_different_bytes(a: object, b: object):
    assert (encode(a) == encode(b)) == (same(a, b) or (a == b == 0 and isinstance(a, float) and isinstance(b, float)))


def test_the_two_zeros_are_one():
    assert encode(-0.0) == encode(0.0)
    assert math.copysign(1.0, decode(encode(-0.0))) == 1.0
    assert encode({-0.0: [(-0.0,)]}) == encode({0.0: [(0.0,)]})
    assert encode(np.array([-0.0, 1.0])) == encode(np.array([0.0, 1.0]))


def test_all_nans_are_one():
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000], dtype=np.uint64).view(np.float64)
    assert encode(float(odd[0])) == encode(float("nan")) == encode(-float("nan"))
    assert math.isnan(decode(encode(float("nan"))))
    assert encode(odd) == encode(np.array([np.nan, np.nan]))
    assert encode(np.array([np.nan], dtype=np.float32)) == encode(np.array([-np.nan], dtype=np.float32))


@given(st.data())
def test_arrays_come_back(data: st.DataObject):
    dtype = data.draw(DTYPES)
    items = data.draw(st.lists(st.integers(0, 100), max_size=20))
    array = np.array(items, dtype=dtype)
    back = decode(encode(array))
    assert back.dtype == array.dtype
    assert back.tolist() == array.tolist()
    assert not back.flags.writeable


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_arrays_keep_their_width(dtype: type):
    array = np.array([1.5, -0.0, np.nan, np.inf], dtype=dtype)
    back = decode(encode(array))
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, array)


def test_arrays_keep_their_shape():
    array = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(decode(encode(array)), array)
    assert decode(encode(np.zeros((0, 5), dtype=np.int32))).shape == (0, 5)


MANY = 5_000


@pytest.mark.parametrize(
    ("bytes_each", "values"),
    [
        (1, np.full(MANY, -(2**63))),
        (1, np.tile(np.arange(256), MANY // 256 + 1) + 2**62),
        (2, np.tile(np.arange(257), MANY // 257 + 1) - 300),
        (2, np.concatenate([np.zeros(MANY, dtype=np.int64), [2**16 - 1, 0]])),
        (4, np.concatenate([np.zeros(MANY, dtype=np.int64), [2**16, 0]])),
        (4, np.concatenate([[2**32 - 1], np.zeros(MANY, dtype=np.int64)]) - 7),
        (8, np.concatenate([[2**32], np.zeros(MANY, dtype=np.int64)])),
        (8, np.concatenate([[2**63 - 1], np.full(MANY, -(2**63))])),
        (1, np.arange(MANY) * 255 + 10**15),
        (2, np.arange(MANY) * 256 + 10**15),
        (4, np.arange(MANY) * 2**16 + 10**15),
        (8, np.arange(MANY) * 2**32),
        (2, np.concatenate([[-5, 3, 2], np.arange(3, MANY)])),  # as if it ascended
        (8, np.concatenate([[-(2**63), 0], np.full(MANY, 2**63 - 1)])),  # the steps do not fit either
    ],
)
def test_many_integers_take_few_bytes(bytes_each: int, values: np.ndarray):
    data, back = encode(values), decode(encode(values))
    assert bytes_each * len(values) <= len(data) < bytes_each * len(values) + 64
    np.testing.assert_array_equal(back, values)
    assert back.dtype == np.int64
    assert not back.flags.writeable
    assert encode(back) == data == encode(np.repeat(values, 2)[::2])


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8), st.booleans(), st.integers(4_000, 5_000))
def test_many_integers_come_back(some: list[int], ascend: bool, count: int):
    values = np.resize(np.array(some, dtype=np.int64), count)
    if ascend:
        values.sort()
    np.testing.assert_array_equal(decode(encode(values)), values)


def test_layout_and_byte_order_do_not_show():
    array = np.arange(24, dtype=np.int64).reshape(4, 6)
    assert encode(np.asfortranarray(array)) == encode(array)
    assert encode(array[:, ::2]) == encode(array[:, ::2].copy())
    assert encode(array.astype(">i8")) == encode(array)


@given(st.lists(TEXT, max_size=8))
def test_arrays_of_strings_come_back(items: list[str]):
    back = decode(encode(np.array(items, dtype=np.dtypes.StringDType())))
    assert isinstance(back.dtype, np.dtypes.StringDType)
    assert back.tolist() == items


@given(st.lists(HASHABLE, max_size=6))
def test_arrays_of_objects_come_back(items: list):
    back = decode(encode(object_array(items)))
    assert back.dtype == object
    assert same(back.tolist(), items)


def test_numpy_scalars_are_plain_numbers():
    assert encode(np.int64(7)) == encode(7)
    assert encode(np.float64(-0.0)) == encode(0.0)
    assert encode(np.bool_(True)) == encode(True)


class Point(NamedTuple):
    x: int
    y: int


def test_named_tuples_travel_as_tuples():
    assert decode(encode(Point(1, 2))) == (1, 2)
    assert encode(Point(1, 2)) == encode((1, 2))


@pytest.mark.parametrize(
    "value", [object(), 1j, OrderedDict, bytearray(b"x"), np.array([1j]), np.array(["2020-01-01"], dtype="M8[D]")]
)
def test_a_value_without_canonical_bytes_is_refused(value: object):
    with pytest.raises(CodecError, match="has no canonical bytes") as caught:
        encode(value)
    assert "use" in caught.value.hint


@pytest.mark.parametrize("depth", [[object()], {"key": [(object(),)]}, {1: {2: object()}}])
def test_it_is_refused_however_deep_it_sits(depth: object):
    with pytest.raises(CodecError):
        encode(depth)


@given(VALUES, st.data())
def test_a_truncated_value_is_not_a_value(value: object, data: st.DataObject):
    whole = encode(value)
    with pytest.raises(CodecError):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(VALUES, st.data())
def test_damage_is_a_codec_error_or_another_value_but_never_anything_else(value: object, data: st.DataObject):
    damaged = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CodecError):
        decode(bytes(damaged))


@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_a_codec_error_or_a_value_but_never_anything_else(data: bytes):
    with contextlib.suppress(CodecError):
        decode(data)


def test_bytes_after_a_value_are_damage():
    with pytest.raises(CodecError):
        decode(encode(1) + encode(2))


def test_nothing_is_unpickled():
    with pytest.raises(CodecError):
        decode(pickle.dumps({"a": 1}))


@pytest.mark.parametrize("code", [0, 77, -5])
def test_an_unknown_extension_is_named(code: int):
    data = msgspec.msgpack.encode(msgspec.msgpack.Ext(code, encode(1)))
    with pytest.raises(CodecError, match=f"unknown extension {code}") as caught:
        decode(data)
    assert "newer version" in caught.value.hint


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (4, [1, 2]),
        (4, [[1, 2, 3]]),
        (5, ["<i8", [2], b"12345678"]),
        (5, ["no dtype", [1], b"1"]),
        (5, ["O", [1], b"12345678"]),
        (5, [1]),
        (8, "twelve"),
        (8, math.inf),
        (9, "yesterday"),
        (2, [[1], [2]]),
        (13, [0, False, "<f4", b"1234"]),
        (13, [0, False, "<u4", b"123"]),
        (13, [2**63, False, "<u4", b"1234"]),
        (13, [0, False, "<u4"]),
    ],
)
def test_an_extension_with_a_damaged_body_is_a_codec_error(code: int, body: object):
    data = msgspec.msgpack.encode(msgspec.msgpack.Ext(code, msgspec.msgpack.encode(body)))
    with pytest.raises(CodecError):
        decode(data)


LARGE = st.sampled_from([2**15 - 1, 2**15, 40_000, 2**16 - 40, 2**16 - 1, 2**16, 70_000]).flatmap(
    lambda size: st.sampled_from(
        [
            b"x" * size,
            np.arange(size, dtype=np.uint8),
            np.zeros(size // 8, dtype=np.float64),
            np.ones((2, size)).T,
            np.arange(size),
        ]
    )
)


@given(
    st.recursive(
        LARGE | HASHABLE_SCALARS,
        lambda inner: (
            st.lists(inner, max_size=20)
            | st.lists(inner, max_size=3).map(tuple)
            | st.lists(inner, max_size=3).map(object_array)
            | st.dictionaries(TEXT, inner, max_size=4)
        ),
        max_leaves=6,
    )
)
def test_many_bytes_are_the_same_though_they_are_put_together_at_the_end(value: object):
    at_once = encode(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holons.codec._LARGE_BYTES", 2**40)
        assert at_once == encode(value)
    assert encode(decode(at_once)) == at_once
    within = {"nested": [NestedBytes(value), 1]}
    assert encode(within) == encode({"nested": [at_once, 1]})


def test_equal_decimals_have_equal_bytes_and_no_digit_is_lost():
    wide = Decimal("12345678901234567890123456789012345678")
    for number in map(Decimal, ("1.5", "-0.001", "1E+30", "0", "Infinity", wide)):
        assert decode(encode(number)) == number
    assert decode(encode(Decimal("NaN"))).is_nan()
    assert encode(Decimal("1.50")) == encode(Decimal("1.5"))
    assert encode(Decimal("-0.0")) == encode(Decimal(0))
    assert encode(Decimal("100")) == encode(Decimal("1E+2")) != encode(Decimal("1E+3"))


def test_nanoseconds_of_pandas_count():
    first, second = (pd.Timestamp(1_000_000_000 + nanoseconds) for nanoseconds in (0, 1))
    assert encode(first) == encode(first.to_pydatetime()) != encode(second)
    assert encode(pd.Timedelta(1_000)) == encode(datetime.timedelta(microseconds=1)) != encode(pd.Timedelta(1_001))
