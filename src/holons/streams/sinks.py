"""Sinks: a log's rows to files, each row once (invariant: position is identity).

A file's name says which rows it holds, so the files themselves are the sink's memory: whoever runs it again, after a
crash or just so, writes what is missing and nothing else.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pyarrow import parquet

from holons.arrow import python_rows
from holons.disk import Durability, make_folder, sync, try_lock, unavailable
from holons.errors import BadInput, InvariantBroken, LogDamaged, LogUnavailable
from holons.names import encoded
from holons.streams.log import Chunk, ReadableLog
from holons.wire import UNREADABLE

Row: TypeAlias = dict[str, Any]
SinkFormat: TypeAlias = Literal["parquet", "jsonl"]

Unit: TypeAlias = Literal["year", "month", "day", "hour", "minute"]

FILE_ROWS: Final = 100_000
_UNITS: Final[dict[Unit, str]] = {"year": "%Y", "month": "%m", "day": "%d", "hour": "%H", "minute": "%M"}
_SUFFIX: Final = re.compile(r"\.p([0-9]{5,})\.([0-9]{18,})\.([0-9]+)\.(parquet|jsonl)")
_PART: Final = ".part"


class Positioned(NamedTuple):
    """A row and its position."""

    partition: int
    ordinal: int
    row: Row


class SinkFile(NamedTuple):
    """A file with the rows of one partition from `first` on."""

    partition: int
    first: int
    rows: int
    path: Path

    @property
    def end(self) -> int:
        """The ordinal after its last row."""
        return self.first + self.rows


@dataclass(frozen=True)
class ByTime:
    """Folders by a column of times, in UTC: `year=2015/month=07/day=15/hour=00`, as Spark and DuckDB know them.

    A file still has rows that follow each other in a partition, so that its name says which. Rows that go back and forth
    over the edge of a folder make small files there.
    """

    column: str
    unit: Unit = "hour"

    def __post_init__(self) -> None:
        if self.unit not in _UNITS:
            raise BadInput(f"no folders by {self.unit!r}", hint=f"by {', '.join(_UNITS)}")

    def runs(self, table: pa.Table, channel: str) -> Iterator[tuple[str, pa.Table]]:
        """Yields the rows that follow each other and belong to one folder, with its name."""
        if self.column not in table.schema.names:
            raise BadInput(
                f"there is no column {self.column!r} to make folders by",
                hint=f"there are {', '.join(table.schema.names)}",
                channel=channel,
            )
        folders = self._folders(pl.Series(self.column, table[self.column]))
        edges = [0, *(np.flatnonzero(folders[1:] != folders[:-1]) + 1).tolist(), len(folders)]
        for first, end in pairwise(edges):
            yield str(folders[first]), table.slice(first, end - first)

    def _folders(self, times: pl.Series) -> npt.NDArray[np.object_]:
        if times.dtype.is_integer():
            times = times.cast(pl.Datetime("us", "UTC"))
        if not isinstance(times.dtype, pl.Datetime | pl.Date):
            raise BadInput(f"column {self.column!r} is {times.dtype}, not a time", hint="microseconds, or a timestamp")
        if isinstance(times.dtype, pl.Datetime) and times.dtype.time_zone not in (None, "UTC"):
            times = times.dt.convert_time_zone("UTC")
        units = list(_UNITS)[: list(_UNITS).index(self.unit) + 1]
        names = times.cast(pl.Datetime("us")).dt.strftime("/".join(f"{unit}={_UNITS[unit]}" for unit in units))
        missing = "/".join(f"{unit}=__HIVE_DEFAULT_PARTITION__" for unit in units)
        return names.fill_null(missing).to_numpy()


class FileSink:
    """Writes one channel's rows to `<channel>.p<partition>.<first ordinal>.<count>.parquet`, or `.jsonl`.

    Only whole files have such a name. They are there to be passed on: the umask says who may read them. JSON has no NaN
    and no infinity: they become null; times become text. With `by`, files are in folders by time; a directory has folders
    from the beginning, or never.

    >>> from tempfile import mkdtemp; from holons.streams.memory import MemoryLog
    >>> log = MemoryLog(1); _ = log.append(0, pa.record_batch({"n": [1, 2]}))
    >>> sink = FileSink(mkdtemp(), "counts", "jsonl")
    >>> sink.drain(log), sink.drain(log), [path.name for *_, path in sink.files()]
    (2, 0, ['counts.p00000.000000000000000000.2.jsonl'])
    """

    def __init__(
        self,
        root: str | Path,
        channel: str,
        format: SinkFormat = "parquet",  # noqa: A002 - what everybody calls it
        file_rows: int = FILE_ROWS,
        durability: Durability = "process",
        by: ByTime | None = None,
    ) -> None:
        if file_rows < 1:
            raise BadInput(f"files of {file_rows} rows", hint="file_rows is at least 1")
        self._root = Path(root).absolute()
        self._name = encoded(channel)
        self._format: SinkFormat = format
        self._file_rows = file_rows
        self._durable = durability == "disk"
        self._by = by

    def drain(self, log: ReadableLog) -> int:
        """Writes all rows of a log that no file holds yet; returns how many."""
        with unavailable(LogUnavailable, f"use {self._root}"), self._alone():
            return sum(self._drain_partition(log, partition) for partition in range(log.partitions))

    def files(self, partition: int | None = None) -> list[SinkFile]:
        """Returns the files that are there, by partition and position."""
        files = []
        with unavailable(LogUnavailable, f"use {self._root}"), contextlib.suppress(FileNotFoundError):
            for path in self._root.iterdir() if self._by is None else self._root.rglob(f"{glob.escape(self._name)}.p*"):
                parts = _SUFFIX.fullmatch(path.name, len(self._name)) if path.name.startswith(self._name) else None
                if parts is not None and parts[4] == self._format and partition in (None, int(parts[1])):
                    files.append(SinkFile(int(parts[1]), int(parts[2]), int(parts[3]), path))
        return _apart(sorted(files))

    def next_ordinal(self, partition: int) -> int:
        """Returns where to resume: the first ordinal of a partition that is in no file, counted from its first file."""
        files = self.files(partition)
        end = files[0].first if files else 0
        for file in files:
            if file.first != end:
                break
            end = file.end
        return end

    def rows(self, partition: int) -> Iterator[Positioned]:
        """Yields the rows that the files of a partition hold, in order."""
        for file in self.files(partition):
            read = self._read(file.path)
            if len(read) != file.rows:
                raise LogDamaged(f"the file has {len(read)} rows, and its name says {file.rows}", file=file.path)
            yield from (Positioned(partition, file.first + place, row) for place, row in enumerate(read))

    # --- writing ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One sink at a time writes a channel; the lock goes with the process that holds it."""
        make_folder(self._root, durable=self._durable, mode=None)
        with (self._root / f".{self._name}.{self._format}.lock").open("wb") as lock:
            if not try_lock(lock):
                raise LogUnavailable(
                    f"another sink is writing {self._name} to {self._root}",
                    hint="only one sink at a time may write a channel: try again later",
                )
            search = self._root.glob if self._by is None else self._root.rglob
            for leftover in search(f".{glob.escape(self._name)}.p*.{self._format}{_PART}"):
                if _SUFFIX.fullmatch(leftover.name[1 : -len(_PART)], len(self._name)):
                    leftover.unlink()
            yield

    def _drain_partition(self, log: ReadableLog, partition: int) -> int:
        written = 0
        for first, end in self._missing(partition, log.start(partition), log.end(partition)):
            at = first
            while at < end:
                chunks = log.read(partition, at, min(self._file_rows, end - at))
                if not chunks:
                    break
                for _, run in groupby(chunks, key=_kind):
                    written += self._write(partition, list(run))
                at = chunks[-1].end
        return written

    def _missing(self, partition: int, start: int, end: int) -> Iterator[tuple[int, int]]:
        at = start
        for file in self.files(partition):
            if file.first > at:
                yield at, min(file.first, end)
            at = max(at, file.end)
        if at < end:
            yield at, end

    def _write(self, partition: int, chunks: list[Chunk]) -> int:
        batches = [chunk.rows for chunk in chunks if chunk.rows is not None]
        table = pa.Table.from_batches(batches) if batches else None
        if table is None or not table.num_rows:
            return 0
        if not table.num_columns and self._format == "parquet":
            raise BadInput("Parquet cannot hold rows without columns", hint="use format='jsonl'", channel=self._name)
        if self._by is None:
            self._write_file(self._root, partition, chunks[0].offset, table)
            return table.num_rows
        first = chunks[0].offset
        for folder, rows in self._by.runs(table, self._name):
            within = self._root / folder
            make_folder(within, durable=self._durable, mode=None)
            self._write_file(within, partition, first, rows)
            first += rows.num_rows
        return table.num_rows

    def _write_file(self, folder: Path, partition: int, first: int, table: pa.Table) -> None:
        name = f"{self._name}.p{partition:05}.{first:018}.{table.num_rows}.{self._format}"
        part = folder / f".{name}{_PART}"
        with part.open("wb") as stream:
            if self._format == "parquet":
                parquet.write_table(table, stream)
            else:
                stream.writelines(msgspec.json.encode(row, enc_hook=str) + b"\n" for row in python_rows(table))
            if self._durable:
                stream.flush()
                os.fsync(stream.fileno())
        part.rename(folder / name)
        if self._durable:
            sync(folder)

    def _read(self, path: Path) -> list[Row]:
        try:
            if self._format == "parquet":
                return parquet.read_table(path, partitioning=None).to_pylist()
            return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
        except (pa.ArrowException, OSError, *UNREADABLE) as error:
            raise LogDamaged(
                f"cannot read this file: {error}", hint="remove it, and the sink writes it again", file=path
            ) from error


def _apart(files: list[SinkFile]) -> list[SinkFile]:
    for before, after in pairwise(files):
        if before.partition == after.partition and after.first < before.end:
            raise InvariantBroken(
                f"position is identity: {before.path.name} and {after.path.name} hold the same rows",
                hint="something else than the sink made one of them; remove it, and the sink writes what is missing",
            )
    return files


def _kind(chunk: Chunk) -> object:
    """Returns what rows of one file have in common: their columns, since nothing is converted."""
    return None if chunk.rows is None else chunk.rows.schema
