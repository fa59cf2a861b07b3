"""A table that a program carries along: small, bounded, the same on every node.

It is part of the program: it travels with it, and counts for its digest. So other rows make another version of the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa

from holons.errors import BadInput

_ROWS_MAX: Final = 5_000_000
_BYTES_MAX: Final = 256 << 20


@dataclass(frozen=True)
class Table:
    """Rows with a key: `self.items.lookup(events["item"], "category")`. Their order does not count."""

    data: bytes
    key: str

    @cached_property
    def frame(self) -> pl.DataFrame:
        """All rows, sorted by key."""
        return pl.read_ipc(self.data)

    def lookup(self, keys: pl.Series, column: str) -> pl.Series:
        """Returns the value of a column for each key; null where the table has no such key."""
        if column not in self.frame.columns:
            raise BadInput(f"the table has no column {column!r}", hint=f"it has {', '.join(self.frame.columns)}")
        ours = self.frame.select(pl.col(self.key).alias("key"), pl.col(column).alias("value"))
        try:
            wanted = keys.alias("key").to_frame().with_columns(pl.col("key").cast(ours.schema["key"]))
            joined = wanted.join(ours, on="key", how="left", maintain_order="left")
        except pl.exceptions.PolarsError as error:
            raise BadInput(
                f"{self.key!r} is {ours.schema['key']}, and the keys are {keys.dtype}",
                hint="cast one of them to the other's type",
            ) from error
        return joined["value"].alias(column)

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        return f"Table({len(self):,} rows by {self.key}: {', '.join(self.frame.columns)})"


def table(rows: Any, key: str) -> Table:  # noqa: ANN401 - Spark's DataFrame must not be imported here
    """Makes a table for a program of a Spark DataFrame (collected now), an Arrow or polars table, or a Parquet file.

    >>> items = table(pl.DataFrame({"item": [2, 1], "category": ["tea", "tools"]}), key="item")
    >>> items.lookup(pl.Series([1, 3]), "category").to_list()
    ['tools', None]
    """
    frame = _frame(rows)
    if key not in frame.columns:
        raise BadInput(f"the table has no column {key!r}", hint=f"name one of {', '.join(frame.columns)}: key=...")
    if frame[key].null_count():
        raise BadInput(f"a row of the table has no {key!r}", hint="filter such rows out first")
    if frame[key].n_unique() < len(frame):
        twice = frame.filter(pl.col(key).is_duplicated())[key][0]
        raise BadInput(f"{key} {twice!r} is in the table twice", hint="one row for each key: aggregate, or choose")
    data = frame.sort(key).rechunk().write_ipc(None, compat_level=pl.CompatLevel.oldest()).getvalue()
    if len(data) > _BYTES_MAX:
        raise BadInput(
            f"the table has {len(data) >> 20} MB, which every node would hold",
            hint=f"select the columns that are needed; up to {_BYTES_MAX >> 20} MB are fine",
        )
    return Table(data, key)


def _frame(rows: Any) -> pl.DataFrame:  # noqa: ANN401
    if isinstance(rows, pl.DataFrame):
        return rows
    if isinstance(rows, str | Path):
        try:
            return pl.read_parquet(rows)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise BadInput(f"{rows} cannot be read as a table: {error}", hint="it must be a Parquet file") from error
    if hasattr(rows, "toArrow"):
        if rows.isStreaming:
            raise BadInput("a stream is not a table", hint="read it with spark.read, or make it an input of the job")
        rows = rows.limit(_ROWS_MAX + 1).toArrow()
    if isinstance(rows, pa.Table | pa.RecordBatch):
        if rows.num_rows > _ROWS_MAX:
            raise BadInput(
                f"more than {_ROWS_MAX:,} rows, which every node would hold",
                hint="filter and select what is needed, or make it an input of the job",
            )
        frame = pl.from_arrow(rows)
        assert isinstance(frame, pl.DataFrame)
        return frame
    raise BadInput(
        f"a {type(rows).__name__} is not a table", hint="a Spark DataFrame, an Arrow or polars table, or a Parquet file"
    )
