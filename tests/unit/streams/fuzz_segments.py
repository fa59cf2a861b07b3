"""Rows whose bytes are damaged under right checksums: `python -m tests.unit.streams.fuzz_segments FIRST COUNT`.

Each case changes some bytes of a body, of a schema or of an index, repairs all checksums, reads everything and uses it as
nodes do. It runs in a process of its own, which a signal would end. It prints how many cases were refused.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pyarrow as pa
from isal.isal_zlib import crc32

from holons.arrow import python_rows, readable, whole
from holons.errors import LogDamaged, LogUnavailable
from holons.streams.segments import SegmentLog, SegmentSharedLog, ending, frames, segment
from holons.streams.segments.merge import same_rows

ROWS = 9
NOT_OURS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, ValueError, ArithmeticError)
WORDS = (0, 1, 2, 7, 8, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 8)


def columns() -> dict[str, pa.Array]:
    """Columns of every kind of layout that Arrow has."""
    numbers = list(range(ROWS))
    lists = [list(range(n % 4)) if n % 5 else None for n in numbers]
    texts = [None if n == 4 else "ä long enough text to be stored apart " * (n % 3) + str(n) for n in numbers]
    words = pa.array(texts).dictionary_encode()
    children = [pa.array(numbers), pa.array(texts)]
    types = pa.array([n % 2 for n in numbers], pa.int8())
    ends = pa.array([3, 5, ROWS], pa.int32())
    structs = [{"n": n, "text": str(n), "list": [n] * (n % 3)} if n % 4 else None for n in numbers]
    return {
        "int": pa.array([None if n == 3 else n for n in numbers], pa.int64()),
        "bool": pa.array([None if n == 3 else n % 2 == 0 for n in numbers]),
        "text": pa.array(texts),
        "large_text": pa.array(texts, pa.large_string()),
        "text_view": pa.array(texts, pa.string_view()),
        "binary": pa.array([b"\xff" * n for n in numbers]),
        "fixed": pa.array([b"abcd"] * ROWS, pa.binary(4)),
        "date": pa.array([date(2026, 1, 1 + n) for n in numbers]),
        "time": pa.array(numbers, pa.timestamp("us", "UTC")),
        "decimal": pa.array([Decimal(n) for n in numbers], pa.decimal128(9, 2)),
        "list": pa.array(lists, pa.list_(pa.int64())),
        "large_list": pa.array(lists, pa.large_list(pa.int64())),
        "list_view": pa.array(lists, pa.list_view(pa.int64())),
        "fixed_list": pa.array([[n, n] for n in numbers], pa.list_(pa.int64(), 2)),
        "texts": pa.array([[str(n)] * (n % 3) for n in numbers], pa.list_(pa.string())),
        "struct": pa.array(structs),
        "map": pa.array([[("k", n)] for n in numbers], pa.map_(pa.string(), pa.int64())),
        "words": words,
        "words_of_16": words.cast(pa.dictionary(pa.int16(), pa.string())),
        "listed_words": pa.ListArray.from_arrays(pa.array([*numbers, ROWS], pa.int32()), words),
        "dense": pa.UnionArray.from_dense(types, pa.array([n // 2 for n in numbers], pa.int32()), children),
        "sparse": pa.UnionArray.from_sparse(types, children),
        "runs": pa.RunEndEncodedArray.from_arrays(ends, pa.array(["a", None, "b"])),
        "null": pa.nulls(ROWS),
    }


@cache
def batches() -> list[pa.RecordBatch]:
    """A batch of each column beside another one, and one of all that have no dictionaries."""
    known = columns()
    plain = {name: column for name, column in known.items() if not frames_dictionary(column.type)}
    return [
        *(pa.record_batch({"key": known["int"], name: column}) for name, column in known.items()),
        pa.record_batch(plain),
    ]


def frames_dictionary(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or any(frames_dictionary(kind.field(at).type) for at in range(kind.num_fields))


def changed(random: Random, data: bytes, first: int = 0) -> bytes:
    """Some bytes are others: single bits, or words that lead far away."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at = random.randrange(first, len(found))
        if random.random() < 0.4:
            found[at] ^= 1 << random.randrange(8)
        else:
            size = random.choice((1, 2, 4, 4, 8, 8))
            at -= at % size
            word = random.choice((*WORDS, random.getrandbits(8), random.getrandbits(64))) % 256**size
            found[at : at + size] = word.to_bytes(size, "little")[: len(found) - at]
    return bytes(found)


# --- bodies and schemas -----------------------------------------------------------------------------------------------


@cache
def body_of(number: int) -> tuple[frames.RowSchema, bytes, tuple[frames.ColumnPlace, ...]]:
    schema = frames.RowSchema.of(batches()[number], 0)
    body = schema.body(batches()[number])
    return schema, body.to_pybytes(), tuple(schema.places(body))


def a_body(random: Random) -> None:
    schema, body, places = body_of(random.randrange(len(batches())))
    body = changed(random, body)
    if random.random() < 0.1:
        body = body[: random.randrange(len(body))]
    if random.random() < 0.5 or any(place.end > len(body) for place in places):
        places = ()
    places = tuple(place._replace(checksum=crc32(body[place.first : place.end])) for place in places)
    checksum = frames.rest_checksum(memoryview(body), places)
    kind = schema.kind if random.random() < 0.95 else frames.ROWS + frames.DICTIONARY_ROWS - schema.kind
    schema = frames.RowSchema(schema.message, kind, 0)
    frame = frames.Frame(kind, False, 0, 0, ROWS, 0, len(body), checksum, len(places), 0)
    wanted = random.choice([None, ["key"], [schema.schema.names[-1]]])
    read_body(frame, body, schema, places, wanted)


def a_schema(random: Random) -> None:
    schema, body, _ = body_of(random.randrange(len(batches())))
    message = changed(random, schema.message.to_pybytes())
    frame = frames.Frame(frames.SCHEMA, False, 0, 0, 0, 0, len(message), crc32(message), 0, schema.kind)
    try:
        known = frames.RowSchema(pa.py_buffer(message), frame.schema, 0)
    except frames.UNREADABLE as error:
        raise LogDamaged("as segments say it") from error
    rows = frames.Frame(schema.kind, False, 0, 0, ROWS, 0, len(body), crc32(body), 0, 0)
    read_body(rows, body, known, (), None)


def read_body(
    frame: frames.Frame,
    body: bytes,
    schema: frames.RowSchema,
    places: tuple[frames.ColumnPlace, ...],
    wanted: list[str] | None,
) -> None:
    def read(memory: memoryview, first: int) -> None:
        memory[:] = body[first : first + len(memory)]

    chunk = frames.read_rows(frame, read, schema, places, wanted)
    assert chunk.rows is not None
    use(chunk.rows)
    if chunk.whole is not None:
        use(chunk.whole.read())


def use(rows: pa.RecordBatch) -> None:
    """Does what nodes and results do with rows. Types that polars will not have are errors of others, not signals."""
    python_rows(rows)
    same_rows(rows, rows)
    with suppress(*NOT_OURS):
        for view in (readable(rows), whole(rows)):
            frame = pl.DataFrame(view)
            frame.slice(1, 3).to_dicts()
            frame.reverse().write_ipc(None)
    frames.RowSchema.of(rows, 0).body(rows.slice(2, 3))


# --- files ------------------------------------------------------------------------------------------------------------


@cache
def written() -> tuple[Path, dict[Path, bytes]]:
    """A stream of rows and one of messages, and what is in their files."""
    directory = Path(tempfile.mkdtemp())
    with SegmentLog(directory, "rows", 1, "w") as log, SegmentSharedLog(directory, "messages", "w") as shared:
        for value in range(3):
            log.append(0, pa.record_batch({"n": [value], "text": ["a text"]}))
            shared.append(b"a message")
        log.append(0, pa.record_batch({"n": np.arange(9_000), "m": np.arange(9_000)}))
        log.mark(0, 7)
    files = [path for path in directory.rglob("*") if path.is_file()]
    return directory, {path: path.read_bytes() for path in files}


def an_index(random: Random) -> None:
    directory, files = written()
    path = random.choice([path for path in files if path.name in ("index", ending.COUNTED_FILE)])
    damaged = (
        repaired(bytearray(changed(random, files[path]))) if path.name == "index" else changed(random, files[path])
    )
    path.write_bytes(damaged)
    try:
        if "rows" in str(path.relative_to(directory)):
            with SegmentLog(directory, "rows", 1, "reader") as log:
                for chunk in log.read(0, 0, 100_000, random.choice([None, ["n"]])):
                    if chunk.rows is not None:
                        use(chunk.rows.slice(0, 9))
        else:
            with SegmentSharedLog(directory, "messages", "reader") as shared:
                shared.read({}, 100)
    finally:
        path.write_bytes(files[path])


def repaired(index: bytearray) -> bytes:
    """Gives everything in an index the checksum that it should have."""
    (count,) = segment._PUBLISHED.unpack_from(index)
    index[: segment._PUBLISHED_BYTES] = segment.published(count)
    size, _ = segment._HEADER.unpack_from(index, segment._HEADER_AT)
    body = index[segment._HEADER_AT + segment._HEADER.size :][:size]
    segment._HEADER.pack_into(index, segment._HEADER_AT, size, crc32(body))
    for at in range(segment.HEADER_BYTES, len(index), frames.RECORD_BYTES):
        record = bytes(index[at : at + frames.RECORD_BYTES - 8])
        index[at + len(record) : at + frames.RECORD_BYTES] = frames._CHECK.pack(frames._check(record))
    return bytes(index)


CASES: tuple[Callable[[Random], None], ...] = (a_body, a_body, a_body, a_schema, an_index)


def refused(first: int, count: int) -> Iterator[bool]:
    for seed in range(first, first + count):
        random = Random(seed)
        try:
            random.choice(CASES)(random)
        except (LogDamaged, LogUnavailable):
            yield True
        except BaseException as error:
            raise AssertionError(f"case {seed}") from error
        else:
            yield False


if __name__ == "__main__":
    print(sum(refused(int(sys.argv[1]), int(sys.argv[2]))))
