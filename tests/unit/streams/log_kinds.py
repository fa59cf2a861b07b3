"""Every kind of log, for tests that hold for all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, pairwise

import pyarrow as pa

from holons.clock import SystemClock
from holons.streams import Chunk, MemoryHub, MemoryLog, SharedLog
from holons.streams.segments import SegmentLog, SegmentSharedLog

Log = MemoryLog | SegmentLog
PARTITIONS = 3
_incarnations = count()


class Calendar(SystemClock):
    """A clock whose calendar is set by hand."""

    at_us = 1_000

    def utc_us(self) -> int:
        return self.at_us


class MemoryKind:
    """Memory: every writer is the same object."""

    def __init__(self) -> None:
        self.calendar = Calendar()
        self.log = MemoryLog(PARTITIONS, self.calendar)
        self.hub = MemoryHub()

    def open(self, writer: str) -> Log:
        return self.log

    def open_shared(self, writer: str) -> SharedLog:
        return self.hub.open(writer)


class SegmentKind:
    """Segments: every writer has an object and files of its own; segments are tiny, so that there are many."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.calendar = Calendar()
        self.logs: dict[str, SegmentLog] = {}
        self.shared: dict[str, SegmentSharedLog] = {}

    def open(self, writer: str) -> Log:
        if writer not in self.logs:
            incarnation = f"{writer}#{next(_incarnations)}"
            storage = {"segment_bytes": 3_000, "idle_s": 0}
            self.logs[writer] = SegmentLog(
                self.directory, "rows", PARTITIONS, incarnation, **storage, clock=self.calendar
            )
        return self.logs[writer]

    def reopen(self, writer: str) -> None:
        if writer in self.logs:
            self.logs.pop(writer).close()

    def open_shared(self, writer: str) -> SharedLog:
        if writer not in self.shared:
            self.shared[writer] = SegmentSharedLog(self.directory, "messages", writer, segment_bytes=500, idle_s=0)
        return self.shared[writer]

    def close(self) -> None:
        for log in (*self.logs.values(), *self.shared.values()):
            log.close()


@contextmanager
def kind_of_log(name: str) -> Iterator[MemoryKind | SegmentKind]:
    if name == "memory":
        yield MemoryKind()
        return
    with tempfile.TemporaryDirectory() as directory:
        kind = SegmentKind(directory)
        try:
            yield kind
        finally:
            kind.close()


KINDS = ["memory", "segments"]


def rows(*values: int) -> pa.RecordBatch:
    """Rows with an integer, a text and sometimes nothing."""
    texts = [None if value % 5 == 0 else f"text {value}" for value in values]
    return pa.record_batch({"value": pa.array(values, pa.int64()), "text": pa.array(texts, pa.string())})


def flat(chunks: list[Chunk]) -> list[object]:
    """What chunks hold, one by one: the value of a row, or ("mark", ts); checks that they follow on each other."""
    found: list[object] = []
    for before, after in pairwise(chunks):
        assert before.offset + before.length == after.offset
    for chunk in chunks:
        assert chunk.length > 0
        if chunk.rows is None:
            found.append(("mark", chunk.mark))
        else:
            assert chunk.rows.equals(rows(*chunk.rows.column("value").to_pylist()))
            found.extend(chunk.rows.column("value").to_pylist())
    return found
