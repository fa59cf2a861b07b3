from __future__ import annotations

import json
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from tests.unit.cli.test_app import run

from holons.cli.jobs import load_job
from holons.cli.why import _short, parse_start
from holons.engines.directory_site import DirectorySite
from holons.errors import BadInput
from holons.node import Node, Settings, submit

APP = """
import holons as h

class Share(h.Program):
    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    sellers = h.WCRDT(h.MergeMap(h.GCounter()), h.Tumbling("1s"))
    def process(self, events):
        self.total.insert(1, events.ts)
        self.sellers.insert((events["seller"], 1), events.ts)
    def on_window(self, window):
        yield {"window": window.start, "total": self.total[window]}

job = h.job(Share(), "bids")
"""

LONG_VALUES = APP.replace('(events["seller"], 1)', '(events["ts"], 1)')

PIPELINE = """
import holons as h

seconds = h.source("bids").window(h.Tumbling("1s"))
by_seller = seconds.group_by("seller").agg(n=h.count())
job = h.job(
    seconds.agg(total=h.count()).to("totals"),
    by_seller.to("sellers"),
    by_seller.window(h.Tumbling("2s")).agg(most=h.max("n")).to("most"),
)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A site on which one node has run the job to its end."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(getattr(request, "param", APP))
    site = DirectorySite(tmp_path / "site")
    ts = [200_000 * number for number in range(12)]
    site.load({"bids": [pl.DataFrame({"ts": ts[first:], "seller": ["a"] * (12 - first)}) for first in (0, 6)]})
    job = load_job("app.py:job")
    ports = site.ports("node-1#1")
    node = Node("node-1#1", ports, Settings(heartbeat_s=0.0))
    node.add_job(submit(job, ports).id, job)
    while not node.finished:
        node.tick()
    return tmp_path / "site"


def test_a_window_is_explained_and_agrees_with_what_the_node_sealed(site: Path, capsys: pytest.CaptureFixture[str]):
    assert run("why", "app.py:job", "1000000", "--log", "site", "--json", "-") == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["values"] == {"total": 9, "sellers": {"a": 9}}
    assert told["contributions"][1] == {
        "handle": "total",
        "partition": 1,
        "rows": 4,
        "first": 0,
        "last": 3,
        "value": 4,
        "sealed": "agrees",
    }
    assert [row["row"]["total"] for row in told["outputs"]] == [9, 9]
    assert run("why", "app.py:job", "1970-01-01T00:00:01", "--log", "site", "--channel", "on_window") == 0
    shown = capsys.readouterr().out
    assert "Agrees with what nodes sealed." in shown
    assert "{'a': 9}" in shown


def test_another_program_than_the_nodes_ran_is_noticed(site: Path, capsys: pytest.CaptureFixture[str]):
    Path("app.py").write_text(APP.replace("insert(1, events.ts)", "insert(2, events.ts)"))
    assert run("why", "app.py:job", "1000000", "--log", "site") == 1
    assert "Nodes have sealed something else" in capsys.readouterr().out


def test_without_nodes_there_is_nothing_to_compare_with(site: Path, capsys: pytest.CaptureFixture[str]):
    (site / "input").rename(site.parent / "alone")
    assert run("why", "app.py:job", "0", "--log", "alone") == 0
    assert "No node has sealed anything" in capsys.readouterr().out


@pytest.mark.parametrize("log", [".", "site/input"])
def test_it_compares_with_the_nodes_of_the_site_where_it_finds_the_inputs(
    site: Path, log: str, capsys: pytest.CaptureFixture[str]
):
    DirectorySite(site.parent / "other").load({"asks": [pl.DataFrame({"ts": [0]})]})
    assert run("why", "app.py:job", "1000000", "--log", log) == 0
    assert "Agrees with what nodes sealed." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["app.py:job", "1"], "near it are 0 ([1970-01-01 00:00:00, "),
        (["app.py:job", "noon"], "'noon' is no moment"),
        (["app.py:job", "0", "--channel", "x"], "no channel 'x'"),
        (["app.py:job", "0", "--log", "."], ""),
        (["app.py:job", "0", "--log", "site/store"], ""),
    ],
)
def test_what_cannot_be_explained_is_told(site: Path, arguments: list[str], told: str, capsys):
    log = [] if "--log" in arguments else ["--log", "site"]
    assert run("why", *arguments, *log) == (0 if "." in arguments else 1)
    assert told in capsys.readouterr().err


def test_moments_are_read():
    assert parse_start("-5") == -5
    assert parse_start("1970-01-01T00:00:01") == parse_start("1970-01-01T01:00:01+01:00") == 1_000_000
    with pytest.raises(BadInput):
        parse_start("")


@pytest.mark.parametrize("site", [PIPELINE], indirect=True, ids=["pipeline"])
def test_windows_of_a_pipeline_are_known_by_its_sinks(site: Path, capsys: pytest.CaptureFixture[str]):
    assert run("why", "app.py:job", "0", "--log", "site", "--channel", "sellers", "--json", "-") == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["channels"] == ["totals", "sellers"]
    rows = {row["channel"]: row["row"] for row in told["outputs"]}
    assert (rows["totals"]["total"], rows["sellers"]["n"]) == (5, 5)
    assert run("why", "app.py:job", "0", "--log", "site") == 0
    shown = capsys.readouterr().out
    assert all(f"What it gives in {channel}" in shown for channel in ("totals", "sellers", "most"))
    assert run("why", "app.py:job", "0", "--log", "site", "--channel", "windows_0") == 1
    assert "there is totals, sellers, most" in capsys.readouterr().err


@pytest.mark.parametrize("site", [PIPELINE], indirect=True, ids=["pipeline"])
def test_offsets_are_told_of_the_input_alone(site: Path, capsys: pytest.CaptureFixture[str]):
    assert run("why", "app.py:job", "0", "--log", "site", "--json", "-") == 0
    stages = {one["stage"]: one for one in json.loads(capsys.readouterr().out)}
    first, later = stages[0]["contributions"][0], stages[1]["contributions"]
    assert (first["first"], first["last"]) == (0, 4)
    assert "first_window" not in first
    fed = [part for part in later if part["rows"]]
    assert fed
    for part in later:
        assert (part["first"], part["last"]) == (None, None)
    for part in fed:
        assert part["first_window"] == {"start": 0, "end": 1_000_000, "key": None}
        assert part["last_window"] == {"start": 1_000_000, "end": 2_000_000, "key": None}
    assert run("why", "app.py:job", "0", "--log", "site", "--channel", "most") == 0
    shown = capsys.readouterr().out
    assert "from windows of stage 0" in shown
    assert "first [1970-01-01 00:00:00, 1970-01-01 00:00:01)" in shown
    assert "last  [1970-01-01 00:00:01, 1970-01-01 00:00:02)" in shown
    assert "offsets" not in shown


@pytest.mark.parametrize("site", [APP, LONG_VALUES, PIPELINE], indirect=True, ids=["plain", "long", "pipeline"])
@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_the_screen_with_whole_headings_and_a_line_for_each_partition(
    site: Path, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", str(width))
    assert run("why", "app.py:job", "0", "--log", "site") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    headings = [[cell.strip() for cell in line.strip("┃").split("┃")] for line in lines if line.startswith("┃")]
    contributions = [one for one in headings if "contribution" in one]
    assert contributions
    for heading in contributions:
        assert [name for name in heading if name != "offsets"] == ["partition", "rows", "contribution", "sealed"]
    cells = [line.strip("│").split("│")[0].strip() for line in lines if line.startswith("│")]
    wrapped = [before for before, cell in pairwise(cells) if not cell]
    assert set(wrapped) <= {"all", ""}  # only the whole value may take more than a line


@pytest.mark.parametrize(
    ("zone", "told"), [("UTC", "2026-07-01 12:00:00"), ("Europe/Berlin", "2026-07-01 12:00:00+02:00")]
)
def test_only_moments_in_another_zone_than_windows_show_it(zone: str, told: str):
    assert _short(datetime(2026, 7, 1, 12, tzinfo=ZoneInfo(zone))) == told
