"""Real processes, really killed: what comes out is what the oracle says."""

from __future__ import annotations

import inspect
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.workloads import Threads, load

import holons as h
from holons.clock import SystemClock
from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.processes import ProcessNodes
from holons.node import Settings
from holons.node.messages import decode_heartbeat
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import END

PARTITIONS = 4


def bids(partition: int, rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(partition)
    return pl.DataFrame(
        {
            "ts": np.sort(rng.integers(0, 60_000_000, rows)),
            "kind": rng.choice(["bid", "auction"], rows),
            "price": rng.integers(1, 9, rows),
            "auction": rng.integers(1, 9, rows),
        }
    )


@pytest.fixture(scope="module")
def workload():
    job = load("bid_share")
    rows = [bids(partition, 4_000) for partition in range(PARTITIONS)]
    return job, rows, canonical(run_oracle(job, {"bids": [[frame, END] for frame in rows]}, rows_per_call=500))


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 5))])
def test_four_processes_two_of_them_killed_and_replaced(tmp_path, workload, seed):
    job, rows, expected = workload
    rng = random.Random(seed)
    site = DirectorySite(tmp_path)
    site.load({"bids": rows})
    with ProcessNodes(site, Settings(rows_max=50, checkpoint_s=0.05, failure_timeout_s=0.5)) as nodes:
        version = nodes.submit(job)
        names = [nodes.start() for _ in range(4)]
        for victim in rng.sample(names, 2):
            nodes.running[victim].join(rng.uniform(0.0, 3.0))  # let it work for a while
            nodes.kill(victim)
            nodes.start()
        assert nodes.wait(600), f"the survivors did not finish: {told(nodes, version.id)}"
        assert not nodes.stopped()
    assert canonical(site.collected(job.name)) == expected


def test_a_stopped_process_is_taken_over_and_does_no_harm_when_it_goes_on(tmp_path, workload):
    job, rows, expected = workload
    site = DirectorySite(tmp_path)
    site.load({"bids": rows})
    with ProcessNodes(site, Settings(rows_max=20, checkpoint_s=0.05, failure_timeout_s=0.5)) as nodes:
        nodes.submit(job)
        names = [nodes.start() for _ in range(3)]
        until(lambda: site.collected(job.name), "no row came out")
        victim = next(name for name in names if runs_something(site, name))
        os.kill(nodes.running[victim].pid, signal.SIGSTOP)
        try:
            assert nodes.wait(600), "the others did not take over, or waited for it"
            assert victim not in nodes.watcher.finished(1)
        finally:
            os.kill(nodes.running[victim].pid, signal.SIGCONT)
        assert canonical(site.collected(job.name)) == expected
        until(lambda: victim in nodes.watcher.finished(1), "it did not catch up with what the others did")
        assert not nodes.stopped()
    assert canonical(site.collected(job.name)) == expected


def test_a_node_is_one_thread_also_in_polars(tmp_path, workload):
    site, job = DirectorySite(tmp_path), h.job(Threads(), "bids")
    site.load({"bids": workload[1]})
    with ProcessNodes(site) as nodes:
        nodes.submit(job)
        nodes.start()
        assert nodes.wait(600)
    found = site.collected(job.name)["on_window"]
    assert {row["threads"] for rows in found.values() for row in rows} == {1}


class Deadly(h.Program):
    """Kills its process at one row of one partition."""

    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        if 4242 in events["price"]:
            os.kill(os.getpid(), signal.SIGKILL)
        self.total.insert(1, events.ts)

    def on_window(self, window):
        yield {"window": window.start, "total": self.total[window]}


def test_a_program_that_kills_its_process_is_stopped_and_the_others_go_on(tmp_path, workload):
    job, rows, expected = workload
    site = DirectorySite(tmp_path)
    site.load({"bids": rows})
    deadly = [
        frame.with_columns(pl.when(pl.int_range(pl.len()) == 700).then(4242).otherwise("price").alias("price"))
        if partition == 2
        else frame
        for partition, frame in enumerate(rows)
    ]
    site.load({"deadly": deadly}, writer="producer#2")
    with ProcessNodes(site, Settings(rows_max=100, checkpoint_s=0.05, failure_timeout_s=0.4)) as nodes:
        killer = nodes.submit(h.job(Deadly(), "deadly", name="killer"))
        nodes.submit(job)
        for _ in range(2):
            nodes.start()

        def poisoned() -> bool:
            nodes.replace_the_dead()
            return killer.id in nodes.stopped()

        until(poisoned, "the deadly job was not stopped", within_s=600.0)
        told = nodes.stopped()
        assert list(told) == [killer.id], "no other job was stopped"
        assert told[killer.id].kind == "Poison"
        assert "partition 2" in told[killer.id].reason
        offset = int(re.search(r"offset (\d+)", told[killer.id].reason)[1])
        assert 700 - 100 <= offset <= 700
        nodes.replace_the_dead()
        assert nodes.wait(600), "the other job did not finish"
    assert canonical(site.collected(job.name)) == expected


def test_nodes_come_and_go_while_a_job_runs(tmp_path, workload):
    job, rows, expected = workload
    site = DirectorySite(tmp_path)
    site.load({"bids": rows})
    with ProcessNodes(site, Settings(rows_max=20, checkpoint_s=0.05, failure_timeout_s=0.5)) as nodes:
        first = nodes.start()
        nodes.submit(job)
        until(lambda: site.collected(job.name), "no row came out")
        nodes.start()
        nodes.drain(first)
        assert nodes.wait(600)
    assert canonical(site.collected(job.name)) == expected
    with ProcessNodes(site) as later:  # everything is in the directory: another driver finds the same job
        later.submit(job)
        later.start()
        assert later.wait(600)
    assert len(site.jobs().versions) == 1
    assert canonical(site.collected(job.name)) == expected


def until(condition: Callable[[], object], why: str, within_s: float = 600.0) -> None:
    clock = SystemClock()
    until_s = clock.now_s() + within_s
    while not condition():
        assert clock.now_s() < until_s, why
        clock.sleep_s(0.02)


def runs_something(site: DirectorySite, name: str) -> bool:
    with site.shared("heartbeats", "reader") as heartbeats:
        told = [decode_heartbeat(message.data) for message in heartbeats.read({}, 100_000) if message.writer == name]
    return bool(told and told[-1].running)


def test_a_driver_is_killed_its_nodes_end_themselves_and_the_same_command_goes_on(tmp_path, workload):
    job, rows, expected = workload
    for partition, frame in enumerate(rows):
        frame.write_parquet(tmp_path / f"bids-{partition}.parquet")
    site = DirectorySite(tmp_path / "site")
    app = Path(inspect.getfile(type(job.program)))
    command = [
        sys.executable,
        "-c",
        "from holons.cli import main; main()",
        "run",
        f"{app}:job",
        "--log",
        site.directory,
        "--engine",
        "embedded",
    ]
    inputs = [part for file in sorted(tmp_path.glob("*.parquet")) for part in ("--input", f"bids={file}")]
    driver = subprocess.Popen([*command, *inputs], stderr=subprocess.DEVNULL)
    try:
        until(lambda: site.streams() and len(pids(site)) == 2, "the nodes did not come up")
        nodes = pids(site)
    finally:
        driver.kill()
        driver.wait()
    until(lambda: not any(running(pid) for pid in nodes), "nodes outlive their driver")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert len(site.jobs().versions) == 1, "the job was found again"
    assert canonical(site.collected(job.name)) == expected


def told(nodes: ProcessNodes, job: str) -> str:
    """What there is to know about nodes that do not finish."""
    alive = {name: process.alive() for name, process in nodes.running.items()}
    return f"alive: {alive}; stopped: {nodes.stopped()}; said last: {nodes.watcher.look(job)}"


def pids(site: DirectorySite) -> set[int]:
    with site.shared("heartbeats", "reader") as heartbeats:
        return {decode_heartbeat(message.data).pid for message in heartbeats.read({}, 100_000)}


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
