"""Sources: reads Parquet, CSV and JSON lines files into a log, and always assigns their rows to the same partitions.

>>> from pathlib import Path; from tempfile import mkdtemp
>>> path = Path(mkdtemp()) / "bids.csv"
>>> _ = path.write_text("ts,price\\n1,10\\n2,30\\n")
>>> read_files(path).read(0, 0, 100)[0].rows.to_pylist()
[{'ts': 1, 'price': 10}, {'ts': 2, 'price': 30}]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pyarrow import csv, json, parquet

from holons.arrow import column_names
from holons.errors import BadInput
from holons.streams.json_lines import CheckedLines
from holons.streams.log import AppendableLog
from holons.streams.memory import MemoryLog

Format: TypeAlias = Literal["parquet", "csv", "jsonl"]
Paths: TypeAlias = str | Path | Sequence[str | Path]
"""A file, a directory (its files by name), or several of those in the order given."""

ColumnHash: TypeAlias = "Callable[[npt.NDArray[np.generic] | pl.Series], npt.NDArray[np.uint64]]"
"""A hash for each row, the same on every machine (`holons.algebra.hashing.hash64`): text comes as a polars series."""

BATCH_ROWS: Final = 100_000
_SUFFIXES: Final[dict[str, Format]] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_COMPRESSED: Final = frozenset({".gz", ".bz2", ".zst", ".lz4", ".br"})


@dataclass(frozen=True)
class ByColumn:
    """Assigns rows to partitions by a column: rows with equal values go to one partition."""

    column: str
    hash: ColumnHash


PartitionBy: TypeAlias = Literal["file", "batch"] | ByColumn
"""Whole files in turn, batches of `batch_rows` rows in turn, or rows by a column's hash."""


class LoadProgress(NamedTuple):
    """How much of a load is done."""

    path: Path
    files_done: int
    files: int
    rows: int


class LoadOptions(TypedDict, total=False):
    """The options of `load`, for all formats."""

    partition_by: PartitionBy
    schema: pa.Schema | None
    batch_rows: int
    end: int | None
    progress: Callable[[LoadProgress], None] | None


def read_files(
    paths: Paths,
    partitions: int = 1,
    *,
    format: Format | None = None,  # noqa: A002 - what everybody calls it
    **options: Unpack[LoadOptions],
) -> MemoryLog:
    """Reads files into a log in memory; for the options see `load`."""
    if partitions < 1:
        raise BadInput(f"a log of {partitions} partitions was asked for", hint="a log has at least 1")
    log = MemoryLog(partitions)
    load(log, paths, format=format, **options)
    return log


def load(
    log: AppendableLog,
    paths: Paths,
    *,
    format: Format | None = None,  # noqa: A002 - what everybody calls it
    partition_by: PartitionBy = "file",
    schema: pa.Schema | None = None,
    batch_rows: int = BATCH_ROWS,
    end: int | None = None,
    progress: Callable[[LoadProgress], None] | None = None,
) -> int:
    """Appends the rows of files to a log, as history; returns how many. The same files and options give the same log.

    Without a `format` the name of each file says it. All files have the columns of `schema`, or those of the first file with
    rows; their types in CSV and JSON then follow from that whole file, which is read at once. Parquet is streamed, and
    so is CSV once the types are known. `end` is the value of a mark that ends every partition.

    Everything that can be known is checked before the first row is appended; a file that turns out to be bad further
    on leaves the rows before it in the log.
    """
    if batch_rows < 1:
        raise BadInput(f"batches of {batch_rows} rows were asked for", hint="batch_rows is at least 1")
    files = [(path, format or _named_format(path)) for path in _files(paths, format)]
    for path, kind in files:
        if kind == "parquet":
            with _opening(path), parquet.ParquetFile(path) as file:
                column_names(file.schema_arrow)  # says whether they are text
                schema = _agreed(schema, file.schema_arrow, path)
    dealer = _Dealer(log, partition_by)
    for number, (path, kind) in enumerate(files):
        for batch in _recut(_batches(path, kind, schema, batch_rows), batch_rows):
            schema = _agreed(schema, batch.schema, path)
            ordered = batch if batch.schema.names == schema.names else batch.select(schema.names)
            dealer.deal(ordered.replace_schema_metadata(None), number, path)
            if progress is not None:
                progress(LoadProgress(path, number, len(files), dealer.rows))
        if progress is not None:
            progress(LoadProgress(path, number + 1, len(files), dealer.rows))
    if end is not None:
        for partition in range(log.partitions):
            log.mark(partition, end)
    return dealer.rows


# --- to partitions --------------------------------------------------------------------------------------------------


class _Dealer:
    """Assigns each row to a partition by its place in the files and its values, never by how the files were read."""

    def __init__(self, log: AppendableLog, partition_by: PartitionBy) -> None:
        self._log = log
        self._by = partition_by
        self._batches = 0
        self.rows = 0

    def deal(self, batch: pa.RecordBatch, file: int, path: Path) -> None:
        if isinstance(self._by, ByColumn):
            self._deal_by_column(batch, self._by, path)
        else:
            turn = file if self._by == "file" else self._batches
            self._log.append(turn % self._log.partitions, batch, live=False)
        self._batches += 1
        self.rows += batch.num_rows

    def _deal_by_column(self, batch: pa.RecordBatch, by: ByColumn, path: Path) -> None:
        if by.column not in batch.schema.names:
            raise BadInput(
                f"there is no column {by.column!r} to partition by",
                hint=f"the columns are {', '.join(batch.schema.names)}",
                file=path,
            )
        series = pl.Series(by.column, batch.column(by.column))
        if series.null_count():
            raise BadInput(
                f"the column {by.column!r} has nulls, which belong to no partition",
                hint="fill them before, or partition by another column",
                file=path,
            )
        hashes = by.hash(series if series.dtype == pl.String else series.to_numpy())
        owners = (hashes % np.uint64(self._log.partitions)).astype(np.int64)
        order = np.argsort(owners, kind="stable")
        dealt = batch.take(pa.array(order))
        edges = np.searchsorted(owners[order], np.arange(self._log.partitions + 1))
        for partition, (first, last) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist())):
            if first < last:
                self._log.append(partition, dealt.slice(first, last - first), live=False)


# --- from files -----------------------------------------------------------------------------------------------------


def _files(paths: Paths, format: Format | None) -> list[Path]:  # noqa: A002
    sources = [paths] if isinstance(paths, str | Path) else list(paths)
    files: list[Path] = []
    for path in map(Path, sources):
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "_")))
            files.extend(file for file in inside if _suffix(file) in _SUFFIXES or format is not None)
        elif path.is_file():
            files.append(path)
        else:
            raise BadInput("there is no such file", hint="paths are relative to where Python was started", file=path)
    if not files:
        raise BadInput(
            f"no files in {', '.join(map(str, sources)) or 'an empty list'}",
            hint=f"files end in {', '.join(_SUFFIXES)}, or format= says what they are",
        )
    return files


def _suffix(path: Path) -> str:
    name = Path(path.stem) if path.suffix in _COMPRESSED else path
    return name.suffix.lower()


def format_of(path: Path) -> Format | None:
    """Returns the format that a file's name says; None if it says none that we know."""
    return _SUFFIXES.get(_suffix(path))


def _named_format(path: Path) -> Format:
    known = format_of(path)
    if known is None:
        raise BadInput(
            "cannot tell what this file holds",
            hint="let its name end in .parquet, .csv or .jsonl, or say format='parquet', 'csv' or 'jsonl'",
            file=path,
        )
    return known


def _batches(path: Path, kind: Format, schema: pa.Schema | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
    with _opening(path):
        for batch in _decoded(path, kind, schema, batch_rows):
            column_names(batch.schema)  # says whether they are text
            batch.validate(full=True)  # else a damaged file might end the process
            yield batch


def _decoded(path: Path, kind: Format, schema: pa.Schema | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
    if kind == "parquet":
        with parquet.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=batch_rows)
    elif kind == "jsonl" and path.stat().st_size:
        options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error") if schema else None
        with pa.input_stream(path, compression="detect") as source:
            yield from json.read_json(CheckedLines(source, path), parse_options=options).to_batches()
    elif kind == "csv" and schema is None:
        yield from csv.read_csv(path).to_batches()
    elif kind == "csv":
        convert = csv.ConvertOptions(column_types=schema)
        with csv.open_csv(path, convert_options=convert) as reader:
            yield from reader


class _opening:  # noqa: N801 - reads as a statement
    """Turns an error about a file into one that names the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, pa.ArrowException | OSError | UnicodeDecodeError) and not isinstance(error, BadInput):
            raise BadInput(
                f"cannot read this file: {error}",
                hint="is it whole, and in the format that its name or format= says? A schema= fixes the types",
                file=self._path,
            ) from error


def _agreed(schema: pa.Schema | None, columns: pa.Schema, path: Path) -> pa.Schema:
    if schema is not None and (
        len(schema) != len(columns) or set(schema) != set(columns) or _ambiguous(schema, columns)
    ):
        raise BadInput(
            f"its columns are {_columns(columns)}, but should be {_columns(schema)}",
            hint="all files of one load have the same columns; schema= fixes the types in CSV and JSON",
            file=path,
        )
    return columns if schema is None else schema


def _ambiguous(schema: pa.Schema, columns: pa.Schema) -> bool:
    """Whether they have other orders, and names that occur twice."""
    return columns.names != schema.names and len(set(columns.names)) < len(columns)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _recut(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yields the same rows in batches of exactly `rows`, but for the last: readers cut as they please."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        while count + batch.num_rows >= rows:
            taken = rows - count
            yield _joined([*held, batch.slice(0, taken)])
            batch, held, count = batch.slice(taken), [], 0
        if batch.num_rows:
            held.append(batch)
            count += batch.num_rows
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
