"""Inputs as users have them: tables, lists of batches and marks, or iterators of those, whose rows are still to come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import polars as pl
import pyarrow as pa

from holons.errors import BadInput
from holons.program import Job, dataflow
from holons.semantics.oracle import Stamped
from holons.streams import AppendableLog, ReadableLog
from holons.windows import END, Mark

Piece: TypeAlias = pl.DataFrame | pa.Table | pa.RecordBatch | Mark
PartitionRows: TypeAlias = Piece | Sequence[Piece] | Iterator[Piece]
"""One partition: whole, or an iterator that gives its rows while the job runs."""

_PARTITION_HINT: Final = (
    "a partition is a polars DataFrame (`.collect()` a LazyFrame), an Arrow table or batch, "
    "or a list or an iterator of those and of marks"
)


def pieces(rows: PartitionRows) -> Iterator[pa.RecordBatch | Mark]:
    """Yields a partition as record batches and marks, ended by the mark at infinity."""
    several: Iterable[Piece] = rows if isinstance(rows, list | tuple | Iterator) else [rows]
    for piece in several:
        check_piece(piece)
        if isinstance(piece, Mark | pa.RecordBatch):
            yield piece
        else:
            table = piece.to_arrow() if isinstance(piece, pl.DataFrame) else piece
            yield from table.to_batches()
    yield END


def partitions_in(log: ReadableLog) -> list[list[Stamped | Mark]]:
    """Returns the partitions of a log as the oracle takes them."""
    return [
        [
            Mark(chunk.mark or 0) if chunk.rows is None else Stamped(chunk.rows, chunk.appended, chunk.live)
            for chunk in log.read(partition, 0, log.end(partition))
        ]
        for partition in range(log.partitions)
    ]


def check_partitions(stream: str, partitions: Sequence[object]) -> None:
    """Raises if a partition is not made of tables, batches and marks; iterators are checked as they are read."""
    for number, rows in enumerate(partitions):
        for piece in rows if isinstance(rows, list | tuple) else [] if isinstance(rows, Iterator) else [rows]:
            check_piece(piece, f"partition {number} of {stream!r}")


def check_piece(piece: object, where: str = "a partition") -> None:
    """Raises if something is neither a table, nor a batch, nor a mark."""
    if not isinstance(piece, pl.DataFrame | pa.Table | pa.RecordBatch | Mark):
        if type(piece).__module__.partition(".")[0] == "pandas":
            raise BadInput(f"{where} holds a pandas {type(piece).__name__}", hint="pass pl.from_pandas(df)")
        raise BadInput(f"{where} holds a {type(piece).__name__}", hint=_PARTITION_HINT)


def fill(log: AppendableLog, partitions: Sequence[PartitionRows]) -> None:
    """Appends bounded inputs to a log, as history, and ends it."""
    for number, rows in enumerate(partitions):
        for piece in pieces(rows):
            if isinstance(piece, Mark):
                log.mark(number, piece.ts)
            else:
                log.append(number, piece, live=False)


def check_job(job: object) -> None:
    """Raises if something is not a job, and says how to make one."""
    if isinstance(job, Job):
        return
    steps = (dataflow.Dataset, dataflow.Windowed, dataflow.Grouped)
    raise BadInput(
        "this pipeline has no output, so it is not a job"
        if isinstance(job, steps)
        else f"a {type(job).__name__} is not a job",
        hint='give it an output: .to("channel")' if isinstance(job, steps) else 'h.job(MyProgram(), "stream")',
    )


def check_names(job: Job, passed: Iterable[str], form: str) -> None:
    """Raises unless exactly the streams that a job reads are passed; `form` says how a stream is passed."""
    names, reads = list(passed), [source.stream for source in job.inputs]
    both = f"the job reads {', '.join(map(repr, reads))}, and was passed {', '.join(map(repr, names)) or 'none'}"
    for stream in reads:
        if stream not in names:
            raise BadInput(f"no rows were passed for stream {stream!r}: {both}", hint=f"pass {{{stream!r}: {form}}}")
    for stream in names:
        if stream not in reads:
            raise BadInput(
                f"the job does not read stream {stream!r}: {both}", hint="leave it out; or is its name misspelt?"
            )
