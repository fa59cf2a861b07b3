"""What is done to each row, on its way through: against loops in Python."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest
from tests.unit.dataflow.everywhere import (
    ASKS,
    BEGIN,
    BIDS,
    ask_stream,
    asks,
    bid_stream,
    bids,
    by_window,
    everywhere,
    in_order,
    span,
)

import holons as h
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import END

ROWS = bids().to_dicts()


def out(stream, **streams):
    return everywhere(stream.to("out"), streams or {"bids": bids()})()


def test_rows_go_straight_through():
    assert out(bid_stream()) == in_order(ROWS)


@pytest.mark.parametrize("schema", [BIDS, None], ids=["schema", "no schema"])
def test_filter_keeps_rows_for_which_all_conditions_hold_and_null_does_not(schema):
    found = out(bid_stream(schema=schema).filter(pl.col("price") > 3, pl.col("vip")))
    assert found == in_order(row for row in ROWS if row["price"] is not None and row["price"] > 3 and row["vip"])
    assert found


def test_a_filter_that_keeps_nothing_and_one_that_keeps_all():
    assert out(bid_stream().filter(pl.col("auction") > 99)) == []
    assert out(bid_stream().filter(pl.col("auction") >= 0)) == in_order(ROWS)


def test_select_and_with_columns():
    found = out(
        bid_stream()
        .with_columns(pl.col("auction") + 1, twice=pl.col("price") * 2, one=1)
        .select("auction", "twice", "one", name=pl.col("bidder").str.to_uppercase(), none=pl.lit(None, pl.Int64))
    )
    assert found == in_order(
        {
            "auction": row["auction"] + 1,
            "twice": None if row["price"] is None else row["price"] * 2,
            "one": 1,
            "name": row["bidder"].upper(),
            "none": None,
        }
        for row in ROWS
    )


def test_select_of_nothing_but_constants_gives_one_row_for_each():
    assert out(bid_stream().select(x=pl.lit(7))) == [{"x": 7}] * len(ROWS)


def test_constants_after_a_window_in_which_nothing_is_left_make_no_rows():
    counted = bid_stream().window(h.Tumbling("1s")).group_by("auction").agg(n=h.count())
    assert out(counted.filter(pl.col("n") > 10_000).select(x=pl.lit(7))) == []


def test_map_takes_batches_and_knows_nothing_of_their_size():
    found = out(bid_stream().map_batches(lambda rows: rows.select(z=pl.col("auction") * 10, who="bidder")))
    assert found == in_order({"z": row["auction"] * 10, "who": row["bidder"]} for row in ROWS)


def words(row):
    return (row["text"] or "").split(" ") if row["text"] is not None else []


@pytest.mark.parametrize(
    "items",
    [
        pl.col("text").str.split(" "),
        lambda rows: rows["text"].str.split(" "),
        lambda rows: pl.Series(
            [None if text is None else text.split(" ") for text in rows["text"]], dtype=pl.List(pl.String)
        ),
    ],
    ids=["expression", "function", "lists of Python"],
)
def test_explode_gives_a_row_for_each_item_and_none_for_null(items):
    found = out(bid_stream().explode(word=items).select("auction", "word"))
    assert found == in_order({"auction": row["auction"], "word": word} for row in ROWS for word in words(row))


def test_explode_of_a_list_column_and_of_empty_lists():
    lists = pl.when(pl.col("vip")).then(pl.concat_list("auction", "price")).otherwise(pl.lit([], pl.List(pl.Int64)))
    found = out(bid_stream().with_columns(items=lists).explode(item="items").select("bidder", "item"))
    assert found == in_order(
        {"bidder": row["bidder"], "item": item} for row in ROWS if row["vip"] for item in (row["auction"], row["price"])
    )


def test_a_list_column_is_exploded_in_its_place():
    words = bid_stream().with_columns(words=pl.col("text").str.split(" ")).select("bidder", "words")
    assert out(words.explode("words")) == out(words.explode(word="words").select("bidder", words="word"))
    assert len(out(words.explode("words"))) > 0


def test_exploded_rows_are_counted_at_their_own_time():
    counted = bid_stream().explode(word=pl.col("text").str.split(" ")).window(h.Tumbling("2s"))
    found = everywhere(counted.agg(n=h.count()).to("out"), {"bids": bids()})()
    sizes = {start: sum(len(words(row)) for row in rows) for start, rows in by_window(ROWS, 2).items()}
    assert found == in_order({**span(start, 2), "n": n} for start, n in sizes.items() if n)


CATEGORIES = pl.DataFrame({"id": [0, 1, 2, 99], "category": ["tea", None, "tools", "none"], "fee": [1, 2, 3, 4]})


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("rows", [CATEGORIES, CATEGORIES.to_arrow(), h.table(CATEGORIES, key="id")])
def test_lookup(how, rows):
    table = {row["id"]: row for row in CATEGORIES.to_dicts()}
    found = everywhere(
        bid_stream().lookup(rows, on="auction", key="id", how=how).select("auction", "category", "fee").to("out"),
        {"bids": bids()},
        partitions=(2,),
    )()
    nothing = {"category": None, "fee": None}
    assert found == in_order(
        {name: {**nothing, **table.get(row["auction"], {}), **row}[name] for name in ("auction", "category", "fee")}
        for row in ROWS
        if how == "left" or row["auction"] in table
    )


def test_lookup_by_an_expression_and_of_null_keys():
    names = pl.DataFrame({"price": [2, 4, 6], "label": ["x", "y", "z"]})
    found = out(
        bid_stream().lookup(names, on=(pl.col("price") * 2).alias("price"), how="inner").select("price", "label")
    )
    labels = {2: "x", 4: "y", 6: "z"}
    doubled = [(row["price"], labels.get(2 * row["price"])) for row in ROWS if row["price"] is not None]
    assert found == in_order({"price": price, "label": label} for price, label in doubled if label)
    everything = out(bid_stream().lookup(names, on=pl.col("price"), how="left").select("price", "label"))
    assert everything == in_order({"price": row["price"], "label": labels.get(row["price"])} for row in ROWS)


@pytest.mark.parametrize("schema", [True, False], ids=["schema", "no schema"])
def test_union_of_two_streams_and_of_two_parts_of_one(schema):
    options = {} if schema else {"schema": None}
    mine = bid_stream(**options).select("at", key=pl.col("auction"))
    theirs = ask_stream(**options).select("at", key=pl.col("item"))
    high = bid_stream(**options).filter(pl.col("price") > 20).select("at", key=pl.lit(77, pl.Int64))
    job = mine.union(theirs, high).window(h.Tumbling("2s")).group_by("key").agg(n=h.count()).to("out")
    rows = [{"at": row["at"], "key": row["auction"]} for row in ROWS]
    rows += [{"at": row["at"], "key": row["item"]} for row in asks().to_dicts() if row["item"] is not None]
    rows += [{"at": row["at"], "key": 77} for row in ROWS if (row["price"] or 0) > 20]
    expected = [
        {**span(start, 2), "key": key, "n": sum(row["key"] == key for row in inside)}
        for start, inside in by_window(rows, 2).items()
        for key in {row["key"] for row in inside}
    ]
    assert everywhere(job, {"bids": bids(), "asks": asks()})() == in_order(expected)


def test_a_union_of_rows_keeps_each_row_as_often_as_it_is_in_there():
    stream = bid_stream().select("auction")
    both = stream.union(stream.filter(pl.col("auction") == 1))
    assert out(both) == in_order(
        {"auction": row["auction"]} for row in ROWS for _ in range(2 if row["auction"] == 1 else 1)
    )


def test_a_row_sink_beside_a_window_sink():
    stream = bid_stream().filter(pl.col("vip"))
    job = h.job(stream.select("bidder").to("rows"), stream.window(h.Tumbling("1s")).agg(n=h.count()).to("counts"))
    found = everywhere(job, {"bids": bids()})
    chosen = [row for row in ROWS if row["vip"]]
    assert found("rows") == in_order({"bidder": row["bidder"]} for row in chosen)
    assert found("counts") == in_order({**span(at, 1), "n": len(rows)} for at, rows in by_window(chosen, 1).items())
    assert job.layout.channels == ("rows", "counts")


def test_rows_of_one_partition_come_out_in_the_order_of_the_log():
    job = bid_stream().filter(pl.col("auction") < 4).select("at", "price").to("out")
    results = h.run(job, {"bids": [[bids(), END]]}, engine="embedded").wait().results()
    assert results.rows("out") == bids().filter(pl.col("auction") < 4).select("at", "price").to_dicts()


@pytest.mark.parametrize("schema", [BIDS, None], ids=["schema", "no schema"])
def test_late_rows_and_rows_without_a_time_are_set_aside(schema):
    frame = bids(20)
    late = frame.head(1).with_columns(at=pl.lit(BEGIN - timedelta(hours=1)).cast(BIDS["at"]))
    dead = frame.head(1).with_columns(at=pl.lit(None, BIDS["at"]))
    given = pl.concat([frame, late, dead])
    job = bid_stream(schema=schema).window(h.Tumbling("1s")).agg(n=h.count()).to("out")
    found = everywhere(job, {"bids": given}, partitions=(1,))
    assert sum(row["n"] for row in found("out")) == len(frame)
    assert [(row["_stream"], row["_offset"]) for row in found("late")] == [("bids", len(frame))]
    assert [(row["_offset"], row["at"]) for row in found("dead")] == [(len(frame) + 1, None)]


def test_rows_that_are_set_aside_say_of_which_stream_they_are():
    streams = {stream: [[pl.DataFrame({"ts": [5, 1, None]}), END]] for stream in ("bids", "asks")}
    job = h.source("bids").union(h.source("asks")).window(h.Tumbling("1s")).agg(n=h.count()).to("out")
    found = h.run(job, streams, engine="embedded").wait().results()
    assert [(row["_stream"], row["_offset"]) for row in found.rows("late")] == [("bids", 1), ("asks", 1)]
    assert [(row["_stream"], row["_offset"]) for row in found.rows("dead")] == [("bids", 2), ("asks", 2)]
    assert found.canonical() == canonical(run_oracle(job, streams))


def test_a_stream_has_the_columns_and_types_that_its_schema_says():
    narrow = {"at": BIDS["at"], "price": pl.Int32, "auction": pl.Int64}
    stream = bid_stream(schema=narrow)
    assert out(stream) == in_order({name: row[name] for name in narrow} for row in ROWS)
    assert stream.schema == pl.Schema(narrow)


@pytest.mark.parametrize(
    "schema",
    [BIDS, pl.Schema(BIDS), bids(), bids().to_arrow(), bids().to_arrow().schema, bids().to_arrow().to_batches()[0]],
    ids=["dict", "polars", "frame", "arrow table", "arrow schema", "arrow batch"],
)
def test_a_schema_can_be_said_in_many_ways(schema):
    assert bid_stream(schema=schema).schema == pl.Schema(BIDS)


@pytest.mark.parametrize("times", ["integer", "milliseconds", "berlin", "date"])
def test_times_of_any_type(times):
    frame = bids().select("at", "auction")
    frame = {
        "integer": frame.with_columns(pl.col("at").dt.timestamp("us")),
        "milliseconds": frame.with_columns(pl.col("at").dt.cast_time_unit("ms")),
        "berlin": frame.with_columns(pl.col("at").dt.convert_time_zone("Europe/Berlin")),
        "date": frame.with_columns(pl.col("at").dt.date()),
    }[times]
    job = bid_stream(schema=frame).window(h.Tumbling("1s")).agg(n=h.count(), last=h.max("at")).to("out")
    found = everywhere(job, {"bids": frame}, partitions=(1,))()
    assert sum(row["n"] for row in found) == len(frame)
    assert {row["last"] for row in found} <= set(frame["at"].to_list())
    assert all(isinstance(row["last"], type(frame["at"][0])) for row in found)


def test_schemas_of_both_streams_are_known():
    assert ask_stream().schema == pl.Schema(ASKS)
    assert ask_stream(schema=pa.schema([("at", pa.timestamp("us", "UTC"))])).schema == pl.Schema({"at": ASKS["at"]})
