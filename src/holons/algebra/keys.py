"""Key columns: sorted tables of distinct keys, and rows given as codes into them.

A key column is a NumPy array, ascending and without repetition: int64, or `StringDType` (ordered by code points).
Law: a set of keys has exactly one key column, so equal sets have equal bytes. The empty one is int64, whatever was
in it before, and goes with both kinds; integers and strings never meet in one table (`BadElement`). Booleans are the
keys 0 and 1. Floats are no keys: NaN is not equal to itself, and nobody means 0.1 + 0.2.

>>> coded = encode(np.array([7, 5, 7]), 3)
>>> coded.keys[coded.codes].tolist()
[7, 5, 7]
>>> union(np.array([1, 5]), np.array([2, 5])).tolist()
[1, 2, 5]
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from holons.algebra.aggregate import IntArray
from holons.algebra.rows import NEGATIVE, Element, column, unsigned_max
from holons.errors import BadElement

Keys: TypeAlias = "npt.NDArray[np.generic]"
"""A key column: int64 or `StringDType`, ascending, distinct."""

Key: TypeAlias = int | str

TEXT: Final = np.dtypes.StringDType()

_SMALL: Final = 1024
"""So many cells of a table may be empty at its beginning: that costs less than to subtract from every row."""


_FEW: Final = 4
"""Keys within so small a part of a table are looked for in that part."""


class Coded(NamedTuple):
    """Rows as codes into a table. The table holds every key of the rows, and maybe others: see `present`."""

    codes: IntArray
    keys: Keys


class Aligned(NamedTuple):
    """The union of two key columns, and where the keys of each are in it."""

    keys: Keys
    left: IntArray
    right: IntArray


def empty() -> Keys:
    """The only empty key column."""
    return np.zeros(0, dtype=np.int64)


def is_text(keys: Keys) -> bool:
    """Whether the keys are strings."""
    return isinstance(keys.dtype, np.dtypes.StringDType)


def is_range(keys: Keys) -> bool:
    """Whether the keys are integers without a gap between them, at least one."""
    return len(keys) > 0 and not is_text(keys) and int(keys[-1]) - int(keys[0]) + 1 == len(keys)


def of(keys: Iterable[Key]) -> Keys:
    """The key column of some Python keys, in any order, repeated or not.

    >>> of(["b", "a", "b"]).tolist()
    ['a', 'b']
    """
    members = sorted(set(keys), key=lambda key: (isinstance(key, str), key))
    if not members:
        return empty()
    if isinstance(members[0], str) != isinstance(members[-1], str):
        raise _mixed()
    return np.array(members, dtype=TEXT if isinstance(members[0], str) else np.int64)


# --- rows to codes --------------------------------------------------------------------------------------------------


def encode(element: Element, count: int) -> Coded:
    """Each row's code and the table of keys: a range where integers lie close together, else a dictionary."""
    if isinstance(element, str):
        return Coded(np.zeros(count, dtype=np.int64), of([element] if count else []))
    values = column(element, count)
    if isinstance(values, pl.Series):
        return _encode_text(values)
    if is_text(values):
        return _encode_text(pl.Series(values, dtype=pl.String))
    return _encode_integers(_integers(values))


def distinct(element: Element, count: int) -> Keys:
    """The key column of exactly the rows' keys."""
    coded = encode(element, count)
    return present(coded.keys, _marks(coded.codes, len(coded.keys)))


def present(keys: Keys, mask: npt.NDArray[np.bool_]) -> Keys:
    """The keys where `mask` is true: the way from a table to the key column of what is really there."""
    chosen = keys if mask.all() else keys[mask]
    return chosen if len(chosen) else empty()


def at(keys: Keys, places: IntArray) -> Keys:
    """The keys at ascending places. Maybe `places` itself: leave it alone afterwards.

    >>> at(np.array([5, 6, 7]), np.array([0, 2])).tolist()
    [5, 7]
    """
    if len(places) == 0:
        return empty()
    if not is_range(keys):
        return keys[places]
    low = int(keys[0])
    return np.add(places, low) if low else places


def _integers(values: npt.NDArray[np.generic]) -> IntArray:
    if values.dtype.kind == "f":
        raise BadElement("a float cannot be a key", hint="round it and cast it to an integer, or format it as a string")
    if values.dtype.kind not in "bi":
        raise BadElement(f"a column of {values.dtype} cannot be a key", hint="use integers, booleans or strings")
    return values.astype(np.int64, copy=False)


def _encode_integers(values: IntArray) -> Coded:
    if len(values) == 0:
        return Coded(values, empty())
    high = unsigned_max(values)
    if high < _SMALL:
        return Coded(values, np.arange(high + 1, dtype=np.int64))
    low, high = int(values.min()), high if high < NEGATIVE else int(values.max())
    limit = 4 * len(values) + 1024
    if 0 <= low < _SMALL and high < limit:  # the keys are codes already
        return Coded(values, np.arange(high + 1, dtype=np.int64))
    if high - low < limit:
        return Coded(values - low, np.arange(low, high + 1, dtype=np.int64))
    codes, dictionary = _dictionary(pa.array(values))
    return _ranked(codes, dictionary.to_numpy(zero_copy_only=False).astype(np.int64, copy=False))


def _encode_text(values: pl.Series) -> Coded:
    if len(values) == 0:
        return Coded(np.zeros(0, dtype=np.int64), empty())
    codes, dictionary = _dictionary(values.rechunk().to_arrow())
    return _ranked(codes, np.array(dictionary.to_pylist(), dtype=TEXT))


def _dictionary(values: pa.Array) -> tuple[IntArray, pa.Array]:
    encoded = values.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary


def _ranked(codes: IntArray, dictionary: Keys) -> Coded:
    """The dictionary sorted, the codes following it."""
    order = np.argsort(dictionary, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order), dtype=np.int64)
    return Coded(rank[codes], dictionary[order])


# --- tables among each other ----------------------------------------------------------------------------------------


def same(a: Keys, b: Keys) -> bool:
    """Whether both hold the same keys."""
    return a is b or (len(a) == len(b) and is_text(a) == is_text(b) and bool(np.array_equal(a, b)))


def union(a: Keys, b: Keys) -> Keys:
    """The keys of either."""
    return align(a, b).keys


def align(a: Keys, b: Keys) -> Aligned:
    """The union, with the place of every key of `a` and of `b` in it."""
    if len(b) == 0 or same(a, b):
        return Aligned(a, _range(len(a)), _range(len(b)))
    if len(a) == 0:
        return Aligned(b, _range(0), _range(len(b)))
    if is_text(a) != is_text(b):
        raise _mixed()
    if not is_text(a):
        low, high = min(int(a[0]), int(b[0])), max(int(a[-1]), int(b[-1]))
        if _is_small(low, high, len(a) + len(b)):
            return _align_range(a, b, low, high)
    both = np.concatenate((a, b))
    order = np.argsort(both, kind="stable")  # two ascending runs: one merge
    ascending = both[order]
    first = np.concatenate(([True], ascending[1:] != ascending[:-1]))
    places = np.empty(len(both), dtype=np.int64)
    places[order] = np.cumsum(first) - 1
    return Aligned(ascending[first], places[: len(a)], places[len(a) :])


def positions(keys: Keys, wanted: Keys) -> IntArray:
    """Where each wanted key is in `keys`, -1 where it is not. `wanted` need not be sorted.

    >>> positions(np.array([2, 5, 9]), np.array([9, 3])).tolist()
    [2, -1]
    """
    if len(keys) == 0 or len(wanted) == 0 or is_text(keys) != is_text(wanted):
        return np.full(len(wanted), -1, dtype=np.int64)
    if is_text(keys):
        matches = pc.index_in(pl.Series(wanted).to_arrow(), value_set=pl.Series(keys).to_arrow())
        places: IntArray = matches.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return places
    low, high = int(keys[0]), int(keys[-1])
    if _is_small(low, high, len(keys) + len(wanted)):
        return _look_up(_table(keys, low, high), low, wanted)
    spots = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[spots] == wanted, spots, -1)


def only_places(values: IntArray, wanted: IntArray) -> IntArray | None:
    """Where each wanted integer is among some in any order, -1 where it is not; None if one is there several times.

    >>> only_places(np.array([5, 9, 2]), np.array([9, 3])).tolist()
    [1, -1]
    """
    if len(values) == 0:
        return np.full(len(wanted), -1, dtype=np.int64)
    low, high = int(values.min()), int(values.max())
    if _is_small(low, high, len(values) + len(wanted)):
        table = _table(values, low, high)
        once = np.count_nonzero(table >= 0) == len(values)
        return _look_up(table, low, wanted) if once else None
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    if bool((ascending[1:] == ascending[:-1]).any()):
        return None
    places = positions(ascending, wanted)
    return np.where(places >= 0, order[places], -1)


def _table(values: Keys, low: int, high: int) -> IntArray:
    """By value, from the least on: where it is. Behind the largest comes one that is nowhere."""
    table = np.full(high - low + 2, -1, dtype=np.int64)
    table[values - low] = _range(len(values))
    return table


def _look_up(table: IntArray, low: int, wanted: Keys) -> IntArray:
    """What is below the least is, without a sign, far beyond the largest."""
    spots = np.subtract(wanted, low).view(np.uint64)
    np.minimum(spots, np.uint64(len(table) - 1), out=spots)
    places: IntArray = table[spots.view(np.int64)]
    return places


class Finder:
    """Finds key columns in one table, again and again: by subtraction or by a lookup table where integers lie close."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self._low, self._high = (0, -1) if len(keys) == 0 or is_text(keys) else (int(keys[0]), int(keys[-1]))
        self._whole = is_range(keys)

    @cached_property
    def _lookup(self) -> IntArray | None:
        if self._low > self._high or not _is_small(self._low, self._high, len(self.keys)):
            return None
        lookup = np.full(self._high - self._low + 1, -1, dtype=np.int64)
        lookup[self.keys - self._low] = _range(len(self.keys))
        return lookup

    def find(self, wanted: Keys) -> IntArray | None:
        """Where each key of a key column is; None if one of them is missing. Maybe the column itself: do not change it.

        >>> Finder(np.array([2, 5, 9])).find(np.array([5, 9])).tolist()
        [1, 2]
        """
        if len(wanted) == 0:
            return _range(0)
        if self._low <= self._high and not is_text(wanted):
            if int(wanted[0]) < self._low or int(wanted[-1]) > self._high:
                return None
            if self._whole:
                return np.subtract(wanted, self._low) if self._low else wanted  # type: ignore[return-value]
        places = self._places(wanted)
        return places if int(places.min()) >= 0 else None

    def _places(self, wanted: Keys) -> IntArray:
        if is_text(self.keys) != is_text(wanted):
            return positions(self.keys, wanted)
        first, last = below(self.keys, wanted), bisect_right(self.keys, wanted[-1])
        if _FEW * (last - first) < len(self.keys):  # they lie close to each other: no need to look at the others
            places = positions(self.keys[first:last], wanted)
            return np.where(places >= 0, places + first, -1)
        return positions(self.keys, wanted) if self._lookup is None else self._lookup[np.subtract(wanted, self._low)]


def below(keys: Keys, others: Keys) -> int:
    """How many keys are less than all of the others, of which there must be some.

    >>> below(np.array([2, 5, 9]), np.array([6, 7]))
    2
    """
    return bisect_left(keys, others[0]) if is_text(keys) == is_text(others) else 0


def position(keys: Keys, key: Key) -> int:
    """Where one key is, or -1."""
    if len(keys) == 0 or isinstance(key, str) != is_text(keys):
        return -1
    if not isinstance(key, str) and not int(keys[0]) <= key <= int(keys[-1]):
        return -1
    spot = bisect_left(keys, key)
    return spot if spot < len(keys) and keys[spot] == key else -1


def _align_range(a: Keys, b: Keys, low: int, high: int) -> Aligned:
    marks = np.zeros(high - low + 1, dtype=np.bool_)
    at_a, at_b = a - low, b - low
    marks[at_a] = True
    marks[at_b] = True
    rank = np.cumsum(marks) - 1
    return Aligned(np.flatnonzero(marks) + low, rank[at_a], rank[at_b])


def _is_small(low: int, high: int, count: int) -> bool:
    return high - low < 8 * count + 1024


def _marks(codes: IntArray, size: int) -> npt.NDArray[np.bool_]:
    marks = np.zeros(size, dtype=np.bool_)
    marks[codes] = True
    return marks


def _range(n: int) -> IntArray:
    return np.arange(n, dtype=np.int64)


def _mixed() -> BadElement:
    return BadElement("integer keys and string keys in one map", hint="cast the key column to one type")
