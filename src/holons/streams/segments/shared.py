"""A shared stream between the processes of one machine: every writer has segments, and positions, of its own."""

from __future__ import annotations

import weakref
from pathlib import Path

from holons.clock import Clock, SystemClock
from holons.disk import Durability
from holons.errors import WriterForgotten
from holons.names import encoded
from holons.streams.segments.directory import StreamDirectory, name_of
from holons.streams.segments.segment import Segment
from holons.streams.segments.writer import Entry, SegmentWriter, Storage
from holons.streams.shared import Cursor, Message


class SegmentSharedLog:
    """A shared stream in segments. Every process and every incarnation needs a `writer` of its own.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory, SegmentSharedLog(directory, "sync", "node-a#17") as log:
    ...     log.append(b"hello")
    ...     log.read({}, 10)
    0
    [Message(writer='node-a#17', position=0, data=b'hello')]
    """

    def __init__(
        self,
        directory: Path | str,
        stream: str,
        writer: str,
        *,
        durability: Durability = "process",
        segment_bytes: int = Storage.segment_bytes,
        trimmed_bytes: int = Storage.trimmed_bytes,
        idle_s: float = Storage.idle_s,
        clock: Clock | None = None,
        if_damaged: str = "restore it",
    ) -> None:
        storage, clock = Storage(durability, segment_bytes, trimmed_bytes, idle_s), clock or SystemClock()
        self._stream = StreamDirectory(Path(directory), stream, 0, clock, if_damaged, durable=storage.durable)
        self._writer = SegmentWriter(
            self._stream, writer, storage, weakref.proxy(self)
        )  # a log that is dropped goes at once
        self._checked: Path | None = None
        self._next: int | None = None
        self._by_writer: dict[str, tuple[str, list[Segment]]] = {}
        self._version = self._starts_version = -1
        self._starts: Cursor = {}

    @property
    def writer(self) -> str:
        return self._writer.writer

    def append(self, data: bytes) -> int:
        if self._next is None:
            self._next = self._stream.consistently(lambda: self._end(self.writer))
        position = self._next
        self._writer.write(0, lambda: [Entry(0, position, data)])
        self._next += 1
        return position

    def check(self, partition: int, segment: Path) -> None:
        """Raises an error if all that was there of this writer has been trimmed and forgotten: see `forget`."""
        if segment != self._checked and self._next is not None:
            if self._stream.consistently(lambda: self._end(self.writer)) < self._next:
                self._writer.close()
                raise WriterForgotten(
                    f"{self.writer!r} has been silent for so long that stream {self._stream.stream!r} has forgotten it",
                    hint="nothing was written; begin again under another name, as a driver does for nodes that end",
                )
            self._checked = segment

    def read(self, cursor: Cursor, count_max: int) -> list[Message]:
        messages, moved = self._stream.consistently(lambda: self._read(cursor, count_max))
        cursor.update(moved)
        if len(cursor) > len(self._by_writer):
            for forgotten in cursor.keys() - self._by_writer.keys():
                del cursor[forgotten]
        return messages

    def start(self, writer: str) -> int:
        self._stream.refresh()
        return self._stream.floor(encoded(writer))

    def starts(self) -> Cursor:
        self._stream.refresh()
        if self._starts_version != self._stream.version:
            writers = self._writers()
            self._starts = {writer: self._stream.floor(writer_stem) for writer, (writer_stem, _) in writers.items()}
            self._starts_version = self._stream.version
        return dict(self._starts)

    def trim(self, below: Cursor) -> None:
        ends = self._stream.consistently(lambda: {writer: self._end(writer) for writer in below})
        for writer, position in below.items():
            self._stream.raise_floor(encoded(writer), min(position, ends[writer]))
        self._stream.sweep(self._needless, self._writer.storage.idle_s)
        self._stream.forget_floors({encoded(name) for name, (_, segments) in self._writers().items() if segments})

    def trim_silent(self, seconds: float) -> None:
        """Drops what those have written who have been silent for so long: for streams that are about the living."""
        self._stream.refresh()
        grown_s: dict[str, float] = {}
        for segment in self._stream.segments.values():
            grown_s[segment.writer] = max(segment.grown_s, grown_s.get(segment.writer, segment.grown_s))
        now_s = self._stream.clock.now_s()
        silent = [writer for writer, at_s in grown_s.items() if now_s - at_s >= seconds]
        self.trim({writer: self._end(writer) for writer in silent})

    def close(self) -> None:
        """Ends what it writes, and closes what it reads."""
        self._writer.release()
        self._stream.close()
        self._by_writer, self._version, self._starts_version, self._next = {}, -1, -1, None

    def __enter__(self) -> SegmentSharedLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, cursor: Cursor, count_max: int) -> tuple[list[Message], Cursor] | None:
        """Returns messages, and where the cursor goes; None if some are missing."""
        messages: list[Message] = []
        moved: Cursor = {}
        for writer, (writer_stem, segments) in self._writers().items():
            if not segments and writer in cursor:
                continue  # all of it was trimmed long ago
            at = max(cursor.get(writer, 0), self._stream.floor(writer_stem))
            for segment in segments:
                if len(messages) >= count_max or segment.extent(0).end <= at:
                    continue
                for position, data in segment.messages(at, count_max - len(messages)):
                    if position != at:
                        return None
                    messages.append(Message(writer, position, data))
                    at += 1
            moved[writer] = at
        return messages, moved

    def _writers(self) -> dict[str, tuple[str, list[Segment]]]:
        """Returns for each writer its stem and the segments that are left of it, if any."""
        if self._version != self._stream.version:
            names = {segment.writer for segment in self._stream.segments.values()}
            names.update(name_of(self._stream.path, trimmed) for trimmed in self._stream.floors)
            self._by_writer = {name: (encoded(name), self._stream.of(name)) for name in sorted(names)}
            self._version = self._stream.version
        return self._by_writer

    def _end(self, writer: str) -> int:
        ends = [segment.extent(0).end for segment in self._stream.of(writer)]
        return max(self._stream.floor(encoded(writer)), *ends, 0)

    def _needless(self, segment: Segment) -> bool:
        return segment.extent(0).end <= self._stream.floor(segment.stem)
