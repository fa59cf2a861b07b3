"""Keys and values: what one entry of a segment looks like, byte for byte.

A key is the position, big-endian, so that LMDB's order is ours. A value is a head of 48 bytes and a body. The head says
what the body is and how many offsets it takes up, and repeats the position; it has a checksum of its own, so that the
end of a partition can be told without reading the last body. LMDB itself notices no damage: every head and every body
is checked when it is read (`LogDamaged`).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from isal.isal_zlib import crc32

from holons import codec
from holons.errors import CodecError, LogDamaged
from holons.streams.log import Chunk

FORMAT: Final = 1
ROWS: Final = 1
MARK: Final = 2
MESSAGE: Final = 3
HEADER: Final = 4

HEADER_PARTITION: Final = 0xFFFF_FFFF
"""Where a segment's header is: behind every partition, so that each partition has a key that follows its last."""

_KEY: Final = struct.Struct(">IQ")
_HEAD: Final = struct.Struct("<IIQQQI8x")  # kind, partition, offset, length, body bytes, checksum of the body
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
    return _head(kind, partition, offset, length, len(body), crc32(body)) + body


def mark_value(partition: int, offset: int, ts: int) -> bytes:
    """A mark as a value."""
    return value(MARK, partition, offset, codec.encode(ts))


def rows_value(partition: int, offset: int, rows: pa.RecordBatch) -> pa.Buffer:
    """Rows as a value: a whole Arrow stream, so that dictionaries and schemas need no memory of what came before."""
    sink = pa.BufferOutputStream()
    sink.write(bytes(_HEAD_BYTES))
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    written = sink.getvalue()
    body = memoryview(written)[_HEAD_BYTES:]
    head = _head(ROWS, partition, offset, rows.num_rows, len(body), crc32(body))
    np.frombuffer(written, np.uint8)[:_HEAD_BYTES] = np.frombuffer(head, np.uint8)
    return written


def _head(kind: int, partition: int, offset: int, length: int, body_bytes: int, body_checksum: int) -> bytes:
    head = _HEAD.pack(kind, partition, offset, length, body_bytes, body_checksum)
    return head + _CHECKSUM.pack(crc32(head))


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
    body = data[_HEAD_BYTES:]
    if crc32(body) != head.body_checksum:
        raise _damaged("a body whose checksum is wrong", head.partition, head.offset)
    return body


def read_chunk(head: Head, data: memoryview) -> Chunk:
    """The rows or the mark of a value. Rows are not copied: `data` must be memory that lasts."""
    body = read_body(head, data)
    try:
        if head.kind == MARK:
            return Chunk(head.offset, None, codec.decode(bytes(body)))
        if head.kind == ROWS:
            return Chunk(head.offset, _rows(body, head.length))
    except (CodecError, pa.ArrowException, StopIteration) as error:
        raise _damaged(f"a body that cannot be read: {error}", head.partition, head.offset) from error
    raise _damaged(f"an entry of unknown kind {head.kind}", head.partition, head.offset)


def _rows(body: memoryview, length: int) -> pa.RecordBatch:
    with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
        rows = stream.read_next_batch()
    if rows.num_rows != length:
        raise pa.ArrowInvalid(f"{rows.num_rows} rows instead of {length}")
    return rows


def _damaged(what: str, partition: int | None = None, offset: int | None = None) -> LogDamaged:
    return LogDamaged(
        f"the log holds {what}",
        hint="a disk or a foreign program damaged it: restore the stream's directory, or replay from the source",
        partition=partition,
        offset=offset,
    )
