from __future__ import annotations

import hashlib
import json
from pathlib import Path

import polars as pl
import pytest
from tests.unit.cli.test_app import run

from holons.cli import sim
from holons.cli.seeds import parse_seeds
from holons.engines.simulator import FIRST_KINDS, Kind, Outcome, draw_faults, scenarios
from holons.errors import BadInput

APP = """
import holons as h

class Highest(h.Program):
    highest = h.WCRDT(h.MaxRegister(), h.Tumbling("1s"))
    def process(self, events):
        if len(events) < {least}:  # where a batch ends decides
            events = events.where(events["price"] > 50)
        self.highest.insert(events["price"], events.ts)
    def on_window(self, window):
        yield {{"window": window.start, "price": self.highest[window]}}

job = h.job(Highest(), "bids")
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ts = [number * 100_000 for number in range(40)]
    pl.DataFrame({"ts": ts, "price": [number % 60 for number in range(40)]}).write_parquet(tmp_path / "bids.parquet")
    (tmp_path / "app.py").write_text(APP.format(least=0))
    return tmp_path / "app.py"


def test_a_scenario_is_run_and_recorded(capsys: pytest.CaptureFixture[str]):
    assert run("sim", "bid share", "--seeds", "0:3", "--workers", "1", "--json", "-") == 0
    told = capsys.readouterr()
    (record,) = json.loads(told.out)
    assert (record["scenario"], record["seeds"], record["divergences"]) == ("bid share", 3, [])
    assert record["virtual_s"] > 10
    assert sum(record["faults"].values()) > 0
    assert "bid share" in told.err


def test_seeds_are_spread_over_processes(capsys: pytest.CaptureFixture[str]):
    assert run("sim", "highest bid", "--seeds", "0:6", "--workers", "2", "--no-faults", "--json", "-") == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["seeds"] == 6
    assert sum(record["faults"].values()) == 0


def test_a_good_job_of_ones_own(app: Path, capsys: pytest.CaptureFixture[str]):
    assert run("sim", "app.py:job", "--input", "bids=bids.parquet", "--seeds", "2", "--workers", "1", "--trace") == 0
    told = capsys.readouterr().out
    assert "seed 2: all is well" in told
    assert "node-0#1 starts" in told


def test_a_job_that_depends_on_cuts_diverges_and_says_how_to_see_it_again(app: Path, capsys):
    app.write_text(APP.format(least=9))
    arguments = ("sim", "app.py:job", "--input", "bids=bids.parquet", "--workers", "1")
    assert run(*arguments, "--seeds", "0:2", "--nodes", "2", "--json", "out.json") == 1
    told = capsys.readouterr().out
    (record,) = json.loads(Path("out.json").read_text())
    found = record["divergences"][0]
    assert found["problem"] in told
    assert found["faults_needed"] == []  # it needs no fault at all
    assert f"    {found['command']}\n" in told
    assert run(*found["command"].split()[1:]) == 1
    assert f"seed {found['seed']}: {found['problem']}" in capsys.readouterr().out


RANDOM = """
import random
import holons as h

class Lucky(h.Program):
    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    def process(self, events):
        self.n.insert(1, events.ts)
    def on_window(self, window):
        yield {"n": self.n[window] + random.random()}

job = h.job(Lucky(), "bids", name="luck")
"""


@pytest.mark.parametrize("faults", [[], ["--no-faults"]], ids=["shrunk", "no faults"])
def test_a_program_that_is_no_function_of_its_input_is_called_so(app: Path, faults: list[str], capsys):
    app.write_text(RANDOM)
    arguments = ("sim", "app.py:job", "--input", "bids=bids.parquet", "--workers", "1", "--nodes", "1")
    assert run(*arguments, "--seeds", "0", *faults) == 1
    told = capsys.readouterr().out
    assert "the program is not a function of its input" in told
    assert "random numbers" in told
    assert "job luck, channel on_window, partition 0, row 0: {'n': " in told


def test_a_program_that_diverges_under_faults_alone_is_not_called_so():
    fault = draw_faults(5, 3, 6.0)[0]
    for faults, found in ((), True), ((fault,), False):
        seen = sim.SeedOutcome(Outcome(5, "it differs", 1.0, (fault,), ()), Outcome(5, "it differs", 1.0, faults, ()))
        for job, known in ("app.py:job", found), ("", False):
            told = " ".join(map(str, sim._story(sim.Setup("x", job), seen, whole=False).renderables))
            assert ("not a function of its input" in told) == known


def test_an_interrupted_run_says_what_it_has_seen(monkeypatch: pytest.MonkeyPatch, capsys):
    run_seeds = sim.run_seeds

    def interrupted(setup, seeds, **options):
        if 1 in seeds:
            raise KeyboardInterrupt
        return run_seeds(setup, seeds, **options)

    monkeypatch.setattr(sim, "run_seeds", interrupted)
    assert run("sim", "bid share", "--seeds", "0:3", "--workers", "1", "--json", "-") == 1
    told = capsys.readouterr()
    assert json.loads(told.out)[0]["seeds"] == 1
    assert "Interrupted" in told.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing"], "no scenario 'nothing'"),
        (["bid share", "--input", "bids=x"], "bring their own rows"),
        (["app.py:job"], "the job reads 'bids'"),
        (["--seeds", "a:b"], "cannot be read"),
        (["--seeds", "5:5"], "holds no seed"),
        (["--kinds", "flood"], "no fault 'flood'"),
    ],
)
def test_what_makes_no_sense_is_refused(app: Path, arguments: list[str], told: str, capsys):
    assert run("sim", *arguments) == 1
    assert told in capsys.readouterr().err


def test_seeds_and_kinds_are_read():
    assert parse_seeds("3,7,20:23,21") == [3, 7, 20, 21, 22]
    assert sim.parse_kinds("crash, log outage") == (Kind.CRASH, Kind.LOG_OUTAGE)
    assert sim.parse_kinds("first") == FIRST_KINDS
    with pytest.raises(BadInput):
        parse_seeds("")


def test_the_command_names_everything_that_differs_from_the_defaults():
    setup = sim.Setup("bid share", nodes=5, replicas=2, rows=9, kinds=FIRST_KINDS)
    assert setup.command(7) == (
        "holons sim 'bid share' --seeds 7 --trace --rows 9 --nodes 5 --replicas 2 --kinds first"
    )
    assert sim.Setup("two jobs", kinds=()).command(1) == "holons sim 'two jobs' --seeds 1 --trace --no-faults"


# --- what recorded seeds mean -----------------------------------------------------------------------------------------


def test_recorded_seeds_draw_the_faults_that_they_always_drew():
    assert [str(fault) for fault in draw_faults(5, 3, 6.0)[:2]] == [
        "1.68s store outage node 1 for 0.63s (73)",
        "2.15s crash node 2 for 0.07s (794)",
    ]
    assert {fault.kind for seed in range(300) for fault in draw_faults(seed, 3, 6.0)} == set(FIRST_KINDS)
    drawn = {fault.kind for seed in range(300) for fault in draw_faults(seed, 3, 6.0, kinds=tuple(Kind))}
    assert drawn == set(Kind)


def test_recorded_seeds_get_the_rows_that_they_always_got():
    rows = [
        [
            piece.rows() if isinstance(piece, pl.DataFrame) else piece.ts
            for partition in partitions
            for piece in partition
        ]
        for variant in range(scenarios.VARIANTS)
        for partitions in scenarios.prepared("two jobs", variant).streams.values()
    ]
    assert hashlib.sha256(repr(rows).encode()).hexdigest()[:16] == "0bdf8e946ca53a98"


def test_the_package_has_every_example_and_they_are_the_same_files():
    root = Path(__file__).parents[3]
    written = {file.name: file for file in (root / "examples").glob("*.py")}
    packaged = {file.name: file for file in (root / "src/holons/examples").glob("*.py") if file.name != "__init__.py"}
    assert written
    assert {name: file.resolve() for name, file in packaged.items()} == written
