"""What Nexmark's queries must give: plain SQL over all events at once, run by DuckDB, which shares nothing with us."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Final

import pyarrow as pa

from holons.errors import BadInput, MissingExtra

_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND
PARAMETERS: Final[Mapping[str, Mapping[str, int]]] = {
    "q0": {},
    "q1": {},
    "q2": {},
    "q3": {},
    "q4": {"window_us": _SECOND},
    "q5": {"size_us": 10 * _SECOND, "every_us": 2 * _SECOND},
    "q6": {"window_us": _SECOND},
    "q7": {"window_us": 10 * _SECOND},
    "q8": {"window_us": 10 * _SECOND},
    "q9": {},
    "q10": {},
    "q11": {"gap_us": 10 * _SECOND},
    "q13": {},
    "q14": {},
    "q15": {"window_us": _DAY},
    "q16": {"window_us": _DAY},
    "q17": {"window_us": _DAY},
    "q18": {"window_us": 10 * _SECOND},
    "q19": {"window_us": 10 * _SECOND},
    "q20": {},
    "q21": {},
    "q22": {},
}
"""The queries that have an answer, each with its parameters and what they are unless told otherwise."""
_SAME: Final = {"q10": "q0"}
"""q10 writes all bids to files: as rows they are those of q0."""
_TOLD: Final = {"q10": "all bids, to be written to files by time"}
_SIDE_KEYS: Final = 80
_THREADS: Final = 2


def answer(query: str, tables: Mapping[str, pa.Table], **parameters: int) -> pa.Table:
    """The rows of a query, in no particular order, over tables as `Load.table` makes them: people, auctions, bids.

    q13 also reads `side`, which is `side_table()` unless given. Times are in microseconds, UTC.

    >>> from holons.nexmark.load import Load
    >>> load = Load(events=500)
    >>> answer("q7", {"bids": load.table("bids")}, window_us=20_000).num_rows
    3
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtra(
            "answers are computed by duckdb, which is not installed", hint="pip install 'holons[nexmark]'"
        ) from error
    values = _parameters(query, parameters)
    with duckdb.connect(config={"threads": _THREADS}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET python_enable_replacements = false")  # a table is one of ours, never a variable's value
        connection.execute(_text("windows"))
        for name, table in {"side": side_table(), **tables}.items():
            connection.register(name, table)
        return connection.sql(_text(_SAME.get(query, query)), params=values).to_arrow_table()


def description(query: str) -> str:
    """What a query gives, in a line: the first of its SQL.

    >>> description("q7")
    'the highest bid of each window, of equal ones the first'
    """
    _parameters(query, {})
    first = _text(_SAME.get(query, query)).partition("\n")[0].partition(": ")[2].removesuffix(".")
    return _TOLD.get(query, first)


def side_table() -> pa.Table:
    """q13's side table: a value for four of five keys below 100.

    >>> side_table().slice(79).to_pylist()
    [{'key': 79, 'value': 'value-79'}]
    """
    keys = range(_SIDE_KEYS)
    return pa.table({"key": pa.array(keys, pa.int64()), "value": [f"value-{key}" for key in keys]})


def _parameters(query: str, overrides: Mapping[str, int]) -> dict[str, int]:
    """All parameters of a query, those that are given and the others."""
    if query not in PARAMETERS:
        raise BadInput(f"there is no answer to '{query}'", hint=f"one of {', '.join(PARAMETERS)}")
    known = PARAMETERS[query]
    for name, value in overrides.items():
        if name not in known:
            raise BadInput(f"{query} has no parameter '{name}'", hint=f"it has {', '.join(known) or 'none'}")
        if value < 1:
            raise BadInput(f"{query} with {name}={value}", hint="durations are at least a microsecond")
    return {**known, **overrides}


def _text(name: str) -> str:
    return resources.files("holons.nexmark").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
