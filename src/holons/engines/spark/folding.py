"""A program folded over DataFrames and files: partial folds in tasks (`mapInArrow`), the rest in the driver.

No raw row is exchanged: a task sends what its rows come to, by partition (`program.folding`). Files are read by the tasks
themselves, which is much faster than rows that Spark's JVM hands to Python.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ByteType, DateType, IntegerType, LongType, ShortType, TimestampNTZType, TimestampType

from holons import errors
from holons.algebra import IntArray
from holons.arrow import column_names, readable
from holons.engines.spark.reading import OFFSET, PARTITION
from holons.errors import BadInput, DescribedError, HolonsError
from holons.program import Job
from holons.program.folding import Fold, Partial, PartialFold, Starts, needs_order
from holons.visible import visible

_SCHEMA = "part binary, error binary"
_ARROW = pa.schema([("part", pa.binary()), ("error", pa.binary())])
_ROWS_AT_ONCE = 1_000_000
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_TIMES = (*_INTEGERS, TimestampType, TimestampNTZType, DateType)

Mine: TypeAlias = tuple[int, pl.DataFrame, IntArray]
"""Rows of one partition, each with its order in it."""


@dataclass(frozen=True)
class Places:
    """Which columns say where a row belongs, and where its input's partitions stand among the job's."""

    partition: str | None = PARTITION
    order: str | None = OFFSET
    base: int = 0
    count: int | None = None

    def split(self, frame: pl.DataFrame) -> Iterator[Mine]:
        """Rows by partition, each partition's in order."""
        assert self.partition is not None
        assert self.order is not None
        homes, orders = self._integers(frame, self.partition), self._integers(frame, self.order)
        frame = frame.drop([name for name in (PARTITION, OFFSET) if name in frame.columns])
        if len(frame) and (homes[0] == homes).all():
            yield self._ordered(int(homes[0]), frame, orders)
            return
        for home in np.unique(homes).tolist():
            chosen = np.flatnonzero(homes == home)
            yield self._ordered(home, frame[chosen], orders[chosen])

    def _integers(self, frame: pl.DataFrame, name: str) -> IntArray:
        column = frame[name]
        if column.null_count():
            raise BadInput(f"a row without {name!r}", hint="every row needs its partition, and its place in it")
        found: IntArray = column.cast(pl.Int64).to_numpy()
        return found

    def _ordered(self, home: int, frame: pl.DataFrame, orders: IntArray) -> Mine:
        if home < 0 or (self.count is not None and home >= self.count):
            raise BadInput(
                f"a row of partition {home}", hint=f"column {self.partition!r} is a number below {self.count}"
            )
        if (orders[1:] < orders[:-1]).any():
            ascending = np.argsort(orders, kind="stable")
            frame, orders = frame[ascending], orders[ascending]
        return self.base + home, frame, orders


class _Told(msgspec.Struct, frozen=True):
    """An error on its way from a task: nothing of it is unpickled."""

    kind: str
    message: str
    hint: str
    where: dict[str, str]

    def error(self) -> DescribedError:
        kind = getattr(errors, self.kind, HolonsError)
        found: DescribedError = kind(self.message, hint=self.hint, **self.where)
        return found


@dataclass(frozen=True)
class FoldTask:
    """What a task does with its rows; it travels to Spark's workers."""

    job: Job
    input_index: int
    bounded: bool
    in_order: bool
    starts: Starts
    rows: Callable[[Iterator[pa.RecordBatch]], Iterator[Mine]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts, told = [], None
        try:
            parts = [fold.partial().encode() for fold in self._folds(self.rows(batches)).values()]
        except DescribedError as error:
            cause = error.__cause__
            message = error.message
            if cause is not None:
                message += "\n" + "".join(traceback.format_exception(cause)).rstrip()
            where = {name: visible(str(value)) for name, value in error.where.items()}
            told = msgspec.msgpack.encode(_Told(type(error).__name__, visible(message), visible(error.hint), where))
        rows = [{"part": part, "error": None} for part in parts] if told is None else [{"part": None, "error": told}]
        yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)

    def _folds(self, rows: Iterator[Mine]) -> dict[int, PartialFold]:
        folds: dict[int, PartialFold] = {}
        for home, frame, orders in _sorted(rows) if self.in_order else rows:
            if home not in folds:
                start = self.starts.of(home, int(orders[0]))
                folds[home] = PartialFold(self.job, home, self.input_index, start, bounded=self.bounded)
            folds[home].take(frame, orders)
        return folds


def _sorted(rows: Iterable[Mine]) -> Iterator[Mine]:
    """Everything of each partition at once, in order."""
    found: dict[int, list[tuple[pl.DataFrame, IntArray]]] = {}
    for home, frame, orders in rows:
        found.setdefault(home, []).append((frame, orders))
    for home, pieces in found.items():
        orders = np.concatenate([orders for _, orders in pieces])
        frame, ascending = pl.concat([frame for frame, _ in pieces]), np.argsort(orders, kind="stable")
        yield home, frame[ascending], orders[ascending]


# --- rows of a DataFrame ----------------------------------------------------------------------------------------------


def _of_batches(places: Places, batches: Iterator[pa.RecordBatch]) -> Iterator[Mine]:
    for batch in batches:
        frame = pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        if len(frame):
            yield from places.split(frame)


def check_frame(frame: DataFrame, time: str, places: Places) -> None:
    """Says which column is missing, or of a wrong type, before anything runs."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    wanted = (
        ("partition", places.partition, _INTEGERS, "an integer: which partition of the stream a row belongs to"),
        ("order", places.order, _INTEGERS, "an integer that grows: a row's place in its partition"),
        ("time", time, _TIMES, "a timestamp, a date, or integer microseconds since 1970"),
    )
    for what, name, kinds, hint in wanted:
        if name not in types:
            say = 'h.job(program, ..., time="...")' if what == "time" else f'fold(..., {what}="...")'
            raise BadInput(
                f"the DataFrame has no {what} column {name!r}", hint=f"name one of {', '.join(types)}: {say}"
            )
        if not isinstance(types[name], kinds):
            raise BadInput(f"{what} column {name!r} is {types[name].simpleString()}", hint=f"it must be {hint}")


def partials(frame: DataFrame, task: FoldTask) -> DataFrame:
    """What each task's rows come to, as a DataFrame that is still to be computed."""
    return frame.mapInArrow(task, _SCHEMA)


def collected(frame: DataFrame) -> list[Partial]:
    """What all tasks made; raises what one of them raised."""
    table = frame.toArrow()
    for told in table.column("error").to_pylist():
        if told is not None:
            raise msgspec.msgpack.decode(told, type=_Told).error()
    return [Partial.decode(part) for part in table.column("part").to_pylist()]


def frame_task(job: Job, input_index: int, places: Places, starts: Starts, *, bounded: bool) -> FoldTask:
    """The task that folds rows of a DataFrame."""
    return FoldTask(job, input_index, bounded, needs_order(job, bounded=bounded), starts, partial(_of_batches, places))


def round_of(fold: Fold, frame: DataFrame, places: Places) -> list[Partial]:
    """The parts of a round; where needed once more, with what they should have known of each other."""
    task = frame_task(fold.job, 0, places, fold.starts(), bounded=False)
    parts = collected(partials(frame, task))
    retold = fold.retold(parts)
    if retold is not None:
        parts = collected(partials(frame, replace(task, starts=retold)))
        if fold.retold(parts) is not None:
            raise BadInput(
                "a DataFrame gave other rows when it was computed again",
                hint="its source or its functions are not deterministic; write it to a stream first",
            )
    return parts


# --- rows of files ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowGroups:
    """Some rows of a file: Parquet row groups, or Arrow batches."""

    file: str
    number: int
    """Which file it is, for those who take files for partitions."""
    groups: tuple[int, ...]
    first: int


def stretches(paths: Sequence[Path], rows_per_task: int = _ROWS_AT_ONCE) -> list[RowGroups]:
    """Files cut for tasks, each of at least so many rows if a file has them."""
    found = []
    for number, path in enumerate(paths):
        first, groups, count = 0, [], 0
        for group, rows in enumerate(_lengths(path)):
            groups.append(group)
            count += rows
            if count >= rows_per_task:
                found.append(RowGroups(str(path.absolute()), number, tuple(groups), first))
                first, groups, count = first + count, [], 0
        if groups:
            found.append(RowGroups(str(path.absolute()), number, tuple(groups), first))
    return found


@contextmanager
def _reading(path: Path | str) -> Iterator[None]:
    """Turns an error about a file into one that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"cannot read this file: {error}",
            hint="is it whole? Files are Parquet (.parquet) or Arrow IPC (.arrow)",
            file=path,
        ) from error


def _lengths(path: Path) -> list[int]:
    with _reading(path):
        if path.suffix == ".parquet":
            with pq.ParquetFile(path) as file:
                return [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as file:
            return [file.get_batch(number).num_rows for number in range(file.num_record_batches)]


def _tables(stretch: RowGroups, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    with _reading(stretch.file):
        for table in _decoded(stretch, columns):
            column_names(table.schema)  # says whether they are text
            table.validate(full=True)  # else a damaged file might end the process
            yield readable(table)


def _decoded(stretch: RowGroups, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    if stretch.file.endswith(".parquet"):
        with pq.ParquetFile(stretch.file) as file:
            for group in stretch.groups:
                yield file.read_row_group(group, columns=columns, use_threads=False)
    else:
        with pa.OSFile(stretch.file) as source, pa.ipc.open_file(source) as file:
            for number in stretch.groups:
                table = pa.Table.from_batches([file.get_batch(number)])
                yield table if columns is None else table.select(columns)


def _of_files(
    places: Places, columns: Sequence[str] | None, work: Sequence[RowGroups], batches: Iterator[pa.RecordBatch]
) -> Iterator[Mine]:
    for batch in batches:
        for number in batch.column("id").to_pylist():
            stretch, at = work[number], work[number].first
            for table in _tables(stretch, columns):
                frame = pl.from_arrow(table)
                assert isinstance(frame, pl.DataFrame)
                rows = np.arange(at, at + len(frame), dtype=np.int64)
                at += len(frame)
                if len(frame) == 0:
                    continue
                if places.partition is None:
                    yield places.base + stretch.number, frame, rows
                else:
                    named = frame if places.order is not None else frame.with_columns(pl.Series(OFFSET, rows))
                    yield from replace(places, order=places.order or OFFSET).split(named)


def file_partials(
    spark: SparkSession,
    job: Job,
    input_index: int,
    places: Places,
    paths: Sequence[Path],
    columns: Sequence[str] | None,
) -> DataFrame:
    """What the rows of files come to; each task opens its files itself."""
    work, in_order = stretches(paths), needs_order(job, bounded=True)
    if in_order:
        work = list(_whole(work))
    rows = partial(_of_files, places, columns, work)
    tasks = spark.range(len(work), numPartitions=max(1, len(work)))
    return partials(tasks, FoldTask(job, input_index, True, in_order, Starts({}), rows))


def _whole(work: Sequence[RowGroups]) -> Iterator[RowGroups]:
    """Each file for one task."""
    for number, mine in groupby(work, key=lambda stretch: stretch.number):
        all_of_it = list(mine)
        groups = tuple(group for stretch in all_of_it for group in stretch.groups)
        yield RowGroups(all_of_it[0].file, number, groups, 0)
