"""Real processes, really killed: what comes out is what the oracle says."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest
from tests.workloads import load

from holons.engines.embedded.processes import ProcessNodes
from holons.engines.site import Site
from holons.node import Settings
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


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 11))])
def test_four_processes_two_of_them_killed_and_replaced(tmp_path, workload, seed):
    job, rows, expected = workload
    rng = random.Random(seed)
    site = Site(tmp_path)
    site.load({"bids": rows})
    with ProcessNodes(site, Settings(rows_max=50, checkpoint_s=0.05, failure_timeout_s=0.5)) as nodes:
        nodes.submit(job)
        names = [nodes.start() for _ in range(4)]
        for victim in rng.sample(names, 2):
            nodes.running[victim].process.join(rng.uniform(0.0, 3.0))  # let it work for a while
            nodes.kill(victim)
            nodes.start()
        assert nodes.wait(120.0), "the survivors did not finish"
    assert canonical(site.collected(job.name)) == expected
