from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest

import holons as h
from holons.cli import main
from holons.cli.jobs import load_job
from holons.engines.directory_site import DirectorySite
from holons.engines.spark.session import check_java, session
from holons.errors import JavaMissing, ProgramFailed
from holons.node.messages import Stopped

APP = """
import holons as h

class Count(h.Program):
    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    def process(self, events):
        self.n.insert(1, events.ts)
    def on_window(self, window):
        yield {"window": window.start, "n": self.n[window]}

job = h.job(Count(), "visits")
"""
FLOW = """
import holons as h

job = h.source("visits").window(h.Tumbling("1s")).agg(n=h.count()).to("counts")
"""
TS = [0, 400_000, 900_000, 1_100_000, 2_500_000]


def run(command: str, *arguments: object) -> int:
    """Runs a command; nothing here is about Spark unless it says so."""
    if command == "run" and "--engine" not in arguments:
        arguments = (*arguments, "--engine", "embedded")
    with pytest.raises(SystemExit) as ended:
        main([command, *map(str, arguments)])
    code = ended.value.code
    return code if isinstance(code, int) else 0


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with an app and two partitions of rows."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "rows").mkdir()
    for partition in range(2):
        pl.DataFrame({"ts": [ts + partition for ts in TS]}).write_parquet(tmp_path / f"rows/{partition}.parquet")
    return tmp_path


def counts(rows: list[dict]) -> list[tuple[int, int]]:
    return [(row["window"], row["n"]) for row in rows]


WANTED = [(0, 6), (1_000_000, 2), (2_000_000, 2)]


def test_a_job_runs_to_its_end_goes_on_and_is_upgraded(here: Path, capsys: pytest.CaptureFixture[str]):
    site = DirectorySite(here / "site")
    assert run("run", "app.py:job", "--input", "visits=rows", "--log", "site", "--json", "-", "--output", "out") == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["channel"], told["rows"], told["finished"]) == ("on_window", 6, True)
    files = sorted((here / "out" / told["job"]).glob("*.parquet"))
    assert counts(pl.read_parquet(files).sort("window").to_dicts()[::2]) == WANTED
    assert run("run", "app.py:job", "--log", "site") == 0
    assert len(site.jobs().versions) == 1, "the same job was found again"
    (here / "app.py").write_text(APP.replace("insert(1", "insert(2"))
    assert run("run", "app.py:job", "--log", "site") == 1
    assert "--upgrade" in capsys.readouterr().err
    assert run("run", "app.py:job", "--log", "site", "--upgrade") == 0
    assert counts(site.collected("Count")["on_window"][0]) == WANTED, "what the old version put out stands"
    assert run("cancel", "Count", "--log", "site") == 0
    assert run("cancel", "Count", "--log", "site") == 1
    assert run("run", "app.py:job", "--log", "site") == 0
    assert [n for _, n in counts(site.collected("Count")["on_window"][0])] == [12, 4, 4], "a new job under the old name"


def test_rows_as_json_lines_and_nothing_kept(here: Path):
    assert (
        run("run", "app.py:job", "--input", "visits=rows", "--output", "out", "--format", "jsonl", "--nodes", "1") == 0
    )
    rows = [json.loads(line) for file in sorted(Path("out").rglob("*p00000*.jsonl")) for line in file.open()]
    assert counts(rows) == WANTED


def test_rows_with_long_values_take_one_line_each(here: Path, monkeypatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("COLUMNS", "80")
    rows = {"ts": [None, None, 1], "user": ["somebody with a long name"] * 3, "region": ["a region far away"] * 3}
    pl.DataFrame(rows).write_parquet("long.parquet")
    assert run("run", "app.py:job", "--input", "visits=long.parquet", "--nodes", "1") == 0
    told = capsys.readouterr().err
    dead = told[told.index("dead: 2 rows") :].splitlines()
    assert [line.split("│")[1].strip() for line in dead if line.startswith("│")] == ["0", "0"]
    assert dead[2].replace("┃", " ").split() == ["partition", "ts", "user", "…", "_stream", "_offset", "_reason"]
    assert "1 column left out: region" in "".join(dead)


def test_a_program_that_raises_says_where(here: Path, capsys: pytest.CaptureFixture[str]):
    (here / "app.py").write_text(APP.replace("self.n.insert(1, events.ts)", "raise ValueError('too hot')"))
    assert run("run", "app.py:job", "--input", "visits=rows", "--nodes", "1") == 1
    told = capsys.readouterr().err
    assert "too hot" in told
    assert "app.py, line 7" in told.replace("\n", "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"import holons as h\nif:\n", "broken.py, line 2: invalid syntax: if:"),
        (b"import holons as h\nname = 'caf\xe9'\n", "broken.py, line 2: (unicode error) 'utf-8' codec can't decode"),
    ],
)
def test_a_file_that_python_cannot_read_says_where_and_what_to_do(here: Path, text: bytes, told: str, capsys):
    (here / "broken.py").write_bytes(text)
    assert run("run", "broken.py:job", "--input", "visits=rows", "--log", "site") == 1
    printed = " ".join(capsys.readouterr().err.split())
    assert f"error: {told}" in printed
    assert "hint: Python cannot read this file: correct the line, and save it as UTF-8" in printed
    assert "Traceback" not in printed
    assert not Path("site").exists(), "nothing was loaded"


BROKEN_CODE = {
    "import broken_by_hand": ("SyntaxError: invalid syntax", "broken_by_hand.py, line 2: if:"),
    "b'caf\\xe9'.decode()": ("UnicodeDecodeError: 'utf-8' codec can't decode", "app.py, line 7"),
}


@pytest.mark.parametrize("line", BROKEN_CODE)
def test_process_that_raises_like_a_decoder_of_ours_is_a_failed_program(here: Path, line: str, monkeypatch, capsys):
    told, place = BROKEN_CODE[line]
    (here / "broken_by_hand.py").write_text("x = 1\nif:\n")
    (here / "app.py").write_text(APP.replace("self.n.insert(1, events.ts)", line))
    monkeypatch.syspath_prepend(here)
    with pytest.raises(ProgramFailed, match=f"the program raised {told}.*partition 0, offset 0") as failed:
        h.run(load_job("app.py:job"), {"visits": [pl.DataFrame({"ts": [1]})]}, engine="embedded").wait()
    assert place in Stopped.by("job", failed.value).reason
    if "import" in line:
        assert run("run", "app.py:job", "--input", "visits=rows", "--nodes", "1") == 1
        printed = capsys.readouterr().err.replace("\n", "")
        assert told in printed
        assert place in printed


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--format", "csv"], "--format parquet"),
        (["--replicas", "3"], "--nodes 3"),
        (["--output", "app.py"], "is a file"),
        (["--input", "other=rows"], "does not read 'other'"),
        ([], "there is no such stream"),
        (["--engine", "flink"], "no engine 'flink'"),
        (["--engine", "embedded", "--master", "local[2]"], "use no Spark"),
        (["--durability", "tape"], "no durability is called 'tape'"),
        (["--durability", "disk", "--store", "memory"], "no checkpoint survives"),
    ],
)
def test_what_cannot_be_run_is_said_at_once(here: Path, arguments: list[str], told: str, capsys):
    inputs = ["--input", "visits=rows"] if "--engine" in arguments else []
    assert run("run", "app.py:job", "--log", "site", *arguments, *inputs) == 1
    assert told in capsys.readouterr().err


def test_what_is_to_survive_the_machine_needs_a_directory(here: Path, capsys: pytest.CaptureFixture[str]):
    assert run("run", "app.py:job", "--input", "visits=rows", "--durability", "disk") == 1
    assert "name a directory" in capsys.readouterr().err


def test_rows_that_will_not_do_leave_nothing_behind(here: Path, capsys: pytest.CaptureFixture[str]):
    pl.DataFrame({"time": TS}).write_parquet("bad.parquet")
    assert run("run", "app.py:job", "--input", "visits=bad.parquet", "--log", "site") == 1
    told = capsys.readouterr().err
    assert "no time column 'ts'" in told
    assert 'name one of time: h.job(program, "visits", time="...")' in told
    (here / "flow.py").write_text(FLOW)
    assert run("run", "flow.py:job", "--input", "visits=bad.parquet", "--log", "site") == 1
    assert 'name one of time: h.source("visits", time="...")' in capsys.readouterr().err
    assert DirectorySite(here / "site").streams() == {}
    assert run("run", "app.py:job", "--input", "visits=rows", "--log", "site", "--nodes", "1") == 0
    assert run("run", "app.py:job", "--input", "visits=rows", "--log", "site", "--nodes", "1") == 1
    assert "leave out --input" in capsys.readouterr().err


def test_without_spark_or_java_the_hint_says_what_to_do(here: Path, monkeypatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("JAVA_HOME", str(here))
    with pytest.raises(JavaMissing) as error:
        check_java()
    assert 'engine="embedded" (--engine embedded)' in error.value.hint
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert run("run", "app.py:job", "--input", "visits=rows", "--log", "site", "--engine", "spark") == 1
    told = capsys.readouterr().err
    assert "pyspark is not installed" in told
    assert "--engine embedded" in told
    assert not Path("site").exists(), "nothing was loaded"


@pytest.mark.spark
def test_spark_is_the_default_and_its_master_is_passed_on(here: Path, capsys: pytest.CaptureFixture[str]):
    master = session().sparkContext.master
    with pytest.raises(SystemExit) as ended:
        main(["run", "app.py:job", "--input", "visits=rows", "--json", "-", "--master", master])
    assert not ended.value.code
    assert json.loads(capsys.readouterr().out)[0]["rows"] == 6
    assert run("run", "app.py:job", "--input", "visits=rows", "--engine", "spark", "--master", "local[3]") == 1
    assert f"whose master is {master}" in capsys.readouterr().err.replace("\n", "")
