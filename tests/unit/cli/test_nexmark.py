from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.unit.cli.test_app import run

import holons as h
from holons.cli import nexmark_engines
from holons.engines.directory_site import DirectorySite
from holons.nexmark import QUERIES, Load, query
from holons.nexmark.verify import streams_of, verify

FEW = ("--events", "600", "--rate", "300")


def test_queries_are_listed_with_what_they_can_be_told(capsys: pytest.CaptureFixture[str]):
    assert run("nexmark", "list", "--json", "-") == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["query"] for record in records] == list(QUERIES)
    assert records[5]["parameters"] == {"size_us": 10_000_000, "every_us": 2_000_000}
    assert run("nexmark", "list") == 0
    assert "every_us=2_000_000" in capsys.readouterr().out


def test_a_query_that_is_right(capsys: pytest.CaptureFixture[str]):
    assert run("nexmark", "verify", "q2", "q5", *FEW, "--group", "50", "--with", "every_us=500_000", "--json", "-") == 0
    told = capsys.readouterr()
    records = json.loads(told.out)
    assert [(record["query"], record["same"], record["difference"]) for record in records] == [
        ("q2", True, ""), ("q5", True, "")
    ]  # fmt: skip
    assert records[1]["rows"] == records[1]["expected"] > 5
    assert "out of order in groups of 50" in " ".join(told.err.split())


def test_a_query_that_is_wrong_shows_rows_of_both_sides(monkeypatch, capsys: pytest.CaptureFixture[str]):
    def wrong(nodes: int, seed: int):
        def run_it(job, streams):
            collected = nexmark_engines.embedded()(job, streams)
            rows = next(part for part in collected[job.name].values() if part)
            rows[0] = rows[0] | {"bids": 777}
            return collected

        return run_it

    monkeypatch.setitem(nexmark_engines.ENGINES, "embedded", wrong)
    assert run("nexmark", "verify", "q5", *FEW) == 1
    told = capsys.readouterr().out
    assert "q5 differs" in told
    assert "777" in told.partition("found, not expected: 1 rows")[2]
    assert "expected, not found: 1 rows" in told


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("q99",), "no query 'q99'"),
        (("q12",), "no query 'q12'"),
        (("q4", "--engine", "flink"), "no engine 'flink'"),
        (("q4", "--with", "gap_us=5"), "parameter 'gap_us'"),
        (("q4", "--with", "window_us"), "cannot be read"),
        (("q4", "--with", "window_us=0"), "must be positive"),
    ],
)
def test_what_makes_no_sense_is_refused(given, message, capsys: pytest.CaptureFixture[str]):
    assert run("nexmark", "verify", *given, *FEW) == 1
    assert message in capsys.readouterr().err


def test_without_duckdb_it_is_told_what_to_install(monkeypatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert run("nexmark", "verify", "q7", *FEW) == 1
    told = capsys.readouterr().err
    assert "duckdb" in told
    assert "pip install 'holons[nexmark]'" in told


def test_generated_streams_are_what_jobs_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    site = tmp_path / "site"
    options = ("--events", "1000", "--partitions", "2", "--group", "50", "--rate", "500", "--seed", "9")
    assert run("nexmark", "generate", "--log", str(site), *options) == 0
    assert "920 bids" in (told := capsys.readouterr().err)
    assert 'query("q4", rate=500, disorder_us=98_000)' in told
    assert DirectorySite(site).streams() == {"auctions": 2, "bids": 2, "people": 2}

    load = Load(1_000, seed=9, partitions=2, rate=500, group=50)
    job = query("q4", rate=500, disorder_us=98_000)
    results = h.run(job, log=site, engine="embedded", nodes=1).wait(600).results()
    assert verify("q4", streams_of(load), lambda *_: results.collected, rate=500).same
    assert len(results.rows()) > 0

    assert run("nexmark", "generate", "--log", str(site), *options) == 1
    assert "already" in capsys.readouterr().err


def test_a_query_runs_over_events_that_are_made_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    site, few = str(tmp_path / "site"), ("--events", "1000", "--partitions", "2", "--group", "50", "--rate", "500")
    options = (*few, "--seed", "9", "--log", site, "--engine", "embedded", "--nodes", "1", "--json", "-")
    load = Load(1_000, seed=9, partitions=2, rate=500, group=50)
    for name, told in (("q4", {}), ("q5", {"every_us": 500_000})):
        asked = [word for key, value in told.items() for word in ("--with", f"{key}={value}")]
        assert run("nexmark", "run", name, *asked, *options) == 0
        (record,) = json.loads(capsys.readouterr().out)
        rows = DirectorySite(Path(site)).collected(name)
        assert record["rows"] == sum(map(len, rows[name].values())) > 0
        assert verify(name, streams_of(load), lambda *_, rows=rows: rows, rate=500, disorder_us=98_000, **told).same
    assert DirectorySite(Path(site)).streams() == {"auctions": 2, "bids": 2, "people": 2}


def test_a_query_leaves_nothing_behind_unless_it_is_told_where(capsys: pytest.CaptureFixture[str]):
    assert run("nexmark", "run", "q7", *FEW, "--engine", "embedded", "--nodes", "1") == 0
    told = capsys.readouterr().err
    assert "q7: 1 rows" in told
    assert "+00:00" not in told, "times are told as everywhere else"
    assert "holons log ls" not in told


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("q99",), "no query 'q99'"),
        (("all",), "no query 'all'"),
        (("q4", "--with", "gap_us=5"), "parameter 'gap_us'"),
        (("q4", "--engine", "flink"), "'flink'"),
    ],
)
def test_what_cannot_be_run_is_refused(given, message, capsys: pytest.CaptureFixture[str]):
    assert run("nexmark", "run", *given, *FEW) == 1
    assert message in capsys.readouterr().err
