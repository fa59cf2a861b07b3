"""Results as rows and as tables."""

from __future__ import annotations

import datetime

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import holons as h
from holons.errors import BadInput

NOON = datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.UTC)
ROWS = [
    {"n": 1, "share": 0.5, "who": "ann", "ok": True, "at": NOON, "tags": ["a", "b"], "none": None},
    {"n": 2**40, "share": None, "who": "böb", "ok": False, "at": NOON, "tags": [], "none": None},
]
RESULTS = h.Results.of({"on_window": {1: ROWS[1:], 0: ROWS[:1]}, "late": {0: [{"ts": 3}]}}, ("on_window",))


def test_rows_come_partition_after_partition():
    assert RESULTS.rows() == ROWS
    assert RESULTS.rows(partition=1) == ROWS[1:]
    assert RESULTS.rows("late") == [{"ts": 3}]
    assert repr(RESULTS) == "Results(on_window: 2 rows, late: 1 rows)"


def test_rows_that_are_set_aside_have_their_columns_also_while_there_are_none():
    empty = h.Results.of({}, ("on_window",))
    assert empty.to_polars("late").columns == ["partition", "_stream", "_offset"]
    assert empty.to_polars("dead").columns == ["partition", "_stream", "_offset", "_reason"]
    assert empty.to_polars().columns == ["partition"]


def test_tables_have_the_partition_and_types():
    whole = [{"partition": number, **row} for number, row in enumerate(ROWS)]
    frame, table = RESULTS.to_polars(), RESULTS.to_arrow()
    assert frame.to_dicts() == table.to_pylist() == whole
    assert table.schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert table.schema.field("who").type == pa.large_string()
    panda = RESULTS.to_pandas()
    assert isinstance(panda, pd.DataFrame)
    assert panda["n"].tolist() == [1, 2**40]


@pytest.mark.parametrize("table", ["to_polars", "to_arrow", "to_pandas"])
def test_a_channel_without_rows_is_an_empty_table(table):
    assert len(getattr(RESULTS, table)("dead")) == 0
    assert len(getattr(RESULTS, table)("process")) == 0


def test_rows_of_different_shapes_meet_in_one_table():
    results = h.Results.of({"on_window": {0: [{"a": 1}, {"b": 2.5}, {"a": 1.5}]}}, ("on_window",))
    assert results.to_polars().to_dict(as_series=False) == {
        "partition": [0, 0, 0],
        "a": [1.0, None, 1.5],
        "b": [None, 2.5, None],
    }


@pytest.mark.parametrize("table", ["rows", "to_polars", "to_arrow", "to_pandas"])
def test_a_channel_that_is_not_there_is_named(table):
    with pytest.raises(BadInput, match="'lates'"):
        getattr(RESULTS, table)("lates")
    with pytest.raises(
        BadInput, match=r"this job has several channels: a, b, late, dead\n  hint: .*results\.rows\(\"a\"\)"
    ):
        getattr(h.Results.of({}, ("a", "b")), table)()


def test_a_notebook_shows_each_channel_with_rows_and_the_declared_ones():
    shown = h.Results.of({"late": {0: [{"ts": 3_000}]}}, ("on_window",))._repr_html_()
    assert "on_window: 0 rows" in shown
    assert "late: 1 rows" in shown
    assert "3,000" in shown
    assert "dead" not in shown


def test_only_the_last_rows_are_shown():
    shown = h.Results.of({"on_window": {0: [{"n": f"row {n}"} for n in range(100)]}}, ("on_window",))._repr_html_()
    assert "100 rows, the last:" in shown
    assert "row 99" in shown
    assert "row 91<" not in shown


@pytest.mark.spark
def test_spark_gets_the_same_rows_with_their_types():
    frame = RESULTS.to_spark()
    assert dict(frame.dtypes) == {
        "partition": "bigint",
        "n": "bigint",
        "share": "double",
        "who": "string",
        "ok": "boolean",
        "at": "timestamp",
        "tags": "array<string>",
        "none": "void",
    }
    assert pl.from_arrow(frame.toArrow()).to_dicts() == RESULTS.to_polars().to_dicts()
    assert RESULTS.to_spark("late", frame.sparkSession).collect() == [(0, 3)]
    assert RESULTS.to_spark("dead").columns == ["partition", "_stream", "_offset", "_reason"]
