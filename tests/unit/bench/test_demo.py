"""The demo tells what happened, from what was seen."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from holons.engines.status import NodeStatus, Status
from holons_bench.chronicle import Chronicle, Happened, Heard
from holons_bench.demo import Account, DemoOptions, main, table
from holons_bench.live import Now

OPTIONS = DemoOptions(nodes=2, partitions=2, rate=1_000, seconds=10)
ROWS = [{"window": 1_000_000 * n, "price": n, "auction": n, "bidder": n, "date_time": 1_000_000 * n} for n in range(10)]


def heard(node: str, from_s: float, to_s: float, *partitions: int) -> list[Heard]:
    return [Heard(float(at_s), node, 1, partitions) for at_s in np.arange(from_s, to_s, 0.1)]


def made_up(*, killed: bool = True) -> Chronicle:
    """A run of ten windows. Node b dies at 5.4 s; its partition is taken over at 6.5 s, so one window is late."""
    due = np.arange(1.0, 11.0)
    late = np.full(10, 0.02)
    if killed:
        late[5] = 0.6
    heartbeats = [*heard("node-1#x", 0, 6.45, 0), *heard("node-1#x", 6.5, 10.5, 0, 1), *heard("node-2#x", 0, 5.4, 1)]
    heartbeats += heard("node-2#x.1", 7.4, 10.5)
    happened = [Happened(5.4, "killed", "node-2#x", 42)] if killed else []
    return Chronicle(due, due + late, list(ROWS), heartbeats, happened)


def account(run: Chronicle, options: DemoOptions = OPTIONS) -> str:
    return "\n".join(Account(options, run, ROWS).account())


def test_the_account_names_who_was_killed_who_took_over_and_what_it_cost():
    told = account(made_up())
    assert "At 5.4 s node-2 (process 42) was killed" in told
    assert "partition 1 by node-1 after 1.1 s" in told
    assert "20 ms after the window's end (median), as long as nothing happened" in told
    assert "1 window late, the worst by 600 ms; 1.2 s after the kill latency was back to normal" in told
    assert "Spark ran the task again: node-2.1 was up 2.0 s after the kill." in told


def test_without_spark_the_driver_brings_the_replacement():
    told = account(made_up(), replace(OPTIONS, spark=False))
    assert "The driver started another process: node-2.1 was up" in told


def test_a_kill_that_nobody_noticed_is_told_so():
    run = made_up()
    run.readable_s = run.due_s + 0.02
    assert "No window came out late." in account(run)


def test_without_a_kill_there_is_little_to_tell():
    assert (
        account(made_up(killed=False))
        == "A window's result was there 20 ms after the window's end (median), 20 ms at worst."
    )


def test_wrong_windows_are_counted():
    run = made_up()
    assert Account(OPTIONS, run, ROWS).verdict.startswith("Checked: all 10 windows")
    run.rows[3] = run.rows[3] | {"price": -1}
    told = Account(OPTIONS, run, ROWS)
    assert told.verdict.startswith("WRONG: 1 of 10 windows")
    run.rows.pop()
    assert Account(OPTIONS, run, ROWS).right == 8


def test_records_are_flat():
    records = Account(OPTIONS, made_up(), ROWS).records()
    assert {tuple(record) for record in records} == {("bench", "case", "system", "metric", "value", "unit")}
    told = {record["metric"]: record["value"] for record in records}
    assert told["windows_right"] == 10
    assert told["recovery"] == pytest.approx(1.2)
    assert told["takeover_1"] == pytest.approx(1.1)


def test_the_table_shows_nodes_their_partitions_and_the_killed():
    nodes = (NodeStatus("node-1#x", 41, (0,), 1_000, lag=5, watermark=3_500_000), NodeStatus("node-2#x.1", 43))
    status = Status(nodes=nodes, rows_read=1_000, rows_per_s=500.0)
    now = Now(7.5, status, 3, 0.025, (Happened(5.4, "killed", "node-2#x", 42),), ("node-1#x", "node-2#x"))
    out = io.StringIO()
    Console(file=out, width=100).print(table(now, OPTIONS))
    lines = out.getvalue().splitlines()
    assert "3 of 10 windows, the last after 25 ms" in lines[0]
    assert all(len(line) <= 100 for line in lines)
    rows = {line.split("│")[1].strip(): line for line in lines if line.startswith("│")}
    assert rows["node-1"].replace("│", "").split() == ["node-1", "41", "0", "1,000", "5", "3.50", "s", "runs"]
    assert "killed at 5.4 s" in rows["node-2"]
    assert "new" in rows["node-2.1"]


def test_a_short_run_kills_a_node_and_is_right(tmp_path):
    out = io.StringIO()
    options = DemoOptions(nodes=2, partitions=2, rate=2_000, seconds=4, spark=False, report=tmp_path / "report.html")
    right, records = main(options, Console(file=out, width=120))
    assert right
    told = out.getvalue()
    assert "killed" in told
    assert "Checked: all 4 windows" in told
    page = options.report.read_text()
    assert "Checked: all 4 windows" in page
    assert page.count("Plotly.newPlot") == 3
    assert {record["metric"] for record in records} >= {"p50", "max", "recovery", "windows_right"}
