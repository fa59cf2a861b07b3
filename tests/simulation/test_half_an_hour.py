"""Real time, real processes: a job runs for a while, its nodes are killed now and then, and nothing grows.

`HOLONS_SOAK_S` says for how many seconds; half an hour is `HOLONS_SOAK_S=1800`. The figures are printed (`pytest -s`).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import polars as pl
import pytest
from tests.handles import Count

import holons as h
from holons.clock import SystemClock
from holons.engines.directory_site import DirectorySite

SOAK_S = float(os.environ.get("HOLONS_SOAK_S", "90"))
KILL_EVERY_S = min(120.0, SOAK_S / 3)  # what a dead node leaves goes within half an hour
SAMPLES = 8
PAGE_BYTES = os.sysconf("SC_PAGESIZE")
JOB = h.job(Count(), "visits")


def sizes(directory: Path, pids: list[int]) -> dict[str, int]:
    found = []
    for path in directory.rglob("*"):
        try:
            found.append(path.stat().st_blocks * 512)
        except FileNotFoundError:  # it has just been removed
            continue
    memory, files = [0], [0]
    for pid in pids:
        try:
            memory.append(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES)
            files.append(len(list(Path(f"/proc/{pid}/fd").iterdir())))
        except (FileNotFoundError, ProcessLookupError):
            continue
    own = len(list(Path("/proc/self/fd").iterdir()))
    return {
        "disk": sum(found),
        "files": len(found),
        "memory of a node": max(memory),
        "open files of a node": max(files),
        "open files of the driver": own,
    }


@pytest.mark.slow
def test_real_processes_keep_no_more_the_longer_they_run(tmp_path):
    clock, site = SystemClock(), DirectorySite(tmp_path)
    site.create("visits", 2)
    site.retention().keep_input("visits", "10s")
    site.retention().keep_output(JOB.name, "10s")
    seen, windows = [], 0
    with site.producer("visits", 2, "producer#1") as log, h.run(JOB, log=tmp_path, engine="embedded", nodes=2) as run:
        began_s = killed_s = sampled_s = clock.now_s()
        while clock.now_s() - began_s < SOAK_S:
            ts = clock.utc_us()
            for partition in range(2):
                log.append(partition, pl.DataFrame({"ts": [ts, ts + 1_000]}).to_arrow().to_batches()[0])
            clock.sleep_s(0.05)
            pids = [node.process for node in run.progress.nodes]
            if clock.now_s() - killed_s > KILL_EVERY_S and len(pids) == 2:
                killed_s = clock.now_s()
                os.kill(pids[0], signal.SIGKILL)
            if clock.now_s() - sampled_s > SOAK_S / SAMPLES:
                sampled_s = clock.now_s()
                windows = max(windows, run.progress.windows)
                seen.append(sizes(tmp_path, pids))
                print(
                    f"{sampled_s - began_s:.0f} s, {windows:,} windows, {run.progress.deaths} deaths:",
                    seen[-1],
                    flush=True,
                )
        assert run.progress.deaths >= 1
    assert windows > SOAK_S / 4, "the job was at work"
    for what in seen[0]:
        early = max(sample[what] for sample in seen[: len(seen) // 2])
        late = max(sample[what] for sample in seen[len(seen) // 2 :])
        slack = {"disk": 4 << 20, "memory of a node": 64 << 20}.get(what, 50)  # each writer may fill a small segment
        assert late <= 1.5 * early + slack, f"{what} grew: {[sample[what] for sample in seen]}"
