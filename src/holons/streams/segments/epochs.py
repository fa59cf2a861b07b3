"""Epochs: which producer holds a partition of a stream in which each partition has one producer at a time.

    <stream>/epochs/<partition>.<number>    who took the partition with that number, after a checksum; the highest number
                                            holds it

A producer takes a partition before it first writes to it: it creates the file with the next number, which only one process
can, and ends the segments of all who held the partition before. From then on nothing counts that those publish
(`ending.py`), and they learn of it: before a producer uses a segment that it has begun, it looks who holds the partition.
So there is nothing that a stopped process could hold, and nothing that it could add when it wakes up.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

from isal.isal_zlib import crc32

from holons import disk
from holons.errors import LogUnavailable
from holons.streams.log import fenced
from holons.streams.segments.directory import EPOCHS_FOLDER, StreamDirectory
from holons.streams.segments.files import SegmentGone, damaged

_KEPT: Final = 8
"""So many earlier numbers of a partition are kept: who has looked for the highest one, and then stood still, must not find
the next one free again."""


class Epochs:
    """The partitions that a producer holds, or held."""

    def __init__(self, stream: StreamDirectory, writer: str, *, resume: bool) -> None:
        """With `resume`, producers of the same name follow each other, and share what they hold."""
        self._stream = stream
        self._writer = writer
        self._resume = resume
        self._folder = stream.path / EPOCHS_FOLDER
        self._numbers: dict[int, int] = {}
        """By partition: the number with which it was taken."""
        self._segment: Path | None = None
        self._looked_up: set[int] = set()
        """The partitions that were held when, or after, that segment was begun: until it ends, they are."""

    def take(self, partition: int, own_segment: Path | None) -> None:
        """Takes a partition unless this producer has taken it before: afterwards the end of the partition stands still."""
        if partition in self._numbers:
            return
        with disk.unavailable(LogUnavailable, f"take partition {partition} of stream {self._stream.stream!r}"):
            disk.make_folder(self._folder, durable=self._stream.durable)
            while True:
                older = self._taken(partition)
                number = max(older, default=-1)
                if self._resume and older and self._holder(partition, number) == self._writer:
                    self._numbers[partition] = number
                    return
                number += 1
                if self._create(partition, number) and max(self._taken(partition)) == number:
                    break
            self._end_segments({self._holder(partition, earlier) for earlier in older}, own_segment)
            self._numbers[partition] = (
                number  # not before: if that fails, as where the disk is full, it is taken once more
            )
            for earlier in sorted(older)[:-_KEPT]:  # in this order: see `_holds`
                self._path(partition, earlier).unlink(missing_ok=True)

    def check(self, partition: int, segment: Path) -> None:
        """Raises an error if another producer has taken the partition before this segment was begun."""
        if segment != self._segment:
            self._segment, self._looked_up = segment, set()
        if partition not in self._looked_up:
            self.check_held(partition)
            self._looked_up.add(partition)

    def check_held(self, partition: int) -> None:
        """Raises an error if another producer has taken the partition."""
        if not self._holds(partition):
            newest = max(self._taken(partition), default=-1)
            raise fenced(self._stream.stream, partition, self._writer, self._holder(partition, newest))

    def _holds(self, partition: int) -> bool:
        """Whether nobody has taken the partition since.

        Files are removed in the order of their numbers, so while this one is there, the next one would be too.
        """
        number = self._numbers[partition]
        return not self._path(partition, number + 1).exists() and self._path(partition, number).exists()

    def _end_segments(self, holders: set[str | None], own_segment: Path | None) -> None:
        self._stream.refresh(relist=True)
        for segment in list(self._stream.segments.values()):
            theirs = (segment.writer in holders or None in holders) and segment.directory != own_segment
            if theirs and (segment in self._stream.live or not segment.decided()):
                with suppress(SegmentGone):
                    segment.end()

    # --- files --------------------------------------------------------------------------------------------------------

    def _path(self, partition: int, number: int) -> Path:
        return self._folder / f"{partition}.{number}"

    def _taken(self, partition: int) -> list[int]:
        """Returns the numbers that are there for a partition."""
        prefix = f"{partition}."
        with os.scandir(self._folder) as files:
            names = [file.name.removeprefix(prefix) for file in files if file.name.startswith(prefix)]
        if any(not name.isdecimal() for name in names):
            raise damaged(self._folder, f"{names} are not all numbers")
        return [int(name) for name in names]

    def _holder(self, partition: int, number: int) -> str | None:
        """Returns who took a partition with a number; None if that is not known any more, or damaged."""
        try:
            checksum, _, name = self._path(partition, number).read_bytes().partition(b" ")
        except FileNotFoundError:
            return None
        return name.decode() if checksum == _checksum(name) else None

    def _create(self, partition: int, number: int) -> bool:
        part = self._folder / f".{uuid.uuid4().hex}"
        name = self._writer.encode()
        disk.write(part, b"%s %s" % (_checksum(name), name), durable=self._stream.durable)
        try:
            os.link(part, self._path(partition, number))
        except FileExistsError:
            return False
        finally:
            part.unlink(missing_ok=True)
        if self._stream.durable:
            disk.sync(self._folder)
        return True


def _checksum(name: bytes) -> bytes:
    return b"%08x" % crc32(name)
