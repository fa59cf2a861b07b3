"""The keys of rows on their way into aggregates by key, and back: one column, or several as one text."""

from __future__ import annotations

from typing import Any

import polars as pl

from holons.errors import BadElement, BadInput
from holons.program.dataflow.columns import restored


def key_of(frame: pl.DataFrame, names: tuple[str, ...]) -> pl.Series:
    """Returns the key of each row: a column, or several as one text. It is null if one of them is."""
    for name in names:
        if frame[name].dtype.is_float():
            raise BadInput(f"{name!r} is {frame[name].dtype}, which cannot be a key", hint="round it, or format it")
    if len(names) == 1:
        return frame[names[0]]
    known = pl.all_horizontal(pl.col(name).is_not_null() for name in names)
    return frame.select(
        pl.when(known).then(pl.struct(_plain_key(name, frame) for name in names).struct.json_encode())
    ).to_series()


def _plain_key(name: str, frame: pl.DataFrame) -> pl.Expr:
    return pl.col(name).to_physical().alias(name) if frame[name].dtype.is_temporal() else pl.col(name)


def check_keys(frame: pl.DataFrame, names: tuple[str, ...]) -> None:
    """Raises for keys that are kept as numbers, if no schema says what they were."""
    for name in names:
        dtype = frame[name].dtype
        if dtype.is_temporal() or (dtype == pl.Boolean and len(names) == 1):
            raise BadElement(
                f"the key {name!r} is {dtype}, and would come back as a number",
                hint="give the source a schema: h.source(..., schema={...})",
            )


def key_columns(keys: Any, names: tuple[str, ...], schema: pl.Schema | None) -> dict[str, pl.Series]:  # noqa: ANN401
    """Returns the key columns again, out of the keys that an aggregate has."""
    if len(names) == 1:
        return {names[0]: restored(pl.Series(names[0], keys), schema[names[0]] if schema else None)}
    texts = pl.Series(keys, dtype=pl.String)
    if schema is None:
        columns = texts.str.json_decode(infer_schema_length=None).struct.unnest() if len(texts) else pl.DataFrame()
        return {name: columns[name] if len(texts) else pl.Series(name, []) for name in names}
    plain = {name: pl.Int64() if schema[name].is_temporal() else schema[name] for name in names}
    columns = texts.str.json_decode(pl.Struct(plain)).struct.unnest()
    return {name: restored(columns[name], schema[name]) for name in names}
