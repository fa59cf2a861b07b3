from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

import holons as h
from holons.cli.jobs import load_job, named_files, read_inputs
from holons.errors import BadInput, BadProgram

APP = """
import holons as h
from beside import SIZE

class Count(h.Program):
    total = h.WCRDT(h.GCounter(), h.Tumbling(SIZE))
    def process(self, events):
        self.total.insert(1, events.ts)
    def on_window(self, window):
        yield {"n": self.total[window]}

job = h.job(Count(), "bids")
def made() -> h.Job:
    return h.job(Count(), "bids", name="made")
def broken():
    return {}["x"]
def wants(size):
    return job
stream = h.source("bids")
windowed = stream.window(h.Tumbling(SIZE))
grouped = windowed.group_by("seller")
completed = grouped.agg(n=h.count())
def unfinished():
    return completed
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "beside.py").write_text('SIZE = "1s"\n')
    return tmp_path / "app.py"


def test_a_job_of_a_file_and_of_a_module(app: Path):
    assert load_job(f"{app}:job").name == load_job("app.py:job").name == load_job("app:job").name == "Count"
    assert load_job("app.py:made").name == "made"
    assert isinstance(load_job("examples.bid_share:job"), h.Job)
    assert load_job("nexmark:q7").name == "q7"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("job", "does not name a job"),
        ("other.py:job", "there is no file other.py.*there is app.py, beside.py"),
        ("no.such:job", "there is no module 'no.such'"),
        ("nexmark:q99", "there is no query 'q99'"),
        ("app.py", "app.py may have several jobs, and none is named.*app.py:job, app.py:made$"),
        ("app.py:jib", "no 'jib'.*app.py:job, app.py:made$"),
        ("app.py:Count", "is a program, not a job.*h.job"),
        ("app.py:SIZE", "no job, but of type str"),
        ("app.py:wants", "a function with arguments"),
        ("app.py:stream", r'of type Stream.*go: \.to\("channel"\)$'),
        ("app.py:completed", r'of type Completed.*go: \.to\("channel"\)$'),
        ("app.py:windowed", r'of type Windowed.*\.agg\(n=h.count\(\)\)\.to\("channel"\)$'),
        ("app.py:grouped", r'of type Grouped.*\.agg\(n=h.count\(\)\)\.to\("channel"\)$'),
        ("app.py:unfinished", r'returned a Completed.*\.to\("channel"\)$'),
        ("app.py:broken", r"raised at line 16, in broken: return \{\}\[\"x\"\]"),
        ("beside.py:job", "no 'job'.*there is no job in it"),
    ],
)
def test_what_is_wrong_is_told(app: Path, text: str, told: str):
    with pytest.raises(BadInput, match=f"(?s){told}"):
        load_job(text)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("1 / 0", "app.py raised at line 2, in <module>: 1 / 0"),
        ("if:", "app.py, line 2: invalid syntax"),
        ("raise SystemExit(0)", "app.py ended itself at line 2"),
        ("import no_such_thing", "app.py raised at line 2, in <module>: import no_such_thing"),
    ],
)
def test_a_file_that_raises_says_where(app: Path, line: str, told: str):
    app.write_text(f"\n{line}\n")
    with pytest.raises(BadInput, match=told):
        load_job("app.py:job")


def test_an_error_of_ours_keeps_its_kind_and_learns_its_line(app: Path):
    app.write_text(f"{APP}\nh.job(Count())\n")
    with pytest.raises(BadProgram, match=r"app.py, line 26\)"):
        load_job("app.py:job")


def test_inputs_are_files_one_for_each_partition_or_directories(app: Path):
    job, folder = load_job("app.py:job"), app.parent / "rows"
    folder.mkdir()
    for number in range(3):
        pl.DataFrame({"ts": range(number + 1)}).write_parquet(folder / f"{number}.parquet")
    streams = read_inputs(job, named_files([f"bids={folder}", f"bids={folder / '2.parquet'}"]), rows_max=2)
    assert [len(partition[0]) for partition in streams["bids"]] == [1, 2, 2, 2]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["bids"], "cannot be read"),
        (["bids=nowhere.parquet"], "there is no nowhere.parquet"),
        (["bids=empty"], "no files in empty"),
        (["asks=b.csv"], "the job reads 'bids'.*--input bids=FILE"),
        (["bids=beside.py"], r"cannot tell what .*beside.py.*names of inputs end in .parquet, .csv or .jsonl$"),
        ([], "the job reads 'bids'.*--input bids=FILE"),
        (["bids=b.csv", "asks=b.csv"], "does not read 'asks'"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(app: Path, given: list[str], told: str):
    (app.parent / "empty").mkdir()
    (app.parent / "b.csv").write_text("ts\n1\n")
    with pytest.raises(BadInput, match=f"(?s){told}"):
        read_inputs(load_job("app.py:job"), named_files(given), 10)
