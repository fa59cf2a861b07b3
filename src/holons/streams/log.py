"""The ports of logs: what a log can do is split into protocols, so that each user asks only for what it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple, Protocol

import pyarrow as pa

from holons.errors import ProducerFenced

_LARGE_ROWS = 131_072  # a chunk of at least so many rows is not joined with others


class Whole(NamedTuple):
    """All columns of rows of which only some columns were read."""

    schema: pa.Schema
    read: Callable[[], pa.RecordBatch]
    """Reads all columns from memory that the rows hold anyway; no log is asked again."""


class Chunk(NamedTuple):
    """A piece of a partition from `offset` on, which is rows or one mark."""

    offset: int
    rows: pa.RecordBatch | None
    mark: int | None = None
    whole: Whole | None = None
    """All columns of the rows, if `rows` has only some of them."""
    cut: bool = False
    """Whether the stored piece from which these rows were taken has more rows after them."""
    appended: int = 0
    """When this was appended, in microseconds since 1970 by its writer's clock; 0 if nobody knows."""
    live: bool = False
    """Whether rows were appended as they came into being; else they are history, which was loaded later."""

    @property
    def length(self) -> int:
        """How many rows the chunk has; a mark counts as one."""
        return 1 if self.rows is None else self.rows.num_rows

    @property
    def end(self) -> int:
        """The position after the chunk, from which a reader goes on."""
        return self.offset + self.length

    def part(self, skip: int, length: int) -> Chunk:
        """Returns `length` of the rows, after the first `skip`, without copying them."""
        assert self.rows is not None, "a mark has no parts"
        whole = self.whole
        if whole is not None:
            read = whole.read
            whole = Whole(whole.schema, lambda: read().slice(skip, length))
        cut = self.cut or skip + length < self.rows.num_rows
        return self._replace(offset=self.offset + skip, rows=self.rows.slice(skip, length), whole=whole, cut=cut)

    def only(self, columns: Collection[str] | None) -> Chunk:
        """Returns the same rows with those of the named columns that they have; with all columns for None."""
        rows = self.rows
        if columns is None or rows is None:
            return self
        chosen = chosen_fields(rows.schema, columns)
        if len(chosen) == rows.num_columns:
            return self
        return self._replace(rows=rows.select(chosen), whole=self.whole or Whole(rows.schema, lambda: rows))


def chosen_fields(schema: pa.Schema, columns: Collection[str]) -> list[int]:
    """Returns the indices of the named columns in a schema; of all columns if none is named, since rows without columns
    cannot be counted.
    """
    chosen = [index for index, name in enumerate(schema.names) if name in columns]
    return chosen or list(range(len(schema.names)))


class Appended(NamedTuple):
    """When some rows were appended, and whether as they came into being; see `Chunk`."""

    rows: int
    """How many rows they are."""
    at: int
    live: bool


class JoinedChunks(NamedTuple):
    """Chunks that follow each other, as one table; or one mark."""

    offset: int
    rows: pa.Table | None
    mark: int | None
    whole: Callable[[], pa.Table] | None
    appended: tuple[Appended, ...] = ()
    """For the rows of each chunk, when they were appended."""


def joined(chunks: Sequence[Chunk]) -> Iterator[JoinedChunks]:
    """Joins chunks that follow each other into as few tables as marks and schemas allow.

    A large chunk is left as it is, because to join it would copy it.
    """
    for (_, schema, whole), group in groupby(chunks, key=_table_key):
        alike = list(group)
        if schema is None:
            yield from (JoinedChunks(chunk.offset, None, chunk.mark, None) for chunk in alike)
        else:
            table = pa.Table.from_batches([chunk.rows for chunk in alike])
            appended = tuple(Appended(chunk.length, chunk.appended, chunk.live) for chunk in alike)
            read_whole = None if whole is None else partial(_whole_of, alike)
            yield JoinedChunks(alike[0].offset, table, None, read_whole, appended)


def _whole_of(chunks: Sequence[Chunk]) -> pa.Table:
    return pa.Table.from_batches([chunk.whole.read() for chunk in chunks if chunk.whole is not None])


def _table_key(chunk: Chunk) -> tuple[int, pa.Schema | None, pa.Schema | None]:
    """Returns what chunks have in common that are joined into one table."""
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

    def append(self, partition: int, rows: pa.RecordBatch, *, live: bool = True) -> int:
        """Adds rows at the end, with the time at which that happens; returns the offset of the first.

        That time never goes back within a partition, whatever the clocks of its writers say. Rows that did not come into
        being just now, but are loaded from somewhere, are not `live`.
        """
        ...


class PositionedLog(Protocol):
    """A log into which rows are written at positions that the writer chooses, so that writing them again changes nothing."""

    def put(
        self, partition: int, offset: int, rows: pa.RecordBatch, *, appended: int | None = None, live: bool = True
    ) -> bool:
        """Writes rows at a position (invariant: position is identity); returns False if all of them were there.

        `appended` is when they were appended, for several writers of the same rows to agree on; None: now. As in `append`,
        that time never goes back.
        """
        ...


class TrimmableLog(Protocol):
    """A log that can forget its beginning."""

    def trim(self, partition: int, below: int) -> None:
        """Drops what lies below an offset: nobody reads it any more, and its room is given back as whole pieces allow."""
        ...

    def appended_before(self, partition: int, time_us: int) -> int:
        """Returns the first offset whose rows or mark were appended at a time or after it; the end if there is none."""
        ...


class InputLog(ReadableLog, MarkableLog, TrimmableLog, Protocol):
    """An input stream as a node sees it: it reads rows, adds marks where the stream is idle, and trims what nobody needs."""


class WritableLog(ReadableLog, AppendableLog, PositionedLog, TrimmableLog, Protocol):
    """A stream as its writer sees it: a producer, or a node that puts rows into an output."""


class ProducerLog(WritableLog, Protocol):
    """An input stream as a producer writes it, of which each partition has one at a time.

    A producer takes a partition when it first writes to it. What a producer before it has not had acknowledged by then
    is never there for anybody: that producer gets `ProducerFenced`.
    """

    def take(self, partition: int) -> int:
        """Takes a partition, unless this producer has taken it before; returns its end, which now nobody else moves."""
        ...


def fenced(stream: str, partition: int, writer: str, holder: str | None) -> ProducerFenced:
    """Returns the error of a producer to which a partition no longer belongs."""
    return ProducerFenced(
        f"producer {writer!r} may write no more: another one has taken the partition over",
        hint="these rows were not written; what was acknowledged before is kept. A partition has one producer at a time: "
        "stop one of the two, or open the stream again to take the partition back",
        stream=stream,
        partition=partition,
        holder=holder,
    )
