"""The SQL of each query gives what its definition says, computed slowly, row by row, in Python."""

from __future__ import annotations

import sys
from collections import Counter

import pyarrow as pa
import pytest
from tests.unit.nexmark.definitions import (
    DEFINITIONS,
    RANKS,
    Row,
    averages_by_seller,
    hot_auctions,
    new_sellers,
    rows,
    sessions,
    ten_highest,
    winners,
)

from holons.errors import BadInput, MissingExtra
from holons.nexmark import PARAMETERS, Load, answer, side_table

SECOND = 1_000_000
DAY = 86_400 * SECOND
Tables = dict[str, pa.Table]


# --- events: as they are made, out of order, and with many ties --------------------------------------------------------


def tables_of(load: Load) -> Tables:
    return {stream: load.table(stream) for stream in load.streams}


def with_ties(load: Load) -> Tables:
    """Few different prices, and times in steps of a tenth of a second: equal ones within and across partitions."""
    tables = tables_of(load)
    for stream, table in tables.items():
        for name in ("price", "date_time", "expires"):
            if name in table.schema.names:
                values = table[name].cast("int64").to_numpy()
                coarse = values % 3 + 5 if name == "price" else values // 100_000 * 100_000
                at = table.schema.get_field_index(name)
                table = table.set_column(at, name, pa.array(coarse).cast(table[name].type))
        tables[stream] = table
    return tables


LOADS = {
    "in order": tables_of(Load(500, rate=100)),
    "out of order": tables_of(Load(550, rate=100, seed=1, partitions=4, group=49)),
    "ties": with_ties(Load(500, rate=100, seed=2, group=7)),
    "around 1970": with_ties(Load(250, rate=100, seed=3, start_us=-1_500_000)),
    "two days": tables_of(Load(300, rate=100, seed=4, partitions=1, start_us=20_000 * DAY - SECOND)),
    "nothing": tables_of(Load(0)),
}


# --- they agree ---------------------------------------------------------------------------------------------------------

TOLD = [
    *(
        (query, {"window_us": width})
        for query in ("q4", "q6", "q7", "q8", "q18", "q19")
        for width in (100_000, 700_001)
    ),
    *((query, {"window_us": 3 * SECOND}) for query in ("q4", "q6", "q8", "q19")),
    ("q5", {"size_us": SECOND, "every_us": 250_000}),
    ("q5", {"size_us": 50_000, "every_us": 20_000}),  # with ties
    ("q5", {"size_us": 700_000, "every_us": 300_000}),  # the one does not divide the other
    ("q5", {"size_us": 100_000, "every_us": 300_000}),  # with gaps
    *(("q11", {"gap_us": gap}) for gap in (100_000, 100_001, 330_000)),
    *((query, {"window_us": SECOND}) for query in ("q15", "q16", "q17")),
]
CASES = [
    *((query, {}, load) for query in PARAMETERS for load in ("out of order", "two days")),
    *((query, told, load) for query, told in TOLD for load in ("in order", "out of order", "ties", "around 1970")),
]


@pytest.mark.parametrize(("query", "told", "load"), CASES, ids=str)
def test_an_answer_is_what_the_definition_says(query, told, load):
    agree(query, LOADS[load] | {"side": side_table()}, **told)


def agree(query: str, tables: Tables, **told: int) -> list[Row]:
    """The rows of an answer, once they are what the definition says."""
    found = rows(answer(query, tables, **told))
    wanted = list(
        DEFINITIONS[query](**{name: rows(table) for name, table in tables.items()}, **PARAMETERS[query] | told)
    )
    as_text = sorted(map(str, found))  # names, their order, types and values
    assert as_text == sorted(map(str, wanted))
    return found


def test_the_events_have_what_is_tricky():
    """Otherwise the tests above say little."""
    made = {name: {stream: rows(table) for stream, table in tables.items()} for name, tables in LOADS.items()}
    assert any(row["window_start"] < 0 for row in rows(answer("q5", LOADS["around 1970"])))
    for name in ("in order", "out of order", "ties"):
        auctions, bids = made[name]["auctions"], made[name]["bids"]
        assert 10 < len(winners(auctions, bids)) < len(auctions), name
        assert len(list(averages_by_seller(auctions, bids, SECOND))) > 5
        sellers = Counter(auction["seller"] for auction, _ in winners(auctions, bids))
        assert max(sellers.values()) > 10
        assert max(row["rank"] for row in ten_highest(bids, SECOND)) == 10
        assert 0 < len(list(new_sellers(made[name]["people"], auctions, SECOND))) < len(made[name]["people"])
        assert max(row["bids"] for row in sessions(bids, 330_000)) > 1
    ties = made["ties"]["bids"]
    same = Counter((bid["auction"], bid["bidder"], bid["price"], bid["date_time"]) for bid in ties)
    assert max(same.values()) > 2
    hot = Counter(row["window_start"] for row in hot_auctions(made["in order"]["bids"], 50_000, 20_000))
    assert max(hot.values()) > 1
    assert len(rows(answer("q15", LOADS["two days"]))) == 2


# --- names and types ----------------------------------------------------------------------------------------------------

COUNTS = [f"{rank}_{what}" for what in ("bids", "bidders", "auctions") for rank in RANKS]
PROMISED = {
    "q0": "auction bidder price channel url date_time extra",
    "q1": "auction bidder price date_time extra",
    "q2": "auction price",
    "q3": "name city state id",
    "q4": "window_start category average",
    "q5": "window_start auction bids",
    "q6": "window_start seller average",
    "q7": "window_start auction bidder price date_time",
    "q8": "window_start id name",
    "q9": "auction seller category expires bidder price date_time",
    "q10": "auction bidder price channel url date_time extra",
    "q11": "bidder bids starttime endtime",
    "q13": "auction bidder price date_time value",
    "q14": "auction bidder price bid_time_type date_time extra c_counts",
    "q15": " ".join(["window_start", *COUNTS]),
    "q16": " ".join(["window_start", "channel", "last_time", *COUNTS]),
    "q17": "window_start auction total_bids rank1_bids rank2_bids rank3_bids min_price max_price avg_price sum_price",
    "q18": "window_start bidder auction price channel date_time",
    "q19": "window_start auction rank bidder price date_time",
    "q20": "auction bidder price date_time seller category expires",
    "q21": "auction bidder price channel channel_id",
    "q22": "auction bidder price channel dir1 dir2 dir3",
}
TIMES = {"window_start", "date_time", "expires", "starttime", "endtime", "last_time"}
TEXTS = {"channel", "url", "extra", "name", "city", "state", "value", "bid_time_type", "channel_id"} | {
    f"dir{number}" for number in (1, 2, 3)
}
DOUBLES = {("q1", "price"), ("q14", "price"), ("q4", "average"), ("q6", "average"), ("q17", "avg_price")}


def promised_type(query: str, name: str) -> pa.DataType:
    if name in TIMES:
        return pa.timestamp("us", "UTC")
    if name in TEXTS:
        return pa.string()
    return pa.float64() if (query, name) in DOUBLES else pa.int64()


def test_every_query_but_the_12th_has_an_answer():
    assert list(PARAMETERS) == [f"q{number}" for number in range(23) if number != 12]
    assert set(PROMISED) == set(PARAMETERS) == set(DEFINITIONS)


@pytest.mark.parametrize("load", ["out of order", "nothing"])
@pytest.mark.parametrize("query", PROMISED)
def test_columns_are_those_that_were_promised(query, load):
    wanted = pa.schema([(name, promised_type(query, name)) for name in PROMISED[query].split()])
    assert answer(query, LOADS[load]).schema == wanted


# --- by hand ------------------------------------------------------------------------------------------------------------


def instants(table: pa.Table, *names: str) -> pa.Table:
    for name in names:
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table[name].cast(pa.timestamp("us", "UTC")))
    return table


def bid(auction: int, price: int, at: int, partition: int = 0, offset: int = 0, bidder: int = 1, **told: str) -> Row:
    texts = {"channel": "Google", "url": "https://www.nexmark.com/a/b/c/item.htm?query=1", "extra": ""} | told
    row = {"auction": auction, "bidder": bidder, "price": price, **texts}
    return row | {"date_time": at, "_partition": partition, "_offset": offset}


def bids_of(*made: Row) -> pa.Table:
    return instants(pa.Table.from_pylist(list(made)), "date_time")


def auctions_of(*made: tuple[int, int, int, int, int]) -> pa.Table:
    names = ("id", "date_time", "expires", "seller", "category")
    return instants(pa.Table.from_pylist([dict(zip(names, values)) for values in made]), "date_time", "expires")


def values(found: list[Row]) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in found)


def test_a_bid_counts_from_its_auctions_first_instant_to_the_one_at_which_it_expires():
    tables = {
        "auctions": auctions_of((1, 1_000, 5_000, 7, 10), (2, 1_000, 6_000, 7, 10), (3, 1_000, 7_000, 7, 10)),
        "bids": bids_of(
            bid(1, 900, 999), bid(1, 10, 1_000), bid(1, 20, 5_000), bid(1, 901, 5_001), bid(1, 15, 3_000, 2),
            bid(2, 902, 999), bid(2, 903, 6_001),  # none in time; and nobody bids for the third
        ),
    }  # fmt: skip
    assert values(agree("q9", tables)) == [(1, 7, 10, 5_000, 1, 20, 5_000)]
    assert values(agree("q4", tables, window_us=1_000)) == [(5_000, 10, 20.0)]
    assert values(agree("q6", tables, window_us=1_000)) == [(5_000, 7, 20.0)]


def test_an_auction_closes_in_the_window_in_which_it_expires():
    tables = {
        "auctions": auctions_of((1, 0, 999, 7, 10), (2, 0, 1_000, 7, 10), (3, 0, 1_999, 8, 10), (4, 0, 5_000, 7, 11)),
        "bids": bids_of(bid(1, 1, 0), bid(2, 2, 0), bid(3, 6, 0), bid(4, 8, 0)),
    }
    assert values(agree("q4", tables, window_us=1_000)) == [(0, 10, 1.0), (1_000, 10, 3.0), (5_000, 11, 8.0)]
    assert values(agree("q6", tables, window_us=1_000)) == [
        (0, 7, 1.0),
        (1_000, 7, 1.5),
        (1_000, 8, 6.0),
        (5_000, 7, 11 / 3),
    ]


def test_of_a_sellers_auctions_that_expire_at_once_the_highest_ids_are_the_last_ten():
    made = [(number, 0, 500, 7, 10) for number in range(12)]
    tables = {"auctions": auctions_of(*made), "bids": bids_of(*(bid(number, 2**number, 0) for number in range(12)))}
    assert values(agree("q6", tables)) == [(0, 7, sum(2**number for number in range(2, 12)) / 10)]


def test_averages_are_rounded_once():
    prices = [2**52 + 1, 2**51 + 3, 2]
    tables = {
        "auctions": auctions_of(*((number, 0, 500, 7, 10) for number in range(3))),
        "bids": bids_of(*(bid(number, price, 0) for number, price in enumerate(prices))),
    }
    assert values(agree("q4", tables)) == [(0, 10, sum(prices) / 3)]
    assert values(agree("q6", tables)) == [(0, 7, sum(prices) / 3)]


def test_of_equal_bids_the_first_wins_by_time_then_partition_then_offset():
    equal = [
        bid(1, 5, 300, 0, 0, bidder=1),
        bid(1, 5, 200, 2, 3, bidder=2),
        bid(1, 5, 200, 1, 9, bidder=3),
        bid(1, 5, 200, 1, 8, bidder=4),
        bid(1, 4, 100, 0, 1, bidder=5),
    ]
    for made in (equal, equal[::-1]):
        tables = {"auctions": auctions_of((1, 0, 500, 7, 10)), "bids": bids_of(*made)}
        assert values(agree("q7", tables)) == [(0, 1, 4, 5, 200)]
        assert values(agree("q9", tables)) == [(1, 7, 10, 500, 4, 5, 200)]
        assert [row[2:4] for row in values(agree("q19", tables))] == [(1, 4), (2, 3), (3, 2), (4, 1), (5, 5)]


def test_the_last_of_equal_times_is_that_of_the_highest_partition_and_offset():
    made = [bid(1, 1, 200, 1, 8), bid(1, 2, 200, 1, 9), bid(1, 3, 200, 0, 99), bid(1, 4, 100, 2, 0)]
    for ordered in (made, made[::-1]):
        assert values(agree("q18", {"bids": bids_of(*ordered)})) == [(0, 1, 1, 2, "Google", 200)]


def test_a_window_has_its_start_and_not_its_end():
    bids = bids_of(bid(1, 1, 0), bid(1, 3, 999), bid(1, 2, 1_000), bid(2, 1, 2_000))
    assert values(agree("q7", {"bids": bids}, window_us=1_000)) == [
        (0, 1, 1, 3, 999),
        (1_000, 1, 1, 2, 1_000),
        (2_000, 2, 1, 1, 2_000),
    ]
    assert values(agree("q5", {"bids": bids}, size_us=2_000, every_us=1_000)) == [
        (-1_000, 1, 2), (0, 1, 3), (1_000, 1, 1), (1_000, 2, 1), (2_000, 2, 1)
    ]  # fmt: skip
    assert values(agree("q19", {"bids": bids}, window_us=1_000)) == [
        (0, 1, 1, 1, 3, 999), (0, 1, 2, 1, 1, 0),
        (1_000, 1, 1, 1, 3, 999), (1_000, 1, 2, 1, 2, 1_000), (1_000, 1, 3, 1, 1, 0),
        (2_000, 2, 1, 1, 1, 2_000),
    ]  # fmt: skip


def test_a_bid_a_gap_after_the_last_begins_another_session():
    bids = bids_of(bid(1, 1, 0), bid(2, 1, 99), bid(3, 1, 199), bid(4, 1, 150, bidder=2), bid(4, 1, 150, 1, bidder=2))
    assert values(agree("q11", {"bids": bids}, gap_us=100)) == [(1, 1, 199, 299), (1, 2, 0, 199), (2, 2, 150, 250)]
    assert values(agree("q11", {"bids": bids}, gap_us=101)) == [(1, 3, 0, 300), (2, 2, 150, 251)]


def test_a_person_counts_once_and_only_with_an_auction_in_the_same_window():
    people = pa.table({"id": [1, 2, 3], "name": ["Ann", "Bob", "Cy"], "date_time": [999, 1_000, 2_000]})
    opened = [(1, 0, 9, 1, 10), (2, 500, 999, 1, 10), (3, 999, 9_999, 2, 10), (4, 2_999, 9_999, 3, 10)]
    tables = {"people": instants(people, "date_time"), "auctions": auctions_of(*opened)}
    assert values(agree("q8", tables, window_us=1_000)) == [(0, 1, "Ann"), (2_000, 3, "Cy")]


def test_hours_and_the_letter_c():
    kinds = ["nightTime"] * 7 + ["otherTime"] + ["dayTime"] * 11 + ["otherTime"] + ["nightTime"] * 4
    made = [bid(hour, 2_000_000, hour * 3_600 * SECOND, extra="c" * hour + "abC") for hour in range(24)]
    found = sorted(rows(answer("q14", {"bids": bids_of(*made)})), key=lambda row: row["auction"])
    assert [row["bid_time_type"] for row in found] == kinds
    assert [row["c_counts"] for row in found] == list(range(24))
    agree("q14", {"bids": bids_of(*made)})


def test_prices_at_the_bounds():
    made = [bid(price, price, 0) for price in (9_999, 10_000, 999_999, 1_000_000)]
    assert [values(agree("q15", {"bids": bids_of(*made)}))[0][at : at + 4] for at in (1, 5, 9)] == [
        (4, 1, 2, 1),
        (1, 1, 1, 1),
        (4, 1, 2, 1),
    ]


def test_channels_whatever_their_case_and_urls_with_and_without_an_id():
    made = [
        bid(1, 1, 0, channel="GOOGLE"),
        bid(2, 1, 0, channel="apple", url="https://x/a/b/c?channel_id=9"),
        bid(3, 1, 0, channel="other", url="https://x/a/b/c?query=1&channel_id=77&more=2"),
        bid(4, 1, 0, channel="other", url="https://x/a/b/c?query=1"),
        bid(5, 1, 0, channel="other", url="https://x/a/b/c?old_channel_id=5"),
    ]
    assert [row[::4] for row in values(agree("q21", {"bids": bids_of(*made)}))] == [(1, "1"), (2, "0"), (3, "77")]


def test_of_a_hundred_keys_twenty_have_no_value():
    side = side_table()
    assert side.schema == pa.schema([("key", pa.int64()), ("value", pa.string())])
    assert side["key"].to_pylist() == list(range(80))
    assert side["value"].to_pylist() == [f"value-{key}" for key in range(80)]
    bids = bids_of(bid(179, 1, 0), bid(180, 1, 0), bid(200, 1, 0))
    found = [(row["auction"], row["value"]) for row in rows(answer("q13", {"bids": bids}))]
    assert sorted(found) == [(179, "value-79"), (200, "value-0")]
    other = pa.table({"key": [80], "value": ["mine"]})
    assert [row["value"] for row in rows(answer("q13", {"bids": bids, "side": other}))] == ["mine"]


# --- what is refused ----------------------------------------------------------------------------------------------------


def test_unknown_queries_and_parameters_are_refused():
    with pytest.raises(BadInput, match="no answer to 'q12'"):
        answer("q12", {})
    with pytest.raises(BadInput, match="q5 has no parameter 'window_us'") as error:
        answer("q5", {}, window_us=5)
    assert "size_us, every_us" in error.value.hint
    with pytest.raises(BadInput, match="window_us=0"):
        answer("q7", {}, window_us=0)


def test_without_duckdb_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match="duckdb") as missing:
        answer("q0", {})
    assert "holons[nexmark]" in missing.value.hint


def test_a_table_is_never_a_variable_that_happens_to_have_its_name():
    bids = bids_of(bid(1, 1, 0))
    with pytest.raises(Exception, match="bids does not exist"):
        answer("q0", {"auctions": bids})
