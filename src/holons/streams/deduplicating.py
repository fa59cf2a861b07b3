"""Reads a source that may repeat itself: each row once, in order (invariant: position is identity)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from holons import codec
from holons.errors import InvariantBroken, LogDamaged
from holons.streams.sinks import Positioned, Row

_DIGEST_BYTES: Final = 16


class DeduplicatingReader:
    """Turns an at-least-once source into exactly-once.

    Rows of a partition come out by ordinal; a row that comes too early waits for those before it. A row that comes again
    must be the same row: the digests of the last `remembered_max` rows of each partition are kept to tell.

    >>> reader = DeduplicatingReader()
    >>> [(p, n) for p, n, _ in reader.read([(0, 0, {"n": 1}), (0, 2, {"n": 3}), (0, 0, {"n": 1}), (0, 1, {"n": 2})])]
    [(0, 0), (0, 1), (0, 2)]
    """

    def __init__(
        self,
        next_ordinals: Mapping[int, int] | None = None,
        waiting_max: int = 100_000,
        remembered_max: int = 1_000_000,
    ) -> None:
        self._partitions: dict[int, _Partition] = {}
        self._first = dict(next_ordinals or {})
        self._waiting_max = waiting_max
        self._remembered_max = remembered_max

    def read(self, source: Iterable[tuple[int, int, Row]]) -> Iterator[Positioned]:
        """The rows of a source; at its end, `LogDamaged` if rows are missing before others that came."""
        for partition, ordinal, row in source:
            yield from self.offer(partition, ordinal, row)
        self.finish()

    def offer(self, partition: int, ordinal: int, row: Row) -> list[Positioned]:
        """Takes one row in; gives the rows whose turn it is."""
        rows = self._partitions.get(partition)
        if rows is None:
            rows = self._partitions[partition] = _Partition(self._first.get(partition, 0), self._remembered_max)
        rows.take(partition, ordinal, row)
        ready = [Positioned(partition, at, waited) for at, waited in rows.ready()]
        if len(rows.waiting) > self._waiting_max:
            raise self._gap(partition, rows)
        return ready

    def finish(self) -> None:
        """Says that nothing more will come."""
        for partition, rows in self._partitions.items():
            if rows.waiting:
                raise self._gap(partition, rows)

    def next_ordinals(self) -> dict[int, int]:
        """For each partition the ordinal that comes next: what a new reader needs to go on."""
        return self._first | {partition: rows.next for partition, rows in self._partitions.items()}

    @staticmethod
    def _gap(partition: int, rows: _Partition) -> LogDamaged:
        return LogDamaged(
            f"{len(rows.waiting)} rows wait for one that did not come",
            hint="the source loses rows, or was not read from where the reader begins",
            partition=partition,
            ordinal=rows.next,
        )


class _Partition:
    """What is known of one partition: what comes next, what waits, what the last rows were."""

    def __init__(self, first: int, remembered_max: int) -> None:
        self.next = first
        self.waiting: dict[int, tuple[bytes, Row]] = {}
        self._digests: dict[int, bytes] = {}
        self._remembered_max = remembered_max

    def take(self, partition: int, ordinal: int, row: Row) -> None:
        digest = hashlib.blake2b(codec.encode(row), digest_size=_DIGEST_BYTES).digest()
        known = self.waiting[ordinal][0] if ordinal in self.waiting else self._digests.get(ordinal)
        if known is not None and known != digest:
            raise InvariantBroken(
                f"position is identity: {ordinal} of partition {partition} came with two different rows",
                hint="two runs of one partition put out different rows: look for nondeterminism in the program",
            )
        if known is None and ordinal >= self.next:
            self.waiting[ordinal] = digest, row

    def ready(self) -> Iterator[tuple[int, Row]]:
        while self.next in self.waiting:
            digest, row = self.waiting.pop(self.next)
            self._digests[self.next] = digest
            self._digests.pop(self.next - self._remembered_max, None)
            yield self.next, row
            self.next += 1
