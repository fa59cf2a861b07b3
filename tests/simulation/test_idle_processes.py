"""Real processes over an input with a producer of its own: an idle partition is marked in the journal, for all of them."""

from __future__ import annotations

import time

import pyarrow as pa
from tests.workloads import load

from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.processes import ProcessNodes
from holons.engines.inputs import partitions_in
from holons.node import Settings
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.streams import StreamFolder
from holons.windows import END

LIMIT_S = 600.0
SECOND = 1_000_000


def bid(seconds):
    ts, price = [int(seconds * SECOND)], [int(seconds)]
    return pa.record_batch({"ts": ts, "kind": ["bid"], "price": price, "auction": [1]})


def test_an_idle_partition_does_not_hold_up_the_others_and_all_processes_agree(tmp_path):
    job, site = load("bid_share"), DirectorySite(tmp_path)
    nodes = ProcessNodes(site, Settings(idle_s=0.3, checkpoint_s=0.05, failure_timeout_s=0.5, replicas=2))
    deadline, second = time.monotonic() + LIMIT_S, 0
    with StreamFolder(tmp_path / "input").open("bids", 2, "producer#1") as producer:
        producer.append(1, bid(0))
        nodes.submit(job)
        try:
            victim, *_ = [nodes.start() for _ in range(3)]
            while len(site.collected(job.name).get("on_window", {}).get(0, [])) < 5:
                assert time.monotonic() < deadline, "the silent partition holds up the other"
                producer.append(0, bid(second := second + 1))
                time.sleep(0.02)
            nodes.kill(victim)
            producer.append(1, bid(2))  # late by now
            producer.append(1, bid(second + 5))
            for partition in range(2):
                producer.mark(partition, END.ts)
            assert nodes.wait(LIMIT_S), "the survivors did not finish"
        finally:
            nodes.stop()
    executed = partitions_in(site.ports("judge#1").input("bids"))
    assert canonical(site.collected(job.name)) == canonical(run_oracle(job, {"bids": executed}, rows_per_call=500))
    assert len(site.collected(job.name)["late"][1]) == 1


def test_a_stream_that_goes_quiet_closes_its_windows_and_all_processes_agree(tmp_path):
    """The producer is alive, and has nothing to say."""
    job, site = load("bid_share"), DirectorySite(tmp_path)
    nodes = ProcessNodes(site, Settings(idle_s=0.2, checkpoint_s=0.05, failure_timeout_s=0.5, replicas=2))
    deadline = time.monotonic() + LIMIT_S
    now = int(time.time()) + 0.6  # both rows fall into one second
    with site.producer("bids", 3, "producer#1") as producer:
        producer.append(1, bid(now - 0.5))
        producer.append(2, bid(now))
        nodes.submit(job)
        try:
            victim, *_ = [nodes.start() for _ in range(2)]
            for windows in (1, 2):
                while len({row["window"] for row in emitted(site, job)}) < windows:
                    assert time.monotonic() < deadline, "the quiet stream does not close its windows"
                    time.sleep(0.02)
                if windows == 1:
                    nodes.kill(victim)
                    nodes.start()
                    producer.append(0, bid(time.time() + 2))
        finally:
            nodes.stop()
    executed = partitions_in(site.ports("judge#1").input("bids"))
    ended = [[*log, END] for log in executed]
    assert canonical(site.collected(job.name)) == canonical(run_oracle(job, {"bids": ended}, rows_per_call=500))


def emitted(site, job):
    return site.collected(job.name).get("on_window", {}).get(0, [])
