"""The ports of logs: what a log can do is split into protocols, so that each user asks only for what it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple, Protocol

import pyarrow as pa

_LARGE_ROWS = 131_072


class Whole(NamedTuple):
    """All columns of rows of which only some were read. It needs no log: the rows' own memory has them."""

    schema: pa.Schema
    read: Callable[[], pa.RecordBatch]


class Chunk(NamedTuple):
    """A piece of a partition, from `offset` on: rows, or one mark."""

    offset: int
    rows: pa.RecordBatch | None
    mark: int | None = None
    whole: Whole | None = None
    """All columns, if `rows` has only some of them."""
    cut: bool = False
    """Whether the piece of the log that these rows were taken from goes on behind them."""

    @property
    def length(self) -> int:
        """How many rows the chunk has; a mark counts as one."""
        return 1 if self.rows is None else self.rows.num_rows

    @property
    def end(self) -> int:
        """The position after the chunk, from which a reader goes on."""
        return self.offset + self.length

    def part(self, skip: int, length: int) -> Chunk:
        """Some of its rows, without copying."""
        assert self.rows is not None, "a mark has no parts"
        whole = self.whole
        if whole is not None:
            read = whole.read
            whole = Whole(whole.schema, lambda: read().slice(skip, length))
        cut = self.cut or skip + length < self.rows.num_rows
        return Chunk(self.offset + skip, self.rows.slice(skip, length), None, whole, cut)

    def only(self, columns: Collection[str] | None) -> Chunk:
        """The same rows with only those columns that are named, as far as there are any; None: with all."""
        rows = self.rows
        if columns is None or rows is None:
            return self
        chosen = chosen_fields(rows.schema, columns)
        if len(chosen) == rows.num_columns:
            return self
        return self._replace(rows=rows.select(chosen), whole=self.whole or Whole(rows.schema, lambda: rows))


def chosen_fields(schema: pa.Schema, columns: Collection[str]) -> list[int]:
    """Which fields of a schema are among the named columns; all, if none is: rows without columns cannot be counted."""
    chosen = [place for place, name in enumerate(schema.names) if name in columns]
    return chosen or list(range(len(schema.names)))


class Stretch(NamedTuple):
    """Chunks that were joined: like a `Chunk`, with a table."""

    offset: int
    rows: pa.Table | None
    mark: int | None
    whole: Callable[[], pa.Table] | None


def joined(chunks: Sequence[Chunk]) -> Iterator[Stretch]:
    """Chunks that follow each other, small ones with as few tables as marks and schemas allow.

    A large one is left alone: to join it is to copy it.
    """
    for (_, schema, whole), run in groupby(chunks, key=_alike):
        alike = list(run)
        if schema is None:
            yield from (Stretch(chunk.offset, None, chunk.mark, None) for chunk in alike)
        else:
            table = pa.Table.from_batches([chunk.rows for chunk in alike])
            yield Stretch(alike[0].offset, table, None, None if whole is None else partial(_whole_of, alike))


def _whole_of(chunks: Sequence[Chunk]) -> pa.Table:
    return pa.Table.from_batches([chunk.whole.read() for chunk in chunks if chunk.whole is not None])


def _alike(chunk: Chunk) -> tuple[int, pa.Schema | None, pa.Schema | None]:
    """What chunks have in common that are joined."""
    if chunk.rows is None:
        return -1, None, None
    whole = None if chunk.whole is None else chunk.whole.schema
    return chunk.offset if chunk.rows.num_rows >= _LARGE_ROWS else -1, chunk.rows.schema, whole


class ReadableLog(Protocol):
    """A log that can be read: partitions of rows and marks, each at a position that never changes.

    Positions of a partition ascend. They need not follow each other: where a chunk ends, and the next one may begin, is
    `Chunk.end`, and nothing else tells it.
    """

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        ...

    def read(self, partition: int, offset: int, rows_max: int, columns: Collection[str] | None = None) -> list[Chunk]:
        """Returns what follows from `offset` on, up to `rows_max` rows.

        With `columns`, rows have those of them that they have at all, in their own order, and `whole` on demand; the
        other columns need not be read, and damage to them need not be noticed.
        """
        ...

    def start(self, partition: int) -> int:
        """Returns the first offset that was not trimmed."""
        ...

    def end(self, partition: int) -> int:
        """Returns the offset that the next row will get."""
        ...

    def close(self) -> None:
        """Closes the files or connections that the log holds; batches that were read stay valid."""
        ...


class MarkableLog(Protocol):
    """A log to whose end marks can be added."""

    def mark(self, partition: int, ts: int) -> int | None:
        """Adds a mark at the end; returns its offset, or None if it was not added since the partition has moved on."""
        ...


class AppendableLog(MarkableLog, Protocol):
    """A log to whose end rows and marks can be added."""

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        ...

    def append(self, partition: int, rows: pa.RecordBatch) -> int:
        """Adds rows at the end; returns the offset of the first."""
        ...


class PositionedLog(Protocol):
    """A log into which rows are written at positions that the writer chooses, so that writing them again changes nothing."""

    def put(self, partition: int, offset: int, rows: pa.RecordBatch) -> bool:
        """Writes rows at a position (invariant: position is identity); returns False if all of them were there."""
        ...


class TrimmableLog(Protocol):
    """A log that can forget its beginning."""

    def trim(self, partition: int, below: int) -> None:
        """Drops what lies below an offset, as far as whole pieces allow."""
        ...


class InputLog(ReadableLog, MarkableLog, Protocol):
    """An input stream as a node sees it: it reads rows, and adds marks where the stream is idle."""


class WritableLog(ReadableLog, AppendableLog, PositionedLog, Protocol):
    """A stream as its writer sees it: the producer of an input, or a node that puts rows into an output."""
