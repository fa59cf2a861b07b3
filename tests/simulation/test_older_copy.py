"""Real processes over a copy of a site whose shared streams were copied before the rest: the job goes on exactly."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from tests.workloads import load

import holons as h
from holons.clock import SystemClock
from holons.engines.directory_site import DirectorySite
from holons.engines.inputs import partitions_in
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import END

SETTINGS = h.Settings(idle_s=None, checkpoint_s=0.05)
LIMIT_S = 120.0


def produce(site, writer, seconds, *, end=False):
    with site.producer("bids", 2, writer) as log:
        for partition in range(2):
            for second in seconds:
                bid = {"ts": [second * 1_000_000], "kind": ["bid"], "price": [second], "auction": [1]}
                log.append(partition, pa.record_batch(bid))
            if end:
                log.mark(partition, END.ts)


def wait_for(run, windows):
    clock = SystemClock()
    until_s = clock.now_s() + LIMIT_S
    while run.progress.windows < windows:
        assert clock.now_s() < until_s, str(run.progress)
        clock.sleep_s(0.02)


@pytest.mark.slow
def test_a_copy_whose_shared_streams_are_older_goes_on_exactly(tmp_path):
    job, site, copy = load("bid_share"), DirectorySite(tmp_path / "site"), DirectorySite(tmp_path / "copy")
    produce(site, "producer#1", range(10))
    with h.run(job, log=site.directory, engine="embedded", settings=SETTINGS) as run:
        wait_for(run, 9)
        shutil.copytree(site.directory / "shared", copy.directory / "shared")
        produce(site, "producer#2", range(10, 30))
        wait_for(run, 29)
    for part in site.directory.iterdir():
        if part.name != "shared":
            shutil.copytree(part, copy.directory / part.name)
    produce(copy, "producer#3", range(30, 40), end=True)
    with h.run(job, log=copy.directory, engine="embedded", settings=SETTINGS) as run:
        run.wait(LIMIT_S)
    executed = partitions_in(copy.ports("judge#1").input("bids"))
    assert canonical(copy.collected(job.name)) == canonical(run_oracle(job, {"bids": executed}, rows_per_call=500))
