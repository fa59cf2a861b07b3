"""How Spark reads a stream: offsets by partition, tasks that read the log themselves, Arrow batches as they lie there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from holons.errors import BadInput, LogDamaged
from holons.node import Site
from holons.program.events import event_times
from holons.streams import ReadableLog

OFFSET, PARTITION = "_offset", "_partition"
_BATCH_ROWS = 100_000


@dataclass(frozen=True)
class SiteStream:
    """A stream of a site, to be read."""

    site: Site
    stream: str
    """How the stream is called in messages: an input's name, or job and channel."""
    output: tuple[str, str] | None
    """Which job's output in which channel is read; None: the input of that name."""
    partitions: int

    def open(self) -> AbstractContextManager[ReadableLog]:
        """Opens the log, to be read in this process."""
        if self.output is None:
            return closing(self.site.input(self.stream, "reader"))
        return closing(self.site.output(*self.output, self.partitions, "reader"))


@dataclass(frozen=True)
class Reading(SiteStream):
    """What is to be read, and from where on."""

    schema: StructType
    positions: bool = False
    latest: bool = False
    starting: dict[int, int] | None = None
    starting_ts: int | None = None
    time: str = "ts"
    rows_per_trigger: int | None = None
    rows_per_task: int = 2_500_000

    def ends(self) -> dict[int, int]:
        with self.open() as log:
            return {partition: log.end(partition) for partition in range(self.partitions)}

    def begins(self) -> dict[int, int]:
        """Where a reader begins who has not read yet."""
        with self.open() as log:
            starts = {partition: log.start(partition) for partition in range(self.partitions)}
            if self.latest:
                return {partition: log.end(partition) for partition in starts}
            if self.starting is not None:
                return {
                    partition: max(start, self.starting.get(partition, start)) for partition, start in starts.items()
                }
            if self.starting_ts is not None:
                return {partition: self._first_at(log, partition, start) for partition, start in starts.items()}
            return starts

    def _first_at(self, log: ReadableLog, partition: int, start: int) -> int:
        """The first row at or after an instant; rows that come later in time may come before it in the log."""
        end = log.end(partition)
        while start < end:
            for chunk in log.read(partition, start, _BATCH_ROWS):
                if chunk.rows is not None:
                    if self.time not in chunk.rows.schema.names:
                        raise BadInput(
                            f"stream {self.stream!r} has no column {self.time!r}", hint='.option("time", ...)'
                        )
                    column = pl.from_arrow(chunk.rows.column(self.time))
                    assert isinstance(column, pl.Series)
                    found = np.flatnonzero(event_times(column, self.stream).to_numpy() >= self.starting_ts)
                    if len(found):
                        return chunk.offset + int(found[0])
                start = chunk.end
        return end

    def batches(self, part: OffsetRange) -> Iterator[pa.RecordBatch]:
        """The rows of a stretch, as Spark wants them."""
        wanted = to_arrow_schema(self.schema, timezone="UTC")
        with self.open() as log:
            at = part.begin
            while at < part.end:
                chunks = log.read(part.partition, at, min(_BATCH_ROWS, part.end - at))
                if not chunks or chunks[0].offset > at:
                    raise LogDamaged(
                        f"offsets {at} to {chunks[0].offset if chunks else part.end} of {self.stream!r} are gone",
                        hint="they were trimmed before they were read: begin later, with another checkpoint",
                        partition=part.partition,
                        offset=at,
                    )
                for chunk in chunks:
                    if chunk.rows is not None:
                        yield self._fitted(chunk.rows, part.partition, chunk.offset, wanted)
                    at = chunk.end

    def _fitted(self, rows: pa.RecordBatch, partition: int, offset: int, wanted: pa.Schema) -> pa.RecordBatch:
        columns = []
        for name, kind in zip(wanted.names, wanted.types, strict=True):
            if self.positions and name == PARTITION:
                column = pa.array(np.full(rows.num_rows, partition, dtype=np.int32))
            elif self.positions and name == OFFSET:
                column = pa.array(np.arange(offset, offset + rows.num_rows, dtype=np.int64))
            elif name in rows.schema.names:
                column = rows.column(name)
            else:
                column = pa.nulls(rows.num_rows, kind)  # a column that was added later: older rows have none
            columns.append(self._cast(column, name, kind, partition, offset))
        return pa.RecordBatch.from_arrays(columns, schema=wanted)

    def _cast(self, column: pa.Array, name: str, kind: pa.DataType, partition: int, offset: int) -> pa.Array:
        if column.type == kind:
            return column
        try:
            return column.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadInput(
                f"column {name!r} of {self.stream!r} is {column.type} here, not {kind}: {error}",
                hint="its type changed: read it with .schema(...) that fits all of it, or begin later",
                partition=partition,
                offset=offset,
            ) from None


@dataclass
class OffsetRange(InputPartition):
    """Some offsets of one partition."""

    partition: int
    begin: int
    end: int


class BatchReader(DataSourceReader):
    """All that is there when the query is planned."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def partitions(self) -> Sequence[OffsetRange]:
        begins, ends = self._reading.begins(), self._reading.ends()
        step = self._reading.rows_per_task
        found = [
            OffsetRange(partition, at, min(at + step, ends[partition]))
            for partition, begin in begins.items()
            for at in range(begin, ends[partition], step)
        ]
        return found or [OffsetRange(0, 0, 0)]  # Spark wants at least one

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        return self._reading.batches(partition)


@dataclass
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches: Spark keeps the offsets, in its own checkpoint."""

    reading: Reading
    target: dict[str, int] | None = field(default=None)

    def initialOffset(self) -> dict[str, int]:
        return _told(self.reading.begins())

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self.reading.rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = _told(self.reading.ends())

    def reportLatestOffset(self) -> dict[str, int]:
        return _told(self.reading.ends())

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        ends = self.target or _told(self.reading.ends())
        ends = {partition: max(end, start[partition]) for partition, end in ends.items()}
        return _at_most(start, ends, limit.max_rows) if isinstance(limit, ReadMaxRows) else ends

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[OffsetRange]:
        return [
            OffsetRange(int(name), start[name], end[name]) for name in sorted(end, key=int) if start[name] < end[name]
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        return self.reading.batches(partition)


def _told(offsets: dict[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in offsets.items()}


def _at_most(start: dict[str, int], ends: dict[str, int], rows: int) -> dict[str, int]:
    """Offsets at most so many rows after the start, with as much of every partition as of any other, if it is there.

    >>> _at_most({"0": 0, "1": 5, "2": 0}, {"0": 100, "1": 8, "2": 100}, 23)
    {'0': 10, '1': 8, '2': 10}
    """
    waiting = {name: ends[name] - start[name] for name in start}
    found = dict(start)
    for left, name in zip(
        range(len(waiting), 0, -1), sorted(waiting, key=lambda name: (waiting[name], name)), strict=True
    ):
        share = min(waiting[name], rows // left)
        found[name] += share
        rows -= share
    return found
