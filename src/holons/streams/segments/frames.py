"""Frames: what one append adds to a segment, byte for byte.

A frame is a record of 72 bytes in the index and its body in the data. The record says what the body is, where it is, how
many offsets it takes up, and at which position of the stream it stands; it has a checksum of its own. A mark has no body.

The body of rows is the Arrow IPC message of one record batch, after those of its dictionaries if it has any; the message
of their schema stands in the data before the first frame that uses it, as a frame of its own. So the data of a segment whose
rows all have one schema is an Arrow stream that any Arrow reader can read. Where a body is large, more records follow: for
each column the range of bytes that its buffers take up, and their checksum. The checksum in the frame's record is of the
body's bytes that are in none of the ranges. So every byte is under one checksum, and who reads some columns reads and
checks those, and what says where they are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import zip_longest
from operator import mul
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from isal.isal_zlib import crc32

from holons.arrow import column_names
from holons.errors import LogDamaged
from holons.streams.log import Chunk, Whole, chosen_fields
from holons.streams.segments.validation import validate

ROWS: Final = 1
DICTIONARY_ROWS: Final = 2  # rows of a schema that has dictionaries: their messages come before the batch's
MARK: Final = 3
MESSAGE: Final = 4
SCHEMA: Final = 5
PLACES: Final = 6  # no frame: where two columns of the frame before are

RECORD_BYTES: Final = 72
PLACED_BYTES_MIN: Final = 64 << 10
"""A smaller body is copied whole when it is read, so that nothing is saved by reading some columns of it."""

_MEMORY_RATIO: Final = 4  # to read a body takes less than so many times its size
_RECORD: Final = struct.Struct("<HHIQQqQIIQq")  # as in `Frame`
_PLACES: Final = struct.Struct("<H6xQQQQQQ8x")  # twice what is in `ColumnPlace`
_WORDS: Final = struct.Struct("<8Q")
_CHECK: Final = struct.Struct("<Q")
_FACTORS: Final = tuple(pow(0x9E3779B97F4A7C15, power, 1 << 64) for power in range(1, 9))  # all odd
_END_OF_STREAM_BYTES: Final = 8


UNREADABLE: Final = (pa.ArrowException, OSError, EOFError, StopIteration, UnicodeDecodeError)
"""What Arrow raises for bytes that are not Arrow: an `OSError` would look as if the file did not answer."""


class Frame(NamedTuple):
    """What the record of a frame says."""

    kind: int
    live: bool
    """Whether rows were appended as they came into being."""
    partition: int
    offset: int
    length: int
    """How many offsets the frame takes up."""
    at: int
    """Where the body is in the data; the value of a mark."""
    size: int
    """How many bytes the body has."""
    checksum: int
    """Of the bytes of the body that are in no column's place."""
    columns: int
    """How many columns have places."""
    schema: int
    """Where in the data the message of the rows' schema is; of a schema, the kind of its rows."""
    appended: int = 0
    """When it was appended, in microseconds since 1970."""

    @property
    def end(self) -> int:
        """The offset behind the frame's last row."""
        return self.offset + self.length

    @property
    def records(self) -> int:
        """How many records of the index the frame takes up, the places of its columns included."""
        return 1 + -(-self.columns // 2)

    def record(self) -> bytes:
        """Returns the first record of the frame."""
        return _checked(_RECORD.pack(*self))


RECORD: Final = np.dtype(list(zip((*Frame._fields, "check"), "HHIQQqQIIQqQ", strict=True)))
"""A record for NumPy."""


class ColumnPlace(NamedTuple):
    """Where the buffers of a column are in a body, and their checksum."""

    first: int
    end: int
    checksum: int


def frame_of(record: memoryview | bytes) -> Frame | None:
    """Returns the frame that a record describes; None if the record is damaged.

    >>> frame_of(Frame(MARK, False, 0, 7, 1, 1_000, 0, 0, 0, 0).record()).offset
    7
    """
    return Frame._make(_RECORD.unpack_from(record)) if _is_whole(record) else None


def places_of(records: memoryview, columns: int) -> list[ColumnPlace] | None:
    """Returns the places that the records after a frame's first describe; None if one of them is damaged."""
    places: list[ColumnPlace] = []
    for at in range(0, len(records), RECORD_BYTES):
        kind, *numbers = _PLACES.unpack_from(records, at)
        if kind != PLACES or not _is_whole(records[at:]):
            return None
        places += ColumnPlace(*numbers[:3]), ColumnPlace(*numbers[3:])
    return places[:columns]


def place_records(places: Sequence[ColumnPlace]) -> bytes:
    """Returns the records that follow the first one of a frame whose columns have places."""
    pairs = zip_longest(places[::2], places[1::2], fillvalue=ColumnPlace(0, 0, 0))
    return b"".join(_checked(_PLACES.pack(PLACES, *one, *other)) for one, other in pairs)


def whole_records(data: bytes) -> np.ndarray[Any, Any] | None:
    """Returns many records as an array of `RECORD`; None if one of them is damaged."""
    words = np.frombuffer(data, "<u8").reshape(-1, RECORD_BYTES // 8)
    sums = (words[:, :-1] * np.array(_FACTORS, "<u8")).sum(axis=1, dtype="<u8")
    return np.frombuffer(data, RECORD) if np.array_equal(sums + np.uint64(1), words[:, -1]) else None


def _check(record: memoryview | bytes) -> int:
    """Returns the checksum of a record. Unlike a CRC, it can be computed for many records at once without a loop.

    All factors are odd, so damage within eight bytes always shows; wider damage escapes once in 2^64 times.
    """
    return (1 + sum(map(mul, _WORDS.unpack_from(record), _FACTORS))) & 0xFFFF_FFFF_FFFF_FFFF


def _checked(record: bytes) -> bytes:
    return record + _CHECK.pack(_check(record))


def _is_whole(record: memoryview | bytes) -> bool:
    return bool(_CHECK.unpack_from(record, _WORDS.size)[0] == _check(record))


# --- rows as bytes ----------------------------------------------------------------------------------------------------


class RowSchema:
    """A schema as a segment has it: its message, and whether there are dictionaries in it, at any depth."""

    def __init__(self, message: pa.Buffer, kind: int, at: int) -> None:
        self.at = at
        """Where in the data the message is."""
        self.message = message
        self.schema = pa.ipc.read_schema(message)
        column_names(self.schema)  # says whether they are text
        self.kind = kind

    @classmethod
    def of(cls, rows: pa.RecordBatch, at: int) -> RowSchema:
        """Returns the schema of some rows."""
        messages = pa.ipc.MessageReader.open_stream(_stream_of(rows.slice(0, 0)))
        return cls(rows.schema.serialize(), ROWS if sum(1 for _ in messages) == 2 else DICTIONARY_ROWS, at)

    def body(self, rows: pa.RecordBatch) -> pa.Buffer:
        """Returns rows as a body."""
        if self.kind == ROWS:
            return rows.serialize()
        stream = _stream_of(rows)
        return stream.slice(self.message.size, stream.size - self.message.size - _END_OF_STREAM_BYTES)

    def rows(self, body: pa.Buffer) -> pa.RecordBatch:
        """Returns the rows of a body, without copying it."""
        if self.kind == ROWS:
            return pa.ipc.read_record_batch(body, self.schema)
        with pa.ipc.open_stream(_Joined([self.message, body])) as stream:
            return stream.read_next_batch()

    def places(self, body: pa.Buffer) -> list[ColumnPlace]:
        """Returns where each column's buffers are: they follow each other, and a column ends where the next one begins.

        What a dictionary holds lies elsewhere, and is in no range; nor is anything, if Arrow should ever put buffers in
        another order.
        """
        messages = pa.ipc.MessageReader.open_stream(body)
        batch = next(message.body for message in messages if message.type == "record batch")
        first, limit = batch.address - body.address, batch.address - body.address + batch.size
        ranges: list[tuple[int, int]] = []
        for column in reversed(self.rows(body).columns):
            buffers = [
                (buffer.address - body.address, buffer.size) for buffer in column.buffers() if buffer is not None
            ]
            inside = [(at, at + size) for at, size in buffers if size and first <= at < limit]
            begin, end = min((at for at, _ in inside), default=limit), max((end for _, end in inside), default=limit)
            if end > limit:
                return []
            ranges.append((begin, limit))
            limit = begin
        data = memoryview(body)
        return [ColumnPlace(at, end, crc32(data[at:end])) for at, end in reversed(ranges)]


def _stream_of(rows: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return sink.getvalue()


class _Joined:
    """Pieces of memory, as a file that Arrow reads without copying: it never reads across the end of a message."""

    closed = False

    def __init__(self, pieces: list[pa.Buffer]) -> None:
        self._pieces = pieces

    def read(self, size: int) -> pa.Buffer:
        if len(self._pieces) > 1 and not self._pieces[0].size:
            self._pieces.pop(0)
        piece = self._pieces[0]
        self._pieces[0] = piece.slice(min(size, piece.size))
        return piece.slice(0, min(size, piece.size))

    def close(self) -> None:
        """Does nothing: Arrow asks for it."""


# --- bytes as rows ----------------------------------------------------------------------------------------------------


def rest_checksum(body: memoryview, places: Iterable[ColumnPlace]) -> int:
    """Returns the checksum of what is in no column's place."""
    checksum, at = 0, 0
    for place in places:
        checksum, at = crc32(body[at : place.first], checksum), place.end
    return crc32(body[at:], checksum)


def read_rows(
    frame: Frame,
    read: Callable[[memoryview, int], None],
    schema: RowSchema,
    places: Sequence[ColumnPlace],
    columns: Collection[str] | None,
) -> Chunk:
    """Returns the rows of a frame. With `columns` and places, the other columns are read and checked only on demand.

    `read` fills memory with bytes of the body from a place on. What was read is validated: whoever wrote it, and whatever
    the checksums say, an offset that leads out of its buffer would end this process with a signal.
    """
    memory = np.empty(frame.size, np.uint8)
    data, body = memory.data, pa.py_buffer(memory)
    if places and len(places) != len(schema.schema):
        raise frame_damaged(frame, f"places of {len(places)} columns instead of {len(schema.schema)}")
    chosen = range(len(schema.schema)) if columns is None else chosen_fields(schema.schema, columns)
    for first, end in _ranges(frame, places, chosen):
        read(data[first:end], first)
    if rest_checksum(data, places) != frame.checksum:
        raise frame_damaged(frame, "a body whose checksum is wrong")
    _check_columns(frame, data, (places[at] for at in chosen if places))
    with _understood(frame):
        rows = schema.rows(body)
        known = rows if len(chosen) == rows.num_columns else rows.select(chosen)
        validate(known)
    if rows.num_rows != frame.length:
        raise frame_damaged(frame, f"{rows.num_rows} rows instead of {frame.length}")
    if len(chosen) == rows.num_columns:
        return Chunk(frame.offset, rows, appended=frame.appended, live=bool(frame.live))

    @cache
    def whole() -> pa.RecordBatch:
        others = [at for at in range(len(places)) if at not in chosen]
        for place in (places[at] for at in others):
            read(data[place.first : place.end], place.first)
        _check_columns(frame, data, (places[at] for at in others))
        with _understood(frame):
            validate(rows)
        return rows

    known_whole = Whole(schema.schema, whole)
    return Chunk(frame.offset, known, whole=known_whole, appended=frame.appended, live=bool(frame.live))


def _ranges(frame: Frame, places: Sequence[ColumnPlace], chosen: Collection[int]) -> Iterator[tuple[int, int]]:
    """Returns which bytes of a body to read: all but the columns that are not chosen."""
    at = passed = 0
    for number, place in enumerate(places):
        if not passed <= place.first <= place.end <= frame.size:
            raise frame_damaged(frame, "columns that are not one after the other")
        passed = place.end
        if number not in chosen:
            if at < place.first:
                yield at, place.first
            at = place.end
    if at < frame.size:
        yield at, frame.size


@contextmanager
def _understood(frame: Frame) -> Iterator[None]:
    """Raises whatever Arrow says of bytes that are none of its own as damage."""
    try:
        yield
    except MemoryError as error:
        np.empty(
            _MEMORY_RATIO * frame.size, np.uint8
        )  # fails too where memory is short; else it is damage that asks for much
        raise frame_damaged(frame, f"a body that cannot be read: {error}") from error
    except Exception as error:
        raise frame_damaged(frame, f"a body that cannot be read: {error}") from error


def read_message(frame: Frame, body: memoryview) -> bytes:
    """Returns the bytes of a message, checked."""
    if crc32(body) != frame.checksum:
        raise frame_damaged(frame, "a body whose checksum is wrong")
    return bytes(body)


def _check_columns(frame: Frame, body: memoryview, places: Iterator[ColumnPlace]) -> None:
    if any(crc32(body[place.first : place.end]) != place.checksum for place in places):
        raise frame_damaged(frame, "a column whose checksum is wrong")


def frame_damaged(frame: Frame, what: str) -> LogDamaged:
    """Returns the error for a frame that cannot be trusted."""
    return LogDamaged(
        f"the log holds {what}",
        hint="a disk or a foreign program damaged it: restore the stream's directory, or replay from the source",
        partition=frame.partition,
        offset=frame.offset,
    )
