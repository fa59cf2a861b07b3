"""The writing side of one writer incarnation: it fills one segment after the other.

Nobody else ever writes to its environments, so a process that is stopped or killed inside a write transaction holds up
nobody. Even a second process that uses the same writer id by mistake gets segments of its own.
"""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from holons.errors import InvariantBroken, LogUnavailable
from holons.streams.lmdb import environment
from holons.streams.lmdb.directory import Header, StreamDirectory, stem, sync_directory
from holons.streams.lmdb.environment import Environment, SegmentGone, Transaction, registry
from holons.streams.lmdb.segment import OPEN_FILE

Durability: TypeAlias = Literal["process", "disk"]
Entry: TypeAlias = tuple[bytes, bytes | pa.Buffer]

_ENTRY_BYTES: Final = 64  # about what LMDB adds to an entry


@dataclass(frozen=True)
class Storage:
    """How a stream is kept."""

    durability: Durability = "process"
    """`process`: what was acknowledged survives the death of any process; `disk`: also the machine's."""
    segment_bytes: int = 128 << 20
    """A segment that grew to this is ended, and another one begun. Disk is given back by whole segments."""
    map_bytes: int = 1 << 30
    """How much address space a new segment takes, at first; it doubles when it must. Costs no disk and no memory."""
    idle_s: float = 60.0
    """Trimming may end a segment that did not grow for so long: its writer is probably dead."""
    resume: bool = False
    """Whether a writer goes on in the last segment of its name: for those of whom only one at a time writes."""

    @property
    def sync(self) -> bool:
        """Whether a commit waits for the disk."""
        return self.durability == "disk"


class SegmentWriter:
    """Commits entries, each call as a whole."""

    def __init__(self, stream: StreamDirectory, writer: str, storage: Storage) -> None:
        self.writer = writer
        self.storage = storage
        self._stem = stem(writer)
        self._stream = stream
        self._pid = os.getpid()
        self._number = -1
        self._directory: Path | None = None
        self._environment: Environment | None = None
        self._bytes = 0

    def write(self, entries: Callable[[], Iterable[Entry]]) -> None:
        """Commits entries; when it returns, every reader will see them.

        They are made one by one, and anew if a commit has to be repeated: a large batch never lies around whole.
        """
        if self._pid != os.getpid():
            raise InvariantBroken(
                f"writer {self.writer!r} of stream {self._stream.stream!r} belongs to the process that forked this one",
                hint="open the log after the fork, with a writer id of the new process",
            )
        while True:
            target = self._environment or self._begin_segment()
            try:
                self._bytes += target.write(lambda transaction: _put_all(transaction, entries(), self._stream.stream))
                if self._is_open():
                    break
            except SegmentGone:
                pass
            self._environment = None  # somebody ended the segment, and may have deleted it: once more, elsewhere
        if self._bytes >= self.storage.segment_bytes:
            self.close()

    def close(self) -> None:
        """Ends the current segment. The next write begins another one."""
        if self._directory is not None and self._pid == os.getpid():
            (self._directory / OPEN_FILE).unlink(missing_ok=True)
        self._directory = self._environment = None

    def leave(self) -> None:
        """Writes no more for now; with `resume` another process of this name may go on in the segment."""
        if self.storage.resume:
            self._directory = self._environment = None
        else:
            self.close()

    def _is_open(self) -> bool:
        return os.access(f"{self._directory}/{OPEN_FILE}", os.F_OK)

    def _begin_segment(self) -> Environment:
        self._claim()
        self._stream.refresh(relist=True)
        older = self._stream.of(self.writer)
        if self.storage.resume and (last := max(older, key=lambda segment: segment.number, default=None)) is not None:
            size = (last.directory / environment.DATA_FILE).stat().st_size
            if last.is_open() and size < self.storage.segment_bytes:
                return self._write_to(last.directory, last.number, size)
        for segment in older:
            segment.end()
        self._number = max([self._number, *(segment.number for segment in older)]) + 1
        token = self._stream.clock.random().getrandbits(32)
        directory = self._stream.path / f"segment.{self._stem}.{self._number:08d}.{token:08x}"
        self._create(directory)
        return self._write_to(directory, self._number, 0)

    def _write_to(self, directory: Path, number: int, size: int) -> Environment:
        opened = registry.environment(directory, self._stream.clock)
        opened.write_through(sync=self.storage.sync)
        self._directory, self._environment, self._number, self._bytes = directory, opened, number, size
        return opened

    def _create(self, directory: Path) -> None:
        new = directory.with_name(f".new.{directory.name}")
        header = Header(self._stream.stream, self._stream.partitions, self.writer)
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            new.mkdir()
            environment.create(new, self.storage.map_bytes, header.entry(), sync=self.storage.sync)
            (new / OPEN_FILE).touch()
            if self.storage.sync:
                sync_directory(new)
            new.rename(directory)
        except OSError as error:
            shutil.rmtree(new, ignore_errors=True)
            if isinstance(error, LogUnavailable):
                raise
            raise LogUnavailable(
                f"no new segment of stream {self._stream.stream!r}: {error}", hint="is the disk full, or read-only?"
            ) from error
        if self.storage.sync:
            for place in (directory.parent, directory.parent.parent):
                sync_directory(place)

    def _claim(self) -> None:
        """In one process a writer id belongs to one log."""
        place = self._stream.path, self.writer
        if _writers.setdefault(place, self) is not self:
            raise InvariantBroken(
                f"writer {self.writer!r} already writes stream {self._stream.stream!r} in this process",
                hint="share the log, or close the other one first",
            )

    def release(self) -> None:
        """Writes no more, and lets another log of this process use the writer id."""
        self.leave()
        place = self._stream.path, self.writer
        if _writers.get(place) is self:
            del _writers[place]


_writers: weakref.WeakValueDictionary[tuple[Path, str], SegmentWriter] = weakref.WeakValueDictionary()


def _put_all(transaction: Transaction, entries: Iterable[Entry], stream: str) -> int:
    """Puts them all; returns about how many bytes that takes."""
    total = 0
    for key, data in entries:
        total += len(data) + _ENTRY_BYTES
        if not transaction.put(key, data, overwrite=False):
            raise InvariantBroken(
                f"position is identity: stream {stream!r} was written twice at one position",
                hint="a partition has one producer at a time",
            )
    return total
