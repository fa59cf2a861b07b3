"""Checkpoints in the memory of node processes: holders are really killed, and no checkpoint is in any file."""

from __future__ import annotations

import os
import signal

import numpy as np
import polars as pl
import pytest
from tests.simulation.test_processes import until
from tests.workloads import load

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.processes import ProcessNodes
from holons.errors import BadInput, StoreUnavailable
from holons.node import Settings
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import END

PARTITIONS = 4
SETTINGS = Settings(rows_max=50, checkpoint_s=0.05, failure_timeout_s=0.5, snapshot_deltas=4, copies=1)


def bids(partition: int, rows: int = 4_000) -> pl.DataFrame:
    rng = np.random.default_rng(partition)
    return pl.DataFrame({"ts": np.sort(rng.integers(0, 60_000_000, rows)), "kind": rng.choice(["bid", "x"], rows)})


@pytest.fixture(scope="module")
def workload():
    job, rows = load("bid_share"), [bids(partition) for partition in range(PARTITIONS)]
    return job, rows, canonical(run_oracle(job, {"bids": [[frame, END] for frame in rows]}, rows_per_call=500))


def trimmed(site: DirectorySite) -> bool:
    """Whether nodes have trimmed the sync stream: then only records can tell what was in it."""
    for stream in site.shared_streams():
        if stream.startswith("sync-"):
            with site.shared(stream, "reader") as sync:
                if any(sync.starts().values()):
                    return True
    return False


def check_no_checkpoint_in_files(site: DirectorySite) -> None:
    assert not (site.directory / "store").exists()
    assert not [path for path in site.directory.rglob("*") if path.suffix == ".record"]


def mail_bytes(site: DirectorySite) -> int:
    return sum(path.stat().st_size for path in (site.directory / "shared" / "stream.grid").rglob("data.*"))


def test_holders_are_killed_one_after_the_other_and_the_others_have_their_records(tmp_path, workload):
    job, rows, expected = workload
    site = DirectorySite(tmp_path, "memory")
    site.load({"bids": rows})
    with ProcessNodes(site, SETTINGS) as nodes:
        nodes.submit(job)
        names = [nodes.start() for _ in range(3)]
        until(lambda: trimmed(site), "nothing was trimmed: no record was held twice")
        os.kill(nodes.running[names[0]].pid, signal.SIGKILL)
        until(lambda: nodes.replace_the_dead(), "it did not die")
        assert nodes.wait(600), "the others did not finish"
        assert not nodes.stopped()
        assert mail_bytes(site) < 8 << 20
    assert canonical(site.collected(job.name)) == expected
    check_no_checkpoint_in_files(site)


@pytest.mark.slow
def test_an_upgrade_begins_at_records_that_nodes_hold(tmp_path, workload):
    job, rows, expected = workload
    site = DirectorySite(tmp_path, "memory")
    other = h.job(job.program, "bids", name=job.name, columns=["ts", "kind"])
    with site.producer("bids", PARTITIONS, "producer#1") as log, ProcessNodes(site, SETTINGS) as nodes:
        for partition, frame in enumerate(rows):
            log.append(partition, frame.to_arrow().to_batches()[0], live=False)
        old = nodes.submit(job)
        for _ in range(2):
            nodes.start()
        until(lambda: trimmed(site), "nothing was trimmed: no record was held twice")
        with ProcessNodes(site, SETTINGS) as others:
            new = others.submit(other, upgrade=True)
            assert (new.after, len(new.cuts)) == (old.id, PARTITIONS)
            assert sum(cut.offset for cut in new.cuts) > 0, "it begins where the old version was"
            for _ in range(2):
                others.start()
            for partition in range(PARTITIONS):
                log.mark(partition, END.ts)
            assert others.wait(600), "it did not finish"
    assert canonical(site.collected(job.name)) == expected


def test_an_upgrade_is_refused_while_nobody_holds_the_records(tmp_path, workload):
    job, rows, _ = workload
    site = DirectorySite(tmp_path, "memory")
    site.load({"bids": rows})
    with ProcessNodes(site, SETTINGS) as nodes:
        nodes.submit(job)
    other = h.job(job.program, "bids", name=job.name, columns=["ts", "kind"])
    with ProcessNodes(site, SETTINGS) as others:
        others.store_patience_s = 0.1
        with pytest.raises(StoreUnavailable, match="hint: run BidShare as it is"):
            others.submit(other, upgrade=True)


def test_more_copies_than_nodes_are_refused(tmp_path):
    with pytest.raises(BadInput, match="held by 2 other nodes, and nodes=2"):
        h.run(
            load("bid_share"), {"bids": [bids(0)]}, log=tmp_path, store="memory", engine="embedded", nodes=2,
            settings=Settings(copies=2),
        )  # fmt: skip
