"""Nexmark's queries as pipelines. What each must give is in `sql/`, and says more than its name.

Windows are parameters, in microseconds as in the answers. Joins are within a time: auctions get bids only while they are
among the newest, so a bounded join finds every pair. How long that is depends on the rate of the load, and is one of the
parameters. q10 puts out what q0 does, to be written to files: `results.to_files(..., time="date_time")`. There is no q12: it
counts by processing time, which no two runs have in common; over a stream whose time column is the time of its
ingestion, bids by bidder in tumbling windows are it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import polars as pl
import pyarrow as pa

from holons.errors import BadInput
from holons.nexmark.answers import PARAMETERS, side_table
from holons.nexmark.load import Load
from holons.program import dataflow as h
from holons.program.tables import table
from holons.windows import Session, Sliding, Tumbling

_EVENTS_PER_S: Final = 10_000
_NEAR_EVENTS: Final = 2_000
"""A bid and its auction are at most so many events apart."""
_FAR_EVENTS: Final = 52_000
"""An auction and its seller are at most so many events apart."""
_LIFE_EVENTS: Final = 2 * 1_666 + 20
"""An auction expires within the time of so many events."""
_RANKS: Final = {
    "rank1": pl.col("price") < 10_000,
    "rank2": (pl.col("price") >= 10_000) & (pl.col("price") < 1_000_000),
    "rank3": pl.col("price") >= 1_000_000,
}


@dataclass(frozen=True)
class AuctionSite:
    """The three streams, and how far apart in time things are that belong together."""

    rate: int = _EVENTS_PER_S
    disorder_us: int = 0

    def stream(self, name: str) -> h.Stream:
        schema = pl.DataFrame(_SCHEMAS[name].empty_table()).schema
        return h.source(name, time="date_time", disorder=f"{self.disorder_us}us", schema=schema)

    @property
    def bids(self) -> h.Stream:
        return self.stream("bids")

    @property
    def auctions(self) -> h.Stream:
        return self.stream("auctions")

    @property
    def people(self) -> h.Stream:
        return self.stream("people")

    def time_of(self, events: int) -> str:
        """How long so many events take."""
        return f"{events * 1_000_000 // self.rate + 2_000}us"


def query(name: str, *, rate: int = _EVENTS_PER_S, disorder_us: int = 0, **parameters: int) -> h.Flow:
    """One of the queries as a job, over the streams `people`, `auctions` and `bids`."""
    if name not in _QUERIES:
        raise BadInput(
            f"there is no query {name!r}", hint=f"there are {', '.join(_QUERIES)}; q12 is q11 by another clock"
        )
    known = PARAMETERS["q0" if name == "q10" else name]
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise BadInput(f"{name} has no parameter {unknown[0]!r}", hint=f"it has {', '.join(known) or 'none'}")
    return _QUERIES[name](AuctionSite(rate, disorder_us), **{**known, **parameters}).to(name)


def _q0(site: AuctionSite) -> h.Dataset:
    return site.bids


def _q1(site: AuctionSite) -> h.Dataset:
    return site.bids.select("auction", "bidder", (0.908 * pl.col("price")).alias("price"), "date_time", "extra")


def _q2(site: AuctionSite) -> h.Dataset:
    return site.bids.filter(pl.col("auction") % 123 == 0).select("auction", "price")


def _q3(site: AuctionSite) -> h.Dataset:
    """The auctions are many, the people few: auctions stay where they are."""
    people = site.people.filter(pl.col("state").is_in(["OR", "ID", "CA"])).select("id", "name", "city", "state")
    auctions = site.auctions.filter(pl.col("category") == 10).select("seller", auction=pl.col("id"))
    pairs = auctions.join(
        people, on={"seller": "id"}, before=site.time_of(_FAR_EVENTS), after=site.time_of(_NEAR_EVENTS)
    )
    return pairs.select("name", "city", "state", id=pl.col("auction"))


def _valid_bids(site: AuctionSite, window_us: int) -> h.Completed:
    """Every bid with its auction, if that was open; counted when the auction closes.

    Auctions are replicated, bids stay in their partitions: no bid ever travels.
    """
    auctions = site.auctions.select("id", "seller", "category", "expires", opened=pl.col("date_time"))
    bids = site.bids.select("auction", "bidder", "price", "date_time")
    pairs = bids.join(auctions, on={"auction": "id"}, before=site.time_of(_LIFE_EVENTS), every=_step(window_us))
    return pairs.filter(pl.col("date_time") <= pl.col("expires")).at("expires")


def _step(window_us: int) -> str:
    """About half a second, which divides a window: a join keeps the bids of so long."""
    parts = range(max(1, window_us // 500_000), 0, -1)
    return f"{window_us // next(one for one in parts if window_us % one == 0)}us"


def _q4(site: AuctionSite, window_us: int) -> h.Dataset:
    window = Tumbling(f"{window_us}us")
    closed = _valid_bids(site, window_us).window(window).group_by("auction")
    winners = closed.agg(price=h.max("price"), category=h.max("category"))
    so_far = winners.window(window, accumulate=True).group_by("category").agg(average=h.mean("price"))
    return so_far.select("window_start", "category", "average")


def _q5(site: AuctionSite, size_us: int, every_us: int) -> h.Dataset:
    windows = site.bids.window(Sliding(f"{size_us}us", every=f"{every_us}us"))
    hottest = windows.group_by("auction").agg(bids=h.count()).top_k(1, by="bids", ties=True)
    return hottest.select("window_start", "auction", "bids")


def _q6(site: AuctionSite, window_us: int) -> h.Dataset:
    window = Tumbling(f"{window_us}us")
    closed = _valid_bids(site, window_us).window(window).group_by("auction")
    winners = closed.agg(price=h.max("price"), seller=h.max("seller"), expires=h.max("expires"))
    by_seller = winners.window(window, accumulate=True).group_by("seller")
    last = by_seller.agg(last=h.top_k(10, by=["expires", "auction"], columns="price"))
    average = pl.col("last").list.eval(pl.element().struct.field("price")).list.mean()
    return last.select("window_start", "seller", average=average)


def _q7(site: AuctionSite, window_us: int) -> h.Dataset:
    windows = site.bids.window(Tumbling(f"{window_us}us"))
    best = windows.agg(best=h.top_k(1, by="price", columns=["auction", "bidder", "price", "date_time"]))
    return best.select("window_start", *(_field(name) for name in ("auction", "bidder", "price", "date_time")))


def _field(name: str) -> pl.Expr:
    return pl.col("best").list.first().struct.field(name).alias(name)


def _q8(site: AuctionSite, window_us: int) -> h.Dataset:
    window = Tumbling(f"{window_us}us")
    people, auctions = site.people.select("id", "name"), site.auctions.select("seller")
    sellers = people.window(window).join(auctions.window(window), on={"id": "seller"}, how="semi")
    return sellers.select("window_start", "id", "name")


def _q9(site: AuctionSite) -> h.Dataset:
    columns = ["seller", "category", "expires", "bidder", "price", "date_time"]
    closed = _valid_bids(site, 1_000_000).window(Tumbling("1s")).group_by("auction")
    winners = closed.agg(best=h.top_k(1, by=["price", "date_time"], descending=[True, False], columns=columns))
    return winners.select("auction", *map(_field, columns))


def _q11(site: AuctionSite, gap_us: int) -> h.Dataset:
    sessions = site.bids.window(Session(f"{gap_us}us")).group_by("bidder").agg(bids=h.count())
    return sessions.select("bidder", "bids", starttime=pl.col("window_start"), endtime=pl.col("window_end"))


def _q13(site: AuctionSite) -> h.Dataset:
    bids = site.bids.with_columns(key=pl.col("auction") % 100)
    known = bids.lookup(table(side_table(), key="key"), on="key")
    return known.select("auction", "bidder", "price", "date_time", "value")


def _q14(site: AuctionSite) -> h.Dataset:
    price, hour = 0.908 * pl.col("price"), pl.col("date_time").dt.hour()
    kind = (
        pl.when((hour >= 8) & (hour <= 18))
        .then(pl.lit("dayTime"))
        .when((hour <= 6) | (hour >= 20))
        .then(pl.lit("nightTime"))
        .otherwise(pl.lit("otherTime"))
    )
    chosen = site.bids.filter((price > 1_000_000) & (price < 50_000_000))
    count = pl.col("extra").str.count_matches("c", literal=True).cast(pl.Int64)
    columns = (kind.alias("bid_time_type"), "date_time", "extra", count.alias("c_counts"))
    return chosen.select("auction", "bidder", price.alias("price"), *columns)


def _counts() -> dict[str, h.Measure]:
    """Bids, different bidders and different auctions: of all bids, and by how much was bid."""
    ranks: dict[str, pl.Expr | None] = {"total": None, **_RANKS}
    bids = {f"{rank}_bids": h.count(where=where) for rank, where in ranks.items()}
    bidders = {f"{rank}_bidders": h.count_distinct("bidder", where=where) for rank, where in ranks.items()}
    auctions = {f"{rank}_auctions": h.count_distinct("auction", where=where) for rank, where in ranks.items()}
    return {**bids, **bidders, **auctions}


def _q15(site: AuctionSite, window_us: int) -> h.Dataset:
    return site.bids.window(Tumbling(f"{window_us}us")).agg(**_counts()).select("window_start", *_counts())


def _q16(site: AuctionSite, window_us: int) -> h.Dataset:
    channels = site.bids.window(Tumbling(f"{window_us}us")).group_by("channel")
    counts = channels.agg(last_time=h.max("date_time"), **_counts())
    return counts.select("window_start", "channel", "last_time", *_counts())


def _q17(site: AuctionSite, window_us: int) -> h.Dataset:
    ranks: dict[str, pl.Expr | None] = {"total": None, **_RANKS}
    counts = {f"{rank}_bids": h.count(where=where) for rank, where in ranks.items()}
    prices = {
        "min_price": h.min("price"),
        "max_price": h.max("price"),
        "avg_price": h.mean("price"),
        "sum_price": h.sum("price"),
    }
    auctions = site.bids.window(Tumbling(f"{window_us}us")).group_by("auction")
    return auctions.agg(**counts, **prices).select("window_start", "auction", *counts, *prices)


def _q18(site: AuctionSite, window_us: int) -> h.Dataset:
    pairs = site.bids.window(Tumbling(f"{window_us}us")).group_by("bidder", "auction")
    last = {name: h.last(name) for name in ("price", "channel", "date_time")}
    return pairs.agg(**last).select("window_start", "bidder", "auction", *last)


def _q19(site: AuctionSite, window_us: int) -> h.Dataset:
    columns = ["bidder", "price", "date_time"]
    auctions = site.bids.window(Tumbling(f"{window_us}us"), accumulate=True).group_by("auction")
    best = auctions.agg(best=h.top_k(10, by="price", columns=columns))
    ranks = pl.int_ranges(1, pl.col("best").list.len().cast(pl.Int64) + 1)
    ranked = best.with_columns(rank=ranks).explode(rank="rank")
    row = pl.col("best").list.get(pl.col("rank") - 1)
    return ranked.select("window_start", "auction", "rank", *(row.struct.field(name).alias(name) for name in columns))


def _q20(site: AuctionSite) -> h.Dataset:
    auctions = site.auctions.filter(pl.col("category") == 10).select("id", "seller", "category", "expires")
    bids, near = site.bids.select("auction", "bidder", "price", "date_time"), site.time_of(_NEAR_EVENTS)
    return bids.join(auctions, on={"auction": "id"}, before=near, after=near)


def _q21(site: AuctionSite) -> h.Dataset:
    named = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
    known = pl.col("channel").str.to_lowercase().replace_strict(named, default=None, return_dtype=pl.String)
    channel_id = pl.coalesce(known, pl.col("url").str.extract(r"[?&]channel_id=([^&]*)", 1))
    bids = site.bids.with_columns(channel_id=channel_id).filter(pl.col("channel_id").is_not_null())
    return bids.select("auction", "bidder", "price", "channel", "channel_id")


def _q22(site: AuctionSite) -> h.Dataset:
    parts = pl.col("url").str.split("/")
    folders = {f"dir{number}": parts.list.get(number + 2, null_on_oob=True).fill_null("") for number in (1, 2, 3)}
    return site.bids.select("auction", "bidder", "price", "channel", **folders)


_SCHEMAS: Final[dict[str, pa.Schema]] = {name: Load(1).schema(name) for name in ("people", "auctions", "bids")}

_QUERIES: Final[dict[str, Callable[..., h.Dataset]]] = {
    "q0": _q0, "q1": _q1, "q2": _q2, "q3": _q3, "q4": _q4, "q5": _q5, "q6": _q6, "q7": _q7, "q8": _q8, "q9": _q9,
    "q10": _q0, "q11": _q11, "q13": _q13, "q14": _q14, "q15": _q15, "q16": _q16, "q17": _q17, "q18": _q18, "q19": _q19,
    "q20": _q20, "q21": _q21, "q22": _q22,
}  # fmt: skip
QUERIES: Final = tuple(_QUERIES)
