"""Stock Spark with executors killed and stopped: every window comes out right, and nothing is left behind."""

import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest

from holons.clock import SystemClock
from holons.errors import BadInput
from holons_bench import processes
from holons_bench.stock import recovery
from holons_bench.stock.feed import PacedFiles

FEED = PacedFiles(rate_per_s=2_000, partitions=4, window_us=250_000, windows=8)


def test_files_end_with_windows_and_bring_the_first_event_beyond(tmp_path):
    assert FEED.window_us % FEED.period_us == 0
    assert FEED.period_us <= 100_000
    last, _ = FEED.events(FEED.files_per_window - 1)
    assert last.max() == FEED.window_us
    assert (last.min(axis=1) > FEED.window_us - FEED.period_us).all()
    (tmp_path / "bids").mkdir()
    FEED.write(3, tmp_path / "bids")
    assert [path.name for path in tmp_path.rglob("*.parquet")] == ["00000003.parquet"]
    assert not list(tmp_path.glob("aside*"))


def test_what_is_expected_is_the_highest_price_of_each_window():
    ts, prices = (np.concatenate([FEED.events(n)[at].ravel() for n in range(FEED.files)]) for at in (0, 1))
    windows = ts // FEED.window_us
    assert FEED.expected() == [int(prices[windows == number].max()) for number in range(FEED.windows)]
    assert len(set(FEED.expected())) == FEED.windows


def test_processes_are_told_by_group_and_what_they_used():
    mine = [process for process in processes.in_group(os.getpgrp()) if process.pid == os.getpid()]
    assert len(mine) == 1
    assert "python" in mine[0].command
    assert processes.tree()[os.getpid()].own_s >= mine[0].own_s > 0.0


def test_a_scenario_that_is_none_and_too_few_executors_are_refused():
    with pytest.raises(BadInput, match="scenario") as refused:
        recovery.run_stock("three killed")
    assert "two killed together" in refused.value.hint
    with pytest.raises(BadInput, match="too few"):
        recovery.run_stock("two killed for good", executors=2)


def small(scenario: str) -> recovery.Recorded:
    return recovery.run_stock(
        scenario, rate_per_s=2_000, partitions=4, window_us=500_000, seconds=8.0, executors=3, warm_up_s=1.0, rounds=3
    )


def left_behind() -> set[str]:
    executors = {str(process.pid) for process in processes.living() if "holons-stock-" in process.command}
    return executors | {path.name for path in Path("/tmp").glob("holons-stock-*")}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("scenario", ["two killed together", "two killed for good", "one stopped for 10 s"])
def test_every_window_comes_out_whatever_happens_to_executors(scenario):
    before = left_behind()
    recorded = small(scenario)
    assert recorded.due_s.tolist() == [0.5 * number for number in range(1, 17)]
    assert (recorded.readable_s > recorded.due_s).all()
    assert len(recorded.faults_s) == 1
    assert recorded.executors_left == (1 if scenario == "two killed for good" else 3)
    assert left_behind() <= before


@pytest.mark.slow
@pytest.mark.spark
def test_nothing_is_left_behind_by_a_run_that_fails(monkeypatch):
    before = left_behind()
    monkeypatch.setattr(PacedFiles, "expected", lambda feed: [-1] * feed.windows)
    with pytest.raises(BaseException, match="wrong or missing"):
        small("no failure")
    assert left_behind() <= before


@pytest.mark.slow
@pytest.mark.spark
def test_nothing_is_left_behind_by_a_run_that_is_killed():
    before = left_behind()
    runner = multiprocessing.get_context("spawn").Process(target=small, args=("no failure",))
    runner.start()
    until(lambda: any(name.isdigit() for name in left_behind() - before), "no executor came up")
    runner.kill()
    runner.join()
    until(lambda: left_behind() <= before, "something was left behind")


def until(condition, why: str, within_s: float = 300.0) -> None:
    clock = SystemClock()
    until_s = clock.now_s() + within_s
    while not condition():
        assert clock.now_s() < until_s, why
        clock.sleep_s(0.1)
