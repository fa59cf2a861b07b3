"""Chance that can be replayed: a number for each event id, whoever asks, in whatever order."""

from __future__ import annotations

from functools import cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ids: TypeAlias = npt.NDArray[np.int64]

_POOL_BYTES: Final = 1 << 16
_LONGEST: Final = 1 << 10
_SPACE_EVERY: Final = 13


def unit(ids: Ids, seed: int, lane: int) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each id: the splitmix64 finaliser over (id, seed, lane)."""
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
        (seed * 0xBF58476D1CE4E5B9 + lane * 0x94D049BB133111EB) % 2**64
    )
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(ids: Ids, seed: int, lane: int, bound: int | Ids) -> Ids:
    """A whole number from 0 on, below a bound, for each id."""
    return (unit(ids, seed, lane) * bound).astype(np.int64)


@cache
def letters(count: int, seed: int, lane: int) -> npt.NDArray[np.uint8]:
    """So many letters, always the same."""
    return below(np.arange(count), seed, lane, 26).astype(np.uint8) + np.uint8(ord("a"))


@cache
def _words(count: int, seed: int, lane: int) -> npt.NDArray[np.uint8]:
    """Letters with a space now and then."""
    spaces = below(np.arange(count), seed, lane + 1, _SPACE_EVERY) == 0
    return np.where(spaces, np.uint8(ord(" ")), letters(count, seed, lane))


def texts(ids: Ids, lengths: Ids, seed: int, lane: int, *, words: bool = False) -> pa.Array:
    """A text of the given length (up to 1024) for each id: a piece of a pool. Uses this lane and the two after it."""
    pool = _words(_POOL_BYTES, seed, lane) if words else letters(_POOL_BYTES, seed, lane)
    first = below(ids, seed, lane + 2, _POOL_BYTES - _LONGEST)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    letters_chosen = pool[np.repeat(first - ends[:-1], lengths) + np.arange(ends[-1])]
    return pa.StringArray.from_buffers(len(ids), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(letters_chosen))


def padding(ids: Ids, sizes: Ids, average: int, seed: int, lane: int) -> pa.Array:
    """Letters that only take room: rows of these sizes come to the average, give or take a fifth of what is missing."""
    missing = np.maximum(average - sizes, 0)
    spread = np.round(missing * 0.2).astype(np.int64)
    return texts(ids, missing - spread + below(ids, seed, lane + 3, 2 * spread), seed, lane)
