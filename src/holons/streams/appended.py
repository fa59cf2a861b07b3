"""A log to which any number of processes of one machine append: rows get the next free positions, in the order of appending.

    <directory>/stream.<writer>/    what one writer has appended, at offsets of its own (`segments`)
    <directory>/order.<number>      which of it comes when (`order.py`)

A writer first writes its rows into its own stream, then adds them to the order. So rows that were acknowledged have one
position for good, rows that a killed writer did not get into the order are nowhere, and nobody ever waits for anybody. This
is where outputs go that are written *at least once*.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa

from holons.disk import Durability
from holons.errors import BadInput, LogDamaged
from holons.streams.log import Chunk
from holons.streams.order import AppendOrder, writer_number
from holons.streams.segments import SegmentLog, partitions_in, streams_in


class AppendedLog:
    """A stream as one writer incarnation, or a reader, sees it. It costs nothing until the first append."""

    def __init__(self, directory: Path, partitions: int, writer: str, *, durability: Durability = "process") -> None:
        self._directory = directory
        self._writer = writer_number(writer)
        self._own = SegmentLog(directory, writer, partitions, writer, durability=durability)
        self._order = AppendOrder(directory, partitions, durable=durability == "disk")
        self._logs: dict[int, SegmentLog] = {self._writer: self._own}

    @property
    def partitions(self) -> int:
        return self._own.partitions

    def append(self, partition: int, rows: pa.RecordBatch, *, live: bool = True) -> int:
        if not rows.num_rows:
            return self.end(partition)
        return self._ordered(partition, self._own.append(partition, rows, live=live), rows.num_rows)

    def mark(self, partition: int, ts: int) -> int:
        return self._ordered(partition, self._own.mark(partition, ts), 1)

    def put(
        self, partition: int, offset: int, rows: pa.RecordBatch, *, appended: int | None = None, live: bool = True
    ) -> bool:
        raise BadInput(
            f"{self._directory.name} was written at least once: its rows have no positions of their own",
            hint='keep Settings(guarantee="at-least-once") for this job, or submit it as a new one',
        )

    def read(self, partition: int, offset: int, rows_max: int, columns: Collection[str] | None = None) -> list[Chunk]:
        chunks: list[Chunk] = []
        self._order.refresh()
        at, high = offset, min(offset + rows_max, self._order.end(partition))
        while at < high:
            stretch, end = self._order.stretch(partition, at)
            ahead = stretch.position - stretch.offset
            part = self._log_of(stretch.writer).read(partition, at - ahead, min(end, high) - at, columns)
            if not part or part[0].offset != at - ahead:
                raise LogDamaged(
                    f"rows are missing from {self._directory.name}",
                    hint=f"a writer's stream was deleted by hand, or lost: restore {self._directory}",
                    partition=partition,
                    offset=at,
                )
            chunks += [chunk._replace(offset=chunk.offset + ahead) for chunk in part]
            at = chunks[-1].end
        return chunks

    def start(self, partition: int) -> int:
        return 0

    def end(self, partition: int) -> int:
        self._order.refresh()
        return self._order.end(partition)

    def trim(self, partition: int, below: int) -> None:
        if below <= 0:
            return
        raise BadInput(
            f"{self._directory.name} was written at least once, and such outputs are kept for ever",
            hint='take its retention back, or use Settings(guarantee="exactly-once")',
        )

    def appended_before(self, partition: int, time_us: int) -> int:
        return 0

    def close(self) -> None:
        """Ends what it writes, and closes what it reads."""
        for log in self._logs.values():
            log.close()

    def __enter__(self) -> AppendedLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ordered(self, partition: int, offset: int, rows: int) -> int:
        """Adds rows of this writer to the order; returns their position."""
        self._order.add(partition, self._writer, offset, rows)
        self._order.refresh()
        return self._order.position(partition, self._writer, offset)

    def _log_of(self, writer: int) -> SegmentLog:
        """Returns the stream of a writer, to be read."""
        if writer not in self._logs:
            for name in streams_in(self._directory):
                if (number := writer_number(name)) not in self._logs:
                    self._logs[number] = SegmentLog(self._directory, name, self.partitions, f"reader of {name}")
        if writer not in self._logs:
            raise LogDamaged(
                f"a writer's rows are missing from {self._directory.name}",
                hint=f"its stream was deleted by hand, or lost: restore {self._directory}",
            )
        return self._logs[writer]


def appended_partitions(directory: Path) -> int | None:
    """Returns how many partitions a stream has to which was appended; None if there is none."""
    return next((count for name in streams_in(directory) if (count := partitions_in(directory, name))), None)
