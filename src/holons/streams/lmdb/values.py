"""Keys and values: what one entry of a segment looks like, byte for byte.

A key is the position, big-endian, so that LMDB's order is ours. A value is a head of 48 bytes and a body. The head says
what the body is and how many offsets it takes up, and repeats the position; it has a checksum of its own, so that the
end of a partition can be told without reading the last body. LMDB itself notices no damage: every head and every body
is checked when it is read (`LogDamaged`).

The body of rows is an Arrow stream; where it is large, a list of places follows it: for each column the range of bytes that
its buffers take up, and their checksum. The checksum in the head is of all that is in none of the ranges: schema, metadata,
dictionaries, and the list itself. So every byte is under one checksum, and who reads some columns checks those, and what
says where they are. A value without a list, as all are in format 1, is checked as a whole.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from isal.isal_zlib import crc32

from holons import codec
from holons.errors import CodecError, LogDamaged
from holons.streams.log import Chunk, Whole, chosen_fields

FORMAT: Final = 2
FORMATS: Final = (1, FORMAT)
"""What can be read: 2 has places of columns."""
ROWS: Final = 1
MARK: Final = 2
MESSAGE: Final = 3
HEADER: Final = 4

HEADER_PARTITION: Final = 0xFFFF_FFFF
"""Where a segment's header is: behind every partition, so that each partition has a key that follows its last."""

_KEY: Final = struct.Struct(">IQ")
_HEAD: Final = struct.Struct("<IIQQQII4x")  # as in `Head`
_PLACE: Final = struct.Struct("<QQI")  # as in `ColumnPlace`
_PLACED_BYTES_MIN: Final = 64 << 10
"""A smaller value is copied whole when it is read, so that there is nothing to be saved."""
_CHECKSUM: Final = struct.Struct("<I")
_HEAD_BYTES: Final = _HEAD.size + _CHECKSUM.size


class Head(NamedTuple):
    """The first bytes of a value."""

    kind: int
    partition: int
    offset: int
    length: int
    body_bytes: int
    body_checksum: int
    """Of what is in no column's place."""
    places_bytes: int
    """How many of the body's last bytes list where columns are."""


class ColumnPlace(NamedTuple):
    """Where the buffers of a column are in a body, and their checksum."""

    first: int
    end: int
    checksum: int


def key(partition: int, offset: int) -> bytes:
    """The key of a position."""
    return _KEY.pack(partition, offset)


def position(data: memoryview) -> tuple[int, int]:
    """The position that a key stands for."""
    if len(data) != _KEY.size:
        raise _damaged(f"a key of {len(data)} bytes")
    partition, offset = _KEY.unpack(data)
    return partition, offset


# --- writing ----------------------------------------------------------------------------------------------------------


def value(kind: int, partition: int, offset: int, body: bytes, length: int = 1) -> bytes:
    """A value with this body."""
    return _head(Head(kind, partition, offset, length, len(body), crc32(body), 0)) + body


def mark_value(partition: int, offset: int, ts: int) -> bytes:
    """A mark as a value."""
    return value(MARK, partition, offset, codec.encode(ts))


def rows_value(partition: int, offset: int, rows: pa.RecordBatch) -> pa.Buffer:
    """Rows as a value: a whole Arrow stream, so that dictionaries and schemas need no memory of what came before."""
    sink = pa.BufferOutputStream()
    sink.write(bytes(_HEAD_BYTES))
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    places_bytes = rows.num_columns * _PLACE.size if sink.tell() > _PLACED_BYTES_MIN else 0
    sink.write(bytes(places_bytes))
    written = sink.getvalue()
    memory, body = np.frombuffer(written, np.uint8), memoryview(written)[_HEAD_BYTES:]
    places: list[ColumnPlace] = []
    if places_bytes:
        places = [ColumnPlace(*one, crc32(body[slice(*one)])) for one in _columns_in(body[:-places_bytes])]
        memory[-places_bytes:] = np.frombuffer(b"".join(_PLACE.pack(*place) for place in places), np.uint8)
    checksum = _rest_checksum(body, places)
    head = _head(Head(ROWS, partition, offset, rows.num_rows, len(body), checksum, places_bytes))
    memory[:_HEAD_BYTES] = np.frombuffer(head, np.uint8)
    return written


def _columns_in(body: memoryview) -> list[tuple[int, int]]:
    """From where to where each column's buffers lie in an Arrow stream of one batch: one behind the other.

    A column has the bytes up to where the next one begins. What a dictionary holds lies elsewhere, and is in no range; nor
    is anything, if Arrow should ever put buffers in another order.
    """
    memory = pa.py_buffer(body)
    batch = next(one.body for one in pa.ipc.MessageReader.open_stream(memory) if one.type == "record batch")
    first, limit = batch.address - memory.address, batch.address - memory.address + batch.size
    with pa.ipc.open_stream(memory) as stream:
        columns = stream.read_next_batch().columns
    ranges: list[tuple[int, int]] = []
    for column in reversed(columns):
        buffers = [(one.address - memory.address, one.size) for one in column.buffers() if one is not None and one.size]
        inside = [(at, at + size) for at, size in buffers if first <= at < limit]
        begin, end = min((at for at, _ in inside), default=limit), max((end for _, end in inside), default=limit)
        if end > limit:
            return [(0, 0)] * len(columns)
        ranges.append((begin, limit))
        limit = begin
    return ranges[::-1]


def _head(head: Head) -> bytes:
    packed = _HEAD.pack(*head)
    return packed + _CHECKSUM.pack(crc32(packed))


# --- reading ----------------------------------------------------------------------------------------------------------


def read_head(data: memoryview, partition: int, offset: int) -> Head:
    """The head of the value at a position, checked."""
    if len(data) < _HEAD_BYTES:
        raise _damaged(f"a value of {len(data)} bytes", partition, offset)
    (checksum,) = _CHECKSUM.unpack_from(data, _HEAD.size)
    head = Head._make(_HEAD.unpack_from(data))
    if checksum != crc32(data[: _HEAD.size]) or (head.partition, head.offset) != (partition, offset):
        raise _damaged("a head whose checksum is wrong", partition, offset)
    if head.body_bytes != len(data) - _HEAD_BYTES:
        raise _damaged(f"{len(data) - _HEAD_BYTES} bytes instead of {head.body_bytes}", partition, offset)
    return head


def read_body(head: Head, data: memoryview) -> memoryview:
    """The body of a value, checked; a view of `data`, and valid for as long."""
    places = _places(head, data)
    body = _checked_rest(head, data, places)
    _check_columns(head, data, places)
    return body


def read_chunk(head: Head, data: memoryview, columns: Collection[str] | None = None) -> Chunk:
    """The rows or the mark of a value. Rows are not copied: `data` must be memory that lasts.

    With `columns`, the rows' other columns are neither read nor checked, unless the chunk is asked for its `whole`.
    """
    try:
        if head.kind == ROWS and head.places_bytes and columns is not None:
            return _some_columns(head, data, columns)
        body = read_body(head, data)
        if head.kind == MARK:
            return Chunk(head.offset, None, codec.decode(bytes(body)))
        if head.kind == ROWS:
            return Chunk(head.offset, _rows(body, head.length)).only(columns)
    except (CodecError, pa.ArrowException, StopIteration) as error:
        raise _damaged(f"a body that cannot be read: {error}", head.partition, head.offset) from error
    raise _damaged(f"an entry of unknown kind {head.kind}", head.partition, head.offset)


def _some_columns(head: Head, data: memoryview, columns: Collection[str]) -> Chunk:
    places = _places(head, data)
    body = _checked_rest(head, data, places)
    schema = pa.ipc.read_schema(pa.py_buffer(body))
    chosen = chosen_fields(schema, columns)
    if len(places) != len(schema):
        raise pa.ArrowInvalid(f"places of {len(places)} columns instead of {len(schema)}")
    _check_columns(head, data, (places[at] for at in chosen))
    rows = _rows(body, head.length, pa.ipc.IpcReadOptions(included_fields=chosen))

    def whole() -> pa.RecordBatch:
        _check_columns(head, data, (place for at, place in enumerate(places) if at not in chosen))
        return _rows(body, head.length)

    return Chunk(head.offset, rows, whole=None if len(chosen) == len(schema) else Whole(schema, whole))


def _rows(body: memoryview, length: int, options: pa.ipc.IpcReadOptions | None = None) -> pa.RecordBatch:
    with pa.ipc.open_stream(pa.py_buffer(body), options=options) as stream:
        rows = stream.read_next_batch()
    if rows.num_rows != length:
        raise pa.ArrowInvalid(f"{rows.num_rows} rows instead of {length}")
    return rows


def _places(head: Head, data: memoryview) -> list[ColumnPlace]:
    """Where columns are, if it says so; whether that is true, the checksum of the rest will tell."""
    listed = data[len(data) - head.places_bytes :]
    return [ColumnPlace._make(one) for one in _PLACE.iter_unpack(listed)]


def _checked_rest(head: Head, data: memoryview, places: Iterable[ColumnPlace]) -> memoryview:
    """The body without the list of places; checked is what belongs to no column."""
    body = data[_HEAD_BYTES:]
    if _rest_checksum(body, places) != head.body_checksum:
        raise _damaged("a body whose checksum is wrong", head.partition, head.offset)
    return body[: len(body) - head.places_bytes]


def _check_columns(head: Head, data: memoryview, places: Iterable[ColumnPlace]) -> None:
    body = data[_HEAD_BYTES:]
    if any(crc32(body[place.first : place.end]) != place.checksum for place in places):
        raise _damaged("a column whose checksum is wrong", head.partition, head.offset)


def _rest_checksum(body: memoryview, places: Iterable[ColumnPlace]) -> int:
    checksum, at = 0, 0
    for place in places:
        checksum, at = crc32(body[at : place.first], checksum), place.end
    return crc32(body[at:], checksum)


def _damaged(what: str, partition: int | None = None, offset: int | None = None) -> LogDamaged:
    return LogDamaged(
        f"the log holds {what}",
        hint="a disk or a foreign program damaged it: restore the stream's directory, or replay from the source",
        partition=partition,
        offset=offset,
    )
