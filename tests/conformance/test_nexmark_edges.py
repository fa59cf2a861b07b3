"""Nexmark's queries where it is tight: rows made by hand, against DuckDB and against rows written out by hand.

Times are microseconds after a full minute. A partition is a list of rows and marks; each row is a batch of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

import holons as h
from holons.cli.nexmark_engines import embedded
from holons.nexmark import Load
from holons.nexmark.verify import Piece, compare, found, table_of, verify
from holons.program.dataflow import source
from holons.windows import Mark

MS = 1_000
S = 1_000_000
START = 1_436_918_400 * S
RATE = 1_000
"""At this rate an auction lives for 3.3 seconds at most."""
TIMES = ("window_start", "date_time", "expires", "starttime", "endtime")

Made: TypeAlias = tuple[str, dict[str, Any]]
Partition: TypeAlias = Sequence[Made | Mark]


def bid(auction: int, price: int, at: int, bidder: int = 1) -> Made:
    texts = {"channel": "Google", "url": "https://www.nexmark.com/a/b/c/item.htm?query=1", "extra": ""}
    return "bids", {"auction": auction, "bidder": bidder, "price": price, **texts, "date_time": START + at}


def auction(number: int, at: int, expires: int, seller: int = 7, category: int = 10) -> Made:
    rest = {"item_name": "", "description": "", "initial_bid": 1, "reserve": 2, "extra": ""}
    times = {"date_time": START + at, "expires": START + expires}
    return "auctions", {"id": number, "seller": seller, "category": category, **times, **rest}


def person(number: int, at: int, name: str) -> Made:
    rest = dict.fromkeys(("email_address", "credit_card", "city", "state", "extra"), "")
    return "people", {"id": number, "name": name, "date_time": START + at, **rest}


def until(at: int) -> Mark:
    return Mark(START + at)


def pieces(stream: str, rows: Partition) -> list[Piece]:
    schema, made = Load(1).schema(stream), []
    for row in rows:
        if isinstance(row, Mark):
            made.append(row)
        else:
            assert row[0] == stream
            columns = {field.name: [row[1][field.name]] for field in schema}
            plain = pa.RecordBatch.from_pydict(columns)
            made.append(
                pa.RecordBatch.from_arrays([plain[field.name].cast(field.type) for field in schema], schema=schema)
            )
    return made


def check(
    name: str,
    by_hand: list[tuple[Any, ...]],
    *,
    bids: Sequence[Partition] = ([],),
    auctions: Sequence[Partition] = ([],),
    people: Sequence[Partition] = ([],),
    **parameters: int,
) -> None:
    """Nodes, DuckDB and the rows by hand agree. Times by hand are those after the start."""
    given = {"bids": bids, "auctions": auctions, "people": people}
    streams = {stream: [pieces(stream, rows) for rows in parts] for stream, parts in given.items()}
    rows: list[tuple[Any, ...]] = []

    def run(job, read):
        collected = embedded()(job, read)
        for row in found(job, collected).to_dicts():
            rows.append(tuple(since(value) if column in TIMES else value for column, value in row.items()))
        return collected

    compared = verify(name, streams, run, rate=RATE, **parameters)
    assert compared.same, compared
    assert sorted(rows) == sorted(by_hand)


def since(instant: Any) -> int:
    return round(instant.timestamp() * S) - START


# --- partitions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("idle", [[], [until(60 * S)], [until(900 * MS), until(5 * S)]], ids=str)
def test_a_partition_that_only_ends_holds_up_nobody_and_adds_nothing(idle):
    bids = [[bid(1, 5, 100 * MS), bid(1, 9, 2_100 * MS)], idle, [bid(2, 7, 300 * MS, bidder=3)]]
    check("q7", [(0, 2, 3, 7, 300 * MS), (2 * S, 1, 1, 9, 2_100 * MS)], bids=bids, window_us=S)
    check("q11", [(1, 1, 100 * MS, S + 100 * MS), (1, 1, 2_100 * MS, 3_100 * MS), (3, 1, 300 * MS, S + 300 * MS)],
          bids=bids, gap_us=S)  # fmt: skip
    auctions = [idle, [auction(1, 50 * MS, 2_200 * MS), auction(2, 60 * MS, 500 * MS, category=11)]]
    check("q4", [(0, 11, 7.0), (2 * S, 10, 9.0)], bids=bids, auctions=auctions)


def test_no_partition_has_a_bid():
    auctions = [[auction(1, 0, 2 * S)], []]
    for name in ("q4", "q6", "q9", "q20"):
        check(name, [], bids=[[], []], auctions=auctions)
    check("q7", [], bids=[[], []])
    check("q5", [], bids=[[]])
    check("q8", [(0, 7, "Ann")], people=[[], [person(7, 0, "Ann")]], auctions=auctions)


def test_marks_go_ahead_of_rows_that_follow_them():
    bids = [[until(S), bid(1, 5, S), until(2 * S), bid(1, 6, 2 * S)], [bid(1, 7, 0), bid(1, 4, 2 * S + 1)]]
    check("q7", [(0, 1, 1, 7, 0), (S, 1, 1, 5, S), (2 * S, 1, 1, 6, 2 * S)], bids=bids, window_us=S)


# --- ties --------------------------------------------------------------------------------------------------------------


def test_of_equal_prices_the_earliest_wins_then_the_lowest_partition_then_the_first_in_it():
    bids = [
        [bid(1, 4, 100, bidder=5), bid(1, 5, 300, bidder=1)],
        [bid(1, 5, 200, bidder=4), bid(1, 5, 200, bidder=3)],
        [bid(1, 5, 200, bidder=2)],
    ]
    auctions = [[auction(1, 0, 500)]]
    check("q7", [(0, 1, 4, 5, 200)], bids=bids)
    check("q9", [(1, 7, 10, 500, 4, 5, 200)], bids=bids, auctions=auctions)
    ranks = [(1, 4, 5, 200), (2, 3, 5, 200), (3, 2, 5, 200), (4, 1, 5, 300), (5, 5, 4, 100)]
    check("q19", [(0, 1, *ranked) for ranked in ranks], bids=bids)


def test_of_equal_times_the_last_is_that_of_the_highest_partition_then_the_last_in_it():
    bids = [[bid(1, 3, 200)], [bid(1, 1, 200), bid(1, 2, 200)], [bid(1, 4, 100)]]
    check("q18", [(0, 1, 1, 2, "Google", 200)], bids=bids)


def test_auctions_with_equally_many_bids_are_all_hottest():
    bids = [[bid(1, 1, 0), bid(2, 1, 0), bid(3, 1, 0)], [bid(1, 1, 0), bid(2, 1, 999)], []]
    check("q5", [(0, 1, 2), (0, 2, 2)], bids=bids, size_us=1_000, every_us=1_000)


def test_the_same_bid_twice_counts_twice():
    bids = [[bid(1, 5, 0), bid(1, 5, 0)], [bid(1, 5, 0)]]
    check("q2", [], bids=bids)
    check("q2", [(123, 5)] * 3, bids=[[bid(123, 5, 0), bid(123, 5, 0)], [bid(123, 5, 0)]])
    check("q5", [(0, 1, 3)], bids=bids, size_us=1_000, every_us=1_000)
    check("q11", [(1, 3, 0, 10)], bids=bids, gap_us=10)


# --- edges of windows --------------------------------------------------------------------------------------------------


def test_a_window_has_its_start_and_not_its_end():
    bids = [[bid(1, 1, 0), bid(1, 2, 1_000)], [bid(1, 3, 999), bid(2, 1, 2_000)]]
    check("q7", [(0, 1, 1, 3, 999), (1_000, 1, 1, 2, 1_000), (2_000, 2, 1, 1, 2_000)], bids=bids, window_us=1_000)
    hot = [(-1_000, 1, 2), (0, 1, 3), (1_000, 1, 1), (1_000, 2, 1), (2_000, 2, 1)]
    check("q5", hot, bids=bids, size_us=2_000, every_us=1_000)


def test_people_and_auctions_at_the_edge_of_a_window():
    people = [[person(1, 999, "Ann"), person(3, 2_000, "Cy")], [person(2, 1_000, "Bob")]]
    auctions = [[auction(1, 0, 9, seller=1), auction(2, 999, 9_999, seller=2)], [auction(3, 2_999, 9_999, seller=3)]]
    check("q8", [(0, 1, "Ann"), (2_000, 3, "Cy")], people=people, auctions=auctions, window_us=1_000)


def test_a_bid_a_gap_after_the_last_begins_another_session_wherever_it_is():
    bids = [[bid(1, 1, 0), bid(3, 1, 199)], [bid(2, 1, 99)]]
    check("q11", [(1, 2, 0, 199), (1, 1, 199, 299)], bids=bids, gap_us=100)
    check("q11", [(1, 3, 0, 300)], bids=bids, gap_us=101)


# --- auctions and their bids -------------------------------------------------------------------------------------------


def winning(by_hand: list[tuple[int, ...]], averages: list[tuple[int, int, float]], **given: Any) -> None:
    """q9 by auction, bidder, price and time; q4 by window of a second, category and average."""
    known = {row["id"]: row for part in given["auctions"] for _, row in part}
    rows = []
    for number, bidder, price, at in by_hand:
        of = known[number]
        rows.append((number, of["seller"], of["category"], of["expires"] - START, bidder, price, at))
    check("q9", rows, **given)
    check("q4", averages, **given)


def test_a_bid_counts_up_to_the_instant_at_which_its_auction_expires():
    expires = 1_500 * MS
    auctions = [[auction(1, 100 * MS, expires)]]
    winning([(1, 2, 20, expires)], [(S, 10, 20.0)], auctions=auctions,
            bids=[[bid(1, 10, 200 * MS)], [bid(1, 20, expires, bidder=2)], [bid(1, 900, expires + 1)]])  # fmt: skip
    winning([], [], auctions=auctions, bids=[[bid(1, 900, expires + 1)]])


def test_an_auction_that_expires_at_the_edge_of_a_window_closes_in_the_window_that_begins_there():
    auctions = [[auction(1, 0, S - 1), auction(2, 0, S)]]
    bids = [[bid(1, 2, 10), bid(2, 4, 10)], [bid(1, 900, S), bid(2, 6, S)], [bid(2, 900, S + 1)]]
    winning([(1, 1, 2, 10), (2, 1, 6, S)], [(0, 10, 2.0), (S, 10, 4.0)], auctions=auctions, bids=bids)


def test_a_bid_before_its_auctions_start_does_not_count():
    auctions = [[auction(1, 1_000 * MS, 2_500 * MS), auction(2, 1_200 * MS, 2_500 * MS)]]
    bids = [[bid(1, 900, 999_999), bid(2, 901, 1_199_999)], [bid(1, 5, S), bid(2, 6, 1_200 * MS)]]
    winning([(1, 1, 5, S), (2, 1, 6, 1_200 * MS)], [(2 * S, 10, 5.5)], auctions=auctions, bids=bids)
    winning([], [], auctions=auctions, bids=bids[:1])
    pairs = [(number, 1, price, at, 7, 10, 2_500 * MS)
             for number, price, at in ((1, 900, 999_999), (2, 901, 1_199_999), (1, 5, S), (2, 6, 1_200 * MS))]  # fmt: skip
    check("q20", pairs, auctions=auctions, bids=bids)  # where it does: time is not asked for


def test_an_auction_whose_bids_all_lie_in_other_partitions_and_windows():
    auctions = [[auction(1, 100 * MS, 3_300 * MS)], [], []]
    bids = [[], [bid(1, 8, 1_500 * MS)], [bid(1, 9, 2_500 * MS, bidder=4)]]
    winning([(1, 4, 9, 2_500 * MS)], [(3 * S, 10, 9.0)], auctions=auctions, bids=bids)


def test_two_auctions_that_close_in_the_same_window():
    auctions = [
        [auction(1, 0, 1_200 * MS)],
        [auction(2, 300 * MS, 1_900 * MS), auction(3, 400 * MS, 1_900 * MS, 8, 11)],
    ]
    bids = [[bid(1, 10, 10 * MS), bid(2, 20, 500 * MS)], [bid(3, 40, 500 * MS), bid(1, 11, S)]]
    winning([(1, 1, 11, S), (2, 1, 20, 500 * MS), (3, 1, 40, 500 * MS)], [(S, 10, 15.5), (S, 11, 40.0)],
            auctions=auctions, bids=bids)  # fmt: skip
    check("q6", [(S, 7, 15.5), (S, 8, 40.0)], auctions=auctions, bids=bids)


def test_averages_go_on_over_all_windows_and_only_what_changed_is_told():
    auctions = [[auction(1, 0, 500 * MS), auction(2, 0, 700 * MS, 8, 11)], [auction(3, S, 2_500 * MS)]]
    bids = [[bid(1, 10, 10), bid(2, 30, 10)], [bid(3, 21, 1_100 * MS)]]
    check("q4", [(0, 10, 10.0), (0, 11, 30.0), (2 * S, 10, 15.5)], auctions=auctions, bids=bids)
    check("q6", [(0, 7, 10.0), (0, 8, 30.0), (2 * S, 7, 15.5)], auctions=auctions, bids=bids)


def test_of_a_sellers_auctions_the_last_ten_count_by_expiry_then_id():
    auctions = [[auction(number, 0, 500 * MS) for number in range(start, 12, 2)] for start in (0, 1)]
    bids = [[bid(number, 2**number, 10)] for number in range(12)]
    check("q6", [(0, 7, sum(2**number for number in range(2, 12)) / 10)], auctions=auctions, bids=bids)


def test_an_auction_without_bids_and_a_bid_for_an_auction_that_never_comes():
    auctions = [[auction(1, 0, S), auction(2, 0, S)]]
    bids = [[bid(1, 5, 10), bid(99, 900, 10)], [bid(98, 901, 2 * S)]]
    winning([(1, 1, 5, 10)], [(S, 10, 5.0)], auctions=auctions, bids=bids)
    check("q20", [(1, 1, 5, 10, 7, 10, S)], auctions=auctions, bids=bids)


# --- q12 ---------------------------------------------------------------------------------------------------------------


def test_q12_is_bids_by_bidder_in_windows_over_the_time_of_ingestion():
    """There is no q12, since no two runs have a clock in common; what its window counts is any column of times."""
    schema = pa.schema([*Load(1).schema("bids"), pa.field("ingested", pa.timestamp("us", "UTC"))])

    def ingested(rows: Partition, times: Sequence[int]) -> list[pa.RecordBatch]:
        table = pa.Table.from_batches(pieces("bids", rows))
        column = pa.array([START + at for at in times]).cast(schema.field("ingested").type)
        return table.append_column(schema.field("ingested"), column).to_batches()

    parts = [
        ingested([bid(1, 1, 5 * S), bid(1, 2, 0), bid(1, 3, 4 * S)], [1 * S, 9_999_999, 10 * S]),
        ingested([bid(1, 1, 90 * S, bidder=2), bid(1, 1, 0)], [2 * S, 25 * S]),
    ]
    bids = source("bids", time="ingested", schema=schema)
    counted = bids.window(h.Tumbling("10s")).group_by("bidder").agg(bids=h.count())
    job = counted.select("window_start", "bidder", "bids").to("q12")
    rows = found(job, embedded()(job, {"bids": parts}))
    by_hand = [(0, 1, 2), (0, 2, 1), (10 * S, 1, 1), (20 * S, 1, 1)]
    assert sorted((since(at), bidder, count) for at, bidder, count in rows.rows()) == by_hand

    duckdb = pytest.importorskip("duckdb")
    table = pa.Table.from_batches([batch for part in parts for batch in part])
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("bids", table)
        answered = connection.sql(
            "SELECT time_bucket(INTERVAL 10 SECOND, ingested) AS window_start, bidder, count(*) AS bids "
            "FROM bids GROUP BY ALL"
        ).to_arrow_table()
    assert compare("q12", rows, answered).same


def test_positions_are_those_in_the_log():
    table = table_of(
        "bids", [pieces("bids", [bid(1, 1, 0), until(5), bid(1, 2, 9)]), [], pieces("bids", [bid(1, 3, 0)])]
    )
    assert table.select(["price", "_partition", "_offset"]).to_pylist() == [
        {"price": 1, "_partition": 0, "_offset": 0},
        {"price": 2, "_partition": 0, "_offset": 1},
        {"price": 3, "_partition": 2, "_offset": 0},
    ]
