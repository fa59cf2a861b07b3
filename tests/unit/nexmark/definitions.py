"""Nexmark's queries by their definitions: slowly, row by row. Times are in microseconds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import pyarrow as pa

Row = dict[str, object]


def rows(table: pa.Table) -> list[Row]:
    """Rows, with times in microseconds."""
    columns = {name: table[name] for name in table.schema.names}
    for name, column in columns.items():
        if pa.types.is_timestamp(column.type):
            columns[name] = column.cast("int64")
    return pa.table(columns).to_pylist()


def order(row: Row) -> tuple[int, int, int]:
    return row["date_time"], row["_partition"], row["_offset"]


def best_first(row: Row) -> tuple[int, ...]:
    return (-row["price"], *order(row))


def window_of(instant: int, width: int) -> int:
    """Where the window of this width begins that an instant lies in."""
    start = instant // width * width
    assert start <= instant < start + width
    return start


def only(row: Row, names: str) -> Row:
    return {name: row[name] for name in names.split()}


# --- what the definitions say, row by row ------------------------------------------------------------------------------

DEFINITIONS: dict[str, Callable[..., Iterable[Row]]] = {}


def defines(query: str) -> Callable[[Callable[..., Iterable[Row]]], Callable[..., Iterable[Row]]]:
    def keep(definition: Callable[..., Iterable[Row]]) -> Callable[..., Iterable[Row]]:
        DEFINITIONS[query] = definition
        return definition

    return keep


@defines("q0")
@defines("q10")
def all_bids(bids, **_):
    for bid in bids:
        yield only(bid, "auction bidder price channel url date_time extra")


@defines("q1")
def in_euros(bids, **_):
    for bid in bids:
        yield only(bid, "auction bidder") | {"price": 0.908 * bid["price"]} | only(bid, "date_time extra")


@defines("q2")
def some_auctions(bids, **_):
    return [only(bid, "auction price") for bid in bids if bid["auction"] % 123 == 0]


@defines("q3")
def local_sellers(people, auctions, **_):
    for auction in auctions:
        for person in people:
            if (
                auction["category"] == 10
                and auction["seller"] == person["id"]
                and person["state"] in ("OR", "ID", "CA")
            ):
                yield only(person, "name city state") | {"id": auction["id"]}


def winners(auctions, bids) -> list[tuple[Row, Row]]:
    """Auctions with a valid bid, each with the best one."""
    found = []
    for auction in auctions:
        valid = [
            bid
            for bid in bids
            if bid["auction"] == auction["id"] and auction["date_time"] <= bid["date_time"] <= auction["expires"]
        ]
        if valid:
            found.append((auction, min(valid, key=best_first)))
    return found


@defines("q4")
def averages_by_category(auctions, bids, window_us, **_):
    won = [
        (window_of(auction["expires"], window_us), auction["category"], bid["price"])
        for auction, bid in winners(auctions, bids)
    ]
    for window, category in {(window, category) for window, category, _ in won}:
        prices = [price for closed, kind, price in won if kind == category and closed <= window]
        yield {"window_start": window, "category": category, "average": sum(prices) / len(prices)}


@defines("q5")
def hot_auctions(bids, size_us, every_us, **_):
    times = [bid["date_time"] for bid in bids]
    first, last = min(times, default=0) - size_us, max(times, default=0)
    for number in range(first // every_us - 1, last // every_us + 2):
        start = number * every_us
        counts = Counter(bid["auction"] for bid in bids if start <= bid["date_time"] < start + size_us)
        for auction, count in counts.items():
            if count == max(counts.values()):
                yield {"window_start": start, "auction": auction, "bids": count}


@defines("q6")
def averages_by_seller(auctions, bids, window_us, **_):
    won = [
        (window_of(auction["expires"], window_us), auction, bid["price"]) for auction, bid in winners(auctions, bids)
    ]
    for window, seller in {(window, auction["seller"]) for window, auction, _ in won}:
        closed = [
            (auction["expires"], auction["id"], price)
            for end, auction, price in won
            if auction["seller"] == seller and end <= window
        ]
        prices = [price for _, _, price in sorted(closed)[-10:]]
        yield {"window_start": window, "seller": seller, "average": sum(prices) / len(prices)}


def by_window(bids: list[Row], window_us: int, *keys: str) -> dict[tuple[object, ...], list[Row]]:
    groups = defaultdict(list)
    for bid in bids:
        groups[window_of(bid["date_time"], window_us), *(bid[key] for key in keys)].append(bid)
    return groups


@defines("q7")
def highest_bids(bids, window_us, **_):
    for (window,), group in by_window(bids, window_us).items():
        yield {"window_start": window} | only(min(group, key=best_first), "auction bidder price date_time")


@defines("q8")
def new_sellers(people, auctions, window_us, **_):
    for person in people:
        window = window_of(person["date_time"], window_us)
        opened = [auction["date_time"] for auction in auctions if auction["seller"] == person["id"]]
        if any(window <= instant < window + window_us for instant in opened):
            yield {"window_start": window} | only(person, "id name")


@defines("q9")
def winning_bids(auctions, bids, **_):
    for auction, bid in winners(auctions, bids):
        told = {"auction": auction["id"]} | only(auction, "seller category expires")
        yield told | only(bid, "bidder price date_time")


@defines("q11")
def sessions(bids, gap_us, **_):
    running: dict[int, Row] = {}
    for bid in sorted(bids, key=order):
        bidder, instant = bid["bidder"], bid["date_time"]
        if bidder in running and instant < running[bidder]["endtime"]:
            running[bidder] |= {"bids": running[bidder]["bids"] + 1, "endtime": instant + gap_us}
            continue
        if bidder in running:
            yield running[bidder]
        running[bidder] = {"bidder": bidder, "bids": 1, "starttime": instant, "endtime": instant + gap_us}
    yield from running.values()


@defines("q13")
def with_side(bids, side, **_):
    values = {row["key"]: row["value"] for row in side}
    for bid in bids:
        if bid["auction"] % 100 in values:
            yield only(bid, "auction bidder price date_time") | {"value": values[bid["auction"] % 100]}


@defines("q14")
def calculated(bids, **_):
    for bid in bids:
        price, hour = 0.908 * bid["price"], bid["date_time"] // 3_600_000_000 % 24
        kind = "dayTime" if 8 <= hour <= 18 else "nightTime" if hour <= 6 or hour >= 20 else "otherTime"
        if 1_000_000 < price < 50_000_000:
            told = only(bid, "auction bidder") | {"price": price, "bid_time_type": kind}
            yield told | only(bid, "date_time extra") | {"c_counts": bid["extra"].count("c")}


RANKS = {
    "total": lambda price: True,
    "rank1": lambda price: price < 10_000,
    "rank2": lambda price: 10_000 <= price < 1_000_000,
    "rank3": lambda price: price >= 1_000_000,
}


def bid_counts(group: list[Row]) -> Row:
    return {f"{rank}_bids": sum(fits(bid["price"]) for bid in group) for rank, fits in RANKS.items()}


def all_counts(group: list[Row]) -> Row:
    distinct = {
        f"{rank}_{what}s": len({bid[what] for bid in group if fits(bid["price"])})
        for what in ("bidder", "auction")
        for rank, fits in RANKS.items()
    }
    return bid_counts(group) | distinct


@defines("q15")
def counts_by_day(bids, window_us, **_):
    for (window,), group in by_window(bids, window_us).items():
        yield {"window_start": window} | all_counts(group)


@defines("q16")
def counts_by_channel(bids, window_us, **_):
    for (window, channel), group in by_window(bids, window_us, "channel").items():
        last = max(bid["date_time"] for bid in group)
        yield {"window_start": window, "channel": channel, "last_time": last} | all_counts(group)


@defines("q17")
def prices_by_auction(bids, window_us, **_):
    for (window, auction), group in by_window(bids, window_us, "auction").items():
        prices = [bid["price"] for bid in group]
        told = {"window_start": window, "auction": auction} | bid_counts(group)
        average = sum(prices) / len(prices)
        yield told | {
            "min_price": min(prices),
            "max_price": max(prices),
            "avg_price": average,
            "sum_price": sum(prices),
        }


@defines("q18")
def last_bids(bids, window_us, **_):
    for (window, bidder, auction), group in by_window(bids, window_us, "bidder", "auction").items():
        told = {"window_start": window, "bidder": bidder, "auction": auction}
        yield told | only(max(group, key=order), "price channel date_time")


@defines("q19")
def ten_highest(bids, window_us, **_):
    for window, auction in by_window(bids, window_us, "auction"):
        so_far = [bid for bid in bids if bid["auction"] == auction and bid["date_time"] < window + window_us]
        for rank, bid in enumerate(sorted(so_far, key=best_first)[:10], start=1):
            told = {"window_start": window, "auction": auction, "rank": rank}
            yield told | only(bid, "bidder price date_time")


@defines("q20")
def of_category_10(auctions, bids, **_):
    for bid in bids:
        for auction in auctions:
            if auction["id"] == bid["auction"] and auction["category"] == 10:
                yield only(bid, "auction bidder price date_time") | only(auction, "seller category expires")


@defines("q21")
def channel_ids(bids, **_):
    known = {"google": "1", "facebook": "2", "baidu": "3", "apple": "0"}
    for bid in bids:
        told = dict(part.split("=") for part in bid["url"].partition("?")[2].split("&"))
        found = known.get(bid["channel"].lower(), told.get("channel_id"))
        if found is not None:
            yield only(bid, "auction bidder price channel") | {"channel_id": found}


@defines("q22")
def directories(bids, **_):
    for bid in bids:
        dir1, dir2, dir3 = bid["url"].split("/")[3:6]
        yield only(bid, "auction bidder price channel") | {"dir1": dir1, "dir2": dir2, "dir3": dir3}
