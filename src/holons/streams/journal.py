"""The journal port: a list of small entries for each partition, on which any number of readers agree.

Whoever proposes an entry first wins, and everybody else gets that entry back. There is no lock, no leader, and nothing that
a stopped process could hold.
"""

from __future__ import annotations

import contextlib
import os
import struct
import uuid
import zlib
from pathlib import Path
from typing import Final, Protocol

from holons import disk
from holons.disk import Durability, unavailable
from holons.errors import LogDamaged, LogUnavailable

_HEADER: Final = struct.Struct(">4sI")
_MAGIC: Final = b"hjl1"
_DIGITS: Final = 20
_LEFTOVER_AGE_S: Final = 60.0  # what a killed writer left is removed when it is this old


class Journal(Protocol):
    """The entries 0, 1, 2, … of each partition of one stream. An entry never changes."""

    def propose(self, partition: int, number: int, data: bytes) -> bytes | None:
        """Makes `data` the entry with that number unless there is one; returns the entry, or None if it was trimmed.

        Only the number after the last entry may be proposed, or the number of an entry that exists.
        """
        ...

    def get(self, partition: int, number: int) -> bytes | None:
        """Returns an entry; None if it was never written, or was trimmed."""
        ...

    def reaches(self, partition: int, number: int) -> bool:
        """Returns whether an entry was ever written, be it trimmed or not; costs hardly anything if it was not."""
        ...

    def start(self, partition: int) -> int:
        """Returns the number of the first entry that was not trimmed; of the next one if all were."""
        ...

    def end(self, partition: int, known: int = 0) -> int:
        """Returns the number of the next entry; faster if `known`, which is not above it, is close to it."""
        ...

    def trim(self, partition: int, below: int) -> None:
        """Drops the entries below a number."""
        ...


class MemoryJournal:
    """A journal in the memory of this process, for readers of one thread."""

    def __init__(self) -> None:
        self._entries: dict[int, list[bytes]] = {}
        self._starts: dict[int, int] = {}

    def propose(self, partition: int, number: int, data: bytes) -> bytes | None:
        end = self.end(partition)
        assert number <= end, f"entry {number} of partition {partition} proposed, the next is {end}"
        if number == end:
            self._entries.setdefault(partition, []).append(data)
        return self.get(partition, number)

    def get(self, partition: int, number: int) -> bytes | None:
        place = number - self.start(partition)
        entries = self._entries.get(partition, [])
        return entries[place] if 0 <= place < len(entries) else None

    def reaches(self, partition: int, number: int) -> bool:
        return number < self.end(partition)

    def start(self, partition: int) -> int:
        return self._starts.get(partition, 0)

    def end(self, partition: int, known: int = 0) -> int:
        return self.start(partition) + len(self._entries.get(partition, []))

    def lose(self, partition: int, end: int) -> None:
        """Loses the entries from a number on, as a machine that dies does with what it has not synced."""
        del self._entries[partition][max(end - self.start(partition), 0) :]

    def trim(self, partition: int, below: int) -> None:
        start, below = self.start(partition), min(below, self.end(partition))
        if below > start:
            del self._entries[partition][: below - start]
            self._starts[partition] = below


class DirectoryJournal:
    """A journal with one small file for each entry, for any number of processes of one machine.

    An entry is written under a name that only its writer has, and then linked to its number. A link is atomic and
    exclusive, so the first one wins, and a file that has a number is whole. The highest name in `starts` says where the
    entries begin; it is raised before anything is deleted.
    """

    def __init__(self, directory: Path | str, durability: Durability = "process") -> None:
        self._directory = Path(directory)
        self._durable = durability == "disk"
        self._durable_to: dict[int, int] = {}
        """By partition: below this number, this process knows the names of entries to survive the machine."""
        self._made: set[Path] = set()

    def propose(self, partition: int, number: int, data: bytes) -> bytes | None:
        with unavailable(LogUnavailable, f"write the journal at {self._directory}"):
            has_next = self._path(partition, number + 1).exists()  # looked up first: see _check_no_hole
            known = self.get(partition, number)
            if known is not None:
                return known
            if has_next:
                self._check_no_hole(partition, number)
            if number >= self.start(partition) and self._link(partition, number, _framed(partition, number, data)):
                if number >= self.start(partition):
                    return data
                self._path(partition, number).unlink(
                    missing_ok=True
                )  # another took the number, and it was trimmed, while this process stood still
            return self.get(partition, number)

    def get(self, partition: int, number: int) -> bytes | None:
        path = self._path(partition, number)
        with unavailable(LogUnavailable, f"read the journal at {path}"):
            try:
                stored = path.read_bytes()
            except FileNotFoundError:
                return None
            if number < self.start(partition):
                return (
                    None  # the file may be that of a proposer that stood still, and does not know that it came too late
                )
            self._make_durable(partition, number)
        return _unframed(partition, number, stored, path)

    def reaches(self, partition: int, number: int) -> bool:
        root = f"{self._directory}/{partition}"  # no Path: readers ask after every read
        if os.access(f"{root}/entries/{_name(number)}", os.F_OK):
            return True
        return os.access(f"{root}/starts", os.F_OK) and number < self.start(partition)

    def start(self, partition: int) -> int:
        folder = self._folder(partition, "starts")
        with unavailable(LogUnavailable, f"list the journal at {folder}"):
            try:
                return max(map(_number, folder.iterdir()), default=0)
            except FileNotFoundError:
                return 0

    def end(self, partition: int, known: int = 0) -> int:
        with unavailable(LogUnavailable, f"search the journal at {self._directory}"):
            while True:
                start = self.start(partition)
                low, step = max(start, known), 1
                while self._path(partition, low + step - 1).exists():
                    low, step = low + step, step * 2
                high = low + step - 1  # not there; everything below `low` is
                while low < high:
                    middle = (low + high) // 2
                    low, high = (middle + 1, high) if self._path(partition, middle).exists() else (low, middle)
                if self.start(partition) == start:
                    return low

    def trim(self, partition: int, below: int) -> None:
        with unavailable(LogUnavailable, f"trim the journal at {self._directory}"):
            below = min(below, self.end(partition))
            starts, entries = self._folder(partition, "starts"), self._folder(partition, "entries")
            if below > self.start(partition):
                self._make(starts)
                disk.write(starts / _name(below))
                if self._durable:
                    disk.sync(starts)
            start = self.start(partition)
            for folder in (starts, entries):
                for path in folder.iterdir() if folder.exists() else ():
                    if path.name.isdecimal() and int(path.name) < start:
                        path.unlink(missing_ok=True)  # another may be faster
            self._sweep(partition)

    # --- files -----------------------------------------------------------------------------------------------------

    def _folder(self, partition: int, kind: str) -> Path:
        return self._directory / str(partition) / kind

    def _path(self, partition: int, number: int) -> Path:
        return self._folder(partition, "entries") / _name(number)

    def _make(self, folder: Path) -> None:
        if folder not in self._made:
            disk.make_folder(folder, durable=self._durable)
            self._made.add(folder)

    def _link(self, partition: int, number: int, stored: bytes) -> bool:
        """Writes an entry as a whole; returns False if another entry has its number."""
        path, parts = self._path(partition, number), self._folder(partition, "parts")
        if parts not in self._made:
            self._sweep(partition)
        for folder in (path.parent, parts):
            self._make(folder)
        while True:
            part = parts / uuid.uuid4().hex
            try:
                disk.write(part, stored, durable=self._durable)
                os.link(part, path)
            except FileExistsError:
                return False
            except FileNotFoundError:
                if not (parts.exists() and path.parent.exists()):
                    raise
                continue  # this process stood still for so long that its part was swept
            finally:
                part.unlink(missing_ok=True)
            self._make_durable(partition, number)
            return True

    def _make_durable(self, partition: int, number: int) -> None:
        """Makes the names of entries survive the machine, whoever gave them: what follows from one must not outlive it."""
        if self._durable and number >= self._durable_to.get(partition, 0):
            disk.sync(self._path(partition, number).parent)
            self._durable_to[partition] = number + 1

    def _sweep(self, partition: int) -> None:
        """Removes what killed writers left, by the clock of the file system, which is the only one that all share."""
        folder = self._folder(partition, "parts")
        with contextlib.suppress(FileNotFoundError):
            ages = {entry.name: entry.stat().st_mtime for entry in os.scandir(folder)}
            probe = folder / uuid.uuid4().hex
            disk.write(probe)
            now_s = probe.stat().st_mtime
            probe.unlink()
            for name, written_s in ages.items():
                if written_s < now_s - _LEFTOVER_AGE_S:
                    (folder / name).unlink(missing_ok=True)

    def _check_no_hole(self, partition: int, number: int) -> None:
        """Raises if an entry is lost: the next one existed before this one was looked for, and it was not trimmed since."""
        if number >= self.start(partition):
            raise LogDamaged(
                f"entry {number} of partition {partition} is missing in {self._directory}",
                hint="the journal has lost a file: restore it from a copy, since nothing can take its place",
            )


def _name(number: int) -> str:
    return f"{number:0{_DIGITS}d}"


def _number(path: Path) -> int:
    if not path.name.isdecimal():
        raise LogDamaged(
            f"{path} is not an entry of a journal", hint="find out where it comes from, and move it to another place"
        )
    return int(path.name)


def _checksum(partition: int, number: int, data: bytes) -> int:
    """Covers the place too, so that a file under another's name is found out."""
    return zlib.crc32(data, zlib.crc32(f"{partition}/{number}".encode()))


def _framed(partition: int, number: int, data: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, _checksum(partition, number, data)) + data


def _unframed(partition: int, number: int, stored: bytes, path: Path) -> bytes:
    data = stored[_HEADER.size :]
    if stored[: _HEADER.size] != _HEADER.pack(_MAGIC, _checksum(partition, number, data)):
        raise LogDamaged(
            f"{path} is torn, damaged or not an entry of a journal",
            hint="restore it from a copy: what was read in its order cannot be read in another one",
        )
    return data
