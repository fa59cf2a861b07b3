"""The log port: what every log can do, in memory or elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

import pyarrow as pa

_LARGE_ROWS = 16_384


class Chunk(NamedTuple):
    """A piece of a partition, from `offset` on: rows, or one mark."""

    offset: int
    rows: pa.RecordBatch | None
    mark: int | None = None

    @property
    def length(self) -> int:
        """How many offsets it takes up."""
        return 1 if self.rows is None else self.rows.num_rows


def joined(chunks: Sequence[Chunk]) -> Iterator[tuple[int, pa.Table | None, int | None]]:
    """Chunks that follow each other, small ones with as few tables as marks and schemas allow: (offset, rows, mark).

    A large one is left alone: to join it is to copy it.
    """
    for (_, schema), run in groupby(chunks, key=_alike):
        alike = list(run)
        if schema is None:
            yield from ((chunk.offset, None, chunk.mark) for chunk in alike)
        else:
            yield alike[0].offset, pa.Table.from_batches([chunk.rows for chunk in alike]), None


def _alike(chunk: Chunk) -> tuple[int, pa.Schema | None]:
    """What chunks have in common that are joined."""
    if chunk.rows is None:
        return -1, None
    return chunk.offset if chunk.rows.num_rows >= _LARGE_ROWS else -1, chunk.rows.schema


class Log(Protocol):
    """One stream: partitions of rows and marks, each at an offset that never changes."""

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        ...

    def append(self, partition: int, rows: pa.RecordBatch) -> int:
        """Adds rows at the end; returns the offset of the first."""
        ...

    def mark(self, partition: int, ts: int) -> int | None:
        """Adds a mark at the end; returns its offset. None: it was not added, since the partition has moved on."""
        ...

    def put(self, partition: int, offset: int, rows: pa.RecordBatch) -> bool:
        """Writes rows at a position (invariant: position is identity): False if they are there already."""
        ...

    def read(self, partition: int, offset: int, rows_max: int) -> list[Chunk]:
        """What follows from `offset` on, up to so many rows."""
        ...

    def start(self, partition: int) -> int:
        """The first offset that is still there."""
        ...

    def end(self, partition: int) -> int:
        """The offset that the next row will get."""
        ...

    def trim(self, partition: int, below: int) -> None:
        """Drops what lies below an offset, as far as whole pieces allow."""
        ...
