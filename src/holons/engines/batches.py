"""Batches of rows that are appended to an input stream as a whole and exactly once, whichever process dies meanwhile.

    <site>/batches/<stream>/
        rows.<token>.arrow              rows that a task has staged for one partition; no reader sees them
        lock                            held while a batch is committed; it is released when its process dies
        <source>/<number>.commit        which rows go where: once this file exists, the batch is committed
        <source>/<number>.done          and all of its rows are in the stream

A batch has a source, for instance a Spark query, and a number that grows. A batch is committed by creating one small file,
which gives every staged file its partition and offset. Then it is applied: its rows are put at their positions, which can be
repeated (invariant: position is identity). Whoever commits next first applies the commits that dead processes left. A batch
whose number was committed is not committed again, even if it was staged again with other rows.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path

import msgspec
import pyarrow as pa

from holons import disk
from holons.arrow import column_names
from holons.disk import unavailable
from holons.engines.locks import locked
from holons.errors import BadInput, LogDamaged, LogUnavailable
from holons.names import encoded
from holons.node import SiteWithFolders
from holons.streams import ProducerLog, WritableLog
from holons.wire import UNREADABLE

_WRITER = "batches"
_DONE_KEPT = 2  # how many applied commits of each source are kept, to know the newest number
_LOCK_S = 60.0  # how long a commit waits for that of another process
_LEFTOVER_S = 24 * 3600.0  # staged rows that are older belong to a task that died


class Staged(msgspec.Struct, frozen=True):
    """Staged rows for one partition, in a file of their own."""

    file: str
    partition: int
    rows: int


class _Placed(msgspec.Struct, frozen=True):
    staged: Staged
    offset: int
    appended: int
    """When the batch was committed: whoever puts the rows, and whenever, says the same."""
    live: bool


class Batches:
    """The batches of one stream of a site. A plain value, which can be pickled."""

    def __init__(self, site: SiteWithFolders, stream: str, partitions: int) -> None:
        known = site.streams().get(stream)
        if known is not None and known != partitions:
            raise BadInput(
                f"stream {stream!r} has {known} partitions, not {partitions}",
                hint="leave the number out, or write to another stream",
            )
        self.site = site
        self.stream = stream
        self.partitions = partitions
        self._durable = site.durability == "disk"
        self._folder = site.folder("batches", stream)

    # --- in any process ----------------------------------------------------------------------------------------------

    def stage(self, partition: int, batches: Iterable[pa.RecordBatch]) -> Staged:
        """Writes rows to a file, for a batch that is committed later."""
        if not 0 <= partition < self.partitions:
            raise BadInput(
                f"stream {self.stream!r} has no partition {partition}",
                hint=f"it has partitions 0 to {self.partitions - 1}",
            )
        name = f"rows.{uuid.uuid4().hex}.arrow"
        with unavailable(LogUnavailable, f"stage rows in {self._folder}"):
            try:
                return Staged(name, partition, self._write(self._folder / name, batches))
            except BaseException:
                (self._folder / name).unlink(missing_ok=True)
                raise

    def _write(self, file: Path, batches: Iterable[pa.RecordBatch]) -> int:
        """Writes rows to a new file; returns how many."""
        disk.make_folder(self._folder, durable=self._durable)
        rows, writer = 0, None
        with os.fdopen(disk.open_to_write(file), "wb") as sink:
            for batch in batches:
                writer = writer or pa.ipc.new_file(sink, batch.schema)
                writer.write_batch(batch)
                rows += batch.num_rows
            if writer is not None:
                writer.close()
        if self._durable:
            for path in (file, self._folder):
                disk.sync(path)
        return rows

    def forget(self, staged: Iterable[Staged]) -> None:
        """Removes staged rows that will not be committed."""
        for rows in staged:
            (self._folder / rows.file).unlink(missing_ok=True)

    # --- in one process at a time ------------------------------------------------------------------------------------

    def commit(self, source: str, number: int, staged: Sequence[Staged], *, live: bool = True) -> bool:
        """Appends a batch in the given order; returns False if it, or a later one of this source, was committed before.

        Rows that come into being now are `live`; else they are history.
        """
        with unavailable(LogUnavailable, f"commit a batch in {self._folder}"), self._locked():
            self._apply_open_commits()
            known = self.newest(source)
            if known is not None and known >= number:
                self.forget(staged)
                return False
            filled = [rows for rows in staged if rows.rows]
            with closing(self._log()) as log:
                ends = {partition: log.take(partition) for partition in {rows.partition for rows in filled}}
            placed, now_us = [], self.site.clock.utc_us()
            for rows in filled:
                placed.append(_Placed(rows, ends[rows.partition], now_us, live))
                ends[rows.partition] += rows.rows
            self._create(self._source(source) / f"{number:020d}.commit", msgspec.json.encode(placed))
            self.forget(rows for rows in staged if not rows.rows)
            self._apply_open_commits()
            self._sweep()
            return True

    def _sweep(self) -> None:
        """Removes rows that were staged long ago by tasks that died; no commit needs them, since all are applied."""
        clock = self._folder / "lock"
        os.utime(clock)  # the file system's own time, the only one that all share
        for file in self._folder.glob("rows.*.arrow"):
            with suppress(FileNotFoundError):
                if clock.stat().st_mtime - file.stat().st_mtime > _LEFTOVER_S:
                    file.unlink()

    def newest(self, source: str) -> int | None:
        """Returns the number of the last committed batch of a source."""
        files = self._source(source).glob("*.*")
        return max((int(file.stem) for file in files if file.suffix in (".commit", ".done")), default=None)

    def _source(self, source: str) -> Path:
        return self._folder / encoded(source)

    def _create(self, file: Path, data: bytes) -> None:
        disk.make_folder(file.parent, durable=self._durable)
        part = file.with_suffix(f".{uuid.uuid4().hex}")
        try:
            disk.write(part, data, durable=self._durable)
            part.rename(file)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        if self._durable:
            disk.sync(file.parent)

    def _apply_open_commits(self) -> None:
        for commit in sorted(self._folder.glob("*/*.commit"), key=lambda file: (file.stat().st_mtime_ns, file)):
            placed = self._read(commit)
            with closing(self._log()) as log:
                for rows in placed:
                    self._put(log, rows)
            commit.rename(commit.with_suffix(".done"))
            if self._durable:
                disk.sync(commit.parent)  # before the rows go that it names
            self.forget(rows.staged for rows in placed)
            for old in sorted(commit.parent.glob("*.done"))[:-_DONE_KEPT]:
                old.unlink(missing_ok=True)

    def _read(self, commit: Path) -> list[_Placed]:
        try:
            return msgspec.json.decode(commit.read_bytes(), type=list[_Placed])
        except UNREADABLE as error:
            raise _damaged(commit, str(error)) from error

    def _put(self, log: WritableLog, placed: _Placed) -> None:
        offset = placed.offset
        for rows in self._staged_rows(placed.staged):
            log.put(placed.staged.partition, offset, rows, appended=placed.appended, live=placed.live)
            offset += rows.num_rows

    def _staged_rows(self, staged: Staged) -> Iterator[pa.RecordBatch]:
        """Yields what a task has staged, validated: else a damaged file might end the process."""
        file, count = self._folder / staged.file, 0
        try:
            with pa.OSFile(str(file)) as source, pa.ipc.open_file(source) as batches:
                column_names(batches.schema)  # says whether they are text
                for number in range(batches.num_record_batches):
                    rows = batches.get_batch(number)
                    rows.validate(full=True)
                    count += rows.num_rows
                    yield rows
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise _damaged(file, str(error)) from error
        if count != staged.rows:
            raise _damaged(file, f"{count} rows instead of {staged.rows}")

    def _log(self) -> ProducerLog:
        return self.site.producer(self.stream, self.partitions, _WRITER, resume=True)

    def _locked(self) -> AbstractContextManager[None]:
        """Holds the lock under which one process at a time commits."""
        busy = LogUnavailable(
            f"another process has been committing to stream {self.stream!r} for {_LOCK_S:.0f} s",
            hint=f"is a process that writes to {self.site.name} stopped? Let it continue, or kill it",
        )
        return locked(self._folder / "lock", _LOCK_S, busy)


def _damaged(file: Path, what: str) -> LogDamaged:
    return LogDamaged(
        f"{file} is damaged: {what}", hint="restore it from a copy: rows of a batch may be missing from the stream"
    )
