"""The pipelines whose latency is measured say the right thing about each window; and what is measured is all of it."""

import io

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import holons as h
from holons.errors import BadInput, InvariantBroken, StillRunning
from holons.nexmark import PacedBids
from holons_bench import latency, live


def bids_of(load):
    return [[batch for _, batch in load.batches(partition)] for partition in range(load.partitions)]


@pytest.mark.parametrize(("query", "every_us"), [("q5", 10_000), ("q7", 100_000)])
def test_every_window_has_one_result(query, every_us):
    load = PacedBids(20_000, 2, 0.3, every_us, 5_000)
    given = bids_of(load)
    found = h.run(latency.job(query), {"bids": given}, engine="embedded").wait().results().to_polars()
    everything = pl.concat(pl.DataFrame(batch) for batches in given for batch in batches).sort("date_time")
    ends = (found["window"].to_numpy() + every_us).tolist()
    assert ends[: load.windows] == [(number + 1) * every_us for number in range(load.windows)]
    for end, row in list(zip(ends, found.to_dicts(), strict=True))[:: 7 if query == "q5" else 1]:
        length = 10_000_000 if query == "q5" else every_us
        inside = everything.filter(pl.col("date_time").dt.epoch("us").is_between(end - length, end - 1))
        if query == "q7":
            assert row["price"] == inside["price"].max()
        else:
            counts = (inside["auction"] % latency.AUCTIONS).value_counts().sort("count", descending=True)
            assert row["bids"] == counts["count"][0]


@pytest.mark.parametrize(("query", "every_us", "field"), [("q5", 10_000, "bids"), ("q7", 100_000, "price")])
def test_what_is_measured_is_checked(query, every_us, field, monkeypatch):
    monkeypatch.setitem(latency._LENGTH_MS, "q5", 100)
    load = PacedBids(20_000, 3, 0.4, every_us, 5_000)
    rows = h.run(latency.job(query), {"bids": bids_of(load)}, engine="embedded").wait().results().to_polars()
    rows, expected = rows.head(load.windows).to_dicts(), latency.expected(query, load)
    live.check(query, rows, expected)
    with pytest.raises(InvariantBroken, match="windows came out"):
        live.check(query, rows[1:], expected)
    rows[2][field] += 1
    with pytest.raises(InvariantBroken, match="1 windows are wrong, the first is number 2"):
        live.check(query, rows, expected)


def test_figures_are_those_of_windows():
    late = np.arange(1.0, 10_001.0)
    records = latency.records({"q5": {"holons": late, "flink": late * 10}})
    told = {(one["system"], one["metric"]): one["value"] for one in records}
    assert told["holons", "p50"] == 5_000
    assert told["holons", "p99.99"] == 9_999
    assert told["flink", "max"] == 100_000
    assert told["holons", "windows"] == 10_000
    out = io.StringIO()
    latency.show(records, Console(file=out, width=200))
    assert "9,999" in out.getvalue()
    assert "p99.99" in latency.report({"q5": {"holons": late}}, 1_000).html()


def test_who_does_not_keep_up_is_ended_and_the_rest_is_told(monkeypatch):
    class Slow:
        def __init__(self, folder, **options):
            assert options["patience_s"] > 40

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def latencies(self, *given, **lengths):
            raise StillRunning("no answer of Flink")

    monkeypatch.setattr(latency, "Flink", Slow)
    found = {"q5": {"holons": np.array([1.0, 2.0]), "flink": latency._flink("q5", 1_000, 1.0)}}
    out = io.StringIO()
    latency.show(latency.records(found), Console(file=out, width=120))
    assert "0 windows: it took more than 4 times" in out.getvalue()
    assert "0 windows: it took more than 4 times" in latency.report(found, 1_000).html()


def test_what_is_not_measured_is_told():
    with pytest.raises(BadInput, match="q4"):
        latency.run(queries=["q4"])
    with pytest.raises(BadInput, match="storm"):
        latency.run(against=["storm"])
