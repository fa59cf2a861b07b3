"""Results that are larger than the memory of the process that reads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from holons.engines.directory_site import DirectorySite

READER = """
import sys, threading
from pathlib import Path
import polars as pl
import holons as h
from holons.engines.directory_site import DirectorySite

def memory_mb():
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) / 1024

results = h.Results(DirectorySite(sys.argv[1]).emitted("large"))
pl.DataFrame({"n": [1]}).lazy().select(pl.col("n").sum()).collect(engine="streaming")
before, most, over = memory_mb(), [0.0], threading.Event()

def watch():
    while not over.wait(0.005):
        most[0] = max(most[0], memory_mb())

watching = threading.Thread(target=watch)
watching.start()
if sys.argv[2] == "reader":
    sums = [(batch.num_rows, pl.DataFrame(batch)["n"].sum()) for batch in results.reader("out")]
    rows, total = (sum(column) for column in zip(*sums))
elif sys.argv[2] == "scan":
    rows, total = results.scan("out").select(pl.len(), pl.col("n").sum(), pl.col("text").len().alias("t")).collect(
        engine="streaming"
    ).row(0)[:2]
else:
    table = results.to_arrow("out").combine_chunks()
    rows, total = table.num_rows, pl.DataFrame(table)["n"].sum()
over.set()
watching.join()
print(rows, total, max(most[0], memory_mb()) - before)
"""
TEXT_BYTES = 100
BATCH_ROWS = 50_000
MB = 1 << 20


def large(directory: Path, rows: int) -> int:
    """A site with that many rows in two partitions of an output; returns how many megabytes their texts have."""
    with DirectorySite(directory).output("large", "out", 2, "writer#1") as log:
        for first in range(0, rows, BATCH_ROWS):
            texts = np.full(BATCH_ROWS, "x" * TEXT_BYTES)
            batch = pa.record_batch({"n": np.arange(first, first + BATCH_ROWS), "text": pa.array(texts)})
            log.append(first // BATCH_ROWS % 2, batch)
    return rows * TEXT_BYTES // MB


def read(directory: Path, how: str) -> tuple[int, int, float]:
    """Reads all rows in a process of its own: how many there are, their sum, and by how many megabytes it grew at most."""
    done = subprocess.run(
        [sys.executable, "-c", READER, str(directory), how], capture_output=True, text=True, check=True
    )
    rows, total, grown_mb = done.stdout.split()
    return int(rows), int(total), float(grown_mb)


@pytest.mark.parametrize("rows", [300_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
def test_all_rows_are_read_without_holding_them(rows, tmp_path):
    size_mb = large(tmp_path, rows)
    wanted = rows, rows * (rows - 1) // 2
    *all_rows, whole_mb = read(tmp_path, "table") if rows == 1_000_000 else (*wanted, size_mb)
    assert tuple(all_rows) == wanted
    assert whole_mb > 0.9 * size_mb, "what holds all rows is seen to do so"
    for how in ("reader", "scan"):
        *some_rows, grown_mb = read(tmp_path, how)
        assert tuple(some_rows) == wanted
        assert grown_mb < 80, how
