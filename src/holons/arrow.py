"""What Arrow can hold and polars or Python cannot: which columns a program can read, and rows as Python values at any rate.

Users' files have columns of types that polars has not (unions, intervals, decimals of 256 bits), columns that share a name,
and times that no calendar of Python reaches. A job that does not read them must not notice, and rows that are diverted
must be whole. So there are two views of the same rows:

- `readable` leaves such columns out; `unreadable` says why. Run-end-encoded columns are read as what they stand for.
- `whole` has all columns: one that polars cannot have is text, each value as Python prints it, and of several columns with
  one name the others are called `name#2`, `name#3`. Seconds beyond the range of milliseconds become the last of that range.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)
Column: TypeAlias = pa.Array | pa.ChunkedArray

_SECONDS_MAX: Final = (2**63 - 1) // 1000
_SCHEMAS_REMEMBERED: Final = 256


class _Field(NamedTuple):
    """How one column is seen."""

    name: str
    """Its own name, or another one if columns before it have that."""
    kind: pa.DataType
    """What it is in types that polars has."""
    convert: Callable[[Column], Column] | None
    """Makes of it what polars can have; None: it can be left as it is."""
    reason: str
    """Why a program cannot read it; empty if it can."""


def unreadable(schema: pa.Schema) -> dict[str, str]:
    """Returns the columns that a program cannot read, and why.

    >>> unreadable(pa.schema({"n": pa.int64(), "span": pa.month_day_nano_interval()}))
    {'span': 'it is month_day_nano_interval, which polars has no type for'}
    """
    return {schema.names[at]: field.reason for at, field in enumerate(_fields(schema) or ()) if field.reason}


def column_names(schema: pa.Schema) -> list[str]:
    """Returns the names of all columns, at any depth; raises `UnicodeDecodeError` if one, or a zone, is not text.

    Arrow never looks.

    >>> column_names(pa.schema({"at": pa.struct({"x": pa.int8()})}))
    ['at', 'x']
    """
    return [name for field in schema for name in _names(field)]


def _names(field: pa.Field) -> list[str]:
    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    inner = [kind.field(at) for at in range(kind.num_fields)]
    if types.is_timestamp(kind):
        str(kind.tz)
    return [field.name, *(name for part in inner for name in _names(part))]


def readable(rows: Rows) -> Rows:
    """Returns the columns that a program can read."""
    fields = _fields(rows.schema)
    if fields is None:
        return rows
    seen = [at for at, field in enumerate(fields) if not field.reason]
    return _converted(rows.select(seen), [fields[at] for at in seen])


def whole(rows: Rows) -> Rows:
    """Returns all columns, in types that polars has."""
    fields = _fields(rows.schema)
    return rows if fields is None else _converted(rows, fields)


def whole_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the schema that `whole` gives to rows of a schema."""
    fields = _fields(schema)
    return schema if fields is None else pa.schema([(field.name, field.kind) for field in fields])


def python_rows(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Returns rows as dicts: values that Python has no type for are text, and nothing raises.

    >>> python_rows(pa.record_batch({"at": pa.array([10**12], pa.timestamp("s"))}))
    [{'at': '<value out of range: 1000000000000>'}]
    """
    fields = _fields(rows.schema)
    named = rows if fields is None else rows.rename_columns([field.name for field in fields])
    try:
        return named.to_pylist()
    except (ArithmeticError, ValueError, KeyError, NotImplementedError):  # of Arrow, too
        columns = [[_python(value) for value in column] for column in named.columns]
        return [dict(zip(named.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


@lru_cache(maxsize=_SCHEMAS_REMEMBERED)
def _fields(schema: pa.Schema) -> tuple[_Field, ...] | None:
    """Returns how each column is seen; None if all are as they are."""
    names, taken = schema.names, set(schema.names)
    fields = [_field(field.name, field.type) for field in schema]
    if len(taken) < len(names):
        for at, name in enumerate(names):
            if names.count(name) > 1:
                reason = f"there are {names.count(name)} columns of that name"
                fields[at] = fields[at]._replace(reason=reason, name=_free(name, names[:at], taken))
    return tuple(fields) if any(field.convert or field.reason for field in fields) else None


def _free(name: str, before: list[str], taken: set[str]) -> str:
    """Returns a name for a column that is one of several with the same name."""
    if name not in before:
        return name
    number = before.count(name) + 1
    while f"{name}#{number}" in taken:
        number += 1
    taken.add(f"{name}#{number}")
    return f"{name}#{number}"


def _field(name: str, kind: pa.DataType) -> _Field:
    if types.is_timestamp(kind) and kind.unit == "s" and _has_polars(kind):
        return _Field(name, kind, _within_milliseconds, "")
    if types.is_run_end_encoded(kind) and _has_polars(kind.value_type):
        return _Field(name, kind.value_type, pc.run_end_decode, "")
    if _has_polars(kind):
        return _Field(name, kind, None, "")
    return _Field(name, pa.string(), _text, f"it is {kind}, which polars has no type for")


def _has_polars(kind: pa.DataType) -> bool:
    """Whether polars has a type for values of an Arrow type, whatever is in them."""
    if isinstance(kind, pa.BaseExtensionType):
        return _has_polars(kind.storage_type)
    if types.is_dictionary(kind):
        return _has_polars(kind.value_type)
    if types.is_timestamp(kind) and kind.tz is not None:
        return _has_zone(kind.tz)
    if types.is_union(kind) or types.is_interval(kind) or types.is_decimal256(kind) or types.is_run_end_encoded(kind):
        return False
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return False
    return all(_has_polars(kind.field(at).type) for at in range(kind.num_fields))


def _has_zone(zone: str) -> bool:
    try:
        pl.from_arrow(pa.array([], pa.timestamp("us", zone)))
    except pl.exceptions.PolarsError:
        return False
    return True


def _converted(rows: Rows, fields: list[_Field] | tuple[_Field, ...]) -> Rows:
    columns = [
        column if field.convert is None else field.convert(column)
        for field, column in zip(fields, rows.columns, strict=True)
    ]
    if not columns:
        return rows
    return type(rows).from_arrays(columns, names=[field.name for field in fields])


def _within_milliseconds(column: Column) -> Column:
    seconds = column.cast(pa.int64())
    bounds = pc.min_max(seconds)
    if (bounds["max"].as_py() or 0) <= _SECONDS_MAX and (bounds["min"].as_py() or 0) >= -_SECONDS_MAX:
        return column
    below = pc.min_element_wise(seconds, _SECONDS_MAX, skip_nulls=False)
    within = pc.max_element_wise(below, -_SECONDS_MAX, skip_nulls=False)
    return within.cast(column.type)


def _text(column: Column) -> Column:
    values = [None if (value := _python(item)) is None else str(value) for item in column]
    return pa.array(values, pa.string())


def _python(value: pa.Scalar) -> Any:  # noqa: ANN401 - whatever the column holds
    """Returns a value of Arrow as one of Python, as text if there is no other."""
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return value.as_buffer().to_pybytes().decode("utf-8", "replace")
    except (ArithmeticError, ValueError, KeyError, NotImplementedError):
        pass
    if isinstance(value, pa.StructScalar):
        return {field.name: _python(value[at]) for at, field in enumerate(value.type)}
    if isinstance(value, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):
        return [_python(item) for item in value.values]
    if isinstance(value, pa.TimestampScalar):
        value = pa.scalar(value.value, pa.timestamp(value.type.unit))  # in UTC
    try:
        return value.cast(pa.string()).as_py()
    except (pa.ArrowException, ValueError, NotImplementedError):
        return f"<{value.type}>"
