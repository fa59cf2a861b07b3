from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

import holons_bench
from holons.cli import main
from holons.errors import BadWindow, DescribedError, InvariantBroken, ProgramFailed

RECORD = {"bench": "kernels", "case": "max", "system": "holons", "metric": "rate", "value": 1.5, "unit": "rows/s"}


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    code = ended.value.code
    return code if isinstance(code, int) else 0


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """Takes the place of the demo, tells how it was called, and fails with 13 partitions."""
    calls: list[tuple] = []
    stand_in = ModuleType("holons_bench.demo")
    vars(stand_in)["DemoOptions"] = lambda *options: options
    vars(stand_in)["main"] = lambda options, console: calls.append(options) or (options[1] != 13, [RECORD])
    monkeypatch.setitem(sys.modules, "holons_bench.demo", stand_in)
    monkeypatch.setattr(holons_bench, "demo", stand_in, raising=False)
    return calls


@pytest.fixture
def failing_demo(demo: list[tuple], monkeypatch: pytest.MonkeyPatch):
    """A demo that raises what it is given."""

    def fail_with(error: DescribedError, cause: Exception | None = None) -> None:
        def fail(options: object, console: object) -> None:
            raise error from cause

        monkeypatch.setattr(sys.modules["holons_bench.demo"], "main", fail)

    return fail_with


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Takes the place of the kernel benchmark."""
    room, stand_in = ModuleType("holons_bench"), ModuleType("holons_bench.kernels")
    vars(room)["kernels"] = stand_in
    vars(stand_in).update(run=lambda events, *, repeat, progress: [RECORD | {"value": events * repeat}], show=print)
    monkeypatch.setitem(sys.modules, "holons_bench", room)
    monkeypatch.setitem(sys.modules, "holons_bench.kernels", stand_in)
    return stand_in


def test_help_lists_the_commands_and_examples(capsys: pytest.CaptureFixture[str]):
    assert run("--help") == 0
    told = capsys.readouterr().out
    for word in ("demo", "bench", "version", "--debug", "Examples"):
        assert word in told


@pytest.mark.parametrize(
    "command",
    [
        ["demo"],
        ["nexmark", "list"],
        ["nexmark", "verify"],
        ["nexmark", "generate"],
        ["run"],
        ["cancel"],
        ["bench", "kernels"],
        ["bench", "node"],
        ["bench", "recovery"],
        ["sim"],
        ["why"],
        *(["log", name] for name in ("ls", "head", "tail", "stat")),
    ],
)
def test_each_command_has_examples(command: list[str], capsys: pytest.CaptureFixture[str]):
    assert run(*command, "--help") == 0
    assert f"holons {' '.join(command)}" in capsys.readouterr().out.split("Examples")[1]


def test_version(capsys: pytest.CaptureFixture[str]):
    assert run("version") == 0
    assert capsys.readouterr().out.startswith("holons 0.")


def test_the_demo_runs_on_spark_unless_told_otherwise(demo: list[tuple], capsys: pytest.CaptureFixture[str]):
    assert run("demo") == 0
    assert run("demo", "--nodes", "5", "--partitions", "2", "--no-spark", "--report", "r.html", "--json", "-") == 0
    assert [call[4] for call in demo] == [True, False]
    assert demo[1] == (5, 2, 150_000, 20, False, Path("r.html"))
    assert json.loads(capsys.readouterr().out) == [RECORD]


def test_a_demo_whose_results_are_wrong_fails(demo: list[tuple]):
    assert run("demo", "--partitions", "13") == 1


def test_an_option_that_makes_no_sense_is_refused(demo: list[tuple]):
    assert run("demo", "--partitions", "0") == 2
    assert demo == []


@pytest.mark.parametrize("kind", [BadWindow, InvariantBroken])
def test_an_error_is_told_plainly(kind: type[DescribedError], failing_demo, capsys: pytest.CaptureFixture[str]):
    failing_demo(kind("no [bold] window", hint="use [1s]", job="q7"))
    assert run("demo") == 1
    assert capsys.readouterr().err == "error: no [bold] window (job q7)\n  hint: use [1s]\n"


def test_the_cause_of_an_error_is_told(failing_demo, capsys: pytest.CaptureFixture[str]):
    failing_demo(ProgramFailed("the program raised", partition=3), ZeroDivisionError("division by zero"))
    assert run("demo") == 1
    told = capsys.readouterr().err
    assert told == "error: the program raised (partition 3)\n  cause: ZeroDivisionError: division by zero\n"


def test_debug_lets_the_error_through(failing_demo):
    failing_demo(InvariantBroken("void"))
    with pytest.raises(InvariantBroken):
        main(["--debug", "demo"])


def test_debug_may_come_from_the_environment(failing_demo, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOLONS_DEBUG", "1")
    failing_demo(BadWindow("void"))
    with pytest.raises(BadWindow):
        main(["demo"])


def test_bench_writes_flat_records_to_standard_output(kernels: ModuleType, capsys: pytest.CaptureFixture[str]):
    assert run("bench", "kernels", "--events", "10", "--repeat", "2", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out) == [RECORD | {"value": 20}]


def test_bench_writes_flat_records_to_a_file(kernels: ModuleType, tmp_path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "kernels.json"
    assert run("bench", "kernels", "--events", "10", "--repeat", "2", "--json", str(file)) == 0
    assert json.loads(file.read_text()) == [RECORD | {"value": 20}]
    assert "'value': 20" in capsys.readouterr().out, "and a table for people"


def test_the_node_bench_measures_latency_unless_told_otherwise(monkeypatch, capsys: pytest.CaptureFixture[str]):
    room, node, latency = (ModuleType(f"holons_bench{name}") for name in ("", ".node", ".window_latency"))
    vars(node)["run"] = lambda events, *, repeat, progress: [RECORD | {"value": events * repeat}]
    vars(latency)["run"] = lambda seconds, *, nodes, **_: [RECORD | {"value": seconds * nodes}]
    vars(room).update(node=node, window_latency=latency)
    for module in (room, node, latency):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    few = ("bench", "node", "--events", "1000", "--repeat", "2", "--nodes", "3", "--json", "-")
    assert run(*few) == 0
    assert [record["value"] for record in json.loads(capsys.readouterr().out)] == [2000, 60]
    assert run(*few, "--seconds", "0") == 0
    assert [record["value"] for record in json.loads(capsys.readouterr().out)] == [2000]


def test_the_recovery_bench_takes_its_plan_from_the_options(monkeypatch, tmp_path, capsys: pytest.CaptureFixture[str]):
    from holons_bench import recovery

    written: list[Path] = []
    page = type("Page", (), {"write": lambda self, file: written.append(file)})()
    monkeypatch.setattr(recovery, "run", lambda plan, progress: plan)
    monkeypatch.setattr(recovery, "records", lambda plan: [RECORD | {"value": plan.failure_timeout_s * plan.seconds}])
    monkeypatch.setattr(recovery, "report", lambda plan, runs, records: page)
    few = ("bench", "recovery", "--seconds", "20", "--timeout", "0.5", "--no-spark", "--json", "-")
    assert run(*few, "--html", str(tmp_path / "r.html")) == 0
    assert json.loads(capsys.readouterr().out) == [RECORD | {"value": 10.0}]
    assert written == [tmp_path / "r.html"]


def test_bench_shows_a_table_otherwise(kernels: ModuleType, capsys: pytest.CaptureFixture[str]):
    assert run("bench", "kernels") == 0
    assert "rows/s" in capsys.readouterr().out
