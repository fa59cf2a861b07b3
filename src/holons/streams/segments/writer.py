"""The writing side of one writer incarnation: it fills one segment after the other.

Nobody else ever writes to its segments, so a process that is stopped or killed inside a write holds up nobody. Even a second
process that uses the same writer id by mistake gets segments of its own.
"""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from holons import disk
from holons.disk import Durability, try_lock, unavailable
from holons.errors import InvariantBroken, LogUnavailable
from holons.names import encoded
from holons.streams.segments import frames
from holons.streams.segments.directory import StreamDirectory
from holons.streams.segments.ending import decide
from holons.streams.segments.files import Descriptor, SegmentGone, failure
from holons.streams.segments.frames import RECORD_BYTES, Frame, RowSchema
from holons.streams.segments.segment import HEADER_BYTES, INDEX_FILE, OPEN_FILE, Header, Segment, published


class Entry(NamedTuple):
    """What is to be written at a position: rows, a message, or a mark."""

    partition: int
    offset: int
    content: pa.RecordBatch | bytes | int
    appended: int = 0
    """When it is appended, in microseconds since 1970; 0 for messages."""
    live: bool = False
    """Whether rows come into being as they are appended."""


@dataclass(frozen=True)
class Storage:
    """How a stream is kept."""

    durability: Durability = "process"
    """`process`: what was acknowledged survives the death of any process; `disk`: also the machine's."""
    segment_bytes: int = 128 << 20
    """A segment that grew to this is ended, and another one begun. Disk is given back by whole segments."""
    trimmed_bytes: int = 256 << 10
    """So is one of at least this size of which something was trimmed: whatever is kept, a little more is on the disk."""
    idle_s: float = 60.0
    """Trimming may end a segment that did not grow for so long: its writer is probably dead."""
    resume: bool = False
    """Whether a writer goes on in the last segment of its name: for those of whom only one at a time writes."""

    @property
    def durable(self) -> bool:
        """Whether a write waits for the disk."""
        return self.durability == "disk"


class Fence(Protocol):
    """Who may write."""

    def check(self, partition: int, segment: Path) -> None:
        """Raises an error if this writer may write to a partition no more; asked before a segment is used."""
        ...


class OpenSegment:
    """The files of a segment that this process writes."""

    def __init__(self, directory: Path, header: Header, storage: Storage, resumed: Segment | None = None) -> None:
        self.directory = directory
        self.data_bytes = self.records = 0
        self.firsts: dict[int, int] = {}
        """By partition, the first offset in it that this process has written."""
        self._schema: RowSchema | None = None
        self._durable = storage.durable
        self._files = [Descriptor(directory / name, os.O_RDWR) for name in (header.data_file, INDEX_FILE)]
        self._data, self._index = (file.number for file in self._files)
        self.alone = not storage.resume or try_lock(self._index)
        """Whether no other process writes the segment."""
        if resumed is not None:
            resumed.poll()
            self.data_bytes, self.records, self._schema = resumed.data_bytes, resumed.records, resumed.last_schema()
        self._data_end = self.data_bytes
        self._prepared = bytearray()

    @property
    def bytes_used(self) -> int:
        """How large its files are."""
        return self.data_bytes + self.records * RECORD_BYTES

    def prepare(self, entries: Iterable[Entry]) -> None:
        """Writes entries where no reader looks yet. They are made one by one: a large batch never lies around whole."""
        self._data_end, self._prepared, schema = self.data_bytes, bytearray(), self._schema
        for entry in entries:
            content = entry.content
            self.firsts.setdefault(entry.partition, entry.offset)
            if isinstance(content, int):
                place = entry.partition, entry.offset, 1
                self._prepared += Frame(frames.MARK, False, *place, content, 0, 0, 0, 0, entry.appended).record()
            elif isinstance(content, bytes):
                self._add(frames.MESSAGE, entry, content, 1)
            else:
                if schema is None or not schema.schema.equals(content.schema, check_metadata=True):
                    schema = RowSchema.of(content, self._data_end)
                    self._add(frames.SCHEMA, Entry(0, 0, b""), schema.message, 0, schema=schema.kind)
                body = schema.body(content)
                places = schema.places(body) if body.size > frames.PLACED_BYTES_MIN else []
                self._add(schema.kind, entry, body, content.num_rows, places, schema.at)
        _write(self._index, self._prepared, HEADER_BYTES + self.records * RECORD_BYTES)
        if self._durable:
            os.fdatasync(self._data)
            os.fdatasync(self._index)
        self._schema = schema

    def publish(self) -> None:
        """Shows readers what was prepared."""
        self.records += len(self._prepared) // RECORD_BYTES
        self.data_bytes = self._data_end
        _write(self._index, published(self.records), 0)
        if self._durable:
            os.fdatasync(self._index)

    def _add(
        self,
        kind: int,
        entry: Entry,
        body: bytes | pa.Buffer,
        length: int,
        places: Sequence[frames.ColumnPlace] = (),
        schema: int = 0,
    ) -> None:
        data, at, place = memoryview(body), self._data_end, (entry.partition, entry.offset, length)
        checksum = frames.rest_checksum(data, places)
        frame = Frame(kind, entry.live, *place, at, len(data), checksum, len(places), schema, entry.appended)
        self._prepared += frame.record() + frames.place_records(places)
        self._data_end = _write(self._data, data, at)


def _write(file: int, data: bytes | bytearray | memoryview, at: int) -> int:
    """Writes all of it; returns where it ends."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, at)
        rest, at = rest[written:], at + written
    return at


class SegmentWriter:
    """Publishes entries, those of each call together."""

    def __init__(self, stream: StreamDirectory, writer: str, storage: Storage, fence: Fence | None = None) -> None:
        """With a `fence`, partitions are written only while it lets them be."""
        self.writer = writer
        self.storage = storage
        self._fence = fence
        self._stem = encoded(writer)
        self._stream = stream
        self._header = Header(stream.stream, stream.partitions, writer)
        self._pid = os.getpid()
        self._number = -1
        self._directory: Path | None = None
        self._open: OpenSegment | None = None
        self._next_look_bytes = storage.trimmed_bytes

    @property
    def directory(self) -> Path | None:
        """The segment that it fills, if any."""
        return self._directory

    def write(self, partition: int, entries: Callable[[], Iterable[Entry]]) -> None:
        """Publishes entries of a partition; when it returns, every reader will see them.

        If it must, it asks for the entries again.
        """
        if self._pid != os.getpid():
            raise InvariantBroken(
                f"writer {self.writer!r} of stream {self._stream.stream!r} belongs to the process that forked this one",
                hint="open the log after the fork, with a writer id of the new process",
            )
        while True:
            target = self._open or self._begin_segment()
            if self._fence is not None:
                self._fence.check(partition, target.directory)
            try:
                target.prepare(entries())
                self._open = None  # if what follows is interrupted, nobody knows what was published: begin another one
                target.publish()
            except OSError as error:
                raise failure(target.directory, error) from error
            if self._is_open():
                self._open = target
                break
            if self._counts(target):
                break  # somebody has ended the segment, but not before that
        if target.data_bytes >= self.storage.segment_bytes or self._partly_trimmed(target):
            self.close()

    def _partly_trimmed(self, target: OpenSegment) -> bool:
        """Whether something of a segment was trimmed. That is asked only each time it has grown by `trimmed_bytes`."""
        if target.bytes_used < self._next_look_bytes:
            return False
        self._next_look_bytes = target.bytes_used + self.storage.trimmed_bytes
        self._stream.refresh()
        floors = {
            place: self._stream.floor(str(place) if self._header.partitions else self._stem) for place in target.firsts
        }
        return any(floors[place] > first for place, first in target.firsts.items())

    def close(self) -> None:
        """Ends the current segment. The next write begins another one."""
        if self._directory is not None and self._pid == os.getpid():
            with suppress(OSError):  # what is not decided now, others decide when they need it
                (self._directory / OPEN_FILE).unlink()
                if self._open is not None:
                    decide(self._directory, self._open.records, durable=self.storage.durable)
        self._directory = self._open = None

    def release(self) -> None:
        """Writes no more, and lets another log of this process use the writer id.

        With `resume`, another process of this name may go on in the segment.
        """
        if self.storage.resume:
            self._directory = self._open = None
        else:
            self.close()
        place = self._stream.path, self.writer
        if _writers.get(place) is self:
            del _writers[place]

    def _is_open(self) -> bool:
        return os.access(f"{self._directory}/{OPEN_FILE}", os.F_OK)

    def _counts(self, ended: OpenSegment) -> bool:
        """Whether all that was published in a segment that somebody has ended counts."""
        try:
            segment = Segment(ended.directory, self._number, self._stream.clock, durable=self.storage.durable)
            segment.poll()
        except SegmentGone:
            return False
        return segment.records >= ended.records

    def _begin_segment(self) -> OpenSegment:
        self._claim()
        self._next_look_bytes = self.storage.trimmed_bytes
        self._stream.refresh(relist=True)
        older = self._stream.of(self.writer)
        with unavailable(LogUnavailable, f"begin a segment of stream {self._stream.stream!r}"):
            if self.storage.resume and older and (resumed := self._resumed(older[-1])) is not None:
                return resumed
            for segment in older:
                with suppress(SegmentGone):
                    segment.end()
            self._number = max([self._number, *(segment.number for segment in older)]) + 1
            token = self._stream.clock.random().getrandbits(32)
            self._directory = self._stream.path / f"segment.{self._stem}.{self._number:08d}.{token:08x}"
            self._open = self._create(self._directory)
        return self._open

    def _resumed(self, last: Segment) -> OpenSegment | None:
        """Goes on in a segment, unless it is large, was ended, or another process is at it."""
        try:
            target = OpenSegment(last.directory, self._header, self.storage, last)
        except (FileNotFoundError, SegmentGone):
            return None
        if not target.alone or not last.is_open() or last.data_bytes >= self.storage.segment_bytes:
            return None
        if self.storage.durable:
            last.make_durable()
        self._directory, self._number, self._open = last.directory, last.number, target
        return target

    def _create(self, directory: Path) -> OpenSegment:
        """Makes a new segment, and opens it before it appears: from then on it may be trimmed."""
        new = directory.with_name(f".new.{directory.name}")
        try:
            durable = self.storage.durable
            disk.make_folder(directory.parent, durable=durable)
            disk.make_folder(new)
            for name in (self._header.data_file, OPEN_FILE):
                disk.write(new / name, durable=durable)
            disk.write(new / INDEX_FILE, self._header.block(), durable=durable)
            if durable:
                disk.sync(new)
            target = OpenSegment(new, self._header, self.storage)
            new.rename(directory)
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
            raise
        if durable:
            disk.sync(directory.parent)
        target.directory = directory
        return target

    def _claim(self) -> None:
        """In one process a writer id belongs to one log."""
        place = self._stream.path, self.writer
        if _writers.setdefault(place, self) is not self:
            raise InvariantBroken(
                f"writer {self.writer!r} already writes stream {self._stream.stream!r} in this process",
                hint="share the log, or close the other one first",
            )


_writers: Final[weakref.WeakValueDictionary[tuple[Path, str], SegmentWriter]] = weakref.WeakValueDictionary()
