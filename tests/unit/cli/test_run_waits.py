"""`holons run` says what it waits for: in lines where there is no terminal, in a table of 80 columns where there is one."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from holons.cli.status import status_table
from holons.engines.directory_site import DirectorySite
from holons.engines.status import NodeStatus, Status, WaitingFor

APP = """
import holons as h

job = h.source("visits").window(h.Tumbling("1s")).agg(n=h.count()).to("counts")
"""
SLOWEST = "partition 1 of visits on node-1 at 1970-01-01 00:00:05, which has no new rows"
LATE = 1_760_000_000_123_456


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A stream without an end, one partition of which is behind the other."""
    (tmp_path / "app.py").write_text(APP)
    with DirectorySite(tmp_path / "site").producer("visits", 2, "producer#1") as log:
        for partition, seconds in enumerate([[1, 9], [5]]):
            (batch,) = pl.DataFrame({"ts": [second * 1_000_000 for second in seconds]}).to_arrow().to_batches()
            log.append(partition, batch)
    return tmp_path


def command(place: Path, **options) -> subprocess.Popen:
    arguments = ["run", "app.py:job", "--log", "site", "--engine", "embedded", "--nodes", "1", "--idle", "never"]
    main = "from holons.cli import main; main()"
    return subprocess.Popen([sys.executable, "-c", main, *arguments], cwd=place, process_group=0, **options)


def test_where_there_is_no_terminal_lines_say_what_it_waits_for_and_the_last_one_when_it_is_stopped(site):
    run = command(site, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    limit = threading.Timer(120.0, run.kill)
    limit.start()
    try:
        assert run.stderr is not None
        said = next((line for line in run.stderr if "nodes to start" not in line), "")
        assert said.startswith(f"counts: 3 rows, 1 windows; waits for {SLOWEST}, for ")
        run.send_signal(signal.SIGINT)
        rest = run.stderr.read()
    finally:
        limit.cancel()
        run.kill()
        run.wait()
    assert f"It was waiting for {SLOWEST}, for " in rest
    assert "Stopped. To go on: holons run app.py:job --log site --engine embedded --nodes 1 --idle never\n" in rest


def test_the_table_fits_80_columns_and_its_height_does_not_change_with_its_numbers():
    waiting = WaitingFor(
        "partition 3 of visits on node-2.1 at 2025-10-09 08:53:20.123456, which has no new rows", (3,), 7.5
    )
    nodes = [
        NodeStatus(f"node-{number}#x", 1_234_567, (0, 2, 4, 6, 8, 10, 12), 10**7, 123_456.0, 123_456, LATE)
        for number in range(2)
    ]
    heights = set()
    for factor in (1, 1000):
        status = Status(
            "counts", "running", 3.2 * factor, tuple(nodes), rows_read=10**5 * factor, windows=factor,
            watermark=LATE, waiting_for=waiting,
        )  # fmt: skip
        out = io.StringIO()
        Console(file=out, width=80, legacy_windows=False).print(status_table(status))
        lines = out.getvalue().splitlines()
        heights.add(len(lines))
        assert sum("2025-10-09 08:53:20" in line for line in lines) == 4, "no watermark is broken up"
        assert lines[-1] == "Ctrl-C stops it"
    assert len(heights) == 1
