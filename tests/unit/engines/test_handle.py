"""Handles: what they refuse, how they end, how they look."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import polars as pl
import pytest
from tests.handles import JOB, Count, alive, endless, expected, finish, until, visits

import holons as h
from holons.engines.choosing import SparkMissing
from holons.engines.directory_site import DirectorySite
from holons.engines.status import NodeStatus, Status
from holons.errors import BadInput, JobFailed, MissingExtra
from holons.node import cancel

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "by name"),
        ({"streams": visits(9), "engine": "flink"}, "'flink'"),
        ({"streams": visits(9), "nodes": 0}, "0 nodes"),
        ({"streams": visits(9), "settings": h.Settings(replicas=3)}, "nodes=3"),
        ({"streams": visits(9), "spark_session": object()}, "use no Spark"),
        ({"log": "nowhere"}, "no such stream in nowhere"),
        ({"log": "there", "streams": visits(9)}, "in there already"),
    ],
)
def test_what_cannot_run_is_said_at_once(arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    DirectorySite("there").load(visits(9))
    with pytest.raises(BadInput) as error:
        h.run(JOB, **{"engine": "embedded", **arguments})
    assert told in str(error.value)
    assert not list(tmp_path.glob("nowhere/*"))


def test_streams_are_loaded_all_or_none(tmp_path):
    class Broken(pl.DataFrame):
        def to_arrow(self, **_):
            raise RuntimeError("no more rows")

    job = h.job(Count(), "visits", "other")
    with pytest.raises(RuntimeError, match="no more rows"):
        h.run(job, {**visits(9), "other": [Broken({"ts": [1]})]}, log=tmp_path, engine="embedded")
    assert not DirectorySite(tmp_path).streams()


def test_without_spark_one_is_told_what_to_install_or_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtra, match="pyspark is not installed") as error:
        h.run(JOB, visits(9), engine="spark")
    assert isinstance(error.value, ImportError)
    assert "holons[spark]" in error.value.hint
    assert 'engine="embedded"' in error.value.hint
    with pytest.raises(MissingExtra):
        h.Results.of({}).to_spark()


def test_without_spark_nodes_are_embedded_and_a_warning_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    streams = visits(9)
    with pytest.warns(SparkMissing, match="pyspark not installed"):
        run = h.run(JOB, streams)
    assert run.wait().results().canonical() == expected(streams)


def test_runs_go_on_side_by_side():
    streams = visits(500)
    runs = [h.run(JOB, streams, engine="embedded") for _ in range(3)]
    assert {run.wait().results().canonical() for run in runs} == {expected(streams)}


def test_a_job_that_is_cancelled_elsewhere_is_not_finished(tmp_path):
    site = endless(tmp_path)
    run = h.run(JOB, log=tmp_path, engine="embedded")
    until(lambda: run.results().rows(), "no row came out")
    cancel("Count", site.ports("somebody#1"))
    with pytest.raises(JobFailed, match="Cancelled"):
        run.wait(600)
    assert run.progress.state == "failed"


SCRIPT = """
import atexit, time
atexit.register(lambda: print(run.progress.state))  # the first to be registered is the last to be called
import holons as h

class Count(h.Program):
    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    def process(self, events):
        self.n.insert(1, events.ts)
    def on_window(self, window):
        yield {"n": self.n[window]}

run = h.run(h.job(Count(), "visits"), log="site", engine="embedded")  # no guard
while len(run.progress.nodes) < 2 or not run.results().rows():
    time.sleep(0.1)
print(*run.progress.processes.values(), flush=True)
"""


def started(directory: Path, more: str = "") -> subprocess.Popen[str]:
    endless(directory / "site")
    (directory / "script.py").write_text(SCRIPT + textwrap.dedent(more))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "script.py"], cwd=directory, process_group=0, **pipes)


def test_a_script_without_a_guard_leaves_nothing_running_when_it_ends(tmp_path):
    out, err = started(tmp_path).communicate(timeout=600)
    *pids, state = out.split()
    assert len(pids) == 2, err
    assert not any(alive(int(pid)) for pid in pids)
    assert state == "stopped"
    assert not err


def test_control_c_stops_the_run_with_a_checkpoint(tmp_path):
    script = started(tmp_path, "run.wait()")
    assert script.stdout is not None
    pids = [int(pid) for pid in script.stdout.readline().split()]
    os.killpg(script.pid, signal.SIGINT)  # as a terminal does
    _, err = script.communicate(timeout=600)
    assert script.returncode == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert err.count("Traceback") == 1, "the nodes heard nothing of it"
    assert len(pids) == 2
    assert not any(map(alive, pids))
    assert list((tmp_path / "site" / "store").rglob("*")), "a checkpoint"


def test_whoever_is_interrupted_while_waiting_finds_the_run_stopped(tmp_path, monkeypatch):
    def interrupted(_: float) -> bool:
        raise KeyboardInterrupt

    run = h.run(JOB, log=endless(tmp_path).directory, engine="embedded")
    monkeypatch.setattr(run._work.ended, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.wait()
    assert run.progress.state == "stopped"


# --- how it looks -----------------------------------------------------------------------------------------------------


def test_a_handle_shows_figures_nodes_and_last_rows(tmp_path):
    site = endless(tmp_path)
    run = h.run(JOB, log=site.directory, engine="embedded")
    until(lambda: len(run.progress.nodes) == 2, "the nodes did not come up")
    finish(site)
    run.wait()
    shown, told = run._repr_html_(), repr(run)
    for text in ("Count", "finished", "6,000", "60", "node-1", "node-2", "on_window: 180 rows, the last:", "ended"):
        assert text in shown
    for text in ("Count finished", "6,000 rows", "60 windows", "node-1 runs", "watermark ended"):
        assert text in told
    assert "59,000,000" in shown, "the last window"
    assert ">0</td><td" not in run.results()._repr_html_().partition("</tr>")[0]


def test_markup_in_names_and_rows_is_text():
    progress = Status(job="<script>", nodes=(NodeStatus("<i>#1"),), state="running")
    rows = h.Results.of({"<em>": {0: [{"<u>": "<s>&"}]}}, ())
    shown = progress._repr_html_() + rows._repr_html_()
    assert not any(tag in shown for tag in ("<script>", "<i>", "<em>", "<u>", "<s>"))
    assert "&lt;s&gt;&amp;" in shown


def test_progress_tells_deaths_and_who_runs_nothing():
    nodes = NodeStatus("node-1#abc"), NodeStatus("node-2#abc.1", 7, (1,))
    progress = Status(nodes=nodes, job="Count", state="running", deaths=1, watermark=1_500_000)
    assert [(node.label, node.partitions) for node in progress.nodes] == [("node-1", ()), ("node-2.1", (1,))]
    assert "node-1 runs nothing; node-2.1 runs 1>" in repr(progress)
    assert "1 died and replaced" in repr(progress)
    assert "watermark 1970-01-01 00:00:01.5" in repr(progress)
    assert "died and replaced" in progress._repr_html_()
