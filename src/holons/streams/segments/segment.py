"""One segment: a stretch of what one writer incarnation wrote. `poll` notices what was published; all else is as of then."""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from isal.isal_zlib import crc32

from holons import codec, disk
from holons.clock import Clock
from holons.errors import CodecError
from holons.streams.log import Chunk
from holons.streams.segments import ending, frames
from holons.streams.segments.files import SegmentFile, SegmentGone, damaged, failure
from holons.streams.segments.frames import RECORD_BYTES, ColumnPlace, Frame, RowSchema

INDEX_FILE: Final = "index"
ROWS_FILE: Final = "data.arrows"
MESSAGES_FILE: Final = "data.messages"
OPEN_FILE: Final = "open"
FORMAT: Final = 4
HEADER_BYTES: Final = 1024

_MAGIC: Final = "holons log"
_PUBLISHED: Final = struct.Struct("<Q")
_CHECKSUM: Final = struct.Struct("<I")
_PUBLISHED_BYTES: Final = _PUBLISHED.size + _CHECKSUM.size
_HEADER_AT: Final = 64
_HEADER: Final = struct.Struct("<II")  # the size of the header's body, and its checksum
_SINGLY_MAX: Final = 16  # a few new records are noted faster one by one, many faster by NumPy
_READS_MAX: Final = 100  # the writer may be writing the published number at this very moment

Result = TypeVar("Result")


class Header(NamedTuple):
    """What a segment says of itself."""

    stream: str
    partitions: int
    """0 for a shared stream."""
    writer: str

    def block(self) -> bytes:
        """Returns the first bytes of a new index: nothing is published yet."""
        body = codec.encode((_MAGIC, FORMAT, *self))
        block = published(0).ljust(_HEADER_AT, b"\0") + _HEADER.pack(len(body), crc32(body)) + body
        assert len(block) <= HEADER_BYTES, "names are short enough"
        return block.ljust(HEADER_BYTES, b"\0")

    @property
    def data_file(self) -> str:
        """The name of the file that has the data."""
        return ROWS_FILE if self.partitions else MESSAGES_FILE


def published(records: int) -> bytes:
    """Returns what stands in the index when so many records are published."""
    number = _PUBLISHED.pack(records)
    return number + _CHECKSUM.pack(crc32(number))


class Extent(NamedTuple):
    """From where to where a segment holds something of a partition; what is missing between, others hold."""

    first: int
    end: int


class _Positions:
    """Where the frames of one partition are: their offsets ascend."""

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.records = array("Q")
        self.end = 0
        self.appended = 0
        """When the last of them was appended."""


class Segment:
    """What is known of a segment, and how to read it."""

    def __init__(self, directory: Path, number: int, clock: Clock, *, durable: bool = False) -> None:
        """`durable`: what is decided about it survives the machine."""
        self.directory = directory
        self.name = directory.name
        self.number = number
        self.records = 0
        """How many records of the index are known."""
        self.data_bytes = 0
        """How many bytes of the data they describe."""
        self.ended = False
        """Its writer will not add to it any more, or will write that once more elsewhere."""
        self.grown_s = clock.now_s()
        """When it was last seen to have grown, or had grown by the time of its file when it was first seen."""
        self.since = 0
        """Since which version of the stream's list it is there."""
        self.kept_for = 0
        """The partition that needed it when that was last asked."""
        self._clock = clock
        self._durable = durable
        self._index = SegmentFile(directory / INDEX_FILE)
        self.header = self._read_header()
        self.stem = self.name.removeprefix("segment.").rsplit(".", 2)[0]
        self._data = SegmentFile(directory / self.header.data_file)
        self._open_file = f"{directory}/{OPEN_FILE}"
        self._published = b""
        self._positions: dict[int, _Positions] = {}
        self._schema_frames: dict[int, Frame] = {}
        self._schemas: dict[int, RowSchema] = {}

    @property
    def writer(self) -> str:
        return self.header.writer

    # --- what is there ------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Notices what was published."""
        newest = self._index.read(0, _PUBLISHED_BYTES)
        if newest == self._published:
            return
        count = self._records_in(newest)
        if not self.is_open():
            count = self._counted()
        if count < self.records:
            raise damaged(self.directory, f"{count} records are published, and {self.records} were")
        if count > self.records:
            self._learn(count)
            if not self._published:  # whoever opens a segment hears at once that it was truncated
                self._data.check(self.data_bytes)
            self.grown_s = self._clock.now_s() - (0.0 if self._published else self._age_s())
        self._published = newest

    def _age_s(self) -> float:
        """For how long its index has not been written, by the clock of the machine."""
        with suppress(FileNotFoundError):
            return max(0.0, self._clock.utc_us() / 1e6 - (self.directory / INDEX_FILE).stat().st_mtime)
        return 0.0

    def _records_in(self, newest: bytes) -> int:
        for _ in range(_READS_MAX):
            (count,) = _PUBLISHED.unpack_from(newest)
            if newest == published(count):
                return int(count)
            newest = self._index.read(0, _PUBLISHED_BYTES)
        raise damaged(self.directory, "its published length has a wrong checksum")

    def _counted(self) -> int:
        """Returns how many records count, now that the segment has ended."""
        try:
            count = ending.counted(self.directory, self._now_published, durable=self._durable)
        except OSError as error:
            if self.directory.exists():
                raise failure(self.directory, error) from error
            raise SegmentGone(str(self.directory)) from error
        if count is None:
            raise damaged(self.directory, f"{ending.COUNTED_FILE} holds no number")
        return count

    def _now_published(self) -> int:
        return self._records_in(self._index.read(0, _PUBLISHED_BYTES))

    def is_open(self) -> bool:
        """Returns whether its writer may still add to it."""
        return os.access(self._open_file, os.F_OK)

    def settled(self) -> bool:
        """Returns False if it has ended, and nobody could write down how many of its records count: there may be more."""
        return self.is_open() or self.decided()

    def decided(self) -> bool:
        """Returns whether it has ended, and it is settled how many of its records count."""
        return (self.directory / ending.COUNTED_FILE).exists()

    def end(self) -> None:
        """Ends it: what its writer publishes from now on counts for nobody, and is written once more elsewhere."""
        try:
            Path(self._open_file).unlink(missing_ok=True)
            if self._durable or not self.decided():  # others may not have synced it
                ending.decide(self.directory, self._now_published(), durable=self._durable)
        except FileNotFoundError as error:
            raise SegmentGone(str(self.directory)) from error
        except OSError as error:
            raise failure(self.directory, error) from error

    def make_durable(self, *, grown: bool = False) -> None:
        """Makes what is known of it survive the machine, whoever wrote it. `grown`: it was made so before it grew."""
        try:
            for file in (self._data, self._index):
                os.fdatasync(file.descriptor().number)
            if not grown or not self.is_open():
                disk.make_folder(self.directory.parent, durable=True)
                disk.sync_all(self.directory)
                disk.sync(self.directory.parent)
        except FileNotFoundError as error:
            raise SegmentGone(str(self.directory)) from error
        except OSError as error:
            raise failure(self.directory, error) from error

    def extent(self, partition: int) -> Extent:
        """Returns from where to where it holds something of a partition."""
        held = self._positions.get(partition)
        return Extent(0, 0) if held is None else Extent(held.offsets[0], held.end)

    def appended(self, partition: int) -> int:
        """Returns when something of a partition was last appended to it, in microseconds since 1970; 0 if nothing was."""
        held = self._positions.get(partition)
        return 0 if held is None else held.appended

    def appended_before(self, partition: int, time_us: int) -> int:
        """Returns the first offset of a partition in it that was appended at a time or after it; else its end."""
        held = self._positions.get(partition)
        if held is None:
            return 0
        at = 0 if held.appended >= time_us else len(held.offsets)
        if at == 0:
            at = bisect_left(held.records, time_us, key=lambda record: self._frames(record, 1)[0].appended)
        return held.offsets[at] if at < len(held.offsets) else held.end

    def after(self, partition: int, position: int) -> Extent:
        """Returns from where to where it holds something of a partition, without what begins before a position."""
        held = self._positions.get(partition)
        at = 0 if held is None else bisect_left(held.offsets, position)
        return Extent(0, 0) if held is None or at == len(held.offsets) else Extent(held.offsets[at], held.end)

    def _read_header(self) -> Header:
        block = self._index.read(0, HEADER_BYTES)
        size, checksum = _HEADER.unpack_from(block, _HEADER_AT)
        body = block[_HEADER_AT + _HEADER.size :][:size]
        try:
            fields: Any = codec.decode(body) if crc32(body) == checksum else ()
            magic, version, *known = fields
            if not (magic == _MAGIC and isinstance(version, int)):
                raise TypeError
        except (CodecError, TypeError, ValueError) as error:
            raise damaged(self.directory, f"{INDEX_FILE} has no header of ours") from error
        if version != FORMAT:
            raise damaged(self.directory, f"it has format {version}, and this version reads {FORMAT}")
        if [type(field) for field in known] != [str, int, str]:
            raise damaged(self.directory, f"{INDEX_FILE} has a header without a stream, its partitions or a writer")
        return Header(*known)

    def _learn(self, count: int) -> None:
        """Notes what is in the records up to `count`."""
        new = count - self.records
        if new > _SINGLY_MAX:
            self._note_all(self._checked(frames.whole_records(self._read_records(self.records, new))))
        else:
            for number, frame in enumerate(self._frames(self.records, new), self.records):
                self._note(number, frame)
        self.records = count

    def _note(self, number: int, frame: Frame) -> None:
        if frame.kind == frames.PLACES:
            return
        if frame.kind == frames.SCHEMA:
            self._schema_frames[frame.at] = frame
        else:
            known = array("Q", [frame.offset]), array("Q", [number])
            self._note_positions(frame.partition, *known, frame.end, frame.appended)
        if frame.kind != frames.MARK:
            self.data_bytes = frame.at + frame.size

    def _note_all(self, records: np.ndarray[Any, Any]) -> None:
        """Does the same as `_note` for many records: for those with positions by partition, for the others one by one."""
        kinds, partitions, begins = records["kind"], records["partition"], records["offset"]
        ends = begins + records["length"]
        placed = np.flatnonzero((kinds != frames.PLACES) & (kinds != frames.SCHEMA))
        placed = placed[np.argsort(partitions[placed], kind="stable")]
        for numbers in np.split(placed, np.flatnonzero(np.diff(partitions[placed])) + 1):
            offsets = begins[numbers]
            if np.any(offsets[1:] < ends[numbers[:-1]]):
                raise damaged(self.directory, "its positions go back")
            last, places = numbers[-1], (numbers + self.records).tobytes()
            known = array("Q", offsets.tobytes()), array("Q", places)
            self._note_positions(int(partitions[last]), *known, int(ends[last]), int(records["appended"][last]))
        for number in np.flatnonzero(kinds == frames.SCHEMA):
            self._note(int(number), Frame._make(records[number].item()[:-1]))
        bodies = records[(kinds != frames.PLACES) & (kinds != frames.MARK)]
        self.data_bytes = max(self.data_bytes, *(bodies["at"] + bodies["size"].astype("<i8"))[-1:].tolist())

    def _note_positions(
        self, partition: int, offsets: array[int], records: array[int], end: int, appended: int
    ) -> None:
        held = self._positions.setdefault(partition, _Positions())
        if offsets[0] < held.end:
            raise damaged(self.directory, f"its positions go back to offset {offsets[0]} of partition {partition}")
        held.offsets += offsets
        held.records += records
        held.end = end
        held.appended = max(held.appended, appended)

    # --- reading ------------------------------------------------------------------------------------------------------

    def chunks(
        self,
        partition: int,
        low: int,
        high: int,
        columns: Collection[str] | None = None,
        recent: Chunk | None = None,
    ) -> list[Chunk]:
        """Returns what overlaps `[low, high)`, in order; `recent` is a chunk of this segment that was read already."""
        chunks: list[Chunk] = []
        held = self._positions.get(partition)
        if held is None:
            return chunks
        at = max(bisect_right(held.offsets, low) - 1, 0)
        while at < len(held.offsets) and held.offsets[at] < high:
            if recent is not None and recent.offset == held.offsets[at]:
                chunks.append(recent)
            else:
                (frame,) = self._frames(held.records[at], 1)
                if frame.end > low:
                    chunks.append(self._chunk(frame, held.records[at], columns))
            at += 1
        return chunks

    def messages(self, low: int, count_max: int) -> list[tuple[int, bytes]]:
        """Returns messages from a position on, each with its position."""
        held = self._positions.get(0)
        first = 0 if held is None else bisect_left(held.offsets, low)
        if held is None or first == len(held.offsets) or count_max <= 0:
            return []
        messages = self._frames(held.records[first], min(count_max, len(held.offsets) - first))
        begin, end = messages[0].at, messages[-1].at + messages[-1].size
        data = memoryview(self._data.read(begin, end - begin))
        return [(sent.offset, frames.read_message(sent, data[sent.at - begin :][: sent.size])) for sent in messages]

    def last_schema(self) -> RowSchema | None:
        """Returns the newest schema of its rows."""
        return self._schema_at(max(self._schema_frames)) if self._schema_frames else None

    def _schema_at(self, at: int) -> RowSchema:
        """Returns the schema whose message is somewhere in the data."""
        known = self._schemas.get(at)
        if known is None:
            frame = self._schema_frames.get(at)
            if frame is None:
                raise damaged(self.directory, f"no schema is at byte {at} of the data")
            message = frames.read_message(frame, memoryview(self._data.read(frame.at, frame.size)))
            try:
                known = self._schemas[at] = RowSchema(pa.py_buffer(message), frame.schema, at)
            except frames.UNREADABLE as error:
                raise damaged(self.directory, f"the schema at byte {at} of the data cannot be read: {error}") from error
        return known

    def _chunk(self, frame: Frame, record: int, columns: Collection[str] | None) -> Chunk:
        if frame.kind == frames.MARK:
            return Chunk(frame.offset, None, frame.at, appended=frame.appended)
        if frame.kind == frames.MESSAGE or frame.at < 0:
            raise frames.frame_damaged(
                frame, "a message among rows" if frame.at >= 0 else "a body before the first byte"
            )
        places: list[ColumnPlace] = []
        if frame.columns:
            records = memoryview(self._read_records(record + 1, frame.records - 1))
            places = self._checked(frames.places_of(records, frame.columns))
        read = self._data.reader(frame.at, frame.size)
        return frames.read_rows(frame, read, self._schema_at(frame.schema), places, columns)

    def _frames(self, first: int, count: int) -> list[Frame]:
        """Returns what so many records of the index say, checked."""
        data = self._read_records(first, count)
        cuts = range(0, len(data), RECORD_BYTES)
        return [self._checked(frames.frame_of(data[at : at + RECORD_BYTES])) for at in cuts]

    def _read_records(self, first: int, count: int) -> bytes:
        return self._index.read(HEADER_BYTES + first * RECORD_BYTES, count * RECORD_BYTES)

    def _checked(self, record: Result | None) -> Result:
        if record is None:
            raise damaged(self.directory, f"{INDEX_FILE} has a record whose checksum is wrong")
        return record
