"""What a user reads from a map: keys beside values, in columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from holons import codec
from holons.algebra import keys as key_columns
from holons.algebra.hashing import hash64
from holons.algebra.keys import Key, Keys
from holons.errors import WrongScope

V = TypeVar("V")
Columns: TypeAlias = "dict[str, npt.NDArray[np.generic]]"

_SHOWN: Final = 6


class Keyed(Generic[V]):  # noqa: PLW1641 - not hashable, like a dictionary
    """The values of a map, in the order of the keys. Reads like a dictionary, works like columns.

    >>> counts = Keyed(np.array([3, 5, 8]), np.array([10, 40, 40]))
    >>> counts[5], counts.get(4, 0), len(counts)
    (40, 0, 3)
    >>> counts.top(2)
    [(5, 40), (8, 40)]
    """

    __slots__ = ("_place", "_shares", "_values", "_whole", "fields", "keys")

    keys: Keys
    """The keys, ascending: int64 or strings."""

    fields: Columns | None
    """Where a value has named parts (`Product`): a column for each of them."""

    def __init__(self, keys: Keys, values: npt.NDArray[np.generic] | Columns) -> None:
        self.keys = keys
        self.fields = values if isinstance(values, dict) else None
        self._values = None if isinstance(values, dict) else values
        assert all(len(part) == len(keys) for part in self._parts()), f"{len(keys)} keys, and not as many values"
        self._place: tuple[int, int] | None = None
        self._whole: Keyed[V] | None = None
        self._shares: list[Keyed[V]] = []

    def _parts(self) -> list[npt.NDArray[np.generic]]:
        return list(self.fields.values()) if self.fields is not None else [self.values]

    @property
    def values(self) -> npt.NDArray[np.generic]:
        """One value for each key; a dictionary where it has named parts."""
        if self._values is None:
            assert self.fields is not None
            rows = zip(*(part.tolist() for part in self.fields.values()), strict=True)
            self._values = codec.object_array([dict(zip(self.fields, row, strict=True)) for row in rows])
        return self._values

    def placed(self, partition: int, partitions: int) -> Keyed[V]:
        """The same values, read by one of `partitions` partitions: `share()` is then its share.

        All that are placed from one are split into shares together, once.
        """
        keyed: Keyed[V] = Keyed(self.keys, self._columns())
        keyed._place, keyed._whole = (partition, partitions), self
        return keyed

    def _columns(self) -> npt.NDArray[np.generic] | Columns:
        return self.values if self.fields is None else self.fields

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
        """The same as a table: `key`, and `value` or the fields (maps in maps become lists of pairs)."""
        if self.fields is not None:
            columns = {name: pl.Series(part, strict=False) for name, part in self.fields.items()}
            return pl.DataFrame({"key": pl.Series(self.keys), **columns})
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
        whole = self._whole or self
        if partitions == 1:
            return whole
        if len(whole._shares) != partitions:
            whole._shares = whole._split(partitions)
        return whole._shares[partition]

    def _split(self, partitions: int) -> list[Keyed[V]]:
        """The shares of all partitions, each with ascending keys."""
        owners = (hash64(self.keys) % np.uint64(partitions)).astype(np.int64)
        counts = np.bincount(owners, minlength=partitions)
        order = np.argsort(owners.astype(np.uint16) if partitions <= 1 << 16 else owners, kind="stable")  # by radix
        shared, edges = self._take(order), [0, *np.cumsum(counts).tolist()]
        return [shared._take(slice(low, high)) for low, high in pairwise(edges)]

    @property
    def plain(self) -> bool:
        """Whether it holds numbers and texts only: nothing that a reader could change."""
        return all(part.dtype.kind != "O" for part in self._parts())

    def only(self, keys: Keys) -> Keyed[V]:
        """The values of some keys, given as a key column; those that are not there are left out."""
        keyed = self.where(key_columns.positions(keys, self.keys) >= 0)
        keyed._place = self._place
        return keyed

    def where(self, chosen: npt.NDArray[np.bool_]) -> Keyed[V]:
        """The keys for which a mask is true, and their values."""
        return self._take(chosen)

    def _take(self, chosen: npt.NDArray[np.generic] | slice) -> Keyed[V]:
        keys = self.keys[chosen]
        keys = keys if len(keys) else key_columns.empty()
        if self.fields is None:
            return Keyed(keys, self.values[chosen])
        return Keyed(keys, {name: part[chosen] for name, part in self.fields.items()})

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
        return Keyed, (self.keys, self._columns())

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
