"""Batches are appended whole, in order, once; whoever dies, and wherever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from holons.engines.batches import Batches
from holons.engines.directory_site import DirectorySite
from holons.errors import BadInput, LogDamaged


def rows(*numbers: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"n": list(numbers)})]


def read(site: DirectorySite, stream: str = "in") -> dict[int, list[int]]:
    partitions = site.streams()[stream]
    with site.producer(stream, partitions, "reader") as log:
        return {
            partition: [
                n
                for chunk in log.read(partition, 0, 10**9)
                if chunk.rows is not None
                for n in chunk.rows.column("n").to_pylist()
            ]
            for partition in range(partitions)
        }


@pytest.fixture
def site(tmp_path: Path) -> DirectorySite:
    return DirectorySite(tmp_path)


def left(site: DirectorySite) -> list[str]:
    return sorted(file.name for file in (site.directory / "batches").rglob("rows.*"))


def test_batches_come_in_order_and_once(site):
    batches = Batches(site, "in", 2)
    first = [batches.stage(0, rows(1, 2)), batches.stage(1, rows(10)), batches.stage(0, rows(3))]
    assert batches.commit("query", 0, first)
    assert read(site) == {0: [1, 2, 3], 1: [10]}
    again = [batches.stage(0, rows(7, 8, 9))]  # another attempt, which even made something else
    assert not batches.commit("query", 0, again)
    assert batches.commit("query", 1, [batches.stage(1, rows(11)), batches.stage(0, [])])
    assert batches.commit("other", 0, [batches.stage(1, rows(12))])
    assert read(site) == {0: [1, 2, 3], 1: [10, 11, 12]}
    assert left(site) == []


def test_what_the_dead_have_staged_is_removed_once_it_is_old(site):
    batches = Batches(site, "in", 1)
    old, young = batches.stage(0, rows(1)), batches.stage(0, rows(2))
    os.utime(site.directory / "batches" / "in" / old.file, (0, 0))
    batches.commit("query", 0, [batches.stage(0, rows(3))])
    assert left(site) == [young.file]
    assert read(site) == {0: [3]}


def test_a_forgotten_attempt_leaves_nothing(site):
    batches = Batches(site, "in", 1)
    batches.forget([batches.stage(0, rows(1))])
    assert left(site) == []
    assert batches.newest("query") is None


def test_old_commits_are_forgotten_but_not_the_last(site):
    batches = Batches(site, "in", 1)
    for number in range(10):
        assert batches.commit("query", number, [batches.stage(0, rows(number))])
    assert batches.newest("query") == 9
    assert len(list((site.directory / "batches").rglob("*.done"))) == 2
    assert not batches.commit("query", 3, [batches.stage(0, rows(3))])
    assert read(site) == {0: list(range(10))}


def test_all_rows_of_a_batch_were_appended_when_it_was_committed(site):
    batches, began_us = Batches(site, "in", 2), site.clock.utc_us()
    batches.commit("query", 0, [batches.stage(0, rows(1, 2)), batches.stage(1, rows(10))])
    batches.commit("table", 0, [batches.stage(0, rows(3))], live=False)
    with site.input("in", "reader") as log:
        (first, history), (other,) = (log.read(partition, 0, 9) for partition in range(2))
    assert began_us <= first.appended == other.appended <= history.appended <= site.clock.utc_us()
    assert (first.live, other.live, history.live) == (True, True, False)


def test_batches_of_all_processes_share_segments(site):
    for number in range(20):
        batches = Batches(site, "in", 1)
        batches.commit("query", number, [batches.stage(0, rows(number))])
    assert read(site) == {0: list(range(20))}
    assert len(list((site.directory / "input").rglob("data.arrows"))) == 1


DYING = """
import os, pathlib, signal, sys
import pyarrow as pa
from holons.engines.batches import Batches
from holons.engines.directory_site import DirectorySite
from holons.streams.folder import StoredLog

def counted(owner, name):
    real = getattr(owner, name)
    def step(*given, **named):
        global steps
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **named)
    setattr(owner, name, step)

counted(pathlib.Path, "rename")
counted(pathlib.Path, "write_bytes")
counted(pathlib.Path, "unlink")
counted(StoredLog, "put")
counted(StoredLog, "end")
for steps in range(100):
    directory = f"{sys.argv[1]}/{steps}"
    if not (child := os.fork()):
        batches = Batches(DirectorySite(directory), "in", 2)
        first = [batches.stage(0, [pa.record_batch({"n": [1, 2]})]), batches.stage(1, [pa.record_batch({"n": [10]})])]
        batches.commit("query", 0, first)
        os._exit(0)
    killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert killed in (0, -signal.SIGKILL), killed
    if killed == 0:
        print(steps)
        break
"""


def test_whoever_is_killed_at_any_step_the_batch_is_in_once(tmp_path):
    done = subprocess.run([sys.executable, "-c", DYING, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    steps = int(done.stdout)
    assert steps > 6, "there are some steps to be killed at"
    for step in range(steps + 1):
        site = DirectorySite(tmp_path / str(step))
        batches = Batches(site, "in", 2)
        batches.commit("query", 0, [batches.stage(0, rows(1, 2)), batches.stage(1, rows(10))])
        batches.commit("query", 1, [batches.stage(0, rows(3))])
        assert read(site) == {0: [1, 2, 3], 1: [10]}, f"killed at step {step}"


def test_two_processes_commit_at_once(tmp_path):
    script = """
import sys, pyarrow as pa
from holons.engines.batches import Batches
from holons.engines.directory_site import DirectorySite
batches = Batches(DirectorySite(sys.argv[1]), "in", 2)
for number in range(15):
    batches.commit(sys.argv[2], number, [batches.stage(p, [pa.record_batch({"n": [number]})]) for p in (0, 1)])
"""
    running = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name]) for name in "ab"]
    assert [one.wait(600) for one in running] == [0, 0]
    found = read(DirectorySite(tmp_path))
    for partition in (0, 1):
        assert sorted(found[partition]) == sorted([*range(15), *range(15)])


def test_a_damaged_commit_is_told(site):
    batches = Batches(site, "in", 1)
    batches.commit("query", 0, [batches.stage(0, rows(1))])
    (site.directory / "batches" / "in" / "query" / "00000000000000000001.commit").write_text("torn")
    with pytest.raises(LogDamaged, match="is damaged"):
        batches.commit("query", 2, [])


def test_partitions_must_fit(site):
    batches = Batches(site, "in", 2)
    with pytest.raises(BadInput, match="no partition 2"):
        batches.stage(2, rows(1))
    batches.commit("query", 0, [batches.stage(0, rows(1))])
    with pytest.raises(BadInput, match="has 2 partitions, not 3"):
        Batches(site, "in", 3)


def test_a_lock_goes_with_its_holder(tmp_path):
    holder = "import signal, sys\nfrom holons.engines.batches import Batches\n"
    holder += "from holons.engines.directory_site import DirectorySite\n"
    holder += "with Batches(DirectorySite(sys.argv[1]), 'in', 1)._locked():\n"
    holder += "    print('held', flush=True)\n    signal.pause()\n"
    with subprocess.Popen([sys.executable, "-c", holder, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    batches = Batches(DirectorySite(tmp_path), "in", 1)
    assert batches.commit("query", 0, [batches.stage(0, rows(1))])
