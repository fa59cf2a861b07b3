"""A log in the memory of this process, for tests, small inputs and learning."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable

import pyarrow as pa

from holons import codec
from holons.arrow import python_rows
from holons.clock import Clock, SystemClock
from holons.errors import InvariantBroken
from holons.streams.log import Chunk, fenced


class MemoryLog:
    """A log that keeps the chunks of each partition in a list."""

    def __init__(self, partitions: int, clock: Clock | None = None) -> None:
        self._chunks: list[list[Chunk]] = [[] for _ in range(partitions)]
        self._starts: list[list[int]] = [[] for _ in range(partitions)]
        self._ends = [0] * partitions
        self._appended = [0] * partitions
        self._clock = clock or SystemClock()
        self.producers: dict[int, MemoryProducer] = {}
        """By partition: the producer that holds it."""

    @property
    def partitions(self) -> int:
        return len(self._chunks)

    def append(self, partition: int, rows: pa.RecordBatch, *, live: bool = True) -> int:
        return self._add(partition, Chunk(self._ends[partition], rows, live=live))

    def mark(self, partition: int, ts: int) -> int:
        return self._add(partition, Chunk(self._ends[partition], None, ts))

    def put(
        self, partition: int, offset: int, rows: pa.RecordBatch, *, appended: int | None = None, live: bool = True
    ) -> bool:
        end = self._ends[partition]
        if offset > end:
            raise InvariantBroken(
                f"position is identity: rows were written at {offset}, but partition {partition} ends at {end}",
                hint="rows are put right after those that are in the log: read its end first",
            )
        known = min(end - offset, rows.num_rows)
        first = max(self.start(partition), offset)  # what was trimmed is not compared any more
        stored = self.read(partition, first, offset + known - first)
        if not all(_same(chunk, rows.slice(chunk.offset - offset, chunk.length)) for chunk in stored):
            raise InvariantBroken(
                f"position is identity: partition {partition} holds another row at or after {offset}",
                hint="two runs of one partition emitted different rows: look for nondeterminism in the program",
            )
        if known < rows.num_rows:
            self._add(partition, Chunk(end, rows.slice(known), live=live), appended)
        return known < rows.num_rows

    def read(self, partition: int, offset: int, rows_max: int, columns: Collection[str] | None = None) -> list[Chunk]:
        chunks = []
        first = max(bisect_right(self._starts[partition], offset) - 1, 0)
        for chunk in self._chunks[partition][first:]:
            if rows_max <= 0:
                break
            skip = max(offset - chunk.offset, 0)
            if chunk.rows is not None and (skip or chunk.length > rows_max):
                chunk = chunk.part(skip, rows_max)
            elif skip:
                continue
            if chunk.length:
                chunks.append(chunk.only(columns))
                rows_max -= chunk.length
        return chunks

    def end(self, partition: int) -> int:
        return self._ends[partition]

    def start(self, partition: int) -> int:
        starts = self._starts[partition]
        return starts[0] if starts else self._ends[partition]

    def trim(self, partition: int, below: int) -> None:
        chunks, starts = self._chunks[partition], self._starts[partition]
        while chunks and chunks[0].end <= below:
            chunks.pop(0)
            starts.pop(0)
        if chunks and chunks[0].offset < below:  # a chunk of rows: below its first row nothing is there any more
            chunks[0] = chunks[0].part(below - chunks[0].offset, chunks[0].end - below)
            starts[0] = below

    def appended_before(self, partition: int, time_us: int) -> int:
        chunks = self._chunks[partition]
        first = bisect_left(chunks, time_us, key=lambda chunk: chunk.appended)
        return chunks[first].offset if first < len(chunks) else self._ends[partition]

    def lose(self, partition: int, end: int) -> None:
        """Loses what lies at an offset and behind it, as a machine that dies does with what it has not synced."""
        kept = [chunk for chunk in self._chunks[partition] if chunk.offset < end]
        if kept and kept[-1].end > end:
            kept[-1] = kept[-1].part(0, end - kept[-1].offset)
        self._chunks[partition], self._starts[partition] = kept, [chunk.offset for chunk in kept]
        self._ends[partition] = min(self._ends[partition], end)

    def close(self) -> None:
        """Does nothing: memory needs no closing."""

    def producer(self, stream: str, writer: str) -> MemoryProducer:
        """Returns the log as one of its producers writes it; `stream` is what it is called in errors."""
        return MemoryProducer(self, stream, writer)

    def _add(self, partition: int, chunk: Chunk, appended: int | None = None) -> int:
        if chunk.length:
            now_us = self._clock.utc_us() if appended is None else appended
            self._appended[partition] = max(now_us, self._appended[partition])
            self._chunks[partition].append(chunk._replace(appended=self._appended[partition]))
            self._starts[partition].append(chunk.offset)
            self._ends[partition] += chunk.length
        return chunk.offset


class MemoryProducer:
    """A log in memory as one of its producers writes it: who begins to write to a partition fences off the one before."""

    def __init__(self, log: MemoryLog, stream: str, writer: str) -> None:
        self._log = log
        self._stream = stream
        self.writer = writer
        self._taken: set[int] = set()

    @property
    def partitions(self) -> int:
        return self._log.partitions

    def append(self, partition: int, rows: pa.RecordBatch, *, live: bool = True) -> int:
        self.take(partition)
        return self._log.append(partition, rows, live=live)

    def mark(self, partition: int, ts: int) -> int:
        self.take(partition)
        return self._log.mark(partition, ts)

    def put(
        self, partition: int, offset: int, rows: pa.RecordBatch, *, appended: int | None = None, live: bool = True
    ) -> bool:
        self.take(partition)
        return self._log.put(partition, offset, rows, appended=appended, live=live)

    def read(self, partition: int, offset: int, rows_max: int, columns: Collection[str] | None = None) -> list[Chunk]:
        return self._log.read(partition, offset, rows_max, columns)

    def start(self, partition: int) -> int:
        return self._log.start(partition)

    def end(self, partition: int) -> int:
        return self._log.end(partition)

    def trim(self, partition: int, below: int) -> None:
        self._log.trim(partition, below)

    def appended_before(self, partition: int, time_us: int) -> int:
        return self._log.appended_before(partition, time_us)

    def close(self) -> None:
        self._log.close()

    def take(self, partition: int) -> int:
        if partition not in self._taken:
            self._taken.add(partition)
            self._log.producers[partition] = self
        holder = self._log.producers[partition]
        if holder is not self:
            raise fenced(self._stream, partition, self.writer, holder.writer)
        return self._log.end(partition)


def in_memory(partitions: int, batches: Iterable[tuple[int, pa.RecordBatch]]) -> MemoryLog:
    """Returns a log that holds batches of rows, each in the partition that stands beside it."""
    log = MemoryLog(partitions)
    for partition, rows in batches:
        log.append(partition, rows)
    return log


def _same(chunk: Chunk, rows: pa.RecordBatch) -> bool:
    assert chunk.rows is not None, "rows are put at positions, marks are not"
    return chunk.rows.equals(rows) or codec.encode(python_rows(chunk.rows)) == codec.encode(python_rows(rows))
