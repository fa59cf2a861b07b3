"""Rows of a stream in the types that its schema declares."""

from __future__ import annotations

import polars as pl

from holons.errors import BadInput
from holons.program.dataflow.needs import Names
from holons.program.dataflow.plan import Source
from holons.program.events import Events
from holons.program.lines import written_at


def as_declared(events: Events, source: Source, needed: Names) -> Events:
    """Returns the batch with the columns and types that its source declares."""
    if source.columns is None:
        return events
    read = [name for name in source.columns if needed is None or name in needed]
    missing = [name for name in read if name not in events.columns]
    if missing:
        with written_at(source.line, f"stream {source.stream!r}"):
            events[missing[0]]  # raises, and names the columns of the batch
    declared = [name for name in source.columns if name in events.columns]
    if declared and declared != events.columns:
        events = events.select(*declared)
    wrong = [name for name in read if events.frame.schema[name] != source.columns[name]]
    if wrong:
        with written_at(source.line, f"stream {source.stream!r} is not as its schema says"):
            return events.with_columns(*(_converted(events.frame[name], source.columns[name]) for name in wrong))
    return events


def _converted(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Converts a column to another type, unless a value is lost; times may lose what is below their unit."""
    made = column.cast(dtype)
    plain = not (column.dtype.is_nested() or column.dtype == pl.Null)
    if not plain or (column.dtype.is_temporal() and dtype.is_temporal()):
        return made
    lost = made.cast(column.dtype).ne_missing(column)
    if lost.any():
        first = int(lost.arg_true()[0])
        raise BadInput(
            f"column {column.name!r} is {column.dtype}, and its schema says {dtype}: "
            f"{column[first]!r} would be {made[first]!r}",
            hint="name the type that it has in schema=, and convert it yourself: .with_columns(...)",
        )
    return made
