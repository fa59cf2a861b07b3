"""What can be done to rows one by one: the same for a stream's rows and for the rows of completed windows.

A step maps each row to any number of rows by itself, whatever its neighbours are; so it does not matter where a batch
ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from holons.algebra import IntArray
from holons.algebra.cells import constant, is_constant
from holons.errors import BadElement, BadProgram
from holons.program.dataflow.expressions import words
from holons.program.events import Events
from holons.program.lines import line_of_user
from holons.program.tables import Table

Function: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]
Items: TypeAlias = "pl.Expr | str | Callable[[pl.DataFrame], pl.Series]"


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a completed window: their columns, and the time of each, at which a later window counts it."""

    frame: pl.DataFrame
    micros: IntArray

    @staticmethod
    def of(frame: pl.DataFrame, micros: int) -> Part:
        """Makes rows that are all at one time, which takes no memory for each."""
        return Part(frame, constant(np.int64(micros), len(frame)))

    def take(self, chosen: npt.NDArray[np.generic]) -> Part:
        """Returns some of the rows, by mask or by position."""
        if chosen.dtype == np.bool_:
            return self.kept(pl.Series(chosen))
        frame = self.frame[chosen]
        return Part.of(frame, int(self.micros[0])) if self._at_once else Part(frame, self.micros[chosen])

    def kept(self, mask: pl.Series) -> Part:
        """Returns the rows for which a column is true; it has no nulls."""
        if mask.all():
            return self
        frame = filtered(self.frame, mask)
        return Part.of(frame, int(self.micros[0])) if self._at_once else Part(frame, self.micros[mask.to_numpy()])

    @property
    def _at_once(self) -> bool:
        return len(self.micros) > 0 and is_constant(self.micros)


def filtered(frame: pl.DataFrame, mask: pl.Series) -> pl.DataFrame:
    """Returns the rows for which a mask is true: column by column, since to plan a query costs more than it gains here."""
    return pl.DataFrame([column.filter(mask) for column in frame]) if frame.width else frame.filter(mask)


B = TypeVar("B", Events, Part)


class Step(ABC):
    """One thing done to rows. Frozen and picklable."""

    @abstractmethod
    def apply(self, batch: B) -> B:
        """Returns the rows after this step."""

    def schema(self, before: pl.Schema) -> pl.Schema:
        """Returns the columns after this step: it is tried on a frame without rows."""
        return self.apply(Part(before.to_frame(), np.zeros(0, dtype=np.int64))).frame.schema

    @abstractmethod
    def __str__(self) -> str: ...


@dataclass(frozen=True, eq=False)
class Filter(Step):
    """The rows for which all conditions hold; null counts as false."""

    conditions: tuple[pl.Expr, ...]

    def __post_init__(self) -> None:
        for condition in self.conditions:
            if not isinstance(condition, pl.Expr):
                raise BadProgram(
                    f"{line_of_user()}: filter takes polars expressions, not {condition!r:.60}",
                    hint='such as filter(pl.col("price") > 1)',
                )

    def apply(self, batch: B) -> B:
        masks = [batch.frame.select(condition.alias("mask")).to_series() for condition in self.conditions]
        for condition, mask in zip(self.conditions, masks, strict=True):
            if mask.dtype not in (pl.Boolean, pl.Null):
                raise BadElement(f"{condition} is {mask.dtype}, not a condition", hint='e.g. pl.col("price") > 100')
        all_hold = masks[0] if len(masks) == 1 else pl.select(pl.all_horizontal(*masks)).to_series()
        if all_hold.null_count() or all_hold.dtype != pl.Boolean:
            all_hold = all_hold.cast(pl.Boolean).fill_null(False)
        if len(all_hold) != len(batch.frame):
            raise BadElement("a filter looks at each row by itself", hint="no aggregates in a filter: use a window")
        return batch.kept(all_hold)

    def __str__(self) -> str:
        return f"filter {' and '.join(map(words, self.conditions))}"


@dataclass(frozen=True, eq=False)
class Columns(Step):
    """Other columns, or more of them."""

    columns: tuple[pl.Expr, ...]
    more: bool

    def apply(self, batch: B) -> B:
        frame = batch.frame.with_columns(*self.columns) if self.more else batch.frame.select(*self.columns)
        if len(frame) != len(batch.frame):
            if len(frame) != 1 or any(column.meta.root_names() for column in self.columns):
                raise BadElement(
                    f"{len(frame)} rows made from {len(batch.frame)}", hint="no aggregates here: use a window"
                )
            frame = frame.select(pl.all().repeat_by(len(batch.frame)).explode())  # only constants
        return replace(batch, frame=frame)

    def __str__(self) -> str:
        return f"{'with columns' if self.more else 'select'} {', '.join(map(words, self.columns))}"


@dataclass(frozen=True, eq=False)
class MapBatches(Step):
    """A function on batches: a frame in, a frame with as many rows out."""

    function: Function

    def apply(self, batch: B) -> B:
        frame = self.function(batch.frame)
        if not isinstance(frame, pl.DataFrame) or len(frame) != len(batch.frame):
            got = f"{len(frame)} rows" if isinstance(frame, pl.DataFrame) else f"a {type(frame).__name__}"
            raise BadElement(
                f"{self} made {got} from {len(batch.frame)} rows",
                hint="return a polars frame with one row for each; use filter or explode for fewer or more",
            )
        return replace(batch, frame=frame)

    def __str__(self) -> str:
        return f"map_batches {getattr(self.function, '__name__', 'function')}"


@dataclass(frozen=True, eq=False)
class Explode(Step):
    """A row for each item of a list column; none for an empty list, or null."""

    name: str
    items: Items

    def apply(self, batch: B) -> B:
        if callable(self.items) and not isinstance(self.items, pl.Expr):
            lists = self.items(batch.frame)
        else:
            lists = batch.frame.select(pl.col(self.items) if isinstance(self.items, str) else self.items).to_series()
        if not isinstance(lists, pl.Series) or not isinstance(lists.dtype, pl.List) or len(lists) != len(batch.frame):
            raise BadElement(
                f"{self} needs a list for each row", hint='e.g. explode(word=pl.col("text").str.split(" "))'
            )
        lengths = lists.list.len().fill_null(0).to_numpy()
        items = lists.filter(pl.Series(lengths > 0)).explode() if len(lists) else lists.explode()
        chosen = batch.take(np.repeat(np.arange(len(lists)), lengths))
        return replace(chosen, frame=chosen.frame.with_columns(items.alias(self.name)))

    def __str__(self) -> str:
        return f"explode {self.name}"


@dataclass(frozen=True, eq=False)
class Lookup(Step):
    """Columns of a small table, found by key."""

    table: Table
    on: pl.Expr
    how: Literal["inner", "left"]

    def __post_init__(self) -> None:
        if self.how not in ("inner", "left"):
            raise BadProgram(f"{line_of_user()}: a lookup has no how={self.how!r}", hint='how="inner" or how="left"')

    def apply(self, batch: B) -> B:
        keys = batch.frame.select(self.on.alias("key")).to_series()
        own = self.table.frame.schema[self.table.key]
        if (keys.dtype == pl.String) != (own == pl.String):
            raise BadProgram(
                f"the keys are {keys.dtype}, and {self.table.key!r} of the table is {own}",
                hint="cast one of them to the other's type",
            )
        wanted = [name for name in self.table.frame.columns if name != self.table.key]
        twice = sorted(set(wanted) & set(batch.frame.columns))
        if twice:
            raise BadProgram(
                f"rows and table both have {', '.join(twice)}", hint="select or rename columns of the table first"
            )
        frame = batch.frame.with_columns(self.table.lookup(keys, name) for name in wanted)
        joined = replace(batch, frame=frame)
        if self.how == "left":
            return joined
        known = self.table.frame[self.table.key].implode()
        return joined.take(keys.cast(own).is_in(known).fill_null(False).to_numpy())

    def __str__(self) -> str:
        return f"{self.how} lookup of {words(self.on)} in a table of {len(self.table):,} rows by {self.table.key}"
