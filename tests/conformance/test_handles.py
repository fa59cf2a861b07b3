"""A handle is the same on every engine."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from dataclasses import replace

import pytest
from tests.handles import JOB, PARTITIONS, ROWS, SLOWLY, alive, endless, expected, finish, until, visits

import holons as h
from holons.engines.spark.session import session
from holons.errors import JobFailed, ProgramFailed, StillRunning

MANY = 10_000
ENGINES = ["embedded", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture(autouse=True)
def temporary(request, tmp_path, monkeypatch):
    """Where temporary sites are, and nothing else: what a session keeps is elsewhere."""
    if request.node.get_closest_marker("spark"):
        session()
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def test_progress_moves_and_results_so_far_are_a_prefix(engine, tmp_path):
    site, seen = endless(tmp_path / "site"), []
    run = h.run(JOB, engine=engine, log=site.directory, settings=SLOWLY)

    def news() -> bool:
        if not seen or run.progress is not seen[-1][0]:
            seen.append((run.progress, run.results().collected))
        return run.progress.finished

    until(lambda: news() or (len(seen[-1][0].nodes) == 2 and run.results().rows()), "the nodes do not begin")
    finish(site)
    until(news, "it does not move")
    assert run.wait() is run
    done = run.results()
    assert done.canonical() == expected(visits())
    for _, rows in seen:
        for channel, partitions in rows.items():
            for number, some in partitions.items():
                assert some == done.rows(channel, number)[: len(some)]
    sums = [sum(map(len, rows.get("on_window", {}).values())) for _, rows in seen]
    assert sums == sorted(sums)
    assert sums[0] < len(done.rows())
    assert any(progress.rows_read > 0 and progress.state == "running" for progress, _ in seen)
    last = run.progress
    assert (last.state, last.rows_read, last.rows_waiting, last.windows) == ("finished", PARTITIONS * ROWS, 0, 60)
    owned = {number for node in last.nodes for number in node.partitions}
    assert owned == set(range(PARTITIONS)), "each has an owner; that some have two for a while does no harm"
    assert last.rows_per_s > 0
    assert last.deaths == 0


def test_a_run_that_has_finished_leaves_no_directory(engine, temporary):
    streams = visits(200)
    assert h.run(JOB, streams, engine=engine).wait().results().canonical() == expected(streams)
    assert not list(temporary.iterdir())


def test_stopped_and_run_again_it_goes_on_with_the_same_log(engine, tmp_path):
    site = endless(tmp_path / "site")
    with h.run(JOB, engine=engine, log=site.directory, settings=SLOWLY) as run:
        until(lambda: run.results().rows(), "no row came out")
    assert run.progress.state == "stopped"
    some = run.results().rows(partition=0)
    assert len(some) < 60
    again = h.run(JOB, engine=engine, log=str(site.directory))
    until(lambda: len(again.progress.nodes) == 2, "it does not tell of its own two nodes")
    finish(site)
    again.wait()
    assert again.results().rows(partition=0)[: len(some)] == some
    assert again.results().canonical() == run.results().canonical() == expected(visits())
    assert again.progress.rows_before > 0, "it went on where the other one was"


def test_what_fails_is_raised_by_wait_and_what_was_out_is_kept(engine, temporary):
    class Fails(h.Program):
        n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

        def process(self, events):
            if (events.ts > 50_000_000).any():
                raise ValueError("too hot")
            self.n.insert(1, events.ts)

        def on_window(self, window):
            yield {"n": self.n[window]}

    side_by_side = replace(SLOWLY, max_ahead_s=5.0)
    run = h.run(h.job(Fails(), "visits"), visits(MANY), engine=engine, settings=side_by_side)
    for _ in range(2):
        with pytest.raises(ProgramFailed if engine == "embedded" else JobFailed, match="too hot"):
            run.wait()
    assert run.progress.state == "failed"
    assert run.results().rows()
    assert run.progress.rows_read > 0
    assert "too hot" in run._repr_html_()
    assert not list(temporary.iterdir())


def pids_of(run: h.Run) -> list[int]:
    until(lambda: len(run.progress.nodes) == 2, "the nodes did not come up")
    return list(run.progress.processes.values())


def test_a_dropped_handle_leaves_no_process_and_no_directory(engine, temporary, tmp_path):
    if engine == "embedded":
        run = h.run(JOB, engine=engine, log=endless(tmp_path / "site").directory)
    else:
        run = h.run(JOB, visits(200_000), settings=h.Settings(rows_max=1))
        assert list(temporary.iterdir())
    pids = pids_of(run)
    assert len(list(filter(alive, pids))) == 2
    del run
    gc.collect()
    until(lambda: not list(temporary.iterdir()), "a directory is left")
    if engine == "embedded":
        until(lambda: not any(map(alive, pids)), "a process is left")  # Spark keeps its workers, for other tasks


def test_nodes_that_die_are_replaced_and_counted(engine, tmp_path):
    site = endless(tmp_path / "site")
    run = h.run(JOB, engine=engine, log=site.directory, settings=SLOWLY)
    until(lambda: run.results().rows(), "no row came out")
    os.kill(next(iter(run.progress.processes.values())), signal.SIGKILL)
    until(lambda: run.progress.deaths == 1, "nobody noticed")
    finish(site)
    assert run.wait().results().canonical() == expected(visits())
    assert "died" in repr(run)


def test_what_takes_too_long_is_still_running_and_may_be_stopped(engine, tmp_path):
    run = h.run(JOB, engine=engine, log=endless(tmp_path / "site").directory)
    until(lambda: len(run.results().rows()) == 59 * PARTITIONS, "what is there does not come out")
    with pytest.raises(TimeoutError, match=r"in 0\.01 s") as error:
        run.wait(timeout_s=0.01)
    assert isinstance(error.value, StillRunning)
    assert run.progress.state == "running"
    run.stop()
    run.stop()
    assert run.wait().progress.state == "stopped"
    assert len(run.results().rows()) == 59 * PARTITIONS


@pytest.mark.spark
def test_a_session_of_ours_leaves_control_c_to_those_who_wait():
    session()
    ours = (signal.default_int_handler, signal.SIG_IGN)  # a process in the background is born with the second
    assert signal.getsignal(signal.SIGINT) in ours, "Spark's own would cancel all nodes"
