"""What a user reads from a map: keys beside values, in columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from holons.algebra import keys as key_columns
from holons.algebra.hashing import hash64
from holons.algebra.keys import Key, Keys
from holons.errors import WrongScope

V = TypeVar("V")

_SHOWN: Final = 6


class Keyed(Generic[V]):  # noqa: PLW1641 - not hashable, like a dictionary
    """The values of a map, in the order of the keys. Reads like a dictionary, works like columns.

    >>> counts = Keyed(np.array([3, 5, 8]), np.array([10, 40, 40]))
    >>> counts[5], counts.get(4, 0), len(counts)
    (40, 0, 3)
    >>> counts.top(2)
    [(5, 40), (8, 40)]
    """

    __slots__ = ("_place", "keys", "values")

    keys: Keys
    """The keys, ascending: int64 or strings."""

    values: npt.NDArray[np.generic]
    """One value for each key."""

    def __init__(self, keys: Keys, values: npt.NDArray[np.generic]) -> None:
        assert len(keys) == len(values), f"{len(keys)} keys, {len(values)} values"
        self.keys = keys
        self.values = values
        self._place: tuple[int, int] | None = None

    def placed(self, partition: int, partitions: int) -> Keyed[V]:
        """The same values, read by one of `partitions` partitions: `share()` is then its share."""
        keyed: Keyed[V] = Keyed(self.keys, self.values)
        keyed._place = (partition, partitions)
        return keyed

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int | str) and self._position(key) >= 0

    def __iter__(self) -> Iterator[Key]:
        return iter(self.keys.tolist())

    def __getitem__(self, key: Key) -> V:
        spot = self._position(key)
        if spot < 0:
            raise KeyError(key)
        return self._value(spot)

    def get(self, key: Key, default: V | None = None) -> V | None:
        """The value of one key, or `default`."""
        spot = self._position(key)
        return default if spot < 0 else self._value(spot)

    def items(self) -> Iterator[tuple[Key, V]]:
        """All pairs, in the order of the keys."""
        return zip(self.keys.tolist(), self.values.tolist(), strict=True)

    def to_dict(self) -> dict[Key, V]:
        """The same as a dictionary."""
        return dict(self.items())

    def to_frame(self) -> pl.DataFrame:
        """The same as a table with the columns `key` and `value` (maps in maps become lists of pairs)."""
        if self.values.dtype.kind != "O":
            return pl.DataFrame({"key": pl.Series(self.keys), "value": pl.Series(self.values)})
        values = [item.to_frame().to_dicts() if isinstance(item, Keyed) else item for item in self.values.tolist()]
        return pl.DataFrame({"key": pl.Series(self.keys), "value": pl.Series(values, strict=False)})

    def top(self, n: int) -> list[tuple[Key, V]]:
        """The n largest values: by value descending, then by key ascending. NaN comes last, and so does None."""
        chosen = self._descending(max(n, 0))
        return list(zip(self.keys[chosen].tolist(), self.values[chosen].tolist(), strict=True))

    def share(self, partition: int | None = None, partitions: int | None = None) -> Keyed[V]:
        """The keys that fall to one partition, by a hash that never changes. In `on_window`: to the one that reads."""
        if partition is None or partitions is None:
            if self._place is None:
                raise WrongScope("share() outside of on_window", hint="say whose: share(partition, partitions)")
            partition, partitions = self._place
        mine = hash64(self.keys) % np.uint64(partitions) == partition
        return Keyed(key_columns.present(self.keys, mine), self.values[mine])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Keyed):
            return NotImplemented
        if not key_columns.same(self.keys, other.keys):
            return False
        floats = self.values.dtype.kind == other.values.dtype.kind == "f"
        if floats:
            return bool(np.array_equal(self.values, other.values, equal_nan=True))
        return bool(self.values.tolist() == other.values.tolist())

    def __reduce__(self) -> tuple[object, ...]:
        return Keyed, (self.keys, self.values)

    def __repr__(self) -> str:
        pairs = zip(self.keys[:_SHOWN].tolist(), self.values[:_SHOWN].tolist(), strict=True)
        shown = ", ".join(f"{key!r}: {item!r}" for key, item in pairs)
        return f"Keyed({{{shown}{', …' if len(self) > _SHOWN else ''}}}, {len(self)} keys)"

    def _position(self, key: Key) -> int:
        return key_columns.position(self.keys, key)

    def _value(self, spot: int) -> V:
        return self.values[spot : spot + 1].tolist()[0]

    def _descending(self, n: int) -> npt.NDArray[np.int64]:
        """The places of the n largest values. Keys ascend, so a stable sort breaks ties by key."""
        kind = self.values.dtype.kind
        if kind not in "bif":
            items = self.values.tolist()
            real = [spot for spot, item in enumerate(items) if item is not None and item == item]
            rest = sorted(set(range(len(items))) - set(real), key=lambda spot: (items[spot] is None, spot))
            return np.array((sorted(real, key=items.__getitem__, reverse=True) + rest)[:n], dtype=np.int64)
        reverse = (np.negative if kind == "f" else np.invert)(self.values)
        if n < len(reverse) // 4:
            limit = np.partition(reverse, n)[n]
            if limit == limit:
                near = np.flatnonzero(reverse <= limit)
                return near[np.argsort(reverse[near], kind="stable")[:n]]
        return np.argsort(reverse, kind="stable")[:n]
