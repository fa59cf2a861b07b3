"""Whether a query gives what it must: rows of a run against DuckDB's answer, as bags, bit for bit.

Who runs the query is the caller's affair: `verify` takes a function, so that every engine is judged in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from holons.nexmark.answers import answer
from holons.nexmark.load import Load
from holons.nexmark.queries import query
from holons.program import Collected
from holons.program.dataflow import Flow
from holons.program.outputs import DEAD, LATE
from holons.windows import Mark

Piece: TypeAlias = pa.RecordBatch | Mark
Streams: TypeAlias = Mapping[str, Sequence[Sequence[Piece]]]
"""For each stream its partitions, each in batches and perhaps marks."""
Runner: TypeAlias = Callable[[Flow, Streams], Collected]

_COUNT: Final = "count!"
_BITS: Final = "bits!"


@dataclass(frozen=True)
class Comparison:
    """What a query gave, and what it must give. `extra` and `missing` are rows with how often, those of one side only."""

    query: str
    rows: int
    expected: int
    columns: str = ""
    """What is wrong with names and types; then no rows are compared."""
    extra: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False)
    missing: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False)
    set_aside: int = 0
    """Rows of the input that were late or broken: there are none in a load."""

    @property
    def same(self) -> bool:
        return not (self.columns or self.set_aside or len(self.extra) or len(self.missing))

    def __str__(self) -> str:
        summary = f"{self.query}: {self.rows:,} rows, {self.expected:,} expected"
        if self.same:
            return f"{summary}, the same"
        aside = f"; {self.set_aside:,} rows were late or broken" if self.set_aside else ""
        parts = [f"{summary}{aside}", self.columns]
        for name, frame in (("only found", self.extra), ("only expected", self.missing)):
            parts += [f"{name}: {row}" for row in frame.head(5).to_dicts()]
        return "\n  ".join(part for part in parts if part)


def verify(
    name: str, streams: Streams, run: Runner, *, rate: int = 10_000, disorder_us: int = 0, **parameters: int
) -> Comparison:
    """Runs a query, and compares what comes out with DuckDB's answer over the same rows.

    `streams` has at least those that the query reads; `rate` and `disorder_us` are those of the load.
    """
    job = query(name, rate=rate, disorder_us=disorder_us, **parameters)
    read = {source.stream: streams[source.stream] for source in job.inputs}
    expected = answer(name, {stream: table_of(stream, parts) for stream, parts in read.items()}, **parameters)
    collected = run(job, read)
    aside = sum(len(rows) for channel in (LATE, DEAD) for rows in collected.get(channel, {}).values())
    return compare(name, found(job, collected), expected, set_aside=aside)


def found(job: Flow, collected: Collected) -> pl.DataFrame:
    """The rows of a query's only channel, with their types as they came; of none, with those that the plan says."""
    (sink,) = job.program.sinks  # type: ignore[attr-defined]
    partitions = collected.get(sink.channel, {})
    rows = [row for number in sorted(partitions) for row in partitions[number]]
    if not rows:
        return pl.DataFrame(schema=sink.node.schema)
    return pl.DataFrame(rows, infer_schema_length=None)


def streams_of(load: Load, rows: int = 997) -> dict[str, list[list[Piece]]]:
    """The three streams of a load, in batches of so many rows."""
    return {
        stream: [list(load.batches(stream, partition, rows=rows)) for partition in range(load.partitions)]
        for stream in load.streams
    }


def table_of(stream: str, partitions: Sequence[Sequence[Piece]]) -> pa.Table:
    """All rows of a stream, each with its position: what an answer is made from."""
    return pa.concat_tables([Load(0).table(stream), *_positioned(partitions)])


def _positioned(partitions: Sequence[Sequence[Piece]]) -> Iterator[pa.Table]:
    for number, pieces in enumerate(partitions):
        batches = [piece for piece in pieces if not isinstance(piece, Mark)]
        if batches:
            table = pa.Table.from_batches(batches)
            here = pa.array(np.full(table.num_rows, number))
            yield table.append_column("_partition", here).append_column("_offset", pa.array(np.arange(len(here))))


def compare(name: str, rows: pl.DataFrame, answered: pa.Table, *, set_aside: int = 0) -> Comparison:
    """Two bags of rows: the same columns in the same order, the same types, and each row equally often.

    Floats are the same if their bits are: 0.0 is not -0.0.

    >>> one = pl.DataFrame({"a": [1, 2, 2], "b": [0.5, 0.0, 0.0]})
    >>> other = pa.table({"a": [2, 1, 2], "b": [0.0, 0.5, -0.0]})
    >>> print(compare("q", one, other))
    q: 3 rows, 3 expected
      only found: {'a': 2, 'b': 0.0, 'times': 1}
      only expected: {'a': 2, 'b': -0.0, 'times': 1}
    >>> compare("q", one, one.to_arrow()).same
    True
    """
    expected = pl.DataFrame(answered)
    counts = (name, len(rows), len(expected))
    if rows.schema != expected.schema or rows.columns != expected.columns:
        difference = f"found {_schema(rows)}; expected {_schema(expected)}"
        return Comparison(*counts, columns=difference, set_aside=set_aside)
    signed = [_bits(frame).with_columns(pl.lit(sign).alias(_COUNT)) for frame, sign in ((rows, 1), (expected, -1))]
    floats = [column for column, dtype in expected.schema.items() if dtype.is_float()]
    keys = [f"{column}{_BITS}" if column in floats else column for column in expected.columns]
    bag = pl.concat(signed).group_by(keys).agg(pl.col(_COUNT).sum(), *(pl.col(one).first() for one in floats))
    extra, missing = (
        bag.filter(pl.col(_COUNT) * sign > 0)
        .select(*expected.columns, times=pl.col(_COUNT).abs())
        .sort(expected.columns, nulls_last=True)
        for sign in (1, -1)
    )
    return Comparison(*counts, extra=extra, missing=missing, set_aside=set_aside)


def _bits(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows, with the bits of every float beside it."""
    floats = [column for column, dtype in frame.schema.items() if dtype.is_float()]
    bits = [pl.Series(f"{name}{_BITS}", frame[name].fill_null(0.0).to_numpy().view(np.int64)) for name in floats]
    known = [
        pl.when(pl.col(name).is_not_null()).then(pl.col(f"{name}{_BITS}")).alias(f"{name}{_BITS}") for name in floats
    ]
    return frame.with_columns(bits).with_columns(known)


def _schema(frame: pl.DataFrame) -> str:
    return ", ".join(f"{name} {dtype}" for name, dtype in frame.schema.items())
