"""Decoders of what is stored: segments, journals, orders of appending, batches; their checksums are repaired."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from isal.isal_zlib import crc32
from tests.fuzz.fuzzing import Decoder
from tests.fuzz.register import decoder

from holons import codec
from holons.arrow import python_rows
from holons.engines.batches import Batches
from holons.engines.directory_site import DirectorySite
from holons.errors import InvariantBroken, LogDamaged
from holons.streams import DirectoryJournal, FileSink, JournaledLog, MemoryJournal, MemoryLog
from holons.streams.journal import _framed
from holons.streams.order import RECORD_BYTES, AppendOrder, writer_number
from holons.streams.segments import SegmentLog, frames
from holons.streams.segments.segment import _HEADER, _HEADER_AT, FORMAT, HEADER_BYTES, published

LOG = (LogDamaged, InvariantBroken)
ROWS = pa.record_batch({"ts": [1, 2, 3], "user": ["ann", None, "zoë"], "spent": [0.5, None, float("nan")]})
OTHER_ROWS = pa.record_batch({"ts": [4, 5], "kind": pa.array(["a", "b"]).dictionary_encode()})


def _folder() -> Path:
    """Returns a new folder for as long as this process lives."""
    folder = Path(tempfile.mkdtemp(prefix="holons-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def _log(folder: Path) -> Iterator[SegmentLog]:
    with SegmentLog(folder, "bids", 2, "reader#1") as log:
        yield log


def _read_all(folder: Path) -> None:
    with _log(folder) as log:
        for partition in range(2):
            at = log.start(partition)
            while chunks := log.read(partition, at, 100):
                for chunk in chunks:
                    if chunk.rows is not None:
                        python_rows(chunk.rows)
                at = chunks[-1].end
            log.end(partition)


class _Segment:
    """A segment with rows of two schemas and marks, whose files are written anew for each case."""

    def __init__(self) -> None:
        self.folder = _folder()
        with SegmentLog(self.folder, "bids", 2, "writer#1") as log:
            for partition in range(2):
                log.append(partition, ROWS)
                log.mark(partition, 1_000)
                log.append(partition, OTHER_ROWS, live=False)
                for second in range(8):  # many records are noted in another way than a few
                    log.mark(partition, 2_000 + second)
        self.directory = next(self.folder.glob("stream.bids/segment.*"))
        self.index, self.data = (self.directory / name for name in ("index", "data.arrows"))
        self.block = self.index.read_bytes()
        self.body = self.data.read_bytes()
        self.count = (len(self.block) - HEADER_BYTES) // frames.RECORD_BYTES

    def records(self) -> list[bytes]:
        """Returns the records of the index, each without its checksum."""
        at = range(HEADER_BYTES, len(self.block), frames.RECORD_BYTES)
        return [self.block[first : first + frames.RECORD_BYTES - 8] for first in at]

    def write(self, *, records: bytes | None = None, header: bytes | None = None, count: int | None = None) -> None:
        block = self.block[:HEADER_BYTES] if header is None else header
        known = self.count if count is None else count
        rest = self.block[HEADER_BYTES:] if records is None else records
        self.index.write_bytes(published(known) + block[len(published(0)) :] + rest)
        (self.directory / "counted").write_bytes(b"%d." % known)


@decoder("holons.streams.segments.segment:Segment._read_header")
def headers_of_segments() -> Decoder:
    segment = _Segment()

    def read(body: bytes) -> None:
        body = body[: HEADER_BYTES - _HEADER_AT - _HEADER.size]
        block = segment.block[:_HEADER_AT] + _HEADER.pack(len(body), crc32(body)) + body
        segment.write(header=block.ljust(HEADER_BYTES, b"\0"))
        _read_all(segment.folder)

    samples = [codec.encode(("holons log", FORMAT, "bids", 2, "writer#1"))]
    return Decoder("headers of segments", samples, read, LOG, cost=20)


@decoder(
    "holons.streams.segments.frames:frame_of",
    "holons.streams.segments.frames:places_of",
    "holons.streams.segments.frames:whole_records",
    "holons.streams.segments.frames:_check",
    "holons.streams.segments.frames:_is_whole",
)
def records_of_segments() -> Decoder:
    """Records of the index, each with a right checksum."""
    segment = _Segment()
    size = frames.RECORD_BYTES - 8

    def read(data: bytes) -> None:
        records = [data[at : at + size].ljust(size, b"\0") for at in range(0, len(data), size)][:64]
        segment.write(records=b"".join(map(frames._checked, records)), count=len(records))
        _read_all(segment.folder)

    whole = b"".join(segment.records())
    return Decoder("records of segments", [whole], read, LOG, structured=False, cost=20)


@decoder("holons.streams.segments.segment:Segment._records_in")
def damaged_segments() -> Decoder:
    """A segment's files as they are on a damaged disk: nothing is repaired."""
    segment = _Segment()
    whole = segment.block + segment.body

    def read(data: bytes) -> None:
        segment.index.write_bytes(data[: len(segment.block)])
        segment.data.write_bytes(data[len(segment.block) :])
        _read_all(segment.folder)

    return Decoder("damaged segments", [whole], read, LOG, structured=False, cost=20)


@decoder()
def counts_of_segments() -> Decoder:
    segment = _Segment()

    def read(data: bytes) -> None:
        (segment.directory / "counted").write_bytes(data)
        _read_all(segment.folder)

    segment.write()
    return Decoder("counts of segments", [b"%d." % segment.count], read, LOG, structured=False, cost=20)


@decoder(
    "holons.streams.segments.validation:_is_ascii",
    "holons.streams.segments.frames:RowSchema.rows",
    "holons.streams.segments.frames:RowSchema.places",
)
def bodies_of_rows() -> Decoder:
    """Rows in Arrow's format, with right checksums and wrong insides."""
    schemas = [frames.RowSchema.of(rows, 0) for rows in (ROWS, OTHER_ROWS)]
    bodies = [bytes(schema.body(rows)) for schema, rows in zip(schemas, (ROWS, OTHER_ROWS), strict=True)]

    def read(data: bytes) -> None:
        def into(memory: memoryview, first: int) -> None:
            memory[:] = data[first : first + len(memory)]

        for schema, rows in zip(schemas, (ROWS, OTHER_ROWS), strict=True):
            frame = frames.Frame(schema.kind, False, 0, 0, rows.num_rows, 0, len(data), crc32(data), 0, 0)
            try:
                chunk = frames.read_rows(frame, into, schema, [], None)
            except LOG:
                continue
            assert chunk.rows is not None
            python_rows(chunk.rows)

    return Decoder("bodies of rows", bodies, read, LOG, structured=False, cost=10)


@decoder("holons.streams.segments.frames:RowSchema.__init__", "holons.streams.segments.frames:RowSchema.of")
def schemas_of_rows() -> Decoder:
    schemas = [frames.RowSchema.of(rows, 0) for rows in (ROWS, OTHER_ROWS)]
    segment = _Segment()
    at, size = next(
        (f.at, f.size)
        for f in map(frames.frame_of, map(frames._checked, segment.records()))
        if f and f.kind == frames.SCHEMA
    )

    def read(data: bytes) -> None:
        data = data[:size].ljust(size, b"\0")
        records = [frames._checked(record) for record in segment.records()]
        for number, record in enumerate(records):
            frame = frames.frame_of(record)
            assert frame is not None
            if frame.kind == frames.SCHEMA and frame.at == at:
                records[number] = frame._replace(checksum=crc32(data)).record()
        segment.data.write_bytes(segment.body[:at] + data + segment.body[at + size :])
        segment.write(records=b"".join(records))
        _read_all(segment.folder)

    samples = [bytes(schema.message) for schema in schemas[:1]]
    return Decoder("schemas of rows", samples, read, LOG, structured=False, cost=20)


@decoder("holons.streams.journaled:_decode")
def entries_of_journals() -> Decoder:
    """Entries of the journal of an input, in right frames."""

    def read(data: bytes) -> None:
        foreign, journal = MemoryLog(1), MemoryJournal()
        foreign.append(0, ROWS)
        journal.propose(0, 0, data)
        journal.propose(0, 1, codec.encode((3, 0, 1_000)))
        log = JournaledLog(foreign, journal)
        log.start(0), log.end(0)
        log.read(0, 0, 10)
        log.read(0, 3, 10)
        log.foreign_offset(0, 2)

    samples = [codec.encode((3, 0, 1_000)), codec.encode((3, 0, 2_000))]
    return Decoder("entries of journals", samples, read, LOG, cost=2)


@decoder()
def files_of_journals() -> Decoder:
    folder = _folder()
    journal = DirectoryJournal(folder)
    journal.propose(0, 0, b"entry")
    file = next(folder.glob("0/entries/*"))

    def read(data: bytes) -> None:
        file.write_bytes(data)
        journal.get(0, 0)

    samples = [_framed(0, 0, b"entry")]
    return Decoder("files of journals", samples, read, LOG, structured=False, cost=10)


@decoder("holons.streams.order:AppendOrder._read_file")
def orders_of_appending() -> Decoder:
    """Records of the order in which several writers appended, each with a right checksum."""
    folder = _folder()
    order = AppendOrder(folder, 2)
    for partition, rows in ((0, 3), (1, 2), (0, 5)):
        order.add(partition, writer_number("node-1"), 0, rows)
    file = next(folder.glob("order.*"))
    size = RECORD_BYTES - 4
    stored = file.read_bytes()
    whole = b"".join(stored[at + 4 : at + RECORD_BYTES] for at in range(0, len(stored), RECORD_BYTES))

    def read(data: bytes) -> None:
        bodies = [data[at : at + size].ljust(size, b"\0") for at in range(0, len(data), size)]
        file.write_bytes(b"".join(crc32(body).to_bytes(4, "little") + body for body in bodies))
        known = AppendOrder(folder, 2)
        known.refresh()
        for partition in range(2):
            if end := known.end(partition):
                known.stretch(partition, end - 1)

    return Decoder("orders of appending", [whole], read, LOG, structured=False, cost=10)


@decoder("holons.engines.batches:Batches._read")
def commits_of_batches() -> Decoder:
    site = DirectorySite(_folder())
    batches = Batches(site, "bids", 2)
    batches.commit("query", 0, [batches.stage(0, [ROWS])])
    done = next(site.folder("batches", "bids").glob("*/*.done"))
    whole = done.read_bytes()

    def read(data: bytes) -> None:
        done.with_name(f"{1:020d}.commit").write_bytes(data)
        batches._read(done.with_name(f"{1:020d}.commit"))

    return Decoder("commits of batches", [whole], read, LOG, structured=False, cost=10)


@decoder("holons.engines.rules:_value")
def rules_of_retention() -> Decoder:
    site = DirectorySite(_folder())
    rules = site.retention()
    rules.keep_input("bids", "1h")
    rules.consume("reader", "bids", [3, 5])
    paths = [path for path in site.directory.rglob("*") if path.is_file()]

    def read(data: bytes) -> None:
        for path in paths:
            path.write_bytes(data)
        for asked in (rules.inputs, lambda: rules.consumed("bids")):
            try:
                asked()
            except LogDamaged:
                continue

    samples = [path.read_bytes() for path in paths]
    return Decoder("rules of retention", samples, read, LOG, structured=False, cost=10)


@decoder("holons.engines.batches:Batches._staged_rows")
def staged_rows() -> Decoder:
    folder = _folder()
    site = DirectorySite(folder)
    batches = Batches(site, "bids", 2)
    staged = batches.stage(0, [ROWS, ROWS])
    file = site.folder("batches", "bids") / staged.file
    whole = file.read_bytes()

    def read(data: bytes) -> None:
        file.write_bytes(data)
        for rows in batches._staged_rows(staged):
            python_rows(rows)

    return Decoder("staged rows", [whole], read, LOG, structured=False, cost=10)


@decoder("holons.streams.sinks:FileSink._read")
def files_of_sinks() -> Decoder:
    folder = _folder()
    sinks = {kind: FileSink(folder / kind, "on_window", kind) for kind in ("jsonl", "parquet")}
    samples = []
    for sink in sinks.values():
        log = MemoryLog(1)
        log.append(0, ROWS)
        sink.drain(log)
    paths = {kind: next((folder / kind).rglob(f"*.{kind}")) for kind in sinks}
    samples = [path.read_bytes() for path in paths.values()]

    def read(data: bytes) -> None:
        for kind, sink in sinks.items():
            paths[kind].write_bytes(data)
            try:
                sink._read(paths[kind])
            except LogDamaged:
                continue

    return Decoder("files of sinks", samples, read, LOG, structured=False, cost=20)
