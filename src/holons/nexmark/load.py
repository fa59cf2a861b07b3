"""A load: so many of Nexmark's events as three streams in partitions, each row at a fixed position."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from holons.errors import BadInput
from holons.nexmark.auctions import AUCTION_COLUMNS, AUCTIONS, auctions
from holons.nexmark.chance import Ids
from holons.nexmark.generator import BIDS, COLUMNS, PERIOD, SHUFFLE, bids, shuffled
from holons.nexmark.people import PERSON_COLUMNS, people

ROWS: Final = 65_536
"""So many rows make a batch, unless told otherwise."""
_MICROS: Final = 1_000_000
_START_US: Final = 1_436_918_400 * _MICROS
"""2015-07-15T00:00:00Z, where the canonical generator begins."""


class _Maker(Protocol):
    def __call__(self, ids: Ids, *, rate: int, seed: int, start_us: int, columns: Sequence[str]) -> pa.RecordBatch: ...


@dataclass(frozen=True)
class _Kind:
    """One of the three kinds of events, and where among every `PERIOD` events it is found."""

    make: _Maker
    columns: tuple[str, ...]
    first: int
    count: int


_KINDS: Final = {
    "people": _Kind(people, PERSON_COLUMNS, 0, 1),
    "auctions": _Kind(auctions, AUCTION_COLUMNS, 1, AUCTIONS),
    "bids": _Kind(bids, COLUMNS, PERIOD - BIDS, BIDS),
}


@dataclass(frozen=True)
class Load:
    """The events with ids below `events`, in the order in which they arrive, as streams of people, auctions and bids.

    The k-th arrival of a kind is at offset k // partitions of partition k % partitions of its stream. With a `group`
    above 1 events come out of order (see `shuffled`); they are the same events, whatever the group.

    >>> load = Load(events=100, partitions=2)
    >>> [load.count(stream) for stream in load.streams]
    [2, 6, 92]
    >>> load.table("auctions").select(["id", "_partition", "_offset"]).slice(2, 1).to_pylist()
    [{'id': 1002, '_partition': 0, '_offset': 1}]
    """

    events: int
    seed: int = 0
    partitions: int = 3
    rate: int = 10_000
    group: int = 1
    start_us: int = _START_US

    def __post_init__(self) -> None:
        for name in ("partitions", "rate", "group"):
            if getattr(self, name) < 1:
                raise BadInput(f"a load with {name}={getattr(self, name)}", hint=f"{name} is at least 1")
        if self.events < 0:
            raise BadInput(f"a load of {self.events} events", hint="events is at least 0")
        if self.group % SHUFFLE == 0:
            raise BadInput(
                f"groups of {self.group} events cannot be shuffled", hint=f"any size that {SHUFFLE} does not divide"
            )

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the three streams."""
        return tuple(_KINDS)

    @property
    def disorder_us(self) -> int:
        """The most that an event's time may lie below that of an earlier arrival in its partition."""
        return -(-(min(self.group, max(self.events, 1)) - 1) * _MICROS // self.rate)

    def schema(self, stream: str) -> pa.Schema:
        """What the rows of a stream look like."""
        return self._make(stream, np.arange(0), None).schema

    def count(self, stream: str) -> int:
        """How many rows a stream has."""
        kind = _kind(stream)
        return self.events // PERIOD * kind.count + min(max(self.events % PERIOD - kind.first, 0), kind.count)

    def batches(
        self, stream: str, partition: int, rows: int = ROWS, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """What arrives in a partition of a stream, in this order; all columns, or some of them."""
        if not 0 <= partition < self.partitions:
            raise BadInput(f"a load of {self.partitions} partitions has none of this number", partition=partition)
        total = self.count(stream)
        for first in range(partition, total, rows * self.partitions):
            numbers = np.arange(first, min(first + rows * self.partitions, total), self.partitions)
            yield self._make(stream, self._ids(stream, numbers), columns)

    def table(self, stream: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of a stream as they arrive, each with its position: `_partition` and `_offset`."""
        total, made = self.count(stream), []
        for first in range(0, max(total, 1), ROWS):
            numbers = np.arange(first, min(first + ROWS, total))
            made.append(self._make(stream, self._ids(stream, numbers), columns))
        numbers = np.arange(total)
        rows = pa.Table.from_batches(made).append_column("_partition", pa.array(numbers % self.partitions))
        return rows.append_column("_offset", pa.array(numbers // self.partitions))

    def _make(self, stream: str, ids: Ids, columns: Sequence[str] | None) -> pa.RecordBatch:
        kind = _kind(stream)
        chosen = kind.columns if columns is None else columns
        return kind.make(ids, rate=self.rate, seed=self.seed, start_us=self.start_us, columns=chosen)

    def _ids(self, stream: str, numbers: Ids) -> Ids:
        """The event ids of a stream's arrivals. Their order repeats itself; the last round lacks what lies beyond."""
        length, order = _round(stream, self.group)
        rounds, beyond = divmod(self.events, length)
        places = np.concatenate([order, order[order < beyond]])
        last = numbers >= rounds * len(order)
        return numbers // len(order) * length + places[numbers % len(order) + last * len(order)]


def _kind(stream: str) -> _Kind:
    if stream not in _KINDS:
        raise BadInput(f"Nexmark has no stream '{stream}'", hint=f"one of {', '.join(_KINDS)}")
    return _KINDS[stream]


@cache
def _round(stream: str, group: int) -> tuple[int, Ids]:
    """After how many events the order of arrivals repeats itself, and a stream's event ids among the first so many."""
    kind, length = _kind(stream), math.lcm(group, PERIOD)
    ids = shuffled(np.arange(length), group)
    return length, ids[(ids % PERIOD >= kind.first) & (ids % PERIOD < kind.first + kind.count)]
