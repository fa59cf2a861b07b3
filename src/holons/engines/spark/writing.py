"""How Spark writes a stream: tasks stage rows in files, and one commit puts them into the log (`engines.batches`).

Spark gives writers no names and makes them anew for every batch. So a task stages under a name that nobody has, and tells
the query's id, which Spark tells tasks; attempts that failed, or lost a race, are never committed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from holons.engines.batches import Batches, Staged
from holons.errors import InvariantBroken
from holons.node import SiteWithFolders

_BATCH_ROWS = 100_000
_QUERY = "sql.streaming.queryId"


@dataclass(frozen=True)
class Writing:
    """Where rows go."""

    site: SiteWithFolders
    stream: str
    partitions: int
    column: str | None
    time: str | None

    @property
    def batches(self) -> Batches:
        return Batches(self.site, self.stream, self.partitions)

    def stage(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """A task's rows, by the partitions that they go to, sorted by time."""
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        query = "" if context is None else context.getLocalProperty(_QUERY) or ""
        given = list(iterator)
        if not given:
            return Written(number, query, ())
        rows = pa.Table.from_batches(given)
        if self.column is None:
            parts = {number % self.partitions: rows}
        else:
            home = np.mod(rows.column(self.column).to_numpy().astype(np.int64), self.partitions)
            parts = {int(part): rows.filter(pa.array(home == part)) for part in np.unique(home)}
        written = [
            (self._first(found), self.batches.stage(part, self._ordered(found))) for part, found in parts.items()
        ]
        return Written(number, query, tuple(written))

    def _ordered(self, rows: pa.Table) -> Sequence[pa.RecordBatch]:
        if self.time is not None and not _ascending(rows.column(self.time)):
            rows = rows.take(pc.sort_indices(rows, sort_keys=[(self.time, "ascending")]))
        return rows.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)

    def _first(self, rows: pa.Table) -> int:
        """The earliest time, in whatever the column counts."""
        first = None if self.time is None else _numbers(rows.column(self.time))
        return 0 if first is None else pc.min(first).as_py() or 0


def _ascending(times: pa.ChunkedArray) -> bool:
    if times.null_count or len(times) < 2:
        return len(times) < 2
    found = _numbers(times).to_numpy()
    return bool(np.all(found[1:] >= found[:-1]))


def _numbers(times: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_date32(times.type):
        times = times.cast(pa.int32())
    return times.cast(pa.int64())


@dataclass
class Written(WriterCommitMessage):
    """What one task has staged."""

    task: int
    query: str
    staged: tuple[tuple[int, Staged], ...]
    """With the earliest time in each."""


def _in_order(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """What tasks have staged, by time, then by task: Spark does not number tasks by what they read."""
    written = [message for message in messages if isinstance(message, Written)]
    found = [(first, message.task, staged) for message in written for first, staged in message.staged]
    return [staged for _, _, staged in sorted(found, key=lambda one: one[:2])]


class BatchWriter(DataSourceArrowWriter):
    """One batch; with an id and a version it can be written again, and is there once."""

    def __init__(self, writing: Writing, app: str, version: int | None) -> None:
        self._writing = writing
        self._source = f"app {app}" if app else f"once {uuid.uuid4().hex}"
        self._number = version or 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._writing.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writing.batches.commit(self._source, self._number, _in_order(messages), live=False)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writing.batches.forget(_in_order(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Micro-batches, each of which is there once, whatever is run again."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._writing.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        queries = {message.query for message in messages if isinstance(message, Written)}
        if "" in queries or len(queries) > 1:
            raise InvariantBroken(f"one query commits a batch, and Spark tells of {sorted(queries)}")
        for query in queries:
            self._writing.batches.commit(f"query {query}", batchId, _in_order(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._writing.batches.forget(_in_order(messages))
