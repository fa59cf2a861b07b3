"""Everything that a window can be asked for, against plain Python over the whole data; with nulls and conditions."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from tests.unit.dataflow.everywhere import BIDS, bid_stream, bids, by, by_window, everywhere, in_order, span

import holons as h

FRAME = bids().with_columns(
    length=pl.duration(milliseconds=pl.col("price")),
    moment=pl.when(pl.col("vip")).then(pl.col("at").dt.time()),
    kind=pl.col("bidder").cast(pl.Categorical),
    small=pl.col("price").cast(pl.Int8),
    half=pl.col("rate").cast(pl.Float32),
)
ROWS = FRAME.to_dicts()
VIP = pl.col("vip")


def present(rows, name, where=False):
    return [row[name] for row in rows if row[name] is not None and (row["vip"] is True or not where)]


def smallest(values):
    return min(values, default=None)


def largest(values):
    return max(values, default=None)


def mean(values):
    return float(sum(map(Fraction, values)) / len(values)) if values else None


def latest(rows, name, where=False):
    """The last value by (time, partition, offset): here with a tie only within one partition."""
    rows = [row for row in rows if row[name] is not None and (row["vip"] is True or not where)]
    return max(enumerate(rows), key=lambda one: (one[1]["at"], one[0]))[1][name] if rows else None


MEASURES = {
    "count": (h.count(), lambda rows: len(rows)),
    "count where": (h.count(where=VIP), lambda rows: sum(row["vip"] is True for row in rows)),
    "sum": (h.sum("price"), lambda rows: sum(present(rows, "price"))),
    "sum where": (h.sum("price", where=VIP), lambda rows: sum(present(rows, "price", where=True))),
    "sum of floats": (h.sum("rate"), lambda rows: math.fsum(present(rows, "rate"))),
    "sum of booleans": (h.sum("vip"), lambda rows: sum(present(rows, "vip"))),
    "sum of an expression": (h.sum(pl.col("price") * 2), lambda rows: 2 * sum(present(rows, "price"))),
    "sum of a constant": (h.sum(pl.lit(3)), lambda rows: 3 * len(rows)),
    "sum of a constant where": (h.sum(pl.lit(3), where=VIP), lambda rows: 3 * sum(row["vip"] is True for row in rows)),
    "mean": (h.mean("price"), lambda rows: mean(present(rows, "price"))),
    "mean where": (h.mean("rate", where=VIP), lambda rows: mean(present(rows, "rate", where=True))),
    "min": (h.min("price"), lambda rows: smallest(present(rows, "price"))),
    "min of floats": (h.min("rate"), lambda rows: smallest(present(rows, "rate"))),
    "min of small integers": (h.min("small"), lambda rows: smallest(present(rows, "small"))),
    "max": (h.max("price"), lambda rows: largest(present(rows, "price"))),
    "max where": (h.max("price", where=VIP), lambda rows: largest(present(rows, "price", where=True))),
    "max of short floats": (h.max("half"), lambda rows: largest(present(rows, "half"))),
    "max of strings": (h.max("bidder"), lambda rows: largest(present(rows, "bidder"))),
    "max of categories": (h.max("kind"), lambda rows: largest(present(rows, "bidder"))),
    "max of booleans": (h.max("vip"), lambda rows: largest(present(rows, "vip"))),
    "max of dates": (h.max("day"), lambda rows: largest(present(rows, "day"))),
    "max of instants": (h.max("at"), lambda rows: largest(present(rows, "at"))),
    "max of times": (h.max("moment"), lambda rows: largest(present(rows, "moment"))),
    "max of durations": (h.max("length"), lambda rows: largest(present(rows, "length"))),
    "distinct": (h.count_distinct("price"), lambda rows: len(set(present(rows, "price")))),
    "distinct strings": (h.count_distinct("text", where=VIP), lambda rows: len(set(present(rows, "text", where=True)))),
    "distinct dates": (h.count_distinct("day"), lambda rows: len(set(present(rows, "day")))),
    "distinct booleans": (h.count_distinct("vip"), lambda rows: len(set(present(rows, "vip")))),
    "about distinct": (h.approx_count_distinct("price", precision=14), lambda rows: len(set(present(rows, "price")))),
    "about distinct floats": (h.approx_count_distinct("rate"), lambda rows: len(set(present(rows, "rate")))),
}


@pytest.mark.parametrize("keyed", [False, True], ids=["global", "by key"])
@pytest.mark.parametrize("part", range(3))
def test_every_measure(keyed, part):
    """A few of them at a time, side by side: each has its own nulls."""
    some = dict(list(MEASURES.items())[part::3])
    windowed = bid_stream(schema=FRAME).window(h.Sliding("2s", every="1s"))
    asked = {name: measure for name, (measure, _) in some.items()}
    result = windowed.group_by("auction").agg(**asked) if keyed else windowed.agg(**asked)
    promised = result.schema

    def as_promised(rows):
        assert rows.schema == promised
        return rows

    expected = []
    for at, inside in by_window(ROWS, 2, 1).items():
        for key, rows in (by(inside, "auction") if keyed else {(): inside}).items():
            values = {name: definition(rows) for name, (_, definition) in some.items()}
            expected.append({**span(at, 2), **({"auction": key[0]} if keyed else {}), **values})
    found = everywhere(result.map_batches(as_promised).to("out"), {"bids": FRAME})()
    assert found == in_order(expected)


@pytest.mark.parametrize("keyed", [False, True], ids=["global", "by key"])
def test_the_last_value_is_that_of_the_last_row(keyed):
    asked = {name: h.last(name) for name in ("price", "text", "rate", "day", "moment")}
    windowed = bid_stream(schema=FRAME).window(h.Tumbling("2s"))
    asked["vips"] = h.last("price", where=VIP)
    result = windowed.group_by("auction").agg(**asked) if keyed else windowed.agg(**asked)
    expected = []
    for at, inside in by_window(ROWS, 2).items():
        for key, rows in (by(inside, "auction") if keyed else {(): inside}).items():
            values = {name: latest(rows, name) for name in asked if name != "vips"}
            vips = latest(rows, "price", where=True)
            expected.append({**span(at, 2), **({"auction": key[0]} if keyed else {}), **values, "vips": vips})
    assert everywhere(result.to("out"), {"bids": FRAME}, partitions=(1,))() == in_order(expected)
    everywhere(result.to("out"), {"bids": FRAME}, partitions=(3,))


@pytest.mark.parametrize("q", [0.0, 0.5, 0.99, 1.0])
def test_quantiles_are_within_their_error(q):
    error = 0.02
    job = bid_stream().window(h.Tumbling("3s")).group_by("auction")
    job = job.agg(q=h.quantile("price", q, relative_error=error), v=h.quantile("price", q, where=VIP))
    found = {(row["window_start"], row["auction"]): row for row in everywhere(job.to("out"), {"bids": bids()})()}
    for at, inside in by_window(ROWS, 3).items():
        for (key,), rows in by(inside, "auction").items():
            values = sorted(present(rows, "price"))
            got = found.pop((at, key))
            assert (got["v"] is None) == (not present(rows, "price", where=True))
            if not values:
                assert got["q"] is None
                continue
            near = values[math.floor(q * (len(values) - 1))], values[math.ceil(q * (len(values) - 1))]
            assert min(near) - abs(min(near)) * error - 1e-9 <= got["q"] <= max(near) + abs(max(near)) * error + 1e-9
    assert not found


# --- top --------------------------------------------------------------------------------------------------------------


def first(rows, k, by_, columns, down):
    """Python's sort is stable: ties stay in the order (time, place in the log)."""
    rows = [row for row in rows if all(row[name] is not None for name in by_)]
    rows = [row for _, row in sorted(enumerate(rows), key=lambda one: (one[1]["at"], one[0]))]
    for name, descending in reversed(list(zip(by_, down))):
        rows = sorted(rows, key=lambda row: row[name], reverse=descending)
    return [{name: row[name] for name in columns} for row in rows[:k]]


@pytest.mark.parametrize(
    ("by_", "down"),
    [
        (("price",), (True,)),
        (("price",), (False,)),
        (("bidder", "price"), (True, False)),
        (("day", "rate"), (False, True)),
    ],
)
@pytest.mark.parametrize("keyed", [False, True], ids=["global", "by key"])
def test_the_first_rows_in_an_order(by_, down, keyed):
    columns = ("bidder", "price", "text", "at", "vip", "day")
    windowed = bid_stream().window(h.Tumbling("2s"))
    asked = {"n": h.count(), "best": h.top_k(2, by=by_, columns=columns, descending=down)}
    result = windowed.group_by("auction").agg(**asked) if keyed else windowed.agg(**asked)
    assert result.schema["best"] == pl.List(pl.Struct({name: BIDS[name] for name in columns}))
    expected = [
        {
            **span(at, 2),
            **({"auction": key[0]} if keyed else {}),
            "n": len(rows),
            "best": first(rows, 2, by_, columns, down),
        }
        for at, inside in by_window(ROWS, 2).items()
        for key, rows in (by(inside, "auction") if keyed else {(): inside}).items()
    ]
    found = everywhere(result.to("out"), {"bids": bids()}, partitions=(1,))()
    key = lambda row: (row["window_start"], row.get("auction", 0))  # noqa: E731
    assert sorted(found, key=key) == sorted(expected, key=key)


def test_the_first_rows_are_the_same_whatever_the_partitions_where_there_are_no_ties():
    frame = bids().with_columns(price=pl.int_range(pl.len()) * 7 % 60)
    job = bid_stream().window(h.Tumbling("2s")).agg(best=h.top_k(3, by="price", columns="price", where=VIP))
    found = everywhere(job.explode(row="best").select(pl.col("row").struct.field("price")).to("out"), {"bids": frame})()
    expected = [
        row
        for inside in by_window(frame.to_dicts(), 2).values()
        for row in first([row for row in inside if row["vip"]], 3, ("price",), ("price",), (True,))
    ]
    assert found == in_order(expected)


def test_the_first_rows_of_a_window_without_any_are_an_empty_list():
    job = (
        bid_stream()
        .window(h.Tumbling("1h"))
        .group_by("bidder")
        .agg(best=h.top_k(2, by="price", columns=["price"], where=pl.col("bidder") == "ann"))
    )
    found = {row["bidder"]: row["best"] for row in everywhere(job.to("out"), {"bids": bids()})()}
    assert {bidder for bidder, best in found.items() if best == []} == {"bob", "cy", "d\"é'"}
    assert len(found["ann"]) == 2


# --- aggregates of one's own ------------------------------------------------------------------------------------------


def test_any_aggregate_can_be_used():
    job = bid_stream().window(h.Tumbling("2s")).group_by("auction")
    job = job.agg(top=h.using(h.TopK(2), "price", "bidder"), change=h.using(h.PNCounter(), "price", where=VIP))
    expected = [
        {
            **span(at, 2),
            "auction": key,
            "top": [
                {"field_0": row["price"], "field_1": row["bidder"]}
                for row in first(rows, 2, ("price",), ("price", "bidder"), (True,))
            ],
            "change": sum(present(rows, "price", where=True)),
        }
        for at, inside in by_window(ROWS, 2).items()
        for (key,), rows in by(inside, "auction").items()
    ]
    assert everywhere(job.to("out"), {"bids": bids()}, partitions=(1,))() == in_order(expected)


@pytest.mark.parametrize("aggregate", [h.GSet(), h.MergeMap(h.GCounter())], ids=["set", "map"])
def test_sets_and_maps_come_out_as_lists(aggregate):
    columns = ("price",) if isinstance(aggregate, h.GSet) else ("price", pl.lit(1))
    job = bid_stream().window(h.Tumbling("3s")).agg(all=h.using(aggregate, *columns)).to("out")
    found = {row["window_start"]: row["all"] for row in everywhere(job, {"bids": bids()})()}
    for at, rows in by_window(ROWS, 3).items():
        values = present(rows, "price")
        if isinstance(aggregate, h.GSet):
            assert found[at] == sorted(set(values))
        else:
            assert found[at] == [{"key": value, "value": values.count(value)} for value in sorted(set(values))]


def spread(state, prices):
    low, high = state or (prices.min(), prices.max())
    return min(low, prices.min()), max(high, prices.max())


SPREAD = h.custom(
    zero=lambda: None,
    fold=lambda state, prices: spread(state, prices),
    merge=lambda a, b: b if a is None else a if b is None else (min(a[0], b[0]), max(a[1], b[1])),
    value=lambda state: None if state is None else state[1] - state[0],
    sample=[5, 3, 9, 1, 4, 7],
    name="spread",
)


@pytest.mark.parametrize("keyed", [False, True], ids=["global", "by key"])
def test_an_aggregate_out_of_functions(keyed):
    windowed = bid_stream().window(h.Sliding("2s", every="1s"))
    asked = {"n": h.count(), "spread": h.using(SPREAD, "price")}
    result = windowed.group_by("bidder").agg(**asked) if keyed else windowed.agg(**asked)
    expected = [
        {
            **span(at, 2),
            **({"bidder": key[0]} if keyed else {}),
            "n": len(rows),
            "spread": max(values) - min(values) if (values := present(rows, "price")) else None,
        }
        for at, inside in by_window(ROWS, 2, 1).items()
        for key, rows in (by(inside, "bidder") if keyed else {(): inside}).items()
    ]
    assert everywhere(result.to("out"), {"bids": bids()})() == in_order(expected)


@pytest.mark.parametrize("session", [False, True], ids=["fixed", "session"])
def test_measures_of_a_window_without_values_are_null_or_nothing(session):
    frame = bids().with_columns(price=pl.lit(None, pl.Int64), rate=pl.lit(None, pl.Float64), bidder=pl.lit("x"))
    spec = h.Session("1h") if session else h.Tumbling("1h")
    asked = {
        "n": h.count(),
        "s": h.sum("price"),
        "m": h.mean("rate"),
        "low": h.min("price"),
        "d": h.count_distinct("price"),
        "l": h.last("rate"),
        "q": h.quantile("rate", 0.5),
        "t": h.top_k(1, by="price", columns="bidder"),
    }
    job = bid_stream().window(spec).group_by("bidder").agg(**asked).to("out")
    (row,) = everywhere(job, {"bids": frame})()
    nothing = {"s": 0, "m": None, "low": None, "d": 0, "l": None, "q": None, "t": []}
    assert {name: row[name] for name in asked} == {"n": len(frame), **nothing}


def test_conditions_that_are_null_do_not_hold():
    job = bid_stream().window(h.Tumbling("1h")).agg(yes=h.count(where=VIP), no=h.count(where=~VIP), n=h.count())
    (row,) = everywhere(job.to("out"), {"bids": bids()})()
    assert row["yes"] + row["no"] < row["n"]


def half(give):
    """The middle between the extremes, as `give` says it."""
    return h.custom(
        zero=lambda: None,
        fold=lambda state, prices: spread(state, prices),
        merge=lambda a, b: b if a is None else a if b is None else (min(a[0], b[0]), max(a[1], b[1])),
        value=lambda state: None if state is None else give(state[0] + state[1]),
        sample=[5, 3, 9, 1, 4, 7],
        name="half",
    )


def test_what_functions_give_has_the_type_that_their_sample_gave():
    whole_or_half = half(lambda twice: twice / 2 if twice % 2 else twice // 2)
    result = bid_stream().window(h.Tumbling("1s")).group_by("bidder").agg(x=h.using(whole_or_half, "price"))
    assert result.schema is not None
    assert result.schema["x"] == pl.Float64
    rows = (
        h.run(result.filter(pl.col("x") > 0).to("out"), {"bids": [bids()]}, engine="embedded").wait().results().rows()
    )
    assert {type(row["x"]) for row in rows} == {float}


@pytest.mark.parametrize(
    ("give", "told"),
    [
        (lambda twice: twice if twice < 20 else "many", "Int64, and a window gave 'many'"),
        (lambda twice: twice if twice < 20 else 0.5, "Int64, and a window gave 0.5"),
        (lambda twice: {"x": twice if twice < 20 else 0.5}, r"Struct\(.*, and a window gave \{'x': 0.5\}"),
        (
            lambda twice: (1, twice if twice < 20 else 0.5),
            r"Struct\(.*, and a window gave \{'field_0': 1, 'field_1': 0.5\}",
        ),
        (
            lambda twice: {"x": 1} if twice < 20 else {"x": 1, "y": 2},
            r"Struct\(.*, and a window gave \{'x': 1, 'y': 2\}",
        ),
        (lambda twice: {"x": 1, "y": 2} if twice < 20 else {"x": 1}, r"Struct\(.*, and a window gave \{'x': 1\}"),
        (lambda twice: [twice if twice < 20 else 0.5], r"List\(.*, and a window gave \[0.5\]"),
    ],
    ids=["text", "fraction", "in a struct", "in a tuple", "more fields", "fewer fields", "in a list"],
)
@pytest.mark.parametrize("keyed", [False, True], ids=["global", "by key"])
def test_what_functions_give_must_not_change_its_type(give, told, keyed):
    windowed = bid_stream().with_columns(one=pl.lit("one")).window(h.Tumbling("1h"))
    measure = {"x": h.using(half(give), "price")}
    result = windowed.group_by("one").agg(**measure) if keyed else windowed.agg(**measure)
    with pytest.raises(h.HolonsError, match=f"half: its sample gave values of type {told}") as error:
        h.run(result.to("out"), {"bids": [bids()]}, engine="embedded", nodes=1).wait()
    assert "always give the same type" in str(error.value)


def test_whole_numbers_and_nan_are_floats_where_the_sample_gave_floats():
    give = half(lambda twice: {"x": twice / 4 if twice < 20 else twice, "y": math.nan})
    result = bid_stream().window(h.Tumbling("1h")).agg(x=h.using(give, "price"))
    (row,) = h.run(result.to("out"), {"bids": [bids()]}, engine="embedded").wait().results().rows()
    assert isinstance(row["x"]["x"], float)
    assert math.isnan(row["x"]["y"])


@pytest.mark.parametrize(
    "give",
    [
        lambda twice: [] if twice < 20 else [twice],
        lambda twice: Decimal(twice) if twice < 20 else twice + Decimal("0.5"),
        lambda twice: np.arange(3 if twice < 20 else twice),
    ],
    ids=["lists", "decimals", "arrays"],
)
def test_what_a_sample_says_little_of_is_told_by_the_values(give):
    result = bid_stream().window(h.Tumbling("1h")).agg(x=h.using(half(give), "price"))
    (row,) = h.run(result.to("out"), {"bids": [bids()]}, engine="embedded").wait().results().rows()
    prices = present(bids().to_dicts(), "price")
    expected = give(min(prices) + max(prices))
    assert row["x"] == (expected.tolist() if isinstance(expected, np.ndarray) else expected)


@pytest.mark.parametrize(
    "measure",
    [
        h.count(where=VIP),
        h.sum("price", where=VIP),
        h.count_distinct("price", where=VIP),
        h.approx_count_distinct("price", where=VIP),
        h.quantile("price", 0.5, where=VIP),
        h.last("price", where=VIP),
        h.top_k(1, by="price", columns="price", where=VIP),
        h.using(SPREAD, "price", where=VIP),
    ],
    ids=lambda measure: type(measure).__name__,
)
def test_conditions_are_told(measure):
    assert "vip" in bid_stream().window(h.Tumbling("1h")).agg(x=measure).to("out").explain()
