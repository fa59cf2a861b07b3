"""The hash, recomputed in Python's integers, and pinned."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.algebra import hashing
from holons.algebra.hashing import hash64
from holons.algebra.keys import TEXT
from holons.errors import BadElement

WORD = 2**64 - 1


def mix(word):
    z = (word + 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def hash_text(text):
    data = text.encode()
    table = [mix((byte * 0x9E3779B97F4A7C15) & WORD) for byte in range(256)]
    total = sum(table[byte] * pow(0xD1342543DE82EF95, place, 2**64) for place, byte in enumerate(data))
    return mix((total + mix(len(data))) & WORD)


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers(values):
    assert hash64(np.array(values, dtype=np.int64)).tolist() == [mix(value & WORD) for value in values]


@given(st.lists(st.text(max_size=6), min_size=1), st.data())
def test_strings_whole_sliced_and_in_numpy(values, data):
    expected = [hash_text(value) for value in values]
    first = data.draw(st.integers(0, len(values)))
    assert hash64(pl.Series(values, dtype=pl.String)).tolist() == expected
    assert hash64(pl.Series(values, dtype=pl.String).slice(first)).tolist() == expected[first:]
    assert hash64(np.array(values, dtype=TEXT)).tolist() == expected
    arrow = pa.array(values, type=pa.large_string())
    assert hashing._hash_strings(arrow.slice(first)).tolist() == expected[first:]


def test_strings_across_blocks(monkeypatch):
    values = ["", "ab", "x" * 50, "", "é" * 9, "abcdefg", ""] * 3
    expected = [hash_text(value) for value in values]
    monkeypatch.setattr(hashing, "_BLOCK_BYTES", 16)
    hashing._block_powers.cache_clear()
    try:
        assert hash64(pl.Series(values)).tolist() == expected
    finally:
        hashing._block_powers.cache_clear()


def test_equal_floats_hash_alike():
    other_nan = np.array([0xFFF8000000000001], dtype=np.uint64).view(np.float64)[0]
    zero, minus_zero, nan, odd_nan, one = hash64(np.array([0.0, -0.0, np.nan, other_nan, 1.0])).tolist()
    assert zero == minus_zero
    assert nan == odd_nan
    assert len({zero, nan, one}) == 3


def test_pinned_values_never_change():
    assert hash64(np.array([0, 1, -1])).tolist() == [16294208416658607535, 10451216379200822465, 16490336266968443936]
    assert hash64(pl.Series(["", "a", "ab"])).tolist() == [hash_text(""), hash_text("a"), 2040248616772034265]


def test_bits_are_spread():
    for column in (np.arange(4096), pl.Series([f"key{i}" for i in range(4096)])):
        buckets = np.bincount((hash64(column) % np.uint64(16)).astype(np.int64), minlength=16)
        assert buckets.min() > 180
        assert buckets.max() < 340


def test_what_cannot_be_hashed_says_so():
    with pytest.raises(BadElement):
        hash64(pl.Series([[1]]))
