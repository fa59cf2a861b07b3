"""Windows over rows and over results: against loops over the whole data."""

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
from holons.semantics import run as run_oracle

ROWS = bids().to_dicts()
DATA = {"bids": bids()}
SCHEMAS = pytest.mark.parametrize("schema", [BIDS, None], ids=["schema", "no schema"])


def total(rows, name="price"):
    return sum(row[name] for row in rows if row[name] is not None)


@SCHEMAS
@pytest.mark.parametrize(("spec", "size", "every"), [(h.Tumbling("2s"), 2, 2), (h.Sliding("3s", every="1s"), 3, 1)])
def test_one_row_for_each_window(schema, spec, size, every):
    found = everywhere(bid_stream(schema=schema).window(spec).agg(n=h.count(), s=h.sum("price")).to("out"), DATA)()
    expected = by_window(ROWS, size, every).items()
    assert found == in_order({**span(at, size), "n": len(rows), "s": total(rows)} for at, rows in expected)


KEYS = [
    ("auction",),
    ("bidder",),
    ("vip",),
    ("day",),
    ("at",),
    ("price",),
    ("auction", "bidder"),
    ("vip", "day"),
    ("at", "price", "text"),
]


@pytest.mark.parametrize("keys", KEYS, ids=" ".join)
@pytest.mark.parametrize("measures", ["count", "several"])
def test_one_row_for_each_key_and_none_for_null(keys, measures):
    asked = {"n": h.count()} if measures == "count" else {"n": h.count(), "s": h.sum("price")}
    job = bid_stream().window(h.Sliding("4s", every="2s")).group_by(*keys).agg(**asked).to("out")
    expected = [
        {**span(at, 4), **dict(zip(keys, key)), "n": len(rows), "s": total(rows)}
        for at, inside in by_window(ROWS, 4, 2).items()
        for key, rows in by(inside, *keys).items()
    ]
    if measures == "count":
        expected = [{name: row[name] for name in row if name != "s" or "s" in keys} for row in expected]
    assert everywhere(job, DATA)() == in_order(expected)


@pytest.mark.parametrize("keys", [("auction",), ("bidder",), ("auction", "bidder")], ids=" ".join)
def test_keys_without_a_schema(keys):
    job = bid_stream(schema=None).window(h.Tumbling("2s")).group_by(*keys).agg(n=h.count(), best=h.max("price"))
    expected = [
        {**span(at, 2), **dict(zip(keys, key)), "n": len(rows)}
        for at, inside in by_window(ROWS, 2).items()
        for key, rows in by(inside, *keys).items()
    ]
    kept = job.select("window_start", "window_end", *keys, "n")
    assert everywhere(kept.to("out"), DATA)() == in_order(expected)


@pytest.mark.parametrize("keys", [("day",), ("vip",), ("at",), ("auction", "day")], ids=" ".join)
@pytest.mark.parametrize("spec", [h.Tumbling("2s"), h.Session("1s")], ids=["tumbling", "session"])
def test_keys_that_would_come_back_as_numbers_are_refused_without_a_schema(keys, spec):
    if len(keys) > 1:
        spec = h.Tumbling("2s")
    job = bid_stream(schema=None).window(spec).group_by(*keys).agg(n=h.count()).to("out")
    with pytest.raises(h.HolonsError, match=rf"{keys[-1]}.* would come back as a number.*test_windows.py:\d+") as error:
        run_oracle(job, {"bids": cut(DATA["bids"], 2, 100)})
    assert "schema" in str(error.value.hint)


def test_steps_after_a_window_know_the_types_also_where_a_partition_has_no_key():
    """A share of the keys may be empty: what follows must not stumble over it, with a schema or without."""
    for schema in (BIDS, None):
        counted = bid_stream(schema=schema).window(h.Tumbling("1s")).group_by("bidder").agg(n=h.count())
        job = counted.filter(pl.col("bidder").str.starts_with("a")).select(who=pl.col("bidder").str.to_uppercase())
        expected = [{"who": "ANN"} for rows in by_window(ROWS, 1).values() if any(r["bidder"] == "ann" for r in rows)]
        assert everywhere(job.to("out"), DATA, partitions=(1, 4))() == in_order(expected)


def sessions(rows, gap, name=None):
    """By key: runs of rows with less than the gap between them."""
    for key, mine in (by(rows, name) if name else {(): rows}).items():
        run = []
        for row in [*sorted(mine, key=lambda row: row["at"]), None]:
            if run and (row is None or row["at"] - run[-1]["at"] >= gap):
                yield key, run
                run = []
            run.append(row)


UNKNOWN = [(key, schema) for key in ("auction", "bidder", None) for schema in (BIDS, None)]


@pytest.mark.parametrize(("key", "schema"), [*UNKNOWN, ("day", BIDS), ("vip", BIDS)])
def test_sessions(schema, key):
    windowed = bid_stream(schema=schema).window(h.Session("700ms"))
    asked = {"n": h.count(), "s": h.sum("price")}
    result = windowed.group_by(key).agg(**asked) if key else windowed.agg(**asked)
    expected = [
        {
            "window_start": run[0]["at"],
            "window_end": run[-1]["at"] + timedelta(milliseconds=700),
            **({key: found[0]} if key else {}),
            "n": len(run),
            "s": total(run),
        }
        for found, run in sessions(ROWS, timedelta(milliseconds=700), key)
    ]
    assert len(expected) > 1 or key is None
    assert everywhere(result.to("out"), DATA)() == in_order(expected)


@pytest.mark.parametrize("what", ["top", "sort", "distinct", "steps", "chained"])
def test_what_follows_a_session_is_not_lost(what):
    asked = bid_stream().window(h.Session("700ms")).group_by("bidder").agg(n=h.count())
    result = {
        "top": lambda: asked.top_k(1, by="n"),
        "sort": lambda: asked.sort("n"),
        "distinct": lambda: asked.unique("bidder"),
        "steps": lambda: asked.filter(pl.col("bidder").str.len_chars() > 0),
        "chained": lambda: asked.window(h.Tumbling("1h")).group_by("bidder").agg(n=h.sum("n")),
    }[what]()
    found = everywhere(result.select("bidder", "n").to("out"), DATA)()
    expected = [{"bidder": key, "n": len(run)} for (key,), run in sessions(ROWS, timedelta(milliseconds=700), "bidder")]
    if what == "chained":
        expected = [{"bidder": key, "n": len(rows)} for (key,), rows in by(ROWS, "bidder").items()]
    assert found == in_order(expected)


def test_per_partition_gives_each_partitions_own_rows():
    job = bid_stream().window(h.Tumbling("2s")).per_partition(n=h.count(), s=h.sum("price")).to("out")
    for partitions in (1, 3):
        logs = cut(bids(), partitions, 10)
        everywhere(job, DATA, partitions=(partitions,))
        found = run_oracle(job, {"bids": logs})["out"]
        for number in range(partitions):
            mine = bids().gather_every(partitions, number).to_dicts()
            expected = [
                {**span(at, 2), "n": len(rows), "s": total(rows)} for at, rows in sorted(by_window(mine, 2).items())
            ]
            assert found.get(number, []) == expected


def test_the_share_of_each_partition():
    """The first example of all: what is local beside what is global."""
    stream = bid_stream().window(h.Tumbling("1s"))
    share = stream.per_partition(mine=h.count()).zip(stream.agg(everything=h.count()))
    job = share.select("window_start", share=pl.col("mine") / pl.col("everything")).to("out")
    found = everywhere(job, DATA, partitions=(3,))()
    totals = dict.fromkeys(by_window(ROWS, 1), 0.0)
    for row in found:
        totals[row["window_start"]] += row["share"]
    assert all(value == pytest.approx(1) for value in totals.values())
    assert len(found) > len(totals)


# --- accumulating -----------------------------------------------------------------------------------------------------


def until(at, size):
    return [row for row in ROWS if row["at"] < at + size * SECOND]


def test_an_accumulating_window_never_forgets():
    job = bid_stream().window(h.Tumbling("2s"), accumulate=True).agg(n=h.count(), best=h.max("price")).to("out")
    expected = [
        {**span(at, 2), "n": len(until(at, 2)), "best": max(r["price"] for r in until(at, 2) if r["price"] is not None)}
        for at in by_window(ROWS, 2)
    ]
    assert everywhere(job, DATA)() == in_order(expected)


@pytest.mark.parametrize("keys", [("auction",), ("bidder", "vip")], ids=" ".join)
def test_of_an_accumulating_map_only_the_keys_that_changed_come_out(keys):
    job = bid_stream().window(h.Tumbling("1s"), accumulate=True).group_by(*keys).agg(n=h.count()).to("out")
    expected = [
        {**span(at, 1), **dict(zip(keys, key)), "n": len(by(until(at, 1), *keys)[key])}
        for at, rows in by_window(ROWS, 1).items()
        for key in by(rows, *keys)
    ]
    assert everywhere(job, DATA)() == in_order(expected)


@pytest.mark.parametrize("local", [False, True], ids=["global", "per partition"])
def test_an_accumulating_window_speaks_only_where_it_changed_whoever_else_is_in_the_job(local):
    rare = bid_stream().filter(pl.col("price") > 25).window(h.Tumbling("1s"), accumulate=True)
    rare = rare.per_partition(n=h.count()) if local else rare.agg(n=h.count())
    often = bid_stream().window(h.Tumbling("1s")).agg(n=h.count())
    chosen = [row for row in ROWS if (row["price"] or 0) > 25]
    alone = everywhere(rare.to("out"), DATA, partitions=(1,))()
    beside = everywhere(h.job(rare.to("out"), often.to("often")), DATA, partitions=(1,))
    assert 0 < len(by_window(chosen, 1)) < len(by_window(ROWS, 1))
    assert [row["window_start"] for row in alone] == sorted(by_window(chosen, 1))
    assert beside() == alone


# --- stages -----------------------------------------------------------------------------------------------------------


@SCHEMAS
def test_three_stages(schema):
    """Bids of each auction per second; the most of each two seconds; the sum of those, of each four."""
    counts = bid_stream(schema=schema).window(h.Tumbling("1s")).group_by("auction").agg(n=h.count())
    most = counts.window(h.Tumbling("2s")).group_by("auction").agg(most=h.max("n"), seconds=h.count())
    sums = most.filter(pl.col("most") > 1).window(h.Tumbling("4s")).agg(s=h.sum("most"), k=h.count())
    job = h.job(counts.to("counts"), most.to("most"), sums.to("sums"))
    found = everywhere(job, DATA)
    assert job.layout.stages == 3
    one = [
        {"at": at, **span(at, 1), "auction": key, "n": len(rows)}
        for at, inside in by_window(ROWS, 1).items()
        for (key,), rows in by(inside, "auction").items()
    ]
    two = [
        {"at": at, **span(at, 2), "auction": key, "most": max(r["n"] for r in rows), "seconds": len(rows)}
        for at, inside in by_window(one, 2).items()
        for (key,), rows in by(inside, "auction").items()
    ]
    three = [
        {"at": at, **span(at, 4), "s": total(rows, "most"), "k": len(rows)}
        for at, rows in by_window([row for row in two if row["most"] > 1], 4).items()
    ]
    for channel, expected in (("counts", one), ("most", two), ("sums", three)):
        assert found(channel) == in_order({n: v for n, v in row.items() if n != "at"} for row in expected)


def test_rows_of_sliding_windows_count_at_their_end_in_the_next_stage():
    sliding = bid_stream().window(h.Sliding("2s", every="1s")).agg(n=h.count())
    job = sliding.window(h.Tumbling("3s")).agg(windows=h.count(), s=h.sum("n")).to("out")
    first = [{"at": at + SECOND, "n": len(rows)} for at, rows in by_window(ROWS, 2, 1).items()]
    expected = [
        {**span(at, 3), "windows": len(rows), "s": total(rows, "n")} for at, rows in by_window(first, 3).items()
    ]
    assert everywhere(job, DATA)() == in_order(expected)


def test_windows_of_two_kinds_over_two_streams_in_one_job():
    job = h.job(
        bid_stream().window(h.Tumbling("2s")).agg(n=h.count()).to("bids"),
        ask_stream().window(h.Sliding("2s", every="1s")).agg(n=h.count()).to("asks"),
        ask_stream().window(h.Session("1s")).group_by("seller").agg(n=h.count()).select("seller", "n").to("pauses"),
        name="three at once",
    )
    assert job.name == "three at once"
    found = everywhere(job, {**DATA, "asks": asks()})
    asked = asks().to_dicts()
    assert found("bids") == in_order({**span(at, 2), "n": len(rows)} for at, rows in by_window(ROWS, 2).items())
    assert found("asks") == in_order({**span(at, 2), "n": len(rows)} for at, rows in by_window(asked, 2, 1).items())
    pauses = sessions(asked, SECOND, "seller")
    assert found("pauses") == in_order({"seller": key, "n": len(run)} for (key,), run in pauses)


def test_distinct_rows_of_a_window():
    job = bid_stream().window(h.Tumbling("2s")).unique(["bidder", "vip"]).to("out")
    found = everywhere(job, DATA)()
    expected = [
        {"bidder": bidder, "vip": vip}
        for rows in by_window(ROWS, 2).values()
        for bidder, vip in by(rows, "bidder", "vip")
    ]
    assert in_order({"bidder": row["bidder"], "vip": row["vip"]} for row in found) == in_order(expected)
