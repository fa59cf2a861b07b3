"""Pipelines over count windows: their columns, what counts, and what is refused when a job is built."""

from __future__ import annotations

import datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.trimming import TrimmingRig
from tests.workloads import _bid, _sale, streams

import holons as h
from holons.errors import BadProgram, BadWindow, NotFoldable, WrongScope
from holons.program import canonical
from holons.semantics import run as run_oracle

SALES = h.source("sales", disorder="400ms", schema={"ts": pl.Int64, "seller": pl.Int64, "price": pl.Int64})
BIDS = h.source("bids")
TEN = h.CountWindow(10)

PIPELINES = {
    "agg": (SALES.window(TEN).agg(n=h.count(), best=h.max("price"), newest=h.last("seller")), _sale),
    "sliding": (SALES.window(h.CountWindow(9, every=4)).agg(mean=h.mean("price"), n=h.count()), _sale),
    "partial": (SALES.window(h.CountWindow(8, every=3, partial=True)).agg(total=h.sum("price")), _sale),
    "group_by": (SALES.window(TEN).group_by("seller").agg(n=h.count(), worst=h.min("price")), _sale),
    "sliding groups": (
        SALES.filter(pl.col("price") > 0).window(h.CountWindow(7, every=5)).group_by("seller").agg(n=h.count()),
        _sale,
    ),
    "unique": (SALES.window(h.CountWindow(6)).unique("seller"), _sale),
    "top_k": (SALES.window(TEN).group_by("seller").agg(n=h.count(), s=h.sum("price")).top_k(2, by="s"), _sale),
    "steps": (
        SALES.window(h.CountWindow(5))
        .agg(total=h.sum("price"))
        .filter(pl.col("total") > 3)
        .with_columns(rows=pl.col("window_end") - pl.col("window_start")),
        _sale,
    ),
    "explode": (
        BIDS.explode(item=pl.concat_list("price", "auction"))
        .window(h.CountWindow(7))
        .agg(sum=h.sum("item"), n=h.count()),
        _bid,
    ),
    "some count": (
        BIDS.window(h.CountWindow(4)).agg(
            n=h.count(where=pl.col("kind") == "bid"), m=h.max("price", where=pl.col("price") > 5)
        ),
        _bid,
    ),
}


def both(name: str) -> h.Job:
    """A pipeline, and beside it windows of time and of other counts over the same rows."""
    pipeline, make = PIPELINES[name]
    source = SALES if make is _sale else BIDS
    return h.job(
        pipeline.to("counted"),
        source.window(h.Tumbling("2s")).agg(n=h.count()).to("timed"),
        source.window(h.CountWindow(3)).agg(n=h.count()).to("threes"),
    )


@pytest.mark.parametrize("name", PIPELINES)
@given(seed=st.integers(0, 2**32), rows_max=st.sampled_from([1, 3, 100]))
@settings(max_examples=settings.default.max_examples // 12)
def test_pipelines_over_count_windows_equal_the_oracle(name, seed, rows_max):
    job = both(name)
    given_streams = streams(job, PIPELINES[name][1], 6, seed)
    expected = canonical(run_oracle(job, given_streams))
    assert canonical(TrimmingRig(job, given_streams, seed, replicas=2).run(rows_max)) == expected
    assert canonical(run_oracle(job, given_streams, rows_per_call=7)) == expected


def rows(pipeline: h.Completed, *partitions: pl.DataFrame) -> pl.DataFrame:
    return h.run(pipeline.to("out"), {"sales": list(partitions)}, engine="embedded").wait().results().to_polars()


def frame(*times: int, price: list[int | None] | None = None) -> pl.DataFrame:
    columns = {"ts": list(times), "seller": [1] * len(times), "price": price or list(times)}
    return pl.DataFrame(columns, schema={"ts": pl.Int64, "seller": pl.Int64, "price": pl.Int64})


def test_windows_are_told_by_ranks_and_the_time_of_their_last_row():
    got = rows(SALES.window(h.CountWindow(2)).agg(n=h.count()), frame(10, 20, 40), frame(30, 50))
    assert got.select("window_start", "window_end", "n").rows() == [(0, 2, 2), (2, 4, 2)]
    assert got.schema["window_start"] == pl.Int64
    assert [when - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) for when in got["window_time"]] == [
        datetime.timedelta(microseconds=20),
        datetime.timedelta(microseconds=40),
    ]
    assert (
        SALES.window(h.CountWindow(2)).agg(n=h.count()).schema
        == got.select("window_start", "window_end", "window_time", "n").schema
    )


def test_a_row_counts_unless_all_of_its_measures_are_null():
    some_null = frame(1, 2, 3, 4, 5, price=[1, None, 2, 4, 8])
    two = SALES.window(h.CountWindow(2))
    assert rows(two.agg(total=h.sum("price")), some_null)["total"].to_list() == [3, 12]
    assert rows(two.agg(total=h.sum("price"), of=h.sum("seller")), some_null)["total"].to_list() == [1, 6]


def test_of_nulls_count_has_no_say_unless_it_is_alone():
    some_null = frame(1, 2, 3, 4, 5, price=[1, None, 2, 4, 8])
    two = SALES.window(h.CountWindow(2))
    beside = rows(two.agg(total=h.sum("price"), n=h.count(), dear=h.count(where=pl.col("price") > 1)), some_null)
    assert beside.select("total", "n", "dear").rows() == [(3, 2, 1), (12, 2, 2)]
    assert rows(two.agg(n=h.count(), dear=h.count(where=pl.col("price") > 1)), some_null)["dear"].to_list() == [0, 2]
    grouped = two.group_by("seller").agg(total=h.sum("price"), n=h.count())
    assert rows(grouped, some_null).select("total", "n").rows() == [(3, 2), (12, 2)]


EVEN = pl.col("price") % 2 == 0
WITH_CONDITIONS = {
    "count": (h.count(where=EVEN), [2, 1, 2]),
    "sum": (h.sum("price", where=EVEN), [2, 4, 14]),
    "max": (h.max("price", where=EVEN), [2, 4, 8]),
    "mean": (h.mean("price", where=EVEN), [1.0, 4.0, 7.0]),
    "count_distinct": (h.count_distinct("price", where=EVEN), [2, 1, 2]),
    "quantile": (h.quantile("price", 1.0, relative_error=0.001, where=pl.col("price") == 4), [None, 4, None]),
    "last": (h.last("price", where=EVEN), [2, 4, 8]),
    "top_k": (
        h.top_k(1, by="price", columns="price", where=EVEN),
        [[{"price": 2}], [{"price": 4}], [{"price": 8}]],
    ),
    "using": (h.using(h.Sum("int"), "price", where=EVEN), [2, 4, 14]),
    "of none": (h.sum("price", where=pl.col("price") < 0), [0, 0, 0]),
}


@pytest.mark.parametrize("what", WITH_CONDITIONS)
@pytest.mark.parametrize("beside", [{}, {"n": h.count()}, {"worst": h.min("price", where=pl.col("price") > 5)}])
def test_where_never_decides_which_rows_a_window_is_made_of(what, beside):
    measure, expected = WITH_CONDITIONS[what]
    three = SALES.window(h.CountWindow(3)).agg(it=measure, **beside)
    got = rows(three, frame(*range(0, 10, 2)), frame(*range(1, 10, 2)))
    assert got["it"].to_list() == (pytest.approx(expected, rel=0.01) if what == "quantile" else expected)
    assert got["window_end"].to_list() == [3, 6, 9]


def test_explain_says_which_rows_count():
    two = SALES.window(h.CountWindow(2))
    assert "of rows that are not null for total:" in two.agg(total=h.sum("price"), n=h.count()).to("out").explain()
    assert "not null" not in two.agg(n=h.count()).to("out").explain()


def test_two_results_of_one_count_window_can_be_put_side_by_side():
    counted = SALES.window(h.CountWindow(2)).agg(n=h.count(), total=h.sum("price"))
    pair = counted.select("window_start", "window_end", "window_time", "n").zip(
        counted.select("window_start", "window_end", "window_time", twice=pl.col("total") * 2)
    )
    assert rows(pair, frame(1, 2, 3, 4))["twice"].to_list() == [6, 14]


COUNTED = SALES.window(TEN).agg(n=h.count())
REFUSED = {
    "larger steps": (lambda: h.CountWindow(4, every=5), "leave gaps"),
    "no rows": (lambda: h.CountWindow(0), "at least one row"),
    "less than none": (lambda: h.CountWindow(-1), "at least one row"),
    "half a row": (lambda: h.CountWindow(2.5), "whole number of rows"),
    "no time": (lambda: h.CountWindow("1s"), "whole number of rows"),
    "too many": (lambda: h.CountWindow(2**62 + 1), "at most 2"),
    "accumulate": (lambda: SALES.window(TEN, accumulate=True).agg(n=h.count()), "accumulate"),
    "per partition": (lambda: SALES.window(TEN).per_partition(n=h.count()), "per partition"),
    "time over counts": (lambda: COUNTED.window(h.Tumbling("1s")).agg(n=h.count()), "ranks, and no time"),
    "sessions over counts": (lambda: COUNTED.window(h.Session("1s")).agg(n=h.count()), "ranks, and no time"),
    "counts over counts": (lambda: COUNTED.window(TEN).agg(n=h.count()), "ranks, and no time"),
    "counts over time": (
        lambda: SALES.window(h.Tumbling("1s")).agg(n=h.count()).window(TEN).agg(m=h.count()),
        "rows of streams are counted",
    ),
    "at": (lambda: COUNTED.at("window_time"), "count in no later window"),
    "a join": (lambda: SALES.window(TEN).join(SALES.window(TEN), on="seller"), "same windows, tumbling or sliding"),
    "a join of results": (
        lambda: COUNTED.window(h.Tumbling("1s")).join(COUNTED.window(h.Tumbling("1s")), on="n"),
        "join over count windows",
    ),
    "different rows": (lambda: COUNTED.zip(SALES.window(TEN).agg(m=h.count())), "each by itself"),
    "a taken name": (lambda: SALES.window(TEN).agg(window_time=h.count()), "two columns 'window_time'"),
    "a later stage": (lambda: h.WCRDT(h.GCounter(), TEN, stage=1), "rows of streams are counted"),
    "accumulate in a program": (lambda: h.WCRDT(h.GCounter(), TEN, accumulate=True), "accumulate"),
    "keep": (lambda: h.WCRDT(h.GCounter(), TEN, keep="1h"), "counts rows"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_count_windows_cannot_do_is_refused_with_a_hint(what):
    build, why = REFUSED[what]
    with pytest.raises((BadProgram, BadWindow), match=why) as refused:
        build()
    assert refused.value.hint


def test_a_fold_is_refused_since_no_task_knows_ranks():
    with pytest.raises(NotFoldable, match="known only when all partitions are") as refused:
        h.fold(COUNTED.to("out"), {"sales": [frame(1, 2, 3)]})
    assert "h.run" in str(refused.value)


# --- programs ---------------------------------------------------------------------------------------------------------


class Misusing(h.Program):
    """Does one thing that it must not."""

    counted = h.WCRDT(h.GCounter(), h.CountWindow(2))
    other = h.WCRDT(h.GCounter(), h.CountWindow(2))
    timed = h.WCRDT(h.GCounter(), h.Tumbling("1us"))
    later = h.WCRDT(h.GCounter(), h.Tumbling("1us"), stage=1)

    def __init__(self, what: str) -> None:
        self.what = what

    async def each(self, event):
        if self.what == "await":
            await self.counted.completed(self.counted.window.window(0))
        if self.what == "advance":
            self.counted.advance(event.ts)
        if self.what == "last_time in process":
            self.counted.last_time(self.counted.window.window(0))
        for handle in (self.counted, self.other, self.timed):
            handle.insert(1, event.ts)

    @h.on_window(counted)
    def on_counted(self, window):
        if self.what == "feed":
            self.later.insert(1, window)
        if self.what == "read the other":
            yield {"n": self.other[window]}
        if self.what == "read time":
            yield {"n": self.timed[self.timed.window.at(0)]}

    @h.on_window(other)
    def on_other(self, window):
        yield {"n": self.other[window]}

    @h.on_window(timed)
    def on_timed(self, window):
        if self.what == "count later":
            self.counted.insert(1, window)
        if self.what == "read counts":
            yield {"n": self.counted[self.counted.window.window(0)]}
        if self.what == "last_time of time":
            yield {"n": self.timed.last_time(window)}

    @h.on_window(later)
    def on_later(self, window):
        yield {"n": self.later[window]}


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("await", "a count window, which cannot be awaited"),
        ("advance", "whatever the time"),
        ("last_time in process", "last_time in process"),
        ("feed", "feed no other windows"),
        ("count later", "over rows of streams"),
        ("read the other", "not completed in one order"),
        ("read time", "not completed in one order"),
        ("read counts", "not completed in one order"),
        ("last_time of time", "for count windows"),
    ],
)
def test_a_program_that_misuses_a_count_window_is_told_so(what, why):
    job = h.job(Misusing(what), "in")
    logs = {"in": [[pl.DataFrame({"ts": [1, 2, 3, 4, 5, 6]}), h.Mark(2**62)]]}
    with pytest.raises(WrongScope, match=why) as told:
        TrimmingRig(job, logs, seed=1).run(100, mischief=0)
    assert told.value.hint


def test_a_handle_that_nobody_reads_is_refused_though_process_is_asynchronous():
    class Silent(h.Program):
        counted = h.WCRDT(h.GCounter(), TEN)

        async def process(self, events):
            self.counted.insert(1, events.ts)

    with pytest.raises(BadProgram, match="nothing ever reads counted"):
        h.job(Silent(), "in")
