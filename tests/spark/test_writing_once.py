"""A stream that is written while tasks fail, workers are killed and the driver is killed: every row once, in order."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.spark.live_input import until

from holons.engines.directory_site import DirectorySite
from holons.streams import StreamFolder

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 900.0


def started(files: Path, place: Path) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [
            sys.executable,
            ROOT / "tests" / "spark" / "writing_script.py",
            files,
            place / "site",
            place / "query",
            str(next(files.iterdir()).stat().st_size // 4),
        ],
        env={**os.environ, "PYTHONPATH": path},
        cwd=place,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=(place / "driver.log").open("ab"),  # not a pipe: Spark tells a lot, and would wait for a reader
    )


def committed(place: Path) -> int:
    """How many micro-batches are in."""
    folder = place / "site" / "batches" / "rows"
    numbers = [int(file.stem) for file in folder.glob("query*/*.*") if file.suffix in (".commit", ".done")]
    return max(numbers, default=-1) + 1


def kept(place: Path) -> list[np.ndarray]:
    partitions = DirectorySite(place / "site").streams()["rows"]
    with StreamFolder(place / "site" / "input").open("rows", partitions, "reader") as log:
        return [
            np.concatenate(
                [c.rows.column("value").to_numpy() for c in log.read(p, 0, 10**9) if c.rows is not None]
                or [np.zeros(0, dtype=np.int64)]
            )
            for p in range(partitions)
        ]


@pytest.mark.spark
@pytest.mark.own_spark
@pytest.mark.slow
@pytest.mark.parametrize(("rows", "files", "kills"), [(80_000, 4, 1), (2_000_000, 12, 4)])
def test_rows_are_there_once_and_in_order(tmp_path, rows, files, kills):
    source, rng = tmp_path / "files", random.Random(rows)
    source.mkdir()
    for number in range(files):
        values = np.arange(number * rows // files, (number + 1) * rows // files)
        file = source / f"{number:03}.parquet"
        pl.DataFrame({"value": values, "ts": values}).write_parquet(file, row_group_size=rows // files // 8)
        os.utime(file, (number, number))  # Spark reads files by age
    when = sorted(rng.sample(range(1, files), kills))
    for commits in when:
        driver = started(source, tmp_path)
        try:
            until(
                lambda commits=commits, driver=driver: committed(tmp_path) >= commits or driver.poll() is not None,
                "no commit",
                within_s=PATIENCE_S,
            )
            assert driver.poll() is None, (tmp_path / "driver.log").read_text()
        finally:
            driver.kill()
            driver.wait()
    driver = started(source, tmp_path)
    try:
        driver.wait(PATIENCE_S)
    finally:
        driver.kill()
    assert driver.returncode == 0, (tmp_path / "driver.log").read_text()
    assert len(list((tmp_path / "query" / "failed").iterdir())) > 1
    found = kept(tmp_path)
    assert sum(map(len, found)) == rows
    assert all(len(values) for values in found)
    assert all((np.diff(values) > 0).all() for values in found)
    assert (np.sort(np.concatenate(found)) == np.arange(rows)).all()
