"""One segment: a stretch of what one writer incarnation wrote, in an LMDB environment of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import lmdb

from holons.clock import Clock
from holons.streams.lmdb import values
from holons.streams.lmdb.environment import Transaction, registry
from holons.streams.log import Chunk

OPEN_FILE: Final = "open"
ValueAt: TypeAlias = "Callable[[lmdb.Cursor[memoryview]], memoryview]"


class Extent(NamedTuple):
    """From where to where a segment holds something of a partition; there may be gaps, which others fill."""

    first: int
    end: int


class Segment:
    """What is known of a segment, and how to read it. `poll` notices commits; all else is as of the last poll."""

    def __init__(self, directory: Path, number: int, clock: Clock) -> None:
        self.directory = directory
        self.name = directory.name
        self.number = number
        self.writer = ""
        self.stem = ""
        self.environment = registry.environment(directory, clock)
        self.ended = False
        """Its writer will not add to it any more, or will write that once more elsewhere."""
        self.grown_s = clock.now_s()
        """When it was last seen to have grown."""
        self.kept_for = 0
        """The partition that was last found to need it."""
        self._clock = clock
        self._open_file = f"{directory}/{OPEN_FILE}"
        self._transaction = 0
        self._extents: dict[int, tuple[int, Extent]] = {}

    def poll(self) -> None:
        """Notices what was committed."""
        if not self.environment.grew_since(self._transaction):
            return
        last = self.environment.last_transaction()
        if last != self._transaction:
            self._transaction = last
            self.grown_s = self._clock.now_s()

    def is_open(self) -> bool:
        """Whether its writer may still add to it."""
        return os.access(self._open_file, os.F_OK)

    def end(self) -> None:
        """Ends it: what its writer commits from now on, it will write once more elsewhere."""
        (self.directory / OPEN_FILE).unlink(missing_ok=True)

    def header(self) -> bytes | None:
        """The body of its header record."""

        def work(transaction: Transaction) -> bytes | None:
            data = transaction.get(values.key(values.HEADER_PARTITION, 0))
            if data is None:
                return None
            head = values.read_head(data, values.HEADER_PARTITION, 0)
            return bytes(values.read_body(head, data))

        return self.environment.read(work)

    def extent(self, partition: int) -> Extent:
        """From where to where it holds something of a partition."""
        known = self._extents.get(partition)
        if known is not None and known[0] == self._transaction:
            return known[1]
        before = known[1] if known is not None else Extent(0, 0)
        found = self.environment.read(
            lambda transaction: _extent(transaction, partition, before, self.environment.mapping().value)
        )
        self._extents[partition] = self._transaction, found
        return found

    def chunks(
        self,
        partition: int,
        low: int,
        high: int,
        columns: Collection[str] | None = None,
        recent: Chunk | None = None,
    ) -> list[Chunk]:
        """Everything that overlaps `[low, high)`, in order; `recent` is a chunk of this segment that is known already."""

        def work(transaction: Transaction) -> list[Chunk]:
            found: list[Chunk] = []
            mapping = self.environment.mapping()
            for head, data in _entries(transaction, partition, low, mapping.value):
                if head.offset >= high:
                    break
                if head.offset + head.length > low:
                    if recent is not None and recent.offset == head.offset:
                        found.append(recent)
                    else:
                        found.append(values.read_chunk(head, mapping.lasting(data), columns))
            return found

        return self.environment.read(work)

    def messages(self, low: int, count_max: int) -> list[tuple[int, bytes]]:
        """Messages from a position on, each with its position."""

        def work(transaction: Transaction) -> list[tuple[int, bytes]]:
            found: list[tuple[int, bytes]] = []
            for head, data in _entries(transaction, 0, low):
                if len(found) >= count_max:
                    break
                if head.offset >= low:
                    found.append((head.offset, bytes(values.read_body(head, data))))
            return found

        return self.environment.read(work)


def _extent(transaction: Transaction, partition: int, before: Extent, value: ValueAt) -> Extent:
    with transaction.cursor() as cursor:
        cursor.set_range(values.key(partition + 1, 0))  # the header is behind all partitions, so there is something
        if not cursor.prev():
            return before
        found, last = values.position(cursor.key())
        if found != partition:
            return before
        end = last + values.read_head(value(cursor), partition, last).length
        if before.end:
            return Extent(before.first, end)
        cursor.set_range(values.key(partition, 0))
        return Extent(values.position(cursor.key())[1], end)


def _entries(
    transaction: Transaction, partition: int, low: int, value: ValueAt = lmdb.Cursor.value
) -> Iterator[tuple[values.Head, memoryview]]:
    """The entries of a partition, from the last one at or below `low` on."""
    with transaction.cursor() as cursor:
        there = cursor.set_range(values.key(partition, low))
        if not there or values.position(cursor.key()) != (partition, low):
            there = cursor.prev()
            if not there or values.position(cursor.key())[0] != partition:
                there = cursor.set_range(values.key(partition, low))
        while there:
            found, offset = values.position(cursor.key())
            if found != partition:
                return
            data = value(cursor)
            yield values.read_head(data, partition, offset), data
            there = cursor.next()
