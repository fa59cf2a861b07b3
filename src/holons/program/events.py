"""A batch of one partition as a program sees it: columns, times, and where every row came from.

Whatever a program derives from events keeps the rows' origins, so that what it inserts and outputs has a place in the
log and not only in a batch (invariant: batch-blind).
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from holons.algebra import IntArray, Origin
from holons.errors import BadElement, BadInput
from holons.windows import TIME_LIMIT, Duration, Instant, Window, instant, micros

if TYPE_CHECKING:
    from holons.program.handles import WindowedHandle

Mask = npt.NDArray[np.bool_] | pl.Series | pl.Expr
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_IN_QUOTES: Final = re.compile('"([^"]*)"')
_FEW = 8
"""Fewer than one row in so many is few."""


@dataclass(frozen=True, eq=False)
class Times:
    """One time per row, in microseconds, with the rows' origins. `ts + "5s"` shifts; comparisons give masks."""

    micros: IntArray
    origin: Origin
    own: bool = False
    """Whether these are the events' own times, which are never below the watermark."""
    ascending: bool = False
    """Whether the times are known never to decrease: then the first is the least and the last the largest."""

    def __len__(self) -> int:
        return len(self.micros)

    def __add__(self, duration: Duration) -> Times:
        return replace(self, micros=self.micros + micros(duration, zero_allowed=True), own=False)

    def __sub__(self, duration: Duration) -> Times:
        return replace(self, micros=self.micros - micros(duration, zero_allowed=True), own=False)

    def __lt__(self, when: Instant) -> npt.NDArray[np.bool_]:
        return self.micros < instant(when)

    def __le__(self, when: Instant) -> npt.NDArray[np.bool_]:
        return self.micros <= instant(when)

    def __gt__(self, when: Instant) -> npt.NDArray[np.bool_]:
        return self.micros > instant(when)

    def __ge__(self, when: Instant) -> npt.NDArray[np.bool_]:
        return self.micros >= instant(when)

    def take(self, chosen: npt.NDArray[np.generic]) -> Times:
        """Returns some of the rows, by mask or by position."""
        ascending = self.ascending and chosen.dtype == np.bool_
        return Times(self.micros[chosen], self.origin.take(chosen), self.own, ascending)


@dataclass(frozen=True, eq=False)
class Events:
    """Rows of one partition of one stream: `events["price"]` is a polars column, `events.ts` the event times."""

    frame: pl.DataFrame
    ts: Times
    stream: str = ""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """The columns of the stream that no program can read, and why."""

    @property
    def partition(self) -> int:
        """The partition of the job that these rows belong to."""
        return self.ts.origin.partition

    @property
    def columns(self) -> list[str]:
        return self.frame.columns

    def __len__(self) -> int:
        return len(self.ts)

    def __getitem__(self, name: str) -> pl.Series:
        try:
            return self.frame[name]
        except pl.exceptions.ColumnNotFoundError:
            raise no_such_column(self.stream, name, self.columns, self.unreadable) from None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - never returns
        hint = f"write events[{name!r}]" if name in self.__dict__["frame"].columns else 'columns are events["name"]'
        raise AttributeError(f"events have no attribute {name!r}; {hint}, a selection is events.where(...)")

    def where(self, mask: Mask) -> Events:
        """Returns the rows for which `mask` is true; null counts as false."""
        if isinstance(mask, pl.Expr):
            with self.named_columns():
                mask = self.frame.select(mask).to_series()
        if isinstance(mask, pl.Series):
            if mask.dtype != pl.Boolean:
                raise BadElement(
                    f"`where` takes a boolean column, not {mask.dtype}", hint='e.g. events["kind"] == "bid"'
                )
            mask = mask.fill_null(False)
        if len(mask) != len(self):
            raise BadElement(f"a mask of {len(mask)} for {len(self)} rows", hint="derive the mask from these events")
        return self.kept(mask if isinstance(mask, pl.Series) else pl.Series(mask, dtype=pl.Boolean))

    def take(self, chosen: npt.NDArray[np.generic]) -> Events:
        """Returns some of the rows, by mask or by position, in log order."""
        if chosen.dtype == np.bool_:
            return self.kept(pl.Series(chosen))
        return replace(self, frame=self.frame[chosen], ts=self.ts.take(chosen))

    def kept(self, mask: pl.Series) -> Events:
        """Returns the rows for which a column without nulls is true."""
        count = int(mask.sum())
        if count == len(self):
            return self
        few = _FEW * count < len(self)  # few rows are fetched, many are filtered
        places = mask.arg_true().to_numpy().astype(np.int64) if few else np.flatnonzero(mask.to_numpy())
        times = Times(self.ts.micros[places], self.ts.origin.take(places), self.ts.own, self.ts.ascending)
        return replace(self, frame=self.frame[places] if few else self.frame.filter(mask), ts=times)

    def slice(self, start: int, stop: int) -> Events:
        """Returns the rows from `start` up to `stop`."""
        chosen = np.arange(start, stop, dtype=np.int64)
        return replace(self, frame=self.frame.slice(start, stop - start), ts=self.ts.take(chosen))

    def select(self, *columns: str | pl.Expr, **named: pl.Expr | pl.Series) -> Events:
        """Returns the same rows with other columns."""
        with self.named_columns():
            return replace(self, frame=self._same_rows(self.frame.select(*columns, **_literal(named))))

    def with_columns(self, *columns: pl.Expr | pl.Series, **named: pl.Expr | pl.Series | float | str) -> Events:
        """Returns the same rows with more columns."""
        with self.named_columns():
            return replace(self, frame=self._same_rows(self.frame.with_columns(*columns, **_literal(named))))

    @contextmanager
    def named_columns(self) -> Iterator[None]:
        """Turns polars' error about a column that is missing into one that names the stream."""
        try:
            yield
        except pl.exceptions.ColumnNotFoundError as error:
            raise no_such_column(self.stream, _column_of(error), self.columns, self.unreadable) from error
        except BadInput as error:  # of a pipeline's step
            cause = error.__cause__
            name = _column_of(cause) if isinstance(cause, pl.exceptions.ColumnNotFoundError) else ""
            if name not in self.unreadable:
                raise
            line = error.message.partition(": ")[0]
            raise cannot_read(self.stream, name, self.unreadable[name], line=line) from error

    def _same_rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        if len(frame) == len(self):
            return frame
        if len(frame) == 1 and len(self) > 1:
            return frame.select(pl.all().repeat_by(len(self)).explode())
        raise BadElement(
            f"{len(frame)} rows made from {len(self)}", hint="make one row of each row; aggregates belong into handles"
        )

    def times(self, column: str) -> Times:
        """Returns another time column, with the origins of these rows."""
        times = event_times(self[column], self.stream)
        if times.null_count():
            raise BadInput(f"time column {column!r} of stream {self.stream!r} has nulls", hint="filter them out first")
        return Times(times.to_numpy(), self.ts.origin)

    def by_window(self, handle: WindowedHandle) -> Iterator[tuple[Window, Events]]:
        """Yields each window of a handle with the rows in it: `for window, run in events.by_window(self.total)`."""
        if not handle.window.known_ahead:
            raise BadElement(f"{handle.window} has no fixed edges", hint="by_window takes a tumbling or sliding handle")
        if handle.window.counted:
            raise BadElement(
                f"{handle.window} is cut by the rows of all partitions",
                hint="by_window takes a handle with windows of time",
            )
        spec = handle.window.aligned
        panes = spec.panes_of(self.ts.micros)
        edges = np.flatnonzero(panes[1:] != panes[:-1]) + 1
        bounds = [0, *edges.tolist(), len(self)]
        for start, stop in itertools.pairwise(bounds):
            if start < stop:
                yield spec.at(int(self.ts.micros[start])), self.slice(start, stop)


class Event:
    """One row, for `each`: `event["price"]`, and `event.ts` in microseconds."""

    __slots__ = ("_row", "_unreadable", "partition", "stream", "ts")

    def __init__(
        self, row: dict[str, Any], ts: int, partition: int, stream: str, unreadable: Mapping[str, str] = NOTHING
    ) -> None:
        self._row = row
        self._unreadable = unreadable
        self.ts = ts
        self.partition = partition
        self.stream = stream

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a row's values are of any type
        try:
            return self._row[name]
        except KeyError:
            raise no_such_column(self.stream, name, self._row, self._unreadable) from None

    def __repr__(self) -> str:
        return f"Event(ts={self.ts}, {self._row})"


def no_such_column(stream: str, name: str, columns: Iterable[str], unreadable: Mapping[str, str]) -> BadInput:
    """Returns the error of a program that names a column which it cannot have."""
    if name in unreadable:
        return cannot_read(stream, name, unreadable[name])
    return BadInput(
        f"stream {stream!r} has no column {name!r}",
        hint=f"it has {', '.join(columns)}; a job with columns= sees no others",
    )


def _column_of(error: pl.exceptions.ColumnNotFoundError) -> str:
    """Returns the name of the column that polars could not find."""
    name = _IN_QUOTES.search(str(error))
    return name[1] if name else "?"


def cannot_read(stream: str, column: str, reason: str, **where: object) -> BadInput:
    """Returns the error of a job that reads a column which is there, and which no program can read."""
    return BadInput(
        f"column {column!r} of stream {stream!r} cannot be read: {reason}",
        hint="convert or rename it where the stream is written; a job that does not read it runs",
        **where,
    )


def event_times(column: pl.Series, stream: str) -> pl.Series:
    """Returns a time column in microseconds; nulls stay, and what lies beyond `TIME_LIMIT` in any unit still does."""
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime):
        column = column.dt.cast_time_unit("us") if dtype.time_unit == "ns" else column.to_physical()
        if dtype.time_unit == "ms":
            column = _scaled(column, 1_000)
    elif dtype == pl.Date:
        column = _scaled(column.to_physical().cast(pl.Int64), 86_400_000_000)
    elif not (dtype.is_integer() or dtype == pl.Null):
        raise BadInput(
            f"time column {column.name!r} of stream {stream!r} is {dtype}",
            hint="it must be a timestamp, a date, or integer microseconds since 1970",
        )
    if column.dtype == pl.Int64:
        return column
    narrowed = column.cast(pl.Int64, strict=False)
    if narrowed.null_count() == column.null_count():
        return narrowed
    return narrowed.fill_null(TIME_LIMIT).zip_with(column.is_not_null(), column.clear(len(column)).cast(pl.Int64))


def _scaled(column: pl.Series, factor: int) -> pl.Series:
    """Returns a column in a smaller unit, where what is out of range stays so, and does not overflow."""
    limit = TIME_LIMIT // factor + 1
    return column.clip(-limit, limit) * factor


def _literal(named: dict[str, Any]) -> dict[str, Any]:
    return {
        name: pl.lit(value) if isinstance(value, int | float | str | datetime.datetime) else value
        for name, value in named.items()
    }
