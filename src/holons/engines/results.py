"""The rows that a run has emitted, as rows and as tables that keep their types.

**The columns of a channel** are those that were written to it, in the order of their first appearance, after those that
the job knows before it runs (the plan of a pipeline with a schema; the input's columns for `late` and `dead`). A column that
some rows do not have is null there. A column that was written with several types gets the smallest type of polars that
holds them all: null gives way to any type, Int32 to Int64, integers to Float64, categories to String; structs have all
fields. Values that no type holds, such as times with and without a zone, can only be read as `rows()`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from holons.arrow import python_rows, whole_schema
from holons.disk import Durability
from holons.engines import html
from holons.engines.collecting import Outputs, outputs_in_memory
from holons.errors import BadInput
from holons.program import Channel, Collected, Output, canonical
from holons.program.outputs import DEAD, LATE, tables
from holons.program.outputs import number as numbered
from holons.streams import ByTime, FileSink, in_memory
from holons.streams.sinks import SinkFormat, Unit

if TYPE_CHECKING:
    import pandas as pd

    from holons.engines.spark.frames import SparkFrame, SparkSession

_ROWS_SHOWN: Final = 8
_PARTITION: Final = "partition"
_DIVERTED: Final = {
    LATE: pl.Schema({"_stream": pl.String, "_offset": pl.Int64}),
    DEAD: pl.Schema({"_stream": pl.String, "_offset": pl.Int64, "_reason": pl.String}),
}
"""The columns that diverted rows always have, after those of their stream."""


class LateRows(UserWarning):
    """Rows came below their partition's watermark. They are in the channel `late`."""


class DeadRows(UserWarning):
    """Rows could not be understood. They are in the channel `dead`, each with the reason."""


@dataclass(frozen=True, repr=False)
class Results:
    """Every output of a run as of one moment, by channel and partition. Rows are read when they are asked for.

    Where the job has one channel, its name may be left out.
    """

    outputs: Outputs
    declared: tuple[Channel, ...] = ()
    """The channels of the job's callbacks, with or without rows, and what else is known of a channel's columns."""

    @staticmethod
    def of(rows: Collected, channels: Iterable[Channel | str] = ()) -> Results:
        """Results that hold these rows: by channel, then by partition."""
        written = [
            Output(channel, partition, output.ordinal, output.table)
            for channel, partitions in rows.items()
            for partition, some in partitions.items()
            for output in numbered(channel, partition, {}, tables(some))
        ]
        declared = (one if isinstance(one, Channel) else Channel(one) for one in channels)
        return Results(outputs_in_memory(written), tuple(declared))

    @cached_property
    def channels(self) -> list[str]:
        """All channels: those of `on_window` methods, `process` and others written by it, `late`, `dead`."""
        names = [channel.name for channel in self.declared if channel.name not in _DIVERTED]
        return list(dict.fromkeys([*names, *sorted(self.outputs.spans), "process", LATE, DEAD]))

    def rows(self, channel: str | None = None, partition: int | None = None) -> list[dict[str, Any]]:
        """The rows of a channel as dicts, partition after partition, or those of one partition."""
        name = self.name_of(channel)
        chosen = self.outputs.partitions(name) if partition is None else [partition]
        return [row for number in chosen for batch in self.outputs.batches(name, number) for row in python_rows(batch)]

    def count(self, channel: str | None = None, partition: int | None = None) -> int:
        """How many rows a channel has, or one of its partitions."""
        return self.outputs.count(self.name_of(channel, "results.count({})"), partition)

    @property
    def collected(self) -> Collected:
        """All rows as dicts: by channel, then by partition."""
        return self.outputs.collected()

    def canonical(self) -> bytes:
        """Canonical bytes of everything: equal runs, equal bytes."""
        return canonical(self.collected)

    def name_of(self, channel: str | None, call: str = "results.rows({})") -> str:
        """The name of the channel that is meant: the only one, if none is named. `call` is how it can be named."""
        if channel is None:
            return self._only_channel(call)
        if channel not in self.channels:
            raise BadInput(f"this job has no channel {channel!r}", hint=f"it has {', '.join(self.channels)}")
        return channel

    def _only_channel(self, call: str) -> str:
        candidates = [channel.name for channel in self.declared if channel.name not in _DIVERTED] or ["process"]
        if len(candidates) > 1:
            raise BadInput(
                f"this job has several channels: {', '.join(self.channels)}",
                hint="name one of them: " + call.format(f'"{candidates[0]}"'),
            )
        return candidates[0]

    # --- tables ------------------------------------------------------------------------------------------------------

    def schema(self, channel: str | None = None) -> pl.Schema:
        """The columns of a channel and their types, after the `partition` that wrote the row."""
        columns = self._columns(self.name_of(channel, "results.schema({})"))
        return pl.Schema({_PARTITION: columns.get(_PARTITION, pl.Int64()), **columns})

    def _columns(self, name: str) -> pl.Schema:
        """The columns that were written, and those that are known beforehand."""
        inputs = self.outputs.inputs() if name in _DIVERTED else {}
        known = [pl.Schema(whole_schema(schema)) for schema in inputs.values()]
        known += [one.schema for one in self.declared if one.name == name and one.schema is not None]
        written = [pl.Schema(schema) for schema in self.outputs.schemas(name)]
        return _union(name, [*known, *written, _DIVERTED.get(name, pl.Schema())])

    def scan(self, channel: str | None = None) -> pl.LazyFrame:
        """The rows of a channel as a lazy frame of polars, with their `partition`: only what a query needs is read.

        Rows are read batch by batch, so a query that polars can stream needs memory for a few batches only:
        `results.scan().group_by("page").agg(pl.len()).collect(engine="streaming")`, or `.sink_parquet(...)`.
        """
        name = self.name_of(channel, "results.scan({})")
        schema = self.schema(name)

        def read(
            columns: list[str] | None, predicate: pl.Expr | None, rows_max: int | None, _: int | None
        ) -> Iterator[pl.DataFrame]:
            left = self.count(name) if rows_max is None else rows_max
            for frame in self._frames(name, pl.Schema({one: schema[one] for one in columns or schema})):
                if left <= 0:
                    return
                part = frame.head(left)
                left -= len(part)
                yield part if predicate is None else part.filter(predicate)

        return register_io_source(read, schema=schema)

    def reader(self, channel: str | None = None) -> pa.RecordBatchReader:
        """The rows of a channel as Arrow batches, one after the other, with their `partition`.

        DuckDB, Arrow datasets and others take it as it is: `duckdb.sql("select count(*) from reader")`.
        """
        name = self.name_of(channel, "results.reader({})")
        schema = self.schema(name)
        batches = (batch for frame in self._frames(name, schema) for batch in frame.to_arrow().to_batches())
        return pa.RecordBatchReader.from_batches(schema.to_frame().to_arrow().schema, batches)

    def to_polars(self, channel: str | None = None) -> pl.DataFrame:
        """The rows of a channel as a table, with their `partition`."""
        name = self.name_of(channel, "results.to_polars({})")
        schema = self.schema(name)
        return pl.concat([schema.to_frame(), *self._frames(name, schema)])

    def to_arrow(self, channel: str | None = None) -> pa.Table:
        """The same as an Arrow table."""
        return self.reader(self.name_of(channel, "results.to_arrow({})")).read_all()

    def to_pandas(self, channel: str | None = None) -> pd.DataFrame:
        """The same as a pandas frame, whose columns keep their Arrow types (`pd.ArrowDtype`); needs pandas."""
        import pandas as pd

        return self.to_arrow(self.name_of(channel, "results.to_pandas({})")).to_pandas(types_mapper=pd.ArrowDtype)

    def to_spark(self, channel: str | None = None, spark_session: SparkSession | None = None) -> SparkFrame:
        """The same as a Spark DataFrame, of the given session or of the active one; opens one if there is none.

        What Spark has no type for gets the nearest one that holds all values: unsigned integers the next larger signed type,
        categories and enums strings, arrays of a fixed length arrays.
        """
        from holons.engines.choosing import check_spark

        check_spark()
        from holons.engines.spark.frames import spark_frame

        return spark_frame(self.to_polars(self.name_of(channel, "results.to_spark({})")), spark_session)

    def to_files(
        self,
        directory: Path | str,
        channel: str | None = None,
        *,
        format: SinkFormat = "parquet",  # noqa: A002 - what everybody calls it
        time: str | None = None,
        unit: Unit = "hour",
        durability: Durability = "process",
    ) -> int:
        """Writes the rows of a channel to files, each row once: what is there already is not written again.

        With `time`, a time column, they go to folders: `year=2015/month=07/day=15/hour=00`. Returns how many are new. With
        `durability="disk"` they survive the death of the machine.
        """
        name = self.name_of(channel, "results.to_files(directory, {})")
        schema = self._columns(name)
        partitions = self.outputs.partitions(name)
        log = in_memory(
            1 + max(partitions, default=0),
            (
                (number, part)
                for number in partitions
                for batch in self.outputs.batches(name, number)
                for part in _frame(batch, number, schema).to_arrow().to_batches()
            ),
        )
        by = None if time is None else ByTime(time, unit)
        return FileSink(directory, name, format, durability=durability, by=by).drain(log)

    def _frames(self, name: str, schema: pl.Schema) -> Iterator[pl.DataFrame]:
        """The rows of a channel, batch by batch, with these columns."""
        for number in self.outputs.partitions(name):
            for batch in self.outputs.batches(name, number, columns=schema.names()):
                yield _frame(batch, number, schema)

    # --- for people --------------------------------------------------------------------------------------------------

    def late_by_stream(self) -> Counter[str]:
        """How many rows of each stream were late."""
        return Counter(stream for (stream,) in self._diverted(LATE, "_stream"))

    def dead_by_stream(self) -> dict[str, tuple[int, str]]:
        """How many rows of each stream were dead, and the first reason."""
        dead: dict[str, tuple[int, str]] = {}
        for stream, reason in self._diverted(DEAD, "_stream", "_reason"):
            count, first = dead.get(stream, (0, reason))
            dead[stream] = (count + 1, first)
        return dead

    def _diverted(self, channel: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        for number in self.outputs.partitions(channel):
            for batch in self.outputs.batches(channel, number, columns=columns):
                yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)

    def __repr__(self) -> str:
        counts = {channel: self.count(channel) for channel in self.channels}
        return f"Results({', '.join(f'{channel}: {count} rows' for channel, count in counts.items() if count)})"

    def _repr_html_(self) -> str:
        declared = {channel.name for channel in self.declared if channel.name not in _DIVERTED}
        return html.block(*(self._last_rows(one) for one in self.channels if self.count(one) or one in declared))

    def _last_rows(self, channel: str) -> str:
        """A table of the last rows of a channel, a few of each partition; no others are read."""
        partitions, count = self.outputs.partitions(channel), self.count(channel)
        each = max(1, _ROWS_SHOWN // max(1, len(partitions)))
        rows = [
            {_PARTITION: number, **row}
            for number in partitions[:_ROWS_SHOWN]
            for batch in self.outputs.batches(channel, number, self.outputs.last(channel, number, each))
            for row in python_rows(batch)
        ]
        caption = f"{channel}: {count:,} rows" + (", the last:" if count > len(rows) else "")
        return html.table(rows, caption)


def _frame(batch: pa.RecordBatch, partition: int, schema: pl.Schema) -> pl.DataFrame:
    """Rows with the columns and types of their channel."""
    frame = pl.DataFrame(batch)
    columns = []
    for name, dtype in schema.items():
        if name in frame.columns:
            columns.append(frame[name] if frame[name].dtype == dtype else _converted(frame[name], dtype))
        elif name == _PARTITION:
            columns.append(pl.Series(name, [partition], dtype).new_from_index(0, len(frame)))
        else:
            columns.append(pl.Series(name, [None], dtype).new_from_index(0, len(frame)))
    return pl.DataFrame(columns)


def _converted(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """A column in a type that holds all of its values; fields of structs are found by name, which `cast` does not do."""
    empty = pl.DataFrame({column.name: pl.Series([], dtype=dtype)})
    return pl.concat([empty, column.to_frame()], how="vertical_relaxed").to_series()


def _union(channel: str, schemas: Collection[pl.Schema]) -> pl.Schema:
    """The columns of all schemas, in the order in which they first appear."""
    columns: dict[str, pl.DataType] = {}
    for schema in schemas:
        for name, dtype in schema.items():
            columns[name] = _common(channel, name, columns.get(name, dtype), dtype)
    return pl.Schema(columns)


def _common(channel: str, name: str, first: pl.DataType, second: pl.DataType) -> pl.DataType:
    """The smallest type that holds the values of two."""
    if first == second:
        return first
    if isinstance(first, pl.Decimal) and isinstance(second, pl.Decimal):  # polars would take the larger precision alone
        scale = max(first.scale, second.scale)
        common: pl.DataType = pl.Decimal(
            max(first.precision - first.scale, second.precision - second.scale) + scale, scale
        )
    elif (first.is_temporal() and second.is_numeric()) or (first.is_numeric() and second.is_temporal()):
        common = pl.Unknown()  # polars would take the number of microseconds
    else:
        empty = [pl.Schema({name: dtype}).to_frame() for dtype in (first, second)]
        try:
            common = pl.concat(empty, how="vertical_relaxed").schema[name]
        except pl.exceptions.PolarsError:
            common = pl.Unknown()
    if isinstance(common, pl.Unknown | pl.Int128):  # Arrow has no integers of 128 bits
        raise BadInput(
            f"some rows of channel {channel!r} have {first} in column {name!r}, and others {second}",
            hint=f'let the program write one type, or read the rows as they are: results.rows("{channel}")',
        )
    return common
