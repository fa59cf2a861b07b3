"""Results as rows and as tables."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import ClassVar

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import holons as h
from holons.engines.collecting import outputs_in_logs
from holons.errors import BadInput
from holons.streams import MemoryLog

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


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([None, 1], pl.Int64),
        ([1, 2.5], pl.Float64),
        ([True, 1], pl.Int64),
        ([Decimal("999.9"), Decimal("0.001")], pl.Decimal(6, 3)),
        ([[], [1]], pl.List(pl.Int64)),
        ([{"a": 1}, {"b": "x"}], pl.Struct({"a": pl.Int64, "b": pl.String})),
        ([1, NOON], None),
        ([NOON, NOON.replace(tzinfo=None)], None),
        ([[1], 1], None),
    ],
)
def test_a_column_of_several_types_gets_one_that_holds_all_values_or_is_refused(values, wanted):
    results = h.Results.of({"process": {0: [{"v": value} for value in values]}})
    assert [row["v"] for row in results.rows()] == values
    if wanted is None:
        with pytest.raises(BadInput, match=r"some rows of channel 'process' have .* in column 'v', and others .*"):
            results.to_polars()
        return
    frame = results.to_polars()
    assert frame.schema == {"partition": pl.Int64, "v": wanted}
    assert frame["v"].dtype == wanted
    if not isinstance(wanted, pl.Struct):
        assert frame["v"].to_list() == values


class CountingLog(MemoryLog):
    """Counts the rows that are read, and notes of which columns."""

    rows_read = 0
    columns: ClassVar[set[str]] = set()

    def read(self, partition, offset, rows_max, columns=None):
        chunks = super().read(partition, offset, rows_max, columns)
        CountingLog.rows_read += sum(chunk.length for chunk in chunks)
        CountingLog.columns |= {name for chunk in chunks for name in chunk.rows.schema.names}
        return chunks


@pytest.fixture
def many():
    """A hundred thousand rows in two partitions; what is read of them is counted from then on."""
    log = CountingLog(2)
    for partition in (0, 1):
        for first in range(0, 50_000, 1_000):
            log.append(partition, pa.record_batch({"n": range(first, first + 1_000), "text": ["x" * 99] * 1_000}))
    CountingLog.rows_read, CountingLog.columns = 0, set()
    return h.Results(outputs_in_logs({"process": lambda: log}))


def test_a_notebook_reads_the_rows_that_it_shows_and_no_others(many):
    assert "100,000 rows, the last:" in many._repr_html_()
    assert CountingLog.rows_read == 8


def test_counts_need_no_rows(many):
    assert (many.count(), many.count("process", 1), many.count("late")) == (100_000, 50_000, 0)
    assert repr(many) == "Results(process: 100000 rows)"
    assert CountingLog.rows_read == 0


def test_a_scan_reads_the_columns_and_rows_that_a_query_needs(many):
    lazy = many.scan()
    CountingLog.rows_read, CountingLog.columns = 0, set()
    assert lazy.select(pl.col("n").sum()).collect().item() == 2 * sum(range(50_000))
    assert CountingLog.columns == {"n"}
    CountingLog.rows_read = 0
    assert len(lazy.head(10).collect()) == 10
    assert CountingLog.rows_read < 100_000
    assert lazy.filter(pl.col("n") == 7).select("partition").collect()["partition"].to_list() == [0, 1]
    batches = list(many.reader())
    assert (len(batches), sum(batch.num_rows for batch in batches)) == (100, 100_000)


@pytest.mark.parametrize("table", ["rows", "count", "scan", "schema", "reader", "to_polars", "to_arrow", "to_pandas"])
def test_a_channel_that_is_not_there_is_named(table):
    with pytest.raises(BadInput, match="'lates'"):
        getattr(RESULTS, table)("lates")
    with pytest.raises(
        BadInput,
        match=rf"this job has several channels: a, b, process, late, dead\n  hint: .*results\.{table}\(\"a\"\)",
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
    assert RESULTS.to_spark("late", frame.sparkSession).collect() == [(0, 3, None, None)]
    assert RESULTS.to_spark("dead").columns == ["partition", "_stream", "_offset", "_reason"]


class Keeps(h.Program):
    """Without windows."""

    def process(self, events):
        self.output(events)


@pytest.mark.parametrize("log", [None, "site"])
def test_diverted_rows_have_the_columns_of_their_stream_also_while_there_are_none(log, tmp_path):
    bids = pl.DataFrame({"ts": [1, 2], "price": pl.Series([3, 4], dtype=pl.Int16), "who": ["ann", "bob"]})
    job = h.job(Keeps(), "bids", columns=["price"])
    run = h.run(job, {"bids": [bids.head(0), bids]}, engine="embedded", log=None if log is None else tmp_path / log)
    results = run.wait().results()
    assert results.count("late") == results.count("dead") == 0
    places = {"_stream": pl.String, "_offset": pl.Int64}
    assert results.schema("late") == pl.Schema({"partition": pl.Int64, **bids.schema, **places})
    assert results.to_polars("dead").schema == pl.Schema(
        {"partition": pl.Int64, **bids.schema, **places, "_reason": pl.String}
    )
