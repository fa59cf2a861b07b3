"""Nexmark side by side: the queries of each system run, and ours are compared with DuckDB's before anything is measured."""

import io
from datetime import datetime, timedelta

import polars as pl
import pytest
from rich.console import Console

from holons.engines.spark.session import session
from holons.errors import BadInput, InvariantBroken
from holons.nexmark import Load, answer
from holons_bench import throughput
from holons_bench.records import Record
from holons_bench.stock.frames import tuned
from holons_bench.stock.nexmark import StockNexmark

ONE = timedelta(seconds=1)
SINCE = datetime(2015, 7, 15) - datetime(1970, 1, 1)  # noqa: DTZ001 - the files of the others begin at 0
LOAD = Load(5_000, partitions=2, rate=throughput.RATE)


@pytest.mark.parametrize("query", throughput.QUERIES)
def test_answers_are_checked(query, monkeypatch):
    throughput.check(LOAD, query)
    right = throughput.answer
    monkeypatch.setattr(throughput, "answer", lambda *given, **parameters: right(*given, **parameters).slice(1))
    with pytest.raises(InvariantBroken, match=query):
        throughput.check(LOAD, query)


def test_answers_are_checked_in_another_process():
    throughput._check_elsewhere(LOAD, "q7")
    with pytest.raises(BadInput, match="q99"):
        throughput._check_elsewhere(LOAD, "q99")


def test_what_is_not_measured_is_told():
    with pytest.raises(BadInput, match="'q3' is not a query"):
        throughput.run(1_000, queries=["q3"])
    with pytest.raises(BadInput, match="'storm' is not a system"):
        throughput.run(1_000, against=["storm"])


def test_rates_are_compared_by_medians_and_by_the_worst():
    ours, theirs = (
        throughput.Stopwatch(1_000, [1.0, 2.0, 4.0], [2.0]),
        throughput.Stopwatch(100, [1.0, 1.0, 2.0], [1.0]),
    )
    records = throughput._records("q7", {"holons": ours, "flink": theirs})
    told = {record["metric"]: record["value"] for record in records if record["system"] == "holons"}
    assert (told["rate"], told["rate_median"], told["rate_worst"]) == (1_000, 500, 250)
    assert (told["ratio_flink"], told["ratio_least_flink"], told["ratio_most_flink"]) == (5, 2.5, 20)
    assert told["ratio_core_flink"] == 5
    out = io.StringIO()
    throughput.show(records, Console(file=out, width=80))
    assert "x flink" in out.getvalue()
    assert "5.0 (2.5-20.0)" in out.getvalue()
    page = throughput.report(records).html()
    assert "times flink" in page
    assert "5.0 (2.5-20.0)" in page


@pytest.mark.slow
@pytest.mark.spark
def test_queries_run_on_holons_and_on_stock_spark():
    records = throughput.run(20_000, against=["spark"], times=1, repeat=1, partitions=2)
    assert {record["case"] for record in records} == set(throughput.QUERIES)
    assert {record["system"] for record in records} == {"holons", "spark"}
    assert all(set(record) == set(Record.__annotations__) for record in records)
    assert [record for record in records if not record["value"] > 0] == []


@pytest.mark.slow
@pytest.mark.spark
def test_stock_spark_says_what_duckdb_says(tmp_path):
    """Of each window the most bids, and the highest; of q4, which Spark cannot say in full, the average by second."""
    load = Load(30_000, partitions=2, rate=2_500)
    side = throughput._Bench(tmp_path, load, load, nodes=1, repeat=1)
    side.write()
    stock = StockNexmark(tuned(session(), 2), tmp_path / "spark")
    tables = {stream: load.table(stream) for stream in ("auctions", "bids")}
    most = {(row["window"]["start"] + SINCE, row["most"]["bids"]) for row in stock.run("q5", lambda work: work())}
    expected = answer("q5", tables, size_us=10_000_000, every_us=1_000_000).to_pylist()
    assert most == {(row["window_start"].replace(tzinfo=None), row["bids"]) for row in expected}
    highest = {(row["window"]["start"] + SINCE, row["best"]["price"]) for row in stock.run("q7", lambda work: work())}
    expected = answer("q7", tables, window_us=10_000_000).to_pylist()
    assert highest == {(row["window_start"].replace(tzinfo=None), row["price"]) for row in expected}
    bids, auctions = pl.DataFrame(tables["bids"]), pl.DataFrame(tables["auctions"])
    pairs = bids.join(auctions, left_on="auction", right_on="id", suffix="_of").filter(
        pl.col("date_time").is_between("date_time_of", pl.min_horizontal("expires", pl.col("date_time_of") + ONE)),
    )
    best = pairs.group_by("auction", "category", pl.col("date_time_of").dt.truncate("1s").alias("at")).agg(
        pl.max("price")
    )
    average = best.group_by("at", "category").agg(pl.mean("price"))
    found = {
        (row["window"]["start"] + SINCE, row["category"]): row["average"]
        for row in stock.run("q4", lambda work: work())
    }
    assert found == {(at.replace(tzinfo=None), category): price for at, category, price in average.iter_rows()}
