"""Which rows of a log a program sees: those with a usable time that are not late, and of them the columns that it reads.

All other rows are diverted, whole, to the channels `dead` and `late`, with where they were in which stream. A time is not
usable if it lies too far beyond that at which the row was appended (`Input.max_future`): this depends on the log alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from holons.algebra import IntArray, Origin
from holons.arrow import readable, unreadable, whole
from holons.errors import BadInput
from holons.program.delays import Delays
from holons.program.events import Events, Times, cannot_read, event_times
from holons.program.job import Input
from holons.program.outputs import DEAD, LATE
from holons.program.ports import AppendedRows
from holons.program.program import Program
from holons.windows import ENDING, TIME_LIMIT, Observed, instant_text, is_ascending
from holons.windows.duration import duration_text

Batch: TypeAlias = pa.RecordBatch | pa.Table | pl.DataFrame


class AppendTimes:
    """When the rows of a batch were appended to their log, and how late their own times may be therefore."""

    def __init__(self, source: Input, pieces: Sequence[AppendedRows]) -> None:
        self._ends = np.cumsum([rows for rows, _, _ in pieces], dtype=np.int64)
        self._at = [at for _, at, _ in pieces]
        self._live = [live for _, _, live in pieces]
        self._ahead_us = [source.max_future_us(live=live) for _, _, live in pieces]
        self._latest = [source.latest(at, live=live) for _, at, live in pieces]
        self.lowest = min(self._latest, default=ENDING)
        """No row that is dated up to here is dated too far ahead."""

    def newest(self, end: int) -> int:
        """Returns when the row before a place was appended; 0 if nobody knows."""
        return self._at[int(self._piece_of(end - 1))] if self._at else 0

    def delays(self, known: Delays, rows: RowSlice, times: RowTimes, observed: Observed) -> Delays:
        """Returns the delays once some rows were read: those of live rows that have a usable time and are not late."""
        low, counted = rows.first, _counted(times, observed)
        while low < rows.end and any(self._live):
            piece = int(self._piece_of(low))
            high = min(int(self._ends[piece]), rows.end)
            ts = times.micros[low - rows.first : high - rows.first]
            if counted is not None:
                ts = ts[counted[low - rows.first : high - rows.first]]
            if self._live[piece] and len(ts):
                known = known.noted(self._at[piece], self._at[piece] - int(ts.min()))
            low = high
        return known

    def latest(self, first: int, end: int) -> IntArray:
        """Returns for each row between two places how late its time may be."""
        return np.array(self._latest, dtype=np.int64)[self._piece_of(np.arange(first, end))]

    def reasons(self, name: str, first: int, end: int) -> pl.Series:
        """Returns for each row between two places why it is dead if it is dated later than that."""
        texts = [
            f"the time in column {name!r} is more than {duration_text(ahead_us or 0)} after the row was appended, "
            f"at {instant_text(at)}"
            for at, ahead_us in zip(self._at, self._ahead_us, strict=True)
        ]
        return pl.Series(texts).gather(self._piece_of(np.arange(first, end)))

    def _piece_of(self, place: Any) -> Any:  # noqa: ANN401 - a place, or an array of them
        return np.searchsorted(self._ends, place, side="right")


@dataclass(frozen=True)
class RowSlice:
    """Rows that are handled by one call, with the columns that the program sees."""

    frame: pl.DataFrame
    origin: Origin
    read_whole: Callable[[], pl.DataFrame]
    """Returns the batch that these rows are a part of, with all columns."""
    appended: AppendTimes
    """When the rows of that batch were appended."""
    first: int = 0
    """The place of the first of these rows in that batch."""

    @property
    def end(self) -> int:
        """The place in the batch behind the last of these rows."""
        return self.first + len(self.frame)

    def part(self, low: int, high: int) -> RowSlice:
        """Returns the rows from `low` up to `high`."""
        frame, origin = self.frame.slice(low, high - low), self.origin.between(low, high)
        return replace(self, frame=frame, origin=origin, first=self.first + low)

    def whole(self) -> pl.DataFrame:
        """Returns these rows with all columns."""
        return self.read_whole().slice(self.first, len(self.frame))


@dataclass(frozen=True)
class RowTimes:
    """The times of some rows."""

    micros: IntArray
    valid: npt.NDArray[np.bool_] | None
    """Which rows have a usable time; None if all have one."""
    ascending: bool | None
    """Whether usable times ascend; None if nobody has looked."""
    future: npt.NDArray[np.bool_] | None = None
    """Which rows are dated too far after they were appended; None if no row is."""

    def usable(self) -> IntArray:
        """Returns the usable times."""
        return self.micros if self.valid is None else self.micros[self.valid]


@dataclass(frozen=True)
class Screened:
    """The rows of a slice that the program sees, and the others."""

    events: Events
    watermarks: Callable[[], IntArray]
    """Returns the watermark at each row that the program sees."""
    diverted: list[tuple[str, pl.DataFrame]]
    """By channel, the rows that it does not see."""


class Screening:
    """Decides for one stream which rows a program sees."""

    def __init__(self, source: Input, program: Program) -> None:
        self._source = source
        self._program = program
        self._unreadable: dict[str, str] = {}
        """Columns that rows have had and no program can read, and why."""

    def seen(self, batch: Batch) -> pl.DataFrame:
        """Returns the columns that the program sees, as far as a batch has them."""
        if isinstance(batch, pl.DataFrame):
            frame = batch
        else:
            self._unreadable |= unreadable(batch.schema)
            frame = _frame(readable(batch))
        reads = self._source.reads
        if reads is None or len(reads) == frame.width:
            return frame
        return frame.select(name for name in frame.columns if name in reads)

    def check_columns(self, rows: RowSlice) -> None:
        """Raises `BadInput` if a column is missing that the job names."""
        time, stream, reads = self._source.time, self._source.stream, self._source.reads
        for column in (time, *sorted(reads or ())):
            if column in self._unreadable and column not in rows.frame.columns:
                raise cannot_read(stream, column, self._unreadable[column])
        if time not in rows.frame.columns:
            raise BadInput(
                f"stream {stream!r} has no time column {time!r}",
                hint=f"name one of {', '.join(rows.whole().columns)}: {self._program._time_hint(stream)}",
            )
        missing = sorted(reads.difference(rows.frame.columns)) if reads is not None else []
        if missing:
            line = self._program._line_that_reads(stream, missing[0])
            explanation = "" if line else "columns= names what the program reads; "
            raise BadInput(
                f"{line}{': ' if line else ''}stream {stream!r} has no column {', '.join(map(repr, missing))}",
                hint=f"{explanation}there is {', '.join(rows.whole().columns)}",
            )

    def times(self, rows: RowSlice) -> RowTimes:
        """Returns the time of each row."""
        column = event_times(rows.frame[self._source.time], self._source.stream)
        nulls = column.null_count()
        ts = (column.fill_null(TIME_LIMIT) if nulls else column).to_numpy()
        if len(ts) == 0:
            return RowTimes(ts, None, ascending=True)
        ascending = not nulls and is_ascending(ts)
        low, high = (ts[0], ts[-1]) if ascending else (ts.min(), ts.max())
        all_in_range = not nulls and int(high) < TIME_LIMIT and int(low) > -TIME_LIMIT
        if all_in_range and int(high) <= rows.appended.lowest:
            return RowTimes(ts, None, ascending)
        in_range = (ts < TIME_LIMIT) & (ts > -TIME_LIMIT)
        future = in_range & (ts > rows.appended.latest(rows.first, rows.end)) if rows.appended.lowest < ENDING else None
        if future is None or not future.any():
            return RowTimes(ts, None if all_in_range else in_range, ascending if all_in_range else None)
        return RowTimes(ts, in_range & ~future, None, future)

    def screen(self, rows: RowSlice, times: RowTimes, observed: Observed) -> Screened:
        """Diverts the rows that the program does not see."""
        frame, origin, ts, valid = rows.frame, rows.origin, times.micros, times.valid
        watermarks, diverted = observed.watermarks, list[tuple[str, pl.DataFrame]]()
        if valid is not None:
            diverted.append((DEAD, self._with_places(rows.whole(), origin, ~valid, self._reason(rows, times))))
            frame, ts, origin = frame.filter(valid), ts[valid], origin.take(valid)
        if observed.late is not None:
            whole = rows.whole() if valid is None else rows.whole().filter(valid)
            diverted.append((LATE, self._with_places(whole, origin, observed.late)))
            on_time = ~observed.late
            remaining = observed.watermarks()[on_time]
            frame, ts, origin, watermarks = frame.filter(on_time), ts[on_time], origin.take(on_time), lambda: remaining
        own_times = Times(ts, origin, own=True, ascending=bool(times.ascending))
        return Screened(Events(frame, own_times, self._source.stream, self._unreadable), watermarks, diverted)

    def _reason(self, rows: RowSlice, times: RowTimes) -> pl.Expr:
        name = self._source.time
        reason = (
            pl.when(pl.col(name).is_null())
            .then(pl.lit(f"no time in column {name!r}"))
            .otherwise(pl.lit(f"the time in column {name!r} is out of range"))
        )
        if times.future is None:
            return reason
        too_late = rows.appended.reasons(name, rows.first, rows.end)
        return pl.when(pl.Series(times.future)).then(too_late).otherwise(reason)

    def _with_places(
        self, frame: pl.DataFrame, origin: Origin, chosen: npt.NDArray[np.bool_], reason: pl.Expr | None = None
    ) -> pl.DataFrame:
        """Returns the chosen rows with where they were, and perhaps why they are not seen."""
        stream = pl.lit(self._source.stream).alias("_stream")
        places: list[pl.Expr | pl.Series] = [stream, pl.Series("_offset", origin.offsets())]
        if reason is not None:
            places.append(reason.alias("_reason"))
        return frame.with_columns(*places).filter(chosen)


def _counted(times: RowTimes, observed: Observed) -> npt.NDArray[np.bool_] | None:
    """Returns which of some rows have a usable time and are not late; None if all are so."""
    if times.valid is None:
        return None if observed.late is None else ~observed.late
    counted = times.valid.copy()
    if observed.late is not None:
        counted[np.flatnonzero(times.valid)[observed.late]] = False
    return counted


def whole_frame(batch: Batch) -> pl.DataFrame:
    """Returns a batch with all columns, those that no program can read as text."""
    return batch if isinstance(batch, pl.DataFrame) else _frame(whole(batch))


def _frame(rows: pa.RecordBatch | pa.Table) -> pl.DataFrame:
    """Returns rows as a polars frame, without copying them."""
    frame = pl.from_arrow(rows, rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame
