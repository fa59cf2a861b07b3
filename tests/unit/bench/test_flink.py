"""Flink reads the same events, gives the same results, and leaves nothing behind."""

import sys
import textwrap
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from holons.errors import BadInput, HolonsError, JavaMissing, JobFailed, MissingExtra, StillRunning
from holons_bench.bids import SECOND_US
from holons_bench.flink import Flink, environment, files, queries, system
from holons_bench.flink.environment import FlinkEnvironment, cache_directory, find_java
from holons_bench.processes import in_group

EVENTS, RATE = 20_000, 500
BIDS = EVENTS // 50 * 46

# --- files ------------------------------------------------------------------------------------------------------------


def test_nexmarks_bids_and_auctions_come_once_each_and_in_order(tmp_path):
    files.write_nexmark(tmp_path, EVENTS + 3, rate=RATE, readers=3)
    for table, count in (("bid", EVENTS // 50 * 46), ("auction", EVENTS // 50 * 3 + 2)):
        found = [pl.read_parquet(path) for path in sorted((tmp_path / table).iterdir())]
        assert [one["date_time"].is_sorted() for one in found] == [True] * 3
        assert pl.concat(found).unique().height == files.count_rows(tmp_path / table) == count
        columns = [name.split()[0] for name in queries.TABLES[table][0].split(", ")]
        assert found[0].columns == columns
        assert found[0].schema["date_time"] == pl.Int64


def test_a_directory_without_files_is_no_table(tmp_path):
    with pytest.raises(BadInput, match="no Parquet files"):
        files.count_rows(tmp_path)


# --- queries ----------------------------------------------------------------------------------------------------------


def test_every_query_reads_only_tables_that_are_known():
    assert {table for query in queries.QUERIES.values() for table in query.tables} == set(queries.TABLES)


@pytest.mark.parametrize("ask", [queries.named, lambda name: queries.live(name, 1_000, 10)])
def test_an_unknown_query_is_an_error_that_names_the_known_ones(ask):
    with pytest.raises(BadInput, match="q5"):
        ask("q99")


# --- the environment --------------------------------------------------------------------------------------------------


def test_the_cache_is_where_one_says(monkeypatch, tmp_path):
    monkeypatch.setenv("HOLONS_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path
    monkeypatch.delenv("HOLONS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "holons"


def test_without_java_there_is_a_hint(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="install Java 17"):
        find_java()


def test_a_failed_installation_says_which_command_failed_and_is_tried_again(monkeypatch, tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    for _ in range(2):
        with pytest.raises(MissingExtra, match=r"/bin/false -m venv .* failed"):
            environment(tmp_path)


# --- the process: a stand-in for the script, with a child as Flink has ------------------------------------------------

STAND_IN = """
    import json, subprocess, sys, time
    child = subprocess.Popen(["sleep", "60"])
    setup = json.loads(sys.stdin.readline())
    assert setup["cores"] == 2
    def answer(**message): print(json.dumps(message), flush=True)
    answer(state="ready")
    for line in sys.stdin:
        job = json.loads(line)
        {}
"""
ANSWERS = 'answer(state="running"); answer(state="finished", wall_s=2.0, rows=[["+I", 1]] if job["collect"] else None)'


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    def start(what: str, **options):
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(STAND_IN).format(what))
        here = FlinkEnvironment(Path(sys.executable), Path("/nowhere/java"), (), tmp_path)
        monkeypatch.setattr(system, "environment", lambda cache: here)
        monkeypatch.setattr(system, "_SCRIPT", script)
        monkeypatch.setattr(system, "_END_S", 0.2)
        return Flink(tmp_path / "flink", cores=2, **options)

    return start


def test_runs_are_measured_after_one_that_is_not(stand_in, tmp_path):
    files.write_nexmark(tmp_path, EVENTS, rate=RATE, readers=2)
    with stand_in(ANSWERS) as flink:
        assert flink.collect("q0", tmp_path) == [["+I", 1]]
        found = flink.run("q0", tmp_path, repeat=2)
        assert [(one.events, one.wall_s, one.rate, one.rows) for one in found] == [(BIDS, 2.0, BIDS / 2.0, None)] * 2
        group = flink._process.pid
        assert len(in_group(group)) == 2
    assert in_group(group) == []


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ('answer(state="failed", why="no such column")', JobFailed),
        ("sys.exit(1)", JobFailed),
        ("time.sleep(60)", StillRunning),
    ],
)
def test_what_fails_or_hangs_is_an_error_and_all_processes_are_gone(stand_in, tmp_path, what, error):
    files.write_nexmark(tmp_path, EVENTS, rate=RATE, readers=2)
    with stand_in(what, patience_s=0.5 if error is StillRunning else 600.0) as flink:
        group = flink._process.pid
        with pytest.raises(error):
            flink.run("q0", tmp_path)
        assert in_group(group) == []
        with pytest.raises(HolonsError, match="not running"):
            flink.run("q0", tmp_path)


def test_an_interrupt_ends_everything(stand_in):
    def interrupted():
        with stand_in(ANSWERS) as flink:
            groups.append(flink._process.pid)
            raise KeyboardInterrupt

    groups: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert in_group(groups[0]) == []


def test_files_that_would_come_late_are_refused(stand_in, tmp_path):
    files.write_nexmark(tmp_path, EVENTS, rate=RATE, readers=4)
    with stand_in(ANSWERS) as flink, pytest.raises(BadInput, match="4 files"):
        flink.run("q0", tmp_path)


def test_without_a_jdk_there_are_no_latencies_but_everything_else(stand_in):
    with stand_in(ANSWERS) as flink, pytest.raises(JavaMissing, match="compiled"):
        flink.latencies("q7", 1_000, 1.0)


# --- Flink itself -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flink(tmp_path_factory):
    directory = tmp_path_factory.mktemp("flink")
    files.write_nexmark(directory / "files", EVENTS, rate=RATE, readers=2)
    with Flink(directory / "flink", cores=2, heap_mb=1_024) as running:
        yield lambda query: running.collect(query, directory / "files"), directory / "files", running


@pytest.mark.slow
def test_nexmarks_queries_give_what_polars_finds(flink):
    ask, directory, _ = flink
    bid, auction = (pl.read_parquet(directory / table / "*.parquet") for table in ("bid", "auction"))
    passed = ask("q0")
    assert Counter(map(tuple, passed)) == Counter(
        ("+I", *row) for row in bid.select("auction", "bidder", "price", "date_time", "extra").iter_rows()
    )
    assert sorted(row[3] for row in ask("q1")) == pytest.approx(sorted((bid["price"] * 0.908).to_list()))
    expected = bid.filter(pl.col("auction") % 123 == 0).select("auction", "price")
    assert sorted(row[1:] for row in ask("q2")) == sorted(map(list, expected.iter_rows()))
    ranked = bid.with_columns(window=pl.col("date_time") // (10 * SECOND_US))
    best = ranked.filter(pl.col("price") == pl.col("price").max().over("window"))
    told = best.select("auction", "price", "bidder", "date_time")
    assert sorted(row[1:] for row in ask("q7")) == sorted(map(list, told.iter_rows()))
    once = best.sort("date_time").unique("window", keep="first").select("auction", "price", "bidder", "date_time")
    assert sorted(row[1:] for row in ask("q7 ranked")) == sorted(map(list, once.iter_rows()))
    assert final_averages(ask("q4")) == winning_averages(bid, auction)
    assert sorted((row[1] // SECOND_US, *row[2:]) for row in ask("q5")) == hottest(bid)


def final_averages(changes):
    """What is left of a stream of changes."""
    left: Counter[tuple[int, int]] = Counter()
    for kind, category, average in changes:
        left[category, average] += 1 if kind in ("+I", "+U") else -1
    return {category: average for (category, average), count in left.items() if count}


def winning_averages(bid, auction):
    joined = auction.join(bid, left_on="id", right_on="auction", suffix="_bid").filter(
        pl.col("date_time_bid").is_between(pl.col("date_time"), pl.col("expires"))
    )
    winning = joined.group_by("id", "category").agg(pl.col("price").max())
    found = winning.group_by("category").agg(pl.col("price").sum() // pl.len())
    return dict(found.iter_rows())


def hottest(bid):
    seconds, auctions = (bid["date_time"] // SECOND_US).to_list(), bid["auction"].to_list()
    windows: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for second, one in zip(seconds, auctions, strict=True):
        for start in range(second - 9, second + 1):
            windows[start][one] += 1
    return sorted(
        (start, one, count)
        for start, counts in windows.items()
        for one, count in counts.items()
        if count == max(counts.values())
    )


@pytest.mark.slow
def test_a_measured_run_has_a_duration_and_a_cost(flink):
    _, directory, running = flink
    [found] = running.run("q0", directory)
    assert found.events == BIDS
    assert 0 < found.wall_s < 60
    assert found.cpu_s is not None


@pytest.mark.slow
@pytest.mark.parametrize(("query", "length_ms"), [("q5", 1_000), ("q7", 100)])
def test_latencies_are_of_every_window_once(flink, query, length_ms):
    _, _, running = flink
    found = running.latencies(query, 2_000, 6.0, length_ms=length_ms, every_ms=100)
    ended = np.array([window_us for window_us, _ in found])
    assert len(found) > 50
    assert set(np.diff(ended).tolist()) == {100_000}
    assert all(emitted_us >= window_us for window_us, emitted_us in found[20:])
