"""The two files of a segment: reading them, and how much of them is published.

    data.arrows, or data.messages   what the frames hold, one behind the other; of rows, this is an Arrow IPC stream
    index                           a header of 1,024 bytes, then records of 64 bytes that say what lies where in the data

The header of the index begins with the number of records that are published. A writer writes the data, then the records,
then this number, and a reader takes nothing beyond it. So what a killed writer left half written is never seen, what is
acknowledged is in the operating system's cache, where no death of a process reaches it, and a file that is shorter than
its records say was truncated.

Everything is written with `write` and read with `read`, never through a map: a full disk, or a file that is cut short, is an
error, not a signal.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from holons.disk import hint_for
from holons.errors import LogDamaged, LogUnavailable

INDEX_FILE: Final = "index"
ROWS_FILE: Final = "data.arrows"
MESSAGES_FILE: Final = "data.messages"
OPEN_FILE: Final = "open"

_UNCHECKED_BYTES_MAX: Final = 1 << 20  # whoever asks for more bytes than there are must not get memory for them
_OPEN_FILES_MAX: Final = 256  # of 1,024 that a process often may have


class SegmentGone(Exception):
    """A segment was trimmed while somebody was about to read it: list the directory again."""


def damaged(segment: Path, what: str) -> LogDamaged:
    """Returns the error for a segment that cannot be trusted."""
    return LogDamaged(
        f"segment {segment.name} is damaged: {what}",
        hint=f"restore {segment}, or move the stream's directory away and replay from the source",
    )


def failure(segment: Path, error: OSError) -> LogUnavailable:
    """Returns the error for a segment that the operating system does not let us read or write."""
    return LogUnavailable(f"segment {segment.name}: {error}", hint=f"{hint_for(error)}: {segment}")


class Descriptor:
    """An open file, closed when nobody holds this object any more."""

    def __init__(self, path: Path, flags: int = os.O_RDONLY) -> None:
        self.number = os.open(path, flags | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


class OpenFile:
    """A file or directory to be read. It is opened when needed; only so many are open in a process at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: Descriptor | None = None

    def descriptor(self) -> Descriptor:
        """Opens the file if it is closed. Whoever reads holds the result, so that no other thread closes it meanwhile."""
        return self._descriptor or self._opened()

    def close(self) -> None:
        """Closes the file, until it is needed again."""
        self._descriptor = None

    def _opened(self) -> Descriptor:
        descriptor = self._descriptor = Descriptor(self.path)
        _opened.append(weakref.ref(self))
        while len(_opened) > _OPEN_FILES_MAX:
            if (oldest := _opened.popleft()()) is not None:
                oldest.close()
        return descriptor


class SegmentFile(OpenFile):
    """One file of a segment."""

    def read(self, at: int, size: int) -> bytes:
        """Returns a copy of some bytes."""
        if size > _UNCHECKED_BYTES_MAX or at < 0:
            self.check(at + size if at >= 0 else -1)
        try:
            descriptor = self._descriptor or self._opened()
            data = os.pread(descriptor.number, size, at)
            while len(data) < size and (more := os.pread(descriptor.number, size - len(data), at + len(data))):
                data += more  # one call reads 2 GB at most
        except OSError as error:
            raise self._failure(error) from error
        if len(data) != size:
            raise self._truncated(at + size)
        return data

    def reader(self, at: int, size: int) -> Callable[[memoryview, int], None]:
        """Returns what fills memory with bytes from a place on, of the `size` bytes that are at `at`.

        It holds the file open, so that they can be read when the file has been deleted.
        """
        self.check(at + size if at >= 0 else -1)
        descriptor = self.descriptor()

        def read(memory: memoryview, first: int) -> None:
            place = at + first
            while memory:
                try:
                    count = os.preadv(descriptor.number, [memory], place)
                except OSError as error:
                    raise self._failure(error) from error
                if not count:
                    raise self._truncated(at + size)
                memory, place = memory[count:], place + count

        return read

    def check(self, size: int) -> None:
        """Raises an error if the file is shorter than that."""
        if size < 0:
            raise damaged(self.path.parent, f"{self.path.name} is to be read from before its beginning")
        try:
            descriptor = self._descriptor or self._opened()
            file_bytes = os.fstat(descriptor.number).st_size
        except OSError as error:
            raise self._failure(error) from error
        if file_bytes < size:
            raise self._truncated(size)

    def _failure(self, error: OSError) -> Exception:
        if not isinstance(error, FileNotFoundError):
            return failure(self.path.parent, error)
        if not self.path.parent.exists():
            return SegmentGone(str(self.path.parent))
        older = (self.path.parent / "data.mdb").exists()
        return damaged(self.path.parent, "an older version wrote it" if older else f"{self.path.name} is missing")

    def _truncated(self, size: int) -> LogDamaged:
        return damaged(self.path.parent, f"{self.path.name} has fewer than {size} bytes")


_opened: deque[weakref.ref[OpenFile]] = deque()
