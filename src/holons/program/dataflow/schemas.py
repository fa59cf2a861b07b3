"""Rows of a stream in the types that its schema declares."""

from __future__ import annotations

import polars as pl

from holons.errors import BadInput
from holons.program.dataflow.lines import written_at
from holons.program.dataflow.needs import Names
from holons.program.dataflow.plan import Source
from holons.program.events import Events


def as_declared(events: Events, source: Source, needed: Names) -> Events:
    """The batch, with the types that its source promised."""
    if source.columns is None:
        return events
    read = [name for name in source.columns if needed is None or name in needed]
    missing = [name for name in read if name not in events.columns]
    if missing:
        with written_at(source.line, f"stream {source.stream!r}"):
            events[missing[0]]  # says what there is
    promised = [name for name in source.columns if name in events.columns]
    if promised and promised != events.columns:
        events = events.select(*promised)
    wrong = [name for name in read if events.frame.schema[name] != source.columns[name]]
    if wrong:
        with written_at(source.line, f"stream {source.stream!r} is not as its schema says"):
            return events.with_columns(*(_kept_as(events.frame[name], source.columns[name]) for name in wrong))
    return events


def _kept_as(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """A column in another type, if no value is lost; times may lose what is below their unit."""
    made = column.cast(dtype)
    plain = not (column.dtype.is_nested() or column.dtype == pl.Null)
    if not plain or (column.dtype.is_temporal() and dtype.is_temporal()):
        return made
    lost = made.cast(column.dtype).ne_missing(column)
    if lost.any():
        first = int(lost.arg_true()[0])
        told = f"{column[first]!r} would be {made[first]!r}"
        raise BadInput(
            f"column {column.name!r} is {column.dtype}, and its schema says {dtype}: {told}",
            hint="name the type that it has in schema=, and convert it yourself: .with_columns(...)",
        )
    return made
