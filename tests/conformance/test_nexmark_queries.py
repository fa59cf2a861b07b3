"""Nexmark's queries give DuckDB's rows: on every engine, in and out of order, however a stream is cut."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

import holons as h
from holons.cli.nexmark_engines import embedded, fold, processes, simulator, spark
from holons.nexmark import PARAMETERS, QUERIES, Load, query
from holons.nexmark.verify import Runner, Streams, streams_of, verify

SHORT = {"window_us": 700_001, "size_us": 1_100_000, "every_us": 300_000, "gap_us": 90_000}
"""Windows, sessions and steps in odd lengths, so that a few seconds have many."""
IN_ORDER = Load(2_000, seed=3, rate=500)
OUT_OF_ORDER = Load(2_000, seed=4, rate=500, group=77)
CLOSING = ("q4", "q6", "q9")
"""Those that count auctions when they close: joins that feed later windows."""
LOADS = {"in order": IN_ORDER, "out of order": OUT_OF_ORDER}


@cache
def streams(load: Load, rows: int) -> Streams:
    return streams_of(load, rows)


def told(name: str) -> dict[str, int]:
    return {} if name in CLOSING else {parameter: SHORT[parameter] for parameter in PARAMETERS[name]}


def check(name: str, load: Load, run: Runner, rows: int = 29, *, least: int = 1) -> None:
    compared = verify(name, streams(load, rows), run, rate=load.rate, disorder_us=load.disorder_us, **told(name))
    assert compared.same, compared
    assert compared.expected >= least, f"{name} says nothing over {load}"


def check_together(names: Sequence[str], load: Load, run: Runner, rows: int = 101) -> None:
    """Several queries as one job: one run, and each of its channels is judged."""
    parts = [query(name, rate=load.rate, disorder_us=load.disorder_us, **told(name)) for name in names]
    job = h.job(*parts, name="nexmark")
    read = {given.stream: streams(load, rows)[given.stream] for given in job.inputs}
    collected = run(job, read)
    for name in names:
        check(name, load, lambda job, given: collected, rows, least=0)


def check_all(load: Load, run: Runner) -> None:
    """All queries in one job."""
    check_together(QUERIES, load, run)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("name", QUERIES)
def test_a_query_gives_duckdbs_rows(name, load):
    check(name, LOADS[load], embedded())


def test_where_batches_end_does_not_matter():
    for rows in (1, 7, 5_000):
        check("q4", Load(250, seed=3, rate=1_000, group=77), embedded(), rows)


@pytest.mark.parametrize("window_us", [100_000, 700_001, 60_000_000])
@pytest.mark.parametrize("name", ["q4", "q6"])
def test_auctions_close_in_windows_of_any_length(name, window_us):
    load = Load(600, seed=4, partitions=2, rate=250, group=77)
    made = streams(load, 101)
    compared = verify(name, made, embedded(), rate=250, disorder_us=load.disorder_us, window_us=window_us)
    assert compared.same, compared


def test_many_queries_are_one_job():
    check_all(Load(600, seed=4, partitions=2, rate=500, group=77), embedded())


def test_sellers_are_found_as_far_back_as_they_can_be():
    """An auction's seller is one of the last thousand people: 50,000 events. Bids are not needed for that."""
    load = Load(60_000, seed=1, partitions=2, rate=10_000)
    made = {stream: [list(load.batches(stream, part)) for part in range(2)] for stream in ("people", "auctions")}
    compared = verify("q3", made, embedded(), rate=load.rate)
    assert compared.same, compared


@pytest.mark.spark
def test_three_queries_on_spark():
    load = Load(500, seed=5, partitions=2, rate=200, group=37)
    check("q4", load, spark(), rows=101)
    check_together(("q5", "q7"), load, spark())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["q4", "q5", "q7", "q8"])
def test_a_query_under_faults(name, seed):
    rate = 500 if name in CLOSING else 150  # auctions close long after the last bid
    check(name, Load(300, seed=seed, partitions=2, rate=rate, group=(1, 37, 50)[seed]), simulator(3, seed), rows=60)


# --- the long way -----------------------------------------------------------------------------------------------------

MANY = [
    Load(3_000, seed=seed, partitions=partitions, rate=500, group=group)
    for seed, group, partitions in zip(range(10, 20), (1, 333) * 5, (1, 3, 8) * 4)
]


@pytest.mark.slow
@pytest.mark.parametrize("load", MANY, ids=str)
def test_all_queries_over_many_loads(load):
    for name in QUERIES:
        check(name, load, embedded(), rows=211, least=0)


@pytest.mark.slow
def test_all_queries_in_processes_of_their_own():
    check_all(OUT_OF_ORDER, processes())


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("load", MANY[:3], ids=str)
def test_all_queries_on_spark(load):
    check_all(load, spark())


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", QUERIES)
def test_all_queries_folded_over_dataframes(name):
    check(name, OUT_OF_ORDER, fold())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
@pytest.mark.parametrize("name", ["q3", "q4", "q5", "q6", "q7", "q8", "q9", "q11", "q18", "q19", "q20"])
def test_more_queries_under_faults(name, seed):
    load = Load(600, seed=seed, partitions=1 + seed % 3, rate=300, group=(1, 37, 50)[seed % 3])
    check(name, load, simulator(2 + seed % 3, seed), rows=60, least=0)
