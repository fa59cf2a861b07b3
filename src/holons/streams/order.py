"""The order in which several writers appended to one stream: who comes when, agreed without anybody waiting.

    <directory>/order.<number>      records of 64 bytes, each the place of some rows in what one writer wrote

Every writer appends its records to the same file (`O_APPEND`): the kernel puts them one behind the other, and a record of
64 bytes at a multiple of 64 is written whole or not at all, whatever happens to its writer. The order of the records is the
order of the rows, for good. A file holds so many records; one that landed behind them does not count, and its writer
appends it to the next file. Nothing counts from where a file was torn: by a disk that was full, its end is in the midst of a
record; by the death of the machine, a record is all zeros. Any other record whose checksum is wrong is damage.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from holons import disk
from holons.disk import unavailable
from holons.errors import InvariantBroken, LogDamaged, LogUnavailable

_RECORD: Final = struct.Struct("<IIQQQ32x")  # checksum of the rest, partition, writer, first offset, rows
RECORD_BYTES: Final = 64
RECORDS_PER_FILE: Final = 1 << 16
_CHECKSUM_BYTES: Final = 4


class Stretch(NamedTuple):
    """Rows of one partition that follow each other, and where their writer has them."""

    writer: int
    """What `writer_number` makes of the writer's name."""
    position: int
    """Where the rows are in the stream."""
    offset: int
    """Where the rows are in what their writer wrote."""


@dataclass
class _Positions:
    """The stretches of a partition: a stretch ends where the next one begins, the last one at `end`."""

    stretches: list[Stretch]
    starts: list[int]
    end: int = 0

    def add(self, writer: int, offset: int, rows: int) -> int:
        """Returns the position of the rows; what continues the last stretch makes it longer."""
        position, last = self.end, self.stretches[-1] if self.stretches else None
        if last is None or last.writer != writer or last.offset + position - last.position != offset:
            self.stretches.append(Stretch(writer, position, offset))
            self.starts.append(position)
        self.end += rows
        return position


class AppendOrder:
    """The order of one stream, as one process reads and writes it."""

    def __init__(
        self, directory: Path, partitions: int, *, records_per_file: int = RECORDS_PER_FILE, durable: bool = False
    ) -> None:
        self._directory = directory
        self._durable = durable
        self._durable_names = -1
        """The last file of which this process knows that its name survives the machine."""
        self._records_per_file = records_per_file
        self._partitions = [_Positions([], []) for _ in range(partitions)]
        self._number = 0
        """The file that is read."""
        self._read = 0
        """How many of its records were read."""

    def add(self, partition: int, writer: int, offset: int, rows: int) -> None:
        """Appends rows to the order: from now on every reader sees them."""
        body = _RECORD.pack(0, partition, writer, offset, rows)[_CHECKSUM_BYTES:]
        record = crc32(body).to_bytes(_CHECKSUM_BYTES, "little") + body
        with unavailable(LogUnavailable, f"append to {self._directory}"):
            self.refresh()
            number = self._number
            while not self._append(number, record):
                number += 1

    def _append(self, number: int, record: bytes) -> bool:
        """Appends a record to a file; returns False if it does not count there."""
        file = disk.open_to_write(self._file(number), os.O_WRONLY | os.O_APPEND)
        try:
            if os.write(file, record) != RECORD_BYTES:
                return False
            if self._durable:
                os.fdatasync(file)
                if number > self._durable_names:
                    disk.sync(self._directory)
                    self._durable_names = number
            index, rest = divmod(os.lseek(file, 0, os.SEEK_CUR), RECORD_BYTES)
            return rest == 0 and index <= self._records_per_file
        finally:
            os.close(file)

    def refresh(self) -> None:
        """Notices the records that were appended before this call."""
        with unavailable(LogUnavailable, f"read {self._directory}"):
            while True:
                followed = self._file(
                    self._number + 1
                ).exists()  # asked first: then this file has all that it will count
                self._read_file()
                if not followed:
                    return
                self._number, self._read = self._number + 1, 0

    def _read_file(self) -> None:
        try:
            file = os.open(self._file(self._number), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            size = (self._records_per_file - self._read) * RECORD_BYTES
            data = os.pread(file, size, self._read * RECORD_BYTES)
            torn = os.fstat(file).st_size % RECORD_BYTES != 0
        finally:
            os.close(file)
        for at in range(0, len(data) - RECORD_BYTES + 1, RECORD_BYTES):
            checksum, partition, writer, offset, rows = _RECORD.unpack_from(data, at)
            whole = crc32(data[at + _CHECKSUM_BYTES : at + RECORD_BYTES]) == checksum
            if whole and partition < len(self._partitions):
                self._partitions[partition].add(writer, offset, rows)
            elif not whole and not torn and any(data[at : at + RECORD_BYTES]):
                raise self._damaged()
            self._read += 1

    def _damaged(self) -> LogDamaged:
        path = self._file(self._number)
        return LogDamaged(
            f"record {self._read} of {path.name} in {self._directory.name} has a wrong checksum",
            hint=f"rows that were acknowledged would be missing, or elsewhere: restore it from a copy: {path}",
        )

    def position(self, partition: int, writer: int, offset: int) -> int:
        """Returns the position of a row that is in the order, as of the last look."""
        for stretch in reversed(self._partitions[partition].stretches):
            if stretch.writer == writer and stretch.offset <= offset:
                return stretch.position + offset - stretch.offset
        raise InvariantBroken(f"row {offset} of a writer is not in the order of {self._directory}")

    def end(self, partition: int) -> int:
        """Returns the position that the next row gets, as of the last look."""
        return self._partitions[partition].end

    def stretch(self, partition: int, position: int) -> tuple[Stretch, int]:
        """Returns the stretch that holds a position before the end, and where it ends."""
        known = self._partitions[partition]
        index = bisect_right(known.starts, position) - 1
        end = known.starts[index + 1] if index + 1 < len(known.starts) else known.end
        return known.stretches[index], end

    def _file(self, number: int) -> Path:
        return self._directory / f"order.{number:08d}"


def writer_number(writer: str) -> int:
    """Returns a writer's name as 64 bits: names have any length, records have not."""
    return int.from_bytes(blake2b(writer.encode(), digest_size=8).digest(), "little")
