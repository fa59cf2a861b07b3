"""A 64-bit hash of every row, the same on every machine and in every version.

Which partition shares which key, and which register of a sketch a row falls into, becomes part of states and outputs,
so the hash is written here in plain integer arithmetic and must never change (`tests/unit/algebra/test_hashing.py`
pins values). It is not meant to withstand an adversary.

Law: equal elements have equal hashes. -0.0 is 0.0, NaN is one value, booleans are 0 and 1. A string is hashed over
its UTF-8 bytes: the sum of table[byte] * BASE**position, wrapping, finalised together with its length.

>>> hash64(np.array([1, 2]))[0] == hash64(np.array([True]))[0]
np.True_
"""

from __future__ import annotations

from functools import cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from holons.algebra.keys import is_text
from holons.algebra.rows import Column
from holons.errors import BadElement

Hashes: TypeAlias = npt.NDArray[np.uint64]

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_BASE: Final = 0xD1342543DE82EF95
_BASE_INVERSE: Final = pow(_BASE, -1, 2**64)
_BLOCK_BYTES: Final = 1 << 16


def hash64(values: Column) -> Hashes:
    """The hash of each row: integers, floats and booleans in NumPy, strings in polars or in NumPy's `StringDType`."""
    if isinstance(values, pl.Series):
        if values.dtype == pl.String:
            return _hash_strings(values.rechunk().to_arrow())
    elif is_text(values):
        return _hash_strings(pl.Series(values, dtype=pl.String).to_arrow())
    elif values.dtype.kind == "f":
        numbers = values.astype(np.float64) + 0.0
        return mix(np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64))
    elif values.dtype.kind in "bi":
        return mix(values.astype(np.int64).view(np.uint64))
    raise BadElement(f"cannot hash a column of {values.dtype}", hint="use integers, floats, booleans or strings")


def mix(words: Hashes) -> Hashes:
    """The splitmix64 step: every bit of the input moves about half of the bits of the output.

    >>> hex(int(mix(np.array([0], dtype=np.uint64))[0]))
    '0xe220a8397b1dcdaf'
    """
    z = words + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


# --- strings --------------------------------------------------------------------------------------------------------


def _hash_strings(values: pa.Array) -> Hashes:
    values = values.cast(pa.large_string())
    count = len(values)
    if count == 0:
        return np.zeros(0, dtype=np.uint64)
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[values.offset : values.offset + count + 1]
    data = np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer is not None else np.zeros(0, dtype=np.uint8)
    sums = np.empty(count, dtype=np.uint64)
    for first, last in _blocks(offsets):
        sums[first:last] = _polynomials(data, offsets[first : last + 1])
    return mix(sums + mix(np.diff(offsets).astype(np.uint64)))


def _blocks(offsets: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Rows whose bytes together fill a block; a longer string has a block of its own."""
    count, blocks, first = len(offsets) - 1, [], 0
    while first < count:
        last = int(np.searchsorted(offsets, offsets[first] + _BLOCK_BYTES, side="right")) - 1
        last = min(max(last, first + 1), count)
        blocks.append((first, last))
        first = last
    return blocks


def _polynomials(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Hashes:
    """Each string's polynomial: differences of prefix sums, moved back to position 0. Works for empty strings too."""
    begin, end = int(offsets[0]), int(offsets[-1])
    powers, inverses = _powers(max(_BLOCK_BYTES, end - begin))
    prefix = np.zeros(end - begin + 1, dtype=np.uint64)
    np.cumsum(_table()[data[begin:end]] * powers[: end - begin], out=prefix[1:])
    inside = offsets - begin
    return (prefix[inside[1:]] - prefix[inside[:-1]]) * inverses[inside[:-1]]


def _powers(size: int) -> tuple[Hashes, Hashes]:
    return _block_powers() if size == _BLOCK_BYTES else _make_powers(size)


@cache
def _block_powers() -> tuple[Hashes, Hashes]:
    return _make_powers(_BLOCK_BYTES)


def _make_powers(size: int) -> tuple[Hashes, Hashes]:
    """BASE**0 .. BASE**size, and their inverses modulo 2**64."""
    return _geometric(_BASE, size), _geometric(_BASE_INVERSE, size)


def _geometric(factor: int, size: int) -> Hashes:
    terms = np.full(size + 1, factor, dtype=np.uint64)
    terms[0] = 1
    return np.multiply.accumulate(terms)


@cache
def _table() -> Hashes:
    """One pseudo-random word for each byte."""
    return mix(np.arange(256, dtype=np.uint64) * _GOLDEN)
