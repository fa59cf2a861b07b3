"""A log that any number of processes of one machine read and write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from holons.clock import Clock, SystemClock
from holons.disk import Durability
from holons.errors import BadInput, InvariantBroken
from holons.streams.log import Chunk
from holons.streams.segments.behind import Behind
from holons.streams.segments.directory import StreamDirectory
from holons.streams.segments.epochs import Epochs
from holons.streams.segments.merge import SegmentChunk, cut, merged, same_rows
from holons.streams.segments.segment import Extent, Segment
from holons.streams.segments.writer import Entry, SegmentWriter, Storage

_BODY_BYTES_MAX: Final = 32 << 20
"""Larger batches are cut, so that a reader who wants a few rows does not check many."""
_IF_DAMAGED: Final = "restore it from a copy, or move it away and load it again from its source"


class SegmentLog:
    """A stream in segments, one or more for each writer incarnation; readers merge them by position.

    Every process and every incarnation needs a `writer` of its own. It costs nothing until the first write, so a log
    that is only read may have any. One object belongs to one thread. What was read stays valid, also when the log is
    closed or trimmed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory, SegmentLog(directory, "bids", 1, "node-a#17") as log:
    ...     log.append(0, pa.record_batch({"price": [3, 5, 8]}))
    ...     log.mark(0, 1_000)
    ...     [(chunk.offset, chunk.length, chunk.mark) for chunk in log.read(0, 1, 10)]
    0
    3
    [(1, 2, None), (3, 1, 1000)]
    """

    def __init__(
        self,
        directory: Path | str,
        stream: str,
        partitions: int,
        writer: str,
        *,
        durability: Durability = "process",
        segment_bytes: int = Storage.segment_bytes,
        trimmed_bytes: int = Storage.trimmed_bytes,
        idle_s: float = Storage.idle_s,
        resume: bool = False,
        fenced: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """`fenced`: each partition has one producer at a time, and who begins to write to it fences off the one before."""
        assert 0 < partitions < 1 << 32, f"{partitions} partitions"
        storage = Storage(durability, segment_bytes, trimmed_bytes, idle_s, resume)
        self._stream = StreamDirectory(
            Path(directory), stream, partitions, clock or SystemClock(), _IF_DAMAGED, durable=storage.durable
        )
        self._epochs = Epochs(self._stream, writer, resume=resume) if fenced else None
        self._writer = SegmentWriter(self._stream, writer, storage, self._epochs)
        self._behind = Behind() if fenced else None
        self._own_ends: dict[int, int] = {}
        """In a fenced stream: the ends of the partitions that this producer writes."""
        self._appended: dict[int, int] = {}
        """By partition: when this writer last appended something."""
        self._ended: dict[int, _Ended] = {}
        self._ended_version = -1
        self._recent: dict[int, tuple[str, Collection[str] | None, Chunk]] = {}
        self._durable: dict[str, int] = {}
        """By segment of another writer: how many records this process knows to survive the machine."""

    @property
    def partitions(self) -> int:
        return self._stream.partitions

    def append(self, partition: int, rows: pa.RecordBatch, *, live: bool = True) -> int:
        if not isinstance(rows, pa.RecordBatch):
            raise BadInput(
                f"append takes an Arrow record batch, not a {type(rows).__module__.partition('.')[0]} {type(rows).__name__}",
                hint="append each of df.to_arrow().to_batches(), or of an Arrow table each of table.to_batches()",
            )
        end = self._end_to_write(partition)
        if rows.num_rows:
            appended = self._appended_now(partition)
            entry = Entry(partition, end, rows, appended, live)
            self._write(partition, lambda: _entries(entry, rows), end + rows.num_rows)
        return end

    def mark(self, partition: int, ts: int) -> int:
        end = self._end_to_write(partition)
        appended = self._appended_now(partition)
        self._write(partition, lambda: [Entry(partition, end, int(ts), appended)], end + 1)
        return end

    def put(
        self, partition: int, offset: int, rows: pa.RecordBatch, *, appended: int | None = None, live: bool = True
    ) -> bool:
        end = self._end_to_write(partition)
        if not 0 <= offset <= end:
            raise InvariantBroken(
                f"position is identity: {offset} written, but partition {partition} of {self._stream.stream!r} "
                f"ends at {end}"
            )
        known = min(end - offset, rows.num_rows)
        try:
            self._compare(partition, offset, rows.slice(0, known))
        except InvariantBroken:
            if self._epochs is not None:
                self._epochs.check_held(
                    partition
                )  # else the other rows are those of the producer that has taken it over
            raise
        if known == rows.num_rows:
            return False
        rest, at = rows.slice(known), self._appended_now(partition, appended)
        entry = Entry(partition, end, rest, at, live)
        self._write(partition, lambda: _entries(entry, rest), end + rest.num_rows)
        return True

    def take(self, partition: int) -> int:
        """Takes a partition of a fenced stream; returns its end, which nobody else moves while it is held."""
        assert self._epochs is not None, "in other streams partitions belong to nobody"
        end = self._own_ends.get(partition)
        if end is None:
            self._check(partition)
            self._epochs.take(partition, self._writer.directory)
            end = self._own_ends[partition] = self.end(partition)
        return end

    def _end_to_write(self, partition: int) -> int:
        return self.end(partition) if self._epochs is None else self.take(partition)

    def _write(self, partition: int, entries: Callable[[], Iterable[Entry]], end: int) -> None:
        self._own_ends.pop(partition, None)  # nobody knows what of it was written if that fails
        self._writer.write(partition, entries)
        if self._epochs is not None:
            self._own_ends[partition] = end

    def read(self, partition: int, offset: int, rows_max: int, columns: Collection[str] | None = None) -> list[Chunk]:
        if rows_max <= 0:
            return []
        self._check(partition)
        chunks = self._stream.consistently(
            lambda: self._read(partition, offset, rows_max, columns), partition=partition
        )
        if self._behind is not None:
            for first, end in self._behind.appeared(partition, self._stream, chunks[-1].end if chunks else offset):
                self._check_same(partition, first, end)
        return chunks

    def start(self, partition: int) -> int:
        self._check(partition)
        self._stream.refresh()
        return self._stream.floor(str(partition))

    def end(self, partition: int) -> int:
        self._check(partition)
        return self._stream.consistently(lambda: self._end(partition), partition=partition)

    def trim(self, partition: int, below: int) -> None:
        below = min(below, self.end(partition))
        self._stream.raise_floor(str(partition), below)
        self._stream.sweep(self._needless, self._writer.storage.idle_s)
        self._ended.clear()

    def appended_before(self, partition: int, time_us: int) -> int:
        self._check(partition)
        return self._stream.consistently(lambda: self._appended_before(partition, time_us), partition=partition)

    def _appended_before(self, partition: int, time_us: int) -> int:
        low = self._stream.floor(str(partition))
        later = [segment for _, segment in self._holding(partition, low) if segment.appended(partition) >= time_us]
        firsts = [segment.appended_before(partition, time_us) for segment in later]
        return max(low, min(firsts, default=self._end(partition)))

    def close(self) -> None:
        """Ends what it writes, and closes what it reads."""
        self._writer.release()
        self._stream.close()
        self._own_ends.clear()
        self._ended.clear()
        self._recent.clear()

    def __enter__(self) -> SegmentLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- merging ------------------------------------------------------------------------------------------------------

    def _read(self, partition: int, offset: int, rows_max: int, columns: Collection[str] | None) -> list[Chunk] | None:
        """Returns what is there from an offset on; None if something is missing."""
        low = max(offset, self._stream.floor(str(partition)))
        high = low + rows_max
        holding = [(extent, segment) for extent, segment in self._holding(partition, low) if extent.first < high]
        if not holding:
            return [] if self._end(partition) <= low else None
        pieces = [
            SegmentChunk(chunk, segment.writer)
            for _, segment in holding
            for chunk in self._chunks(segment, partition, low, high, columns)
        ]
        chunks = merged(pieces, low, high)
        reached = chunks[-1].end if chunks else low
        return None if reached < min(high, max(extent.end for extent, _ in holding)) else chunks

    def _chunks(
        self, segment: Segment, partition: int, low: int, high: int, columns: Collection[str] | None
    ) -> list[Chunk]:
        """Returns chunks of a segment; one that is only read in part is kept for the next read, which wants its rest."""
        recent = self._recent.pop(partition, None)
        known = recent[2] if recent is not None and recent[:2] == (segment.name, columns) else None
        if self._stream.durable and segment.writer != self._writer.writer:
            self._make_durable(segment)
        chunks = segment.chunks(partition, low, high, columns, known)
        if chunks and chunks[-1].end > high:
            self._recent[partition] = segment.name, columns, chunks[-1]
        return chunks

    def _make_durable(self, segment: Segment) -> None:
        """Makes what others wrote survive the machine before it is read: what follows from rows must not outlive them."""
        if self._durable.get(segment.name, 0) < segment.records:
            segment.make_durable(grown=segment.name in self._durable)
            self._durable[segment.name] = segment.records
            self._durable = {name: known for name, known in self._durable.items() if name in self._stream.segments}

    def _holding(self, partition: int, low: int) -> Iterator[tuple[Extent, Segment]]:
        """Returns the segments that hold something of a partition beyond an offset."""
        ended = self._ended_segments(partition)
        if low < ended.end:
            yield from ((extent, segment) for extent, segment in ended.segments if extent.end > low)
        for segment in self._stream.live:
            extent = segment.extent(partition)
            if extent.end > low:
                yield extent, segment

    def _end(self, partition: int) -> int:
        ends = [segment.extent(partition).end for segment in self._stream.live]
        return max(self._stream.floor(str(partition)), self._ended_segments(partition).end, *ends)

    def _appended_now(self, partition: int, asked: int | None = None) -> int:
        """Returns the time at which something is appended: now, or as asked, but not before what is there already."""
        earlier = [segment.appended(partition) for segment in self._stream.live]
        now_us = self._stream.clock.utc_us() if asked is None else asked
        now_us = max(now_us, self._appended.get(partition, 0), self._ended_segments(partition).appended, *earlier)
        self._appended[partition] = now_us
        return now_us

    def _ended_segments(self, partition: int) -> _Ended:
        if self._ended_version != self._stream.version:
            self._ended_version = self._stream.version
            self._ended.clear()  # for all partitions: what was trimmed must not stay mapped
        known = self._ended.get(partition)
        if known is None:
            ended = [segment for segment in self._stream.segments.values() if segment not in self._stream.live]
            held = [(segment.extent(partition), segment) for segment in ended]
            end = max((extent.end for extent, _ in held), default=0)
            appended = max((segment.appended(partition) for segment in ended), default=0)
            known = self._ended[partition] = _Ended(end, held, appended)
        return known

    def _compare(self, partition: int, offset: int, rows: pa.RecordBatch) -> None:
        """Raises an error if other rows are there. Below the floor nothing is compared."""
        at, high = offset, offset + rows.num_rows
        while at < high and self._stream.floor(str(partition)) < high:
            for chunk in self.read(partition, at, high - at):
                at = chunk.end
                if chunk.offset >= high:
                    break
                known = cut(chunk, offset, high)
                if known.rows is None or not same_rows(known.rows, rows.slice(known.offset - offset, known.length)):
                    raise InvariantBroken(
                        f"position is identity: another row is at or after {known.offset} "
                        f"of partition {partition} of {self._stream.stream!r}",
                        hint="two runs of one partition emitted different rows: look for nondeterminism in the program",
                    )

    def _check_same(self, partition: int, first: int, end: int) -> None:
        """Raises an error if what appeared behind what was read is not the same as what was read."""
        try:
            self._stream.consistently(
                lambda: self._read(partition, first, end - first, None) or [], partition=partition
            )
        except InvariantBroken as error:
            raise InvariantBroken(
                f"rows appeared at or after {first} of partition {partition} of stream {self._stream.stream!r}, "
                "behind what was read and with other contents",
                hint="a partition has one producer at a time: find out who writes past it, and replay from the source",
            ) from error

    def _needless(self, segment: Segment) -> bool:
        for partition in (segment.kept_for, *range(self.partitions)):
            if segment.extent(partition).end > self._stream.floor(str(partition)):
                segment.kept_for = partition
                return False
        return True

    def _check(self, partition: int) -> None:
        assert 0 <= partition < self.partitions, f"partition {partition} of {self.partitions}"


class _Ended(NamedTuple):
    """The segments that no longer grow, as far as a partition is concerned."""

    end: int
    segments: list[tuple[Extent, Segment]]
    appended: int
    """When something was last appended to them."""


def _entries(whole: Entry, rows: pa.RecordBatch) -> Iterator[Entry]:
    step = max(1, rows.num_rows * _BODY_BYTES_MAX // max(rows.nbytes, 1))
    for at in range(0, rows.num_rows, step):
        yield whole._replace(offset=whole.offset + at, content=rows.slice(at, step))
