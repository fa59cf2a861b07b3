"""Everything that a user can get wrong in a pipeline says what, in which line, and what to do."""

from __future__ import annotations

import inspect
from pathlib import Path

import polars as pl
import pytest
from tests.unit.dataflow.everywhere import BIDS, ask_stream, bid_stream, bids, cut

import holons as h
from holons.engines import LateRows
from holons.errors import BadInput, BadProgram, HolonsError

ONE = h.Tumbling("1s")


def counts(**options):
    return bid_stream(**options).window(ONE).group_by("auction").agg(n=h.count())


WIDEST = h.custom(
    zero=lambda: 0,
    fold=lambda widest, columns: max(widest, (columns[1] - columns[0]).max()),
    merge=max,
    sample=([1, 5, 5, 9], [4, 5, 11, 9]),
)
MIXED = h.custom(
    zero=lambda: 0,
    fold=lambda most, column: max(most, column.max()),
    merge=max,
    value=lambda most: most or "none",
    sample=[1, 2, 3, 4],
)

BUILDING = {
    "filter": (lambda: bid_stream().filter(pl.col("prize") > 1), "prize"),
    "select": (lambda: bid_stream().select("prize"), "prize"),
    "with_columns": (lambda: bid_stream().with_columns(x=pl.col("prize")), "prize"),
    "filter of results": (lambda: counts().filter(pl.col("m") > 1), "m"),
    "group_by": (lambda: bid_stream().window(ONE).group_by("prize").agg(n=h.count()), "prize"),
    "measure": (lambda: bid_stream().window(ONE).agg(n=h.sum("prize")), "prize"),
    "last": (lambda: bid_stream().window(ONE).agg(n=h.last("prize")), "prize"),
    "using": (lambda: bid_stream().window(ONE).agg(n=h.using(h.GSet(), "prize")), "prize"),
    "where": (lambda: bid_stream().window(ONE).agg(n=h.count(where=pl.col("prize") > 1)), "prize"),
    "where of a sum": (
        lambda: bid_stream().window(ONE).agg(n=h.sum("price", where=pl.col("prize") > 1)),
        "prize",
    ),
    "where is no condition": (lambda: bid_stream().window(ONE).agg(n=h.count(where=pl.col("price"))), "Int64"),
    "join on, left": (lambda: bid_stream().window(ONE).join(ask_stream().window(ONE), on={"x": "item"}), "'x'"),
    "join on, right": (lambda: bid_stream().window(ONE).join(ask_stream().window(ONE), on={"auction": "y"}), "'y'"),
    "join of results": (lambda: counts().join(counts().select("auction", m="n"), on="bidder"), "bidder"),
    "top by": (lambda: counts().top_k(1, by="m"), "'m'"),
    "sort by": (lambda: counts().sort("m"), "'m'"),
    "distinct": (lambda: counts().unique("m"), "'m'"),
    "at": (lambda: counts().at("m"), "'m'"),
    "at a text": (lambda: counts().with_columns(t=pl.lit("noon")).at("t"), "String"),
    "h.top": (lambda: bid_stream().window(ONE).agg(t=h.top_k(1, by="prize", columns="price")), "prize"),
    "h.top of no columns": (lambda: h.top_k(1, by="price", columns=()), "order"),
    "h.top of none": (lambda: bid_stream().window(ONE).agg(t=h.top_k(0, by="price", columns="price")), "0"),
    "lookup": (lambda: bid_stream().lookup(pl.DataFrame({"prize": [1], "x": [2]}), on="prize"), "prize"),
    "lookup of columns that are there": (
        lambda: bid_stream().lookup(pl.DataFrame({"auction": [1], "price": [2]}), on="auction"),
        "both have price",
    ),
    "lookup by another type": (
        lambda: bid_stream().lookup(pl.DataFrame({"bidder": [1], "x": [2]}), on="bidder"),
        "Int64",
    ),
    "lookup how": (lambda: bid_stream().lookup(pl.DataFrame({"auction": [1]}), on="auction", how="outer"), "outer"),
    "sum of strings": (lambda: bid_stream().window(ONE).agg(s=h.sum("bidder")), "strings"),
    "mean of strings": (lambda: bid_stream().window(ONE).agg(s=h.mean("bidder")), "strings"),
    "sum of dates": (lambda: bid_stream().window(ONE).agg(s=h.sum("day")), "Date"),
    "quantile of strings": (lambda: bid_stream().window(ONE).agg(s=h.quantile("bidder", 0.5)), "String"),
    "no such quantile": (lambda: h.quantile("price", 99), "99"),
    "distinct floats": (lambda: bid_stream().window(ONE).agg(s=h.count_distinct("rate")), "Float64"),
    "lists": (lambda: bid_stream().with_columns(x=pl.concat_list("price")).window(ONE).agg(s=h.max("x")), "List"),
    "join keys of two types": (
        lambda: bid_stream().window(ONE).join(ask_stream().window(ONE), on={"bidder": "item"}),
        "bidder is String, and item is Int64",
    ),
    "join of results on two types": (
        lambda: counts().join(counts().select(pl.col("auction").cast(pl.String), m="n"), on="auction"),
        "String",
    ),
    "join of columns that are there": (
        lambda: bid_stream().window(ONE).join(ask_stream().window(ONE), on={"auction": "item"}),
        "both sides have at",
    ),
    "window that is no multiple of a join's": (
        lambda: (
            bid_stream()
            .select("auction")
            .join(ask_stream().select("item"), on={"auction": "item"}, before="1s", every="400ms")
            .window(ONE)
            .agg(n=h.count())
        ),
        "do not fit",
    ),
    "session over pairs": (
        lambda: (
            bid_stream()
            .join(ask_stream().select("item"), on={"auction": "item"}, before="1s")
            .window(h.Session("5s"))
            .agg(n=h.count())
        ),
        "a gap needs exact ones",
    ),
    "session over a moved time": (
        lambda: counts().at("window_end").window(h.Session("1s")).agg(n=h.count()),
        "a gap needs exact ones",
    ),
    "join on nothing": (lambda: bid_stream().window(ONE).join(ask_stream().window(ONE), on=()), "no column"),
    "join how": (
        lambda: (
            bid_stream().window(ONE).join(ask_stream().select("item").window(ONE), on={"auction": "item"}, how="outer")
        ),
        "outer",
    ),
    "join keeps lists": (
        lambda: (
            bid_stream()
            .window(ONE)
            .join(ask_stream().select("item", x=pl.concat_list("limit")).window(ONE), on={"auction": "item"})
        ),
        "'x' is List",
    ),
    "union": (lambda: bid_stream().union(ask_stream()), "different columns"),
    "union of results": (lambda: bid_stream().union(counts()), "takes streams"),
    "unbounded join": (lambda: bid_stream().join(ask_stream(), on={"auction": "item"}), "for ever"),
    "join with a table": (lambda: bid_stream().join(bids(), on="auction"), "stream"),
    "join without a schema": (
        lambda: bid_stream(schema=None).window(ONE).join(ask_stream().window(ONE), on={"auction": "item"}),
        "must know",
    ),
    "join of other windows": (
        lambda: bid_stream().window(ONE).join(ask_stream().window(h.Tumbling("2s")), on={"auction": "item"}),
        "same windows",
    ),
    "join of sessions": (
        lambda: bid_stream().window(h.Session("1s")).join(ask_stream().window(h.Session("1s")), on={"auction": "item"}),
        "tumbling or sliding",
    ),
    "join of accumulating windows": (
        lambda: bid_stream().window(ONE, accumulate=True).join(ask_stream().window(ONE), on={"auction": "item"}),
        "for ever",
    ),
    "join of a stream and results": (
        lambda: bid_stream().window(ONE).join(counts().window(ONE), on="auction"),
        "completed",
    ),
    "left join of unknown columns": (
        lambda: counts(schema=None).join(counts(schema=None).select("auction", m="n"), on="auction", how="left"),
        "must know",
    ),
    "left join with a later stage": (
        lambda: counts().join(counts().window(ONE).group_by("auction").agg(m=h.count()), on="auction", how="left"),
        "later stage",
    ),
    "missing time column": (lambda: h.source("bids", time="when", schema=BIDS), "'when'"),
    "wrong time column": (lambda: h.source("bids", time="bidder", schema=BIDS), "String"),
    "no schema at all": (lambda: h.source("bids", schema=7), "int"),
    "zip of other windows": (
        lambda: counts().zip(bid_stream().window(h.Tumbling("2s")).agg(m=h.count())),
        "same windows",
    ),
    "zip with the local side right": (
        lambda: bid_stream().window(ONE).agg(n=h.count()).zip(bid_stream().window(ONE).per_partition(m=h.count())),
        "of its own",
    ),
    "zip of two columns of one name": (
        lambda: bid_stream().window(ONE).agg(n=h.count()).zip(bid_stream().window(ONE).agg(n=h.count())),
        "both sides have n",
    ),
    "top of a local result": (
        lambda: bid_stream().window(ONE).per_partition(n=h.count()).top_k(1, by="n"),
        "each partition",
    ),
    "top of none": (lambda: counts().top_k(0, by="n"), "top 0"),
    "top by nothing": (lambda: counts().top_k(1, by=[]), "no column"),
    "two columns of one name": (
        lambda: bid_stream().window(ONE).group_by("auction").agg(auction=h.count()),
        "two columns",
    ),
    "the name of a window's column": (
        lambda: bid_stream().window(ONE).agg(window_start=h.count()),
        "window_start",
    ),
    "select of one name twice": (lambda: bid_stream().select("price", price=pl.col("auction")), "price"),
    "bad channel": (lambda: bid_stream().to("a\tb"), "U+0009"),
    "channel of the runtime": (lambda: bid_stream().to("late"), "'late'"),
    "channel without a name": (lambda: bid_stream().to(""), "''"),
    "a channel twice": (lambda: h.job(bid_stream().to("x"), counts().to("x")), "'x' is written twice"),
    "a stream with two times": (
        lambda: h.job(h.source("bids").to("x"), h.source("bids", disorder="1s").to("y")),
        "disorder",
    ),
    "no measure": (lambda: bid_stream().window(ONE).agg(), "no measure"),
    "no measure but a function": (lambda: bid_stream().window(ONE).agg(n=len), "not a measure"),
    "no aggregate": (lambda: h.using(len, "price"), "not an aggregate"),
    "an aggregate of no column": (lambda: h.using(h.GSet()), "no column"),
    "group_by nothing": (lambda: bid_stream().window(ONE).group_by(), "no column"),
    "distinct of nothing": (lambda: bid_stream().window(ONE).unique([]), "no column"),
    "float key": (lambda: bid_stream().window(ONE).group_by("rate").agg(n=h.count()), "Float64 cannot be a key"),
    "sessions by two keys": (
        lambda: bid_stream().window(h.Session("1s")).group_by("auction", "vip").agg(n=h.count()),
        "at most one key",
    ),
    "sliding windows that accumulate": (
        lambda: bid_stream().window(h.Sliding("2s", every="1s"), accumulate=True).agg(n=h.count()),
        "only tumbling windows accumulate",
    ),
    "no window": (lambda: bid_stream().window("1s"), "not a window"),
    "columns that the sample has not": (lambda: h.using(WIDEST, "price"), "as its sample has, 2, and h.using passes 1"),
    "values of several types": (
        lambda: bid_stream().window(ONE).agg(x=h.using(MIXED, "price")),
        "its sample gave values of type",
    ),
    "map that changes the number of rows": (
        lambda: bid_stream().map_batches(lambda rows: pl.DataFrame({"x": [1]})),
        "1 rows from 0",
    ),
    "map that gives no frame": (lambda: bid_stream().map_batches(lambda rows: 7), "a int"),
    "map that fails": (lambda: bid_stream().map_batches(lambda rows: rows["price"][0] + 1), "IndexError"),
    "explode of no list": (lambda: bid_stream().explode(x=pl.col("price")), "list"),
    "explode of two": (lambda: bid_stream().explode(x=pl.col("a"), y=pl.col("b")), "one column"),
    "filter that is no condition": (lambda: bid_stream().filter(pl.col("price")), "Int64"),
    "select of an aggregate": (lambda: bid_stream().select(x=pl.col("price").sum()), "beyond its row"),
    "filter by an aggregate": (lambda: bid_stream().filter(pl.col("price").sum() > 3), "beyond its row"),
}


@pytest.mark.parametrize("mistake", BUILDING)
def test_a_mistake_is_found_when_the_pipeline_is_built(mistake):
    build, words = BUILDING[mistake]
    with pytest.raises(HolonsError) as error:
        build()
    says(error.value, words, lines_of(build))
    assert isinstance(error.value, BadProgram | ValueError | TypeError)


RUNNING = {
    "filter": (lambda: bid_stream(schema=None).filter(pl.col("prize") > 1).to("out"), "prize"),
    "measure": (lambda: bid_stream(schema=None).window(ONE).agg(n=h.sum("prize")).to("out"), "prize"),
    "key": (lambda: bid_stream(schema=None).window(ONE).group_by("prize").agg(n=h.count()).to("out"), "prize"),
    "keys": (
        lambda: bid_stream(schema=None).window(ONE).group_by("prize", "vip").agg(n=h.count()).to("out"),
        "prize",
    ),
    "float key": (lambda: bid_stream(schema=None).window(ONE).group_by("rate").agg(n=h.count()).to("out"), "key"),
    "float sum": (lambda: bid_stream(schema=None).window(ONE).agg(n=h.sum("rate")).to("out"), "Float64"),
    "result": (lambda: counts(schema=None).filter(pl.col("m") > 1).to("out"), "m"),
    "top by": (lambda: counts(schema=None).top_k(1, by="m").to("out"), "m"),
    "map that fails": (
        lambda: bid_stream().map_batches(lambda rows: rows if not len(rows) else 1 // 0).to("out"),
        "ZeroDivisionError",
    ),
    "map of fewer rows": (lambda: bid_stream().map_batches(lambda rows: rows.head(0)).to("out"), "0 rows from"),
    "map of results that fails": (
        lambda: counts().map_batches(lambda rows: rows if not len(rows) else 1 // 0).to("out"),
        "ZeroDivisionError",
    ),
    "schema": (lambda: h.source("bids", time="at", schema={**BIDS, "more": pl.Int64}).to("out"), "'more'"),
    "types": (lambda: h.source("bids", time="at", schema={**BIDS, "bidder": pl.Int64}).to("out"), "schema"),
    "time column": (lambda: h.source("bids", time="when").to("out"), "'when'"),
}


@pytest.mark.parametrize("mistake", RUNNING)
def test_a_mistake_is_found_when_rows_come(mistake):
    build, words = RUNNING[mistake]
    job = build()
    with pytest.raises(HolonsError) as error:
        h.run(job, {"bids": cut(bids(), 2, 100)}, engine="embedded", nodes=1).wait()
    says(error.value, words, lines_of(build) if mistake != "time column" else None)
    if mistake in ("filter", "measure", "keys", "result", "types"):
        assert isinstance(error.value, BadInput)


def test_pipelines_and_other_jobs_do_not_mix():
    class Mine(h.Program):
        def process(self, events):
            self.output(events)

    for wrong in ("bids", h.job(Mine(), "bids")):
        with pytest.raises(BadProgram) as error:
            h.job(counts().to("x"), wrong)
        assert error.value.hint


def test_a_pipeline_names_its_time_where_it_begins():
    flow = counts().to("counts")
    for named in ({"time": "when"}, {"disorder": "2s"}, {"columns": ["price"]}):
        with pytest.raises(BadProgram, match=r"(?s)a pipeline knows its own.*h\.source\("):
            h.job(flow, **named)
    untyped = h.source("bids", time="when").window(ONE).agg(n=h.count()).to("counts")
    with pytest.raises(HolonsError, match=r'(?s)no time column \'when\'.*h\.source\("bids", time="\.\.\."\)'):
        h.run(untyped, {"bids": [bids()]}, engine="embedded").wait()


def test_windows_say_that_something_is_to_be_known_of_them():
    with pytest.raises(AttributeError, match=r"no 'to': aggregate them, \.agg\(n"):
        bid_stream().window(ONE).to("out")


def test_late_rows_are_told_by_stream():
    job = h.source("bids").union(h.source("asks")).window(ONE).agg(n=h.count()).to("out")
    streams = {"bids": [pl.DataFrame({"ts": [5, 1]})], "asks": [pl.DataFrame({"ts": [5, 1, 2]})]}
    with pytest.warns(LateRows, match=r"3 rows were late and diverted \(1 of bids, 2 of asks\)"):
        h.run(job, streams, engine="embedded").wait().results()


def test_late_rows_are_told_at_the_line_of_the_user_who_follows_a_run():
    job = h.source("bids").window(ONE).agg(n=h.count()).to("out")
    run = h.run(job, {"bids": [pl.DataFrame({"ts": [5, 1]})]}, engine="embedded")
    with pytest.warns(LateRows) as warned:
        list(run.follow())
    assert [warning.filename for warning in warned] == [__file__]


def test_dead_rows_are_told_by_stream_with_the_first_reason_and_once():
    job = h.source("bids").union(h.source("asks")).window(ONE).agg(n=h.count()).to("out")
    streams = {"bids": [pl.DataFrame({"ts": [5, None, None]})], "asks": [pl.DataFrame({"ts": [2**62, 5]})]}
    run = h.run(job, streams, engine="embedded").wait()
    with pytest.warns(h.DeadRows, match=r"2 of bids, first: .*; 1 of asks, first: .*rows\('dead'\)") as warned:
        assert [run.results().count("dead") for _ in range(2)] == [3, 3]
    assert [warning.filename for warning in warned] == [__file__]


def test_filters_say_that_they_take_expressions():
    with pytest.raises(
        BadProgram, match=r"(?s)test_mistakes.py:\d+: filter takes.*'price > 1'.*pl\.col\(\"price\"\) > 1"
    ):
        bid_stream().filter("price > 1")


@pytest.mark.parametrize(
    "aggregate",
    [
        lambda rows: rows.agg(h.count()),
        lambda rows: rows.per_partition(h.count()),
        lambda rows: rows.group_by("auction").agg(h.count()),
    ],
)
def test_measures_without_a_name_are_asked_for_one(aggregate):
    with pytest.raises(BadProgram, match=r"(?s)test_mistakes.py:\d+: .*name it: agg\(n=h\.count\(\)\)"):
        aggregate(bid_stream().window(ONE))


def test_pandas_frames_are_asked_to_become_those_of_polars():
    frame = pl.DataFrame({"ts": [1]}).to_pandas()
    job = h.source("bids").window(ONE).agg(n=h.count()).to("out")
    for passed in ([frame], [[frame]]):
        with pytest.raises(h.HolonsError, match=r"(?s)pandas DataFrame.*pl\.from_pandas"):
            h.run(job, {"bids": passed}, engine="embedded").wait()


def test_results_say_that_they_need_windows_before_they_are_grouped():
    with pytest.raises(AttributeError, match=r"no 'group_by'; give them windows again: \.window"):
        counts().group_by("n")
    with pytest.raises(AttributeError, match=r"no 'nonsense'$"):
        _ = counts().nonsense


def test_streams_and_groups_say_what_comes_first():
    with pytest.raises(AttributeError, match=r"no 'group_by'; give them windows first: \.window"):
        h.source("bids").group_by("auction")
    with pytest.raises(AttributeError, match=r"no 'top_k'; give them windows first: \.window"):
        h.source("bids").top_k(3, by="price")
    with pytest.raises(AttributeError, match=r"no 'nonsense'$"):
        _ = h.source("bids").nonsense
    with pytest.raises(AttributeError, match=r"no 'aggregate': say \.agg"):
        h.source("bids").window(ONE).group_by("auction").aggregate(n=h.count())


@pytest.mark.parametrize(
    ("values", "dtype", "told"),
    [
        ([1.5, None, 2.0], pl.Int64, "1.5 would be 1"),
        (["7", "07"], pl.Int64, "'07' would be 7"),
        ([2**53 + 1], pl.Float64, "would be 9007199254740992.0"),
        ([0, 2], pl.Boolean, "2 would be True"),
    ],
)
def test_a_schema_under_which_a_value_would_be_lost_is_refused(values, dtype, told):
    rows = pl.DataFrame({"ts": range(len(values)), "v": values})
    best = h.source("s", schema={"ts": pl.Int64, "v": dtype}).window(ONE).agg(best=h.max("v")).to("best")
    with pytest.raises(HolonsError, match=rf"(?s)'v' is .*, and its schema says .*{told}.*convert it yourself"):
        h.run(best, {"s": [rows]}, engine="embedded").wait()


@pytest.mark.parametrize(("values", "dtype", "best"), [([1.0, None, 2.0], pl.Int64, 2), ([1, 2], pl.Float64, 2.0)])
def test_a_schema_under_which_no_value_is_lost_is_kept(values, dtype, best):
    rows = pl.DataFrame({"ts": range(len(values)), "v": values})
    job = h.source("s", schema={"ts": pl.Int64, "v": dtype}).window(ONE).agg(best=h.max("v")).to("best")
    (row,) = h.run(job, {"s": [rows]}, engine="embedded").wait().results().rows()
    assert row["best"] == best
    assert type(row["best"]) is type(best)


def lines_of(function):
    """The lines of this file that a function is written in."""
    lines, first = inspect.getsourcelines(function)
    return range(first, first + len(lines))


def says(error, words, lines):
    text = str(error)
    assert words in text, text
    assert error.hint, f"no hint in {text!r}"
    if lines is not None:
        name = Path(__file__).name
        assert any(f"{name}:{line}" in text for line in lines), f"{name}:{lines} is not in {text!r}"
