"""Types and values go through a pipeline and come back from its results as they were, on every engine."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from polars.testing import assert_frame_equal
from tests.arrow_tables import TYPES, tables

import holons as h

LATE_TS = pl.lit(4_000, pl.Int64)
CARRIED = [
    name
    for name in TYPES
    if name not in ("uint64", "decimal", "wide_decimal", "binary", "list", "array", "struct", "nested", "nothing")
]
"""Types that aggregates keep; the others are refused when a pipeline is built, or do not fit into 64 signed bits."""


def frame_of(table: pa.Table) -> pl.DataFrame:
    """The table, with an enum, which Arrow knows as a dictionary."""
    words = pl.DataFrame(table)["category"].cast(pl.String)
    return pl.DataFrame(table).with_columns(words.cast(pl.Enum(["blue", "green", "red"])).alias("enum"))


def job_over(frame: pl.DataFrame | None) -> h.Job:
    rows = h.source("rows", time="ts", schema=frame)
    return h.job(
        rows.filter(pl.col("ts") != LATE_TS).to("some"),
        rows.select(pl.all().exclude("ts")).to("whole"),
    )


def check(results: h.Results, frame: pl.DataFrame) -> None:
    """Every way to read the rows of one partition gives the same types and the same values."""
    some = frame.filter(pl.col("ts") != LATE_TS)
    for channel, wanted in (("some", some), ("whole", frame.drop("ts"))):
        numbered = wanted.select(pl.lit(0, pl.Int64).alias("partition"), pl.all())
        assert results.schema(channel) == numbered.schema
        assert_frame_equal(results.to_polars(channel), numbered)
        assert_frame_equal(results.scan(channel).collect(), numbered)
        arrow = results.to_arrow(channel)
        assert arrow.schema.equals(numbered.to_arrow().schema, check_metadata=True)
        assert_frame_equal(pl.DataFrame(arrow), numbered)
        assert [dtype.pyarrow_dtype for dtype in results.to_pandas(channel).dtypes] == arrow.schema.types
        assert results.rows(channel) == wanted.to_arrow().to_pylist()
    assert results.canonical() == results.canonical()


@settings(max_examples=15)
@given(tables())
def test_types_and_values_come_back_from_nodes_in_this_process(table):
    frame = frame_of(table)
    run = h.run(job_over(frame), {"rows": [table.append_column("enum", frame["enum"].to_arrow())]}, engine="embedded")
    check(run.wait().results(), frame)


@settings(max_examples=5)
@given(tables())
def test_two_owners_of_a_partition_write_the_same_rows(table):
    frame = frame_of(table)
    run = h.run(job_over(frame), {"rows": [frame]}, engine="embedded", settings=h.Settings(replicas=2))
    check(run.wait().results(), frame)


def test_they_come_back_from_node_processes_over_a_site(tmp_path, example_table):
    frame = frame_of(example_table)
    run = h.run(job_over(None), {"rows": [frame]}, engine="embedded", log=tmp_path / "site").wait()
    check(run.results(), frame)


@pytest.mark.spark
def test_they_come_back_from_nodes_on_spark(example_table):
    frame = frame_of(example_table)
    check(h.run(job_over(frame), {"rows": [frame]}).wait().results(), frame)


@pytest.mark.spark
def test_spark_gets_the_nearest_types_that_it_has(example_table):
    results = h.run(job_over(None), {"rows": [frame_of(example_table)]}, engine="embedded").wait().results()
    frame, types = results.to_spark("some"), dict(results.to_spark("some").dtypes)
    unsigned = {"uint8": "smallint", "uint16": "int", "uint32": "bigint", "uint64": "decimal(20,0)"}
    texts = dict.fromkeys(("string", "category", "enum"), "string")
    for column, wanted in {**unsigned, **texts, "decimal": "decimal(12,3)", "date": "date", "int8": "tinyint"}.items():
        assert types[column] == wanted, column
    assert types["struct"] == "struct<small:tinyint,word:string>"
    assert types["nested"] == "array<struct<at:timestamp,price:decimal(9,2)>>"
    numbers = ["int8", "uint32", "uint64", "decimal", "wide_decimal", "float32", "boolean", "binary", "date", "at_utc"]
    back = pl.DataFrame(frame.select(numbers).toArrow()).to_dicts()
    assert back == results.to_polars("some").select(numbers).to_dicts()


@settings(max_examples=8)
@given(tables())
def test_values_that_aggregates_carry_keep_their_types(table):
    frame = frame_of(table)
    rows, second = h.source("rows", time="ts", schema=frame), h.Tumbling("1s")
    last = {f"last_{name}": h.last(name) for name in [*CARRIED, "enum"]}
    keys = [name for name in (*CARRIED, "enum") if not frame[name].dtype.is_float()]
    job = h.job(
        rows.window(second).agg(**last).to("last"),
        *(rows.window(second).group_by(key).agg(n=h.count()).to(f"by_{key}") for key in keys),
    )
    results = h.run(job, {"rows": [frame]}, engine="embedded").wait().results()
    found = results.to_polars("last")
    for name in (*CARRIED, "enum"):
        values = frame[name].drop_nulls()
        assert found[f"last_{name}"].dtype == frame[name].dtype
        if len(values):
            assert found[f"last_{name}"].to_list() == values[-1:].to_list()
    for key in keys:
        counts = results.to_polars(f"by_{key}")
        assert counts[key].dtype == frame[key].dtype
        assert set(counts[key]) == set(frame[key].drop_nulls())


@pytest.fixture(scope="module")
def example_table():
    """A table with values in every column but the one without any."""
    found: list[pa.Table] = []

    @settings(max_examples=30, database=None, derandomize=True)
    @given(tables())
    def draw(table):
        found.append(table)

    draw()
    return max(found, key=lambda table: table.num_rows - sum(column.null_count for column in table.columns) / 50)


def test_a_channel_without_rows_has_its_columns(example_table):
    frame = frame_of(example_table)
    rows = h.source("rows", time="ts", schema=frame)
    none = h.job(
        rows.filter(pl.col("ts") < 0).to("none"),
        rows.filter(pl.col("ts") < 0).window(h.Tumbling("1s")).group_by("category").agg(top=h.max("date")).to("best"),
    )
    results = h.run(none, {"rows": [frame]}, engine="embedded").wait().results()
    assert results.schema("none") == pl.Schema({"partition": pl.Int64, **frame.schema})
    assert results.to_polars("none").schema == results.scan("none").collect_schema() == results.schema("none")
    assert results.schema("best").names() == ["partition", "window_start", "window_end", "category", "top"]
    assert results.to_arrow("best").schema.field("top").type == pa.date32()
    assert results.schema("late") == pl.Schema(
        {"partition": pl.Int64, **frame.schema, "_stream": pl.String, "_offset": pl.Int64}
    )
    assert results.schema("dead").names() == [*results.schema("late").names(), "_reason"]
    assert results.to_pandas("dead").columns.tolist() == results.schema("dead").names()
