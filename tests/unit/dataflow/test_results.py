"""What follows completed windows: top, sort, distinct, zip, joins of results, other times. Against plain Python."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest
from tests.unit.dataflow.everywhere import (
    BIDS,
    SECOND,
    ask_stream,
    asks,
    bid_stream,
    bids,
    by,
    by_window,
    cut,
    everywhere,
    in_order,
    span,
)

import holons as h
from holons.errors import BadInput
from holons.semantics import run as run_oracle

ROWS = bids().to_dicts()
ASKED = asks().to_dicts()
DATA = {"bids": bids()}
BOTH = {"bids": bids(), "asks": asks()}
SCHEMAS = pytest.mark.parametrize("schema", [BIDS, None], ids=["schema", "no schema"])
TWO = h.Tumbling("2s")


def counts(schema=BIDS, *keys):
    return bid_stream(schema=schema).window(TWO).group_by(*(keys or ("auction",))).agg(n=h.count())


def counted(size=2):
    return {
        at: [
            {**span(at, size), "auction": key, "n": len(rows)} for (key,), rows in sorted(by(inside, "auction").items())
        ]
        for at, inside in by_window(ROWS, size).items()
    }


@SCHEMAS
@pytest.mark.parametrize("n", [1, 2, 100])
@pytest.mark.parametrize("ties", [False, True])
def test_top(schema, n, ties):
    found = everywhere(counts(schema).top_k(n, by="n", ties=ties).to("out"), DATA)()
    expected = []
    for rows in counted().values():
        ranked = sorted(rows, key=lambda row: (-row["n"], row["auction"]))
        limit = ranked[min(n, len(ranked)) - 1]["n"]
        expected += [row for row in ranked if row["n"] >= limit] if ties else ranked[:n]
    assert found == in_order(expected)


def test_top_with_ties_has_more_rows_than_without():
    """The data has ties, so the test above means something."""
    assert len(everywhere(counts().top_k(1, by="n", ties=True).to("out"), DATA)()) > len(counted())


@pytest.mark.parametrize("by", ["auction", "dear", "n"])
@pytest.mark.parametrize("n", [1, 2])
def test_top_is_by_the_column_that_is_named(by, n):
    """The key, the second measure, or the first: each has its own largest ones."""
    asked = bid_stream().window(TWO).group_by("auction").agg(n=h.count(), dear=h.count(where=pl.col("price") > 10))
    for measured in (asked, counts()) if by != "dear" else (asked,):
        found = everywhere(measured.top_k(n, by=by, ties=True).select("window_start", by).to("out"), DATA)()
        everything = everywhere(measured.select("window_start", by).to("out"), DATA)()
        expected = []
        for start in {row["window_start"] for row in everything}:
            values = sorted((row[by] for row in everything if row["window_start"] == start), reverse=True)
            expected += [{"window_start": start, by: one} for one in values if one >= values[:n][-1]]
        assert found == in_order(expected)


@pytest.mark.parametrize("ties", [False, True])
def test_top_by_a_column_with_null_and_nan_has_those_last(ties):
    rows = pl.DataFrame({"at": [0] * 6, "key": list(range(6)), "x": [None, 1.0, float("nan"), 2.0, 2.0, None]})
    stream = h.source("in", time="at", schema=rows).window(h.Tumbling("1s")).group_by("key").agg(x=h.max("x"))
    found = [
        [row["key"] for row in everywhere(stream.top_k(n, by="x", ties=ties).select("key").to("out"), {"in": rows})()]
        for n in (1, 3, 4)
    ]
    assert found == ([[3, 4], [1, 3, 4], [0, 1, 2, 3, 4, 5]] if ties else [[3], [1, 3, 4], [0, 1, 3, 4]])


def test_top_by_several_columns():
    asked = bid_stream().window(TWO).group_by("auction").agg(n=h.count(), best=h.max("price"))
    found = everywhere(asked.top_k(2, by=["n", "best"], ties=True).select("auction", "n", "best").to("out"), DATA)()
    expected = []
    for inside in by_window(ROWS, 2).values():
        rows = [
            {"auction": key, "n": len(r), "best": max((x["price"] for x in r if x["price"] is not None), default=None)}
            for (key,), r in by(inside, "auction").items()
        ]
        order = lambda row: (row["n"], -1000 if row["best"] is None else row["best"])  # noqa: E731
        limit = sorted(map(order, rows), reverse=True)[1]
        expected += [row for row in rows if order(row) >= limit]
    assert found == in_order(expected)


@SCHEMAS
@pytest.mark.parametrize("descending", [False, True])
def test_sort_puts_the_rows_of_each_window_in_order(schema, descending):
    job = counts(schema).sort(["n", "auction"], descending=descending).to("out")
    everywhere(job, DATA)
    (found,) = run_oracle(job, {"bids": cut(bids(), 3, 9)})["out"].values()
    expected = [
        row
        for _, rows in sorted(counted().items())
        for row in sorted(rows, key=lambda row: (row["n"], row["auction"]), reverse=descending)
    ]
    assert found == expected


@SCHEMAS
def test_distinct_keeps_the_first_row_of_each_kind(schema):
    found = everywhere(counts(schema).unique("n").to("out"), DATA)()
    expected = [
        next(row for row in rows if row["n"] == n) for rows in counted().values() for n in {row["n"] for row in rows}
    ]
    assert found == in_order(expected)


@SCHEMAS
def test_zip_of_two_results_of_the_same_windows(schema):
    windowed = bid_stream(schema=schema).window(h.Tumbling("1s"))
    rare = bid_stream(schema=schema).filter(pl.col("price") > 22).window(h.Tumbling("1s")).agg(rare=h.count())
    found = everywhere(windowed.agg(n=h.count()).zip(rare).to("out"), DATA)()
    expected = [
        {**span(at, 1), "n": len(rows), "rare": sum((row["price"] or 0) > 22 for row in rows)}
        for at, rows in by_window(ROWS, 1).items()
    ]
    assert 0 < len(found) < len(expected)
    assert found == in_order(row for row in expected if row["rare"])


def test_zip_across_stages():
    """The second stage has the same windows: its results are zipped with those of the first."""
    first = bid_stream().window(TWO).group_by("auction").agg(n=h.count())
    most = first.window(TWO).agg(most=h.max("n"))
    everything = bid_stream().window(TWO).agg(all=h.count())
    found = everywhere(h.job(everything.zip(most).to("one"), most.zip(everything).to("two")), DATA)
    expected = [
        {**span(at, 2), "all": len(rows), "most": max(row["n"] for row in counted()[at])}
        for at, rows in by_window(ROWS, 2).items()
    ]
    assert found("one") == in_order(expected)
    assert found("two") == in_order(
        {**span(r["window_start"], 2), "most": r["most"], "all": r["all"]} for r in expected
    )


def test_zip_of_several_rows_is_refused():
    job = counts().zip(bid_stream().window(TWO).agg(all=h.count())).to("out")
    with pytest.raises(h.HolonsError, match=r"test_results.py:\d+: zip of several rows"):
        run_oracle(job, {"bids": cut(bids(), 1, 100)})


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("keys", [("auction",), ("auction", "bidder")], ids=" ".join)
def test_join_of_completed_windows(how, keys):
    high = bid_stream().filter(pl.col("price") > 15).window(TWO).group_by(*keys).agg(high=h.max("price"))
    found = everywhere(counts(BIDS, *keys).join(high, on=keys, how=how).to("out"), DATA)()
    expected = []
    for at, inside in by_window(ROWS, 2).items():
        for key, rows in by(inside, *keys).items():
            best = max((row["price"] for row in rows if (row["price"] or 0) > 15), default=None)
            if how == "left" or best is not None:
                expected.append({**span(at, 2), **dict(zip(keys, key)), "n": len(rows), "high": best})
    assert any(row["high"] is None for row in expected) == (how == "left")
    assert found == in_order(expected)


def test_an_inner_join_of_completed_windows_without_a_schema_where_one_side_has_no_rows():
    high = bid_stream(schema=None).filter(pl.col("price") > 27).window(TWO).group_by("bidder").agg(h=h.count())
    job = counts(None, "bidder").join(high, on="bidder").select("bidder", "n", "h").to("out")
    expected = [
        {"bidder": key, "n": len(rows), "h": sum((row["price"] or 0) > 27 for row in rows)}
        for inside in by_window(ROWS, 2).values()
        for (key,), rows in by(inside, "bidder").items()
    ]
    assert everywhere(job, DATA, partitions=(1, 4))() == in_order(row for row in expected if row["h"])


def test_join_of_results_of_two_streams_where_a_window_may_have_no_rows():
    prices = ask_stream().filter(pl.col("limit") == 5).window(h.Tumbling("1s")).group_by("item").agg(asks=h.count())
    mine = bid_stream().window(h.Tumbling("1s")).group_by("auction").agg(n=h.count())
    mine = mine.select("window_start", "window_end", "n", item=pl.col("auction"))
    found = everywhere(mine.join(prices, on="item", how="left").to("out"), BOTH)()
    expected = []
    for at, inside in by_window(ROWS, 1).items():
        for (key,), rows in by(inside, "auction").items():
            there = [r for r in by_window(ASKED, 1).get(at, []) if r["item"] == key and r["limit"] == 5]
            expected.append({**span(at, 1), "n": len(rows), "item": key, "asks": len(there) or None})
    assert found == in_order(expected)


# --- at another time --------------------------------------------------------------------------------------------------


def test_results_are_counted_at_the_time_that_at_says():
    """Each auction's count of a window of one second expires `n` seconds later."""
    asked = bid_stream().window(h.Tumbling("1s")).group_by("auction").agg(n=h.count())
    expires = asked.with_columns(expires=pl.col("window_end") + pl.duration(seconds=pl.col("n"))).at("expires")
    job = expires.window(h.Tumbling("1s")).agg(expired=h.count(), s=h.sum("n")).to("out")
    moved = [
        {"at": row["window_end"] + row["n"] * SECOND, "n": row["n"]} for rows in counted(1).values() for row in rows
    ]
    expected = [
        {**span(at, 1), "expired": len(rows), "s": sum(row["n"] for row in rows)}
        for at, rows in by_window(moved, 1).items()
    ]
    assert everywhere(job, DATA)() == in_order(expected)


def test_at_takes_integers_and_stays_with_the_rows_that_are_chosen():
    asked = bid_stream().window(h.Tumbling("1s")).group_by("auction").agg(n=h.count())
    late = asked.with_columns(t=pl.col("window_end").dt.timestamp("us") + pl.col("auction") * 1_000_000).at("t")
    job = late.filter(pl.col("auction") > 2).top_k(1, by="auction").window(h.Tumbling("1s")).agg(n=h.count()).to("out")
    moved = []
    for rows in counted(1).values():
        last = max((row for row in rows if row["auction"] > 2), key=lambda row: row["auction"], default=None)
        if last is not None:
            moved.append({"at": last["window_end"] + last["auction"] * SECOND})
    assert everywhere(job, DATA)() == in_order({**span(at, 1), "n": len(r)} for at, r in by_window(moved, 1).items())


def test_at_refuses_null_and_times_before_the_window():
    asked = bid_stream().window(h.Tumbling("1s")).group_by("auction").agg(best=h.max("price"), n=h.count())
    null = asked.with_columns(t=pl.when(pl.col("n") > 1).then(pl.col("window_end"))).at("t")
    with pytest.raises(BadInput, match=r"test_results.py:\d+: 't' is null") as error:
        run_oracle(null.window(TWO).agg(n=h.count()).to("out"), {"bids": cut(bids(), 1, 100)})
    assert error.value.hint
    early = asked.with_columns(t=pl.col("window_start") - timedelta(seconds=5)).at("t")
    with pytest.raises(h.HolonsError, match=r"test_results.py:\d+"):
        h.run(early.window(TWO).agg(n=h.count()).to("out"), {"bids": cut(bids(), 1, 100)}, engine="embedded").wait()


# --- nexmark's way of asking ------------------------------------------------------------------------------------------


def test_what_is_chosen_in_one_place_feeds_the_next_stage_once():
    """A gathered result is inserted by one partition, a spread one by all: each row once in either case."""
    best = counts().top_k(1, by="n")
    job = h.job(
        best.window(h.Tumbling("6s")).group_by("auction").agg(times=h.count()).to("gathered"),
        counts().window(h.Tumbling("6s")).group_by("auction").agg(times=h.count()).to("spread"),
    )
    found = everywhere(job, DATA)
    tops = [max(rows, key=lambda row: (row["n"], -row["auction"])) for rows in counted().values()]
    every = [row for rows in counted().values() for row in rows]
    for channel, rows in (("gathered", tops), ("spread", every)):
        timed = [{"at": row["window_start"], "auction": row["auction"]} for row in rows]
        assert found(channel) == in_order(
            {**span(at, 6), "auction": key, "times": len(same)}
            for at, inside in by_window(timed, 6).items()
            for (key,), same in by(inside, "auction").items()
        )
