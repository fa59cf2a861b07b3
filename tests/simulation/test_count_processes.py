"""Count windows on real processes, one of which is really killed: what comes out is what the oracle says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.simulation.test_processes import runs_something, until

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.processes import ProcessNodes
from holons.engines.simulator.scenarios import CountedSales
from holons.node import Settings
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import END

PARTITIONS = 3
ROWS = 900
SLOWLY = Settings(rows_max=10, checkpoint_s=0.05, failure_timeout_s=0.5)


def sales(partition: int, rows: int = ROWS) -> pl.DataFrame:
    rng = np.random.default_rng(partition)
    columns = {"seller": rng.integers(1, 5, rows), "price": rng.integers(-9, 9, rows)}
    return pl.DataFrame({"ts": np.sort(rng.integers(0, 60_000_000, rows)), **columns})


def counted_rows(site: DirectorySite, job: h.Job) -> int:
    return sum(len(rows) for rows in site.collected(job.name).get("on_week", {}).values())


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_process_that_counts_is_killed_and_the_others_count_on(tmp_path, replicas):
    job = h.job(CountedSales(), "sales", disorder="700ms")
    rows = [sales(partition) for partition in range(PARTITIONS)]
    expected = canonical(run_oracle(job, {"sales": [[frame, END] for frame in rows]}, rows_per_call=500))
    site = DirectorySite(tmp_path)
    site.load({"sales": rows})
    with ProcessNodes(site, replace(SLOWLY, replicas=replicas)) as nodes:
        nodes.submit(job)
        names = [nodes.start() for _ in range(3)]
        until(lambda: counted_rows(site, job), "no count window came out")
        nodes.kill(next(name for name in names if runs_something(site, name)))
        before = counted_rows(site, job)
        assert nodes.wait(600), "the survivors did not finish"
        assert not nodes.stopped()
    assert counted_rows(site, job) > before, "it was killed when all was over"
    assert canonical(site.collected(job.name)) == expected
