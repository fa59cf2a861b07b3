"""Joins of streams, against DuckDB's SQL over the whole data."""

from __future__ import annotations

from datetime import UTC, datetime

import duckdb
import polars as pl
import pytest
from tests.unit.dataflow.everywhere import ask_stream, asks, bid_stream, bids, everywhere, in_order

import holons as h

BIDS, ASKS = bids(), asks()
DATA = {"bids": BIDS, "asks": ASKS}
LEFT = bid_stream().select("at", "auction", "bidder", "price")
RIGHT = ask_stream().select("item", "seller", "limit", asked=pl.col("at"))


def sql(query):
    """Rows of a query over `bids` and `asks`; times in UTC."""
    connection = duckdb.connect()
    for name, frame in (("bids", BIDS), ("asks", ASKS)):
        zoned = [column for column, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime)]
        plain = frame.with_columns(pl.col(column).dt.replace_time_zone(None) for column in zoned)
        connection.register(name, plain.to_arrow())
    found = connection.sql(query).pl().to_dicts()
    return in_order(
        {name: value.replace(tzinfo=UTC) if isinstance(value, datetime) else value for name, value in row.items()}
        for row in found
    )


def windows(name, size, every):
    """Each row with each window that it falls into."""
    return f"""(select unnest(range(
            time_bucket(interval '{every} seconds', "at") - interval '{size - every} seconds',
            time_bucket(interval '{every} seconds', "at") + interval '1 microsecond',
            interval '{every} seconds')) as w, * from {name})"""


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize(("spec", "size", "every"), [(h.Tumbling("2s"), 2, 2), (h.Sliding("2s", every="1s"), 2, 1)])
def test_rows_of_the_same_window(how, spec, size, every):
    job = LEFT.window(spec).join(RIGHT.window(spec), on={"auction": "item"}, how=how).to("out")
    more = "" if how in ("semi", "anti") else ', a.seller, a."limit", a."at" as asked'
    expected = sql(
        f"""select b.w as window_start, b.w + interval '{size} seconds' as window_end,
                b."at", b.auction, b.bidder, b.price {more}
            from {windows("bids", size, every)} b {how} join {windows("asks", size, every)} a
                on b.w = a.w and b.auction = a.item"""
    )
    assert expected
    assert everywhere(job, DATA)() == expected


def test_on_several_columns_and_null_is_equal_to_nothing():
    left = bid_stream().select("auction", price=pl.col("price").abs() // 10 * 5, who=pl.col("bidder").str.slice(0, 1))
    right = ask_stream().select(auction=pl.col("item"), price=pl.col("limit"), seller="seller")
    found = everywhere(
        left.window(h.Tumbling("3s")).join(right.window(h.Tumbling("3s")), on=["auction", "price"]).to("out"), DATA
    )()
    assert found
    assert found == sql(
        """select time_bucket(interval '3 seconds', b."at") as window_start,
                time_bucket(interval '3 seconds', b."at") + interval '3 seconds' as window_end,
                b.auction, abs(b.price) // 10 * 5 as price, b.bidder[1] as who, a.seller
           from bids b join asks a on b.auction = a.item and abs(b.price) // 10 * 5 = a."limit"
                and time_bucket(interval '3 seconds', b."at") = time_bucket(interval '3 seconds', a."at")"""
    )


@pytest.mark.parametrize(
    ("before", "after"), [("1s", "0s"), ("0s", "700ms"), ("2500ms", "1s"), ("0s", "0s"), ("1m", "1m"), ("300ms", "3s")]
)
@pytest.mark.parametrize("every", ["1s", "250ms"])
def test_rows_that_are_close_in_time(before, after, every):
    job = LEFT.join(RIGHT, on={"auction": "item"}, before=before, after=after, every=every).to("out")
    units = {"0s": 0, "300ms": 300, "700ms": 700, "1s": 1000, "2500ms": 2500, "3s": 3000, "1m": 60_000}
    if before == "1m" and every == "250ms":
        job = LEFT.join(RIGHT, on={"auction": "item"}, before=before, after=after, every="10s").to("out")
    expected = sql(
        f"""select b."at", b.auction, b.bidder, b.price, a.seller, a."limit", a."at" as asked
            from bids b join asks a on b.auction = a.item
                and a."at" between b."at" - interval '{units[before]} milliseconds'
                and b."at" + interval '{units[after]} milliseconds'"""
    )
    assert expected
    assert everywhere(job, DATA, partitions=(2,) if every == "1s" else (1,))() == expected


def test_a_join_keeps_only_what_is_read_later():
    pairs = LEFT.join(RIGHT, on={"auction": "item"}, before="1s")
    counted = pairs.filter(pl.col("price") > 3).window(h.Tumbling("1s")).group_by("seller").agg(n=h.count())

    def kept(job):
        rows = {one.name.split("_")[-1]: one.aggregate for one in job.layout.handles if "join" in one.name}
        return [[name for name in rows[side].names if not name.endswith("?")] for side in ("left", "right")]

    assert kept(counted.to("out")) == [["auction", "price"], ["item", "seller"]]
    assert kept(pairs.to("out")) == [list(LEFT.schema), list(RIGHT.schema)]
    assert kept(pairs.map_batches(lambda frame: frame).to("out")) == [list(LEFT.schema), list(RIGHT.schema)]


@pytest.mark.parametrize(
    ("bounds", "every"), [({"after": "2s"}, "1s"), ({"before": "1h"}, "1m"), ({"after": "1d"}, "10m")]
)
def test_one_bound_is_enough_and_every_follows_it(bounds, every):
    said = {"before": "0s", "after": "0s", **bounds}
    job, other = (
        LEFT.join(RIGHT, on={"auction": "item"}, **told).to("out") for told in (bounds, {**said, "every": every})
    )
    assert job.describe() == other.describe()


def test_pairs_count_at_the_later_of_their_times():
    pairs = LEFT.join(RIGHT, on={"auction": "item"}, before="1s", after="2s")
    job = pairs.window(h.Tumbling("1s")).group_by("seller").agg(n=h.count(), best=h.max("price")).to("out")
    assert everywhere(job, DATA)() == sql(
        """select time_bucket(interval '1 second', greatest(a."at", b."at")) as window_start,
                time_bucket(interval '1 second', greatest(a."at", b."at")) + interval '1 second' as window_end,
                a.seller, count(*) as n, max(b.price) as best
           from bids b join asks a on b.auction = a.item
                and a."at" between b."at" - interval '1 second' and b."at" + interval '2 seconds'
           group by all"""
    )


def test_a_left_join_feeds_the_next_window():
    two = h.Tumbling("2s")
    pairs = LEFT.window(two).join(RIGHT.window(two), on={"auction": "item"}, how="left")
    job = pairs.window(two).agg(n=h.count(), matched=h.count(where=pl.col("seller").is_not_null())).to("out")
    assert everywhere(job, DATA)() == sql(
        """select time_bucket(interval '2 seconds', b."at") as window_start,
                time_bucket(interval '2 seconds', b."at") + interval '2 seconds' as window_end,
                count(*) as n, count(a.seller) as matched
           from bids b left join asks a on b.auction = a.item
                and time_bucket(interval '2 seconds', b."at") = time_bucket(interval '2 seconds', a."at")
           group by all"""
    )


def test_results_of_windows_are_joined_in_later_windows():
    """Both sides have windows of their own already: those of the join take their place."""
    one, three = h.Tumbling("1s"), h.Tumbling("3s")
    mine = bid_stream().window(one).group_by("auction").agg(n=h.count())
    theirs = ask_stream().window(one).group_by("item").agg(m=h.count())
    job = mine.window(three).join(theirs.window(three), on={"auction": "item"}).to("out")
    assert everywhere(job, DATA)() == sql(
        """with b as (select time_bucket(interval '1 second', "at") as s, auction, count(*) as n from bids group by all),
                a as (select time_bucket(interval '1 second', "at") as s, item, count(*) as m from asks group by all)
           select time_bucket(interval '3 seconds', b.s) as window_start,
                time_bucket(interval '3 seconds', b.s) + interval '3 seconds' as window_end, auction, n, m
           from b join a on b.auction = a.item
                and time_bucket(interval '3 seconds', b.s) = time_bucket(interval '3 seconds', a.s)"""
    )


def test_a_stream_joined_with_itself():
    two = h.Tumbling("2s")
    right = bid_stream().select(auction="auction", other=pl.col("bidder"))
    job = LEFT.select("auction", "bidder").window(two).join(right.window(two), on="auction").to("out")
    assert everywhere(job, {"bids": BIDS})() == sql(
        """select time_bucket(interval '2 seconds', b."at") as window_start,
                time_bucket(interval '2 seconds', b."at") + interval '2 seconds' as window_end,
                b.auction, b.bidder, a.bidder as other
           from bids b join bids a on b.auction = a.auction
                and time_bucket(interval '2 seconds', b."at") = time_bucket(interval '2 seconds', a."at")"""
    )


def test_rows_of_every_type_come_back_as_they_were():
    two = h.Tumbling("2s")
    odd = BIDS.with_columns(
        length=pl.duration(milliseconds=pl.col("price")),
        kind=pl.col("bidder").cast(pl.Categorical),
        small=pl.col("price").cast(pl.Int16),
        half=pl.col("rate").cast(pl.Float32),
        moment=pl.col("at").dt.time(),
        nothing=pl.lit(None, pl.String),
    )
    stream = h.source("bids", time="at", disorder="300ms", schema=odd)
    other = stream.select(pl.col("auction"), pl.exclude("auction").name.suffix("_other"))
    job = stream.window(two).join(other.window(two), on="auction", how="semi").to("out")
    found = everywhere(job, {"bids": odd})()
    assert in_order({name: row[name] for name in odd.columns} for row in found) == in_order(odd.to_dicts())
    pairs = stream.window(two).join(other.window(two), on="auction")
    assert everywhere(pairs.select(*odd.columns).map_batches(checks(odd.schema)).to("out"), {"bids": odd})


def checks(schema):
    def as_promised(rows):
        assert rows.schema == schema
        return rows

    return as_promised
