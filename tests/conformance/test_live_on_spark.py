"""Producers and nodes in Spark tasks: a short live run with a node killed, and a producer that Spark runs again."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.engines.spark.producers import SparkProducers
from holons.errors import ProducerFailed
from holons.nexmark import PacedBids, highest_bid, highest_bids
from holons_bench import live
from holons_bench.chronicle import takeovers

pytestmark = pytest.mark.spark


def test_a_live_run_with_a_killed_node_gives_the_right_windows():
    load = PacedBids(5_000, 4, 8.0, window_us=500_000, period_us=50_000)
    job = h.job(highest_bid(load.window_us), "bids", time="date_time")
    run = live.run(job, load, live.Setting(3, spark=True, producers=2), [live.NodeFault(3.2, None, "kill")])
    assert run.rows == highest_bids(load)[: load.windows]
    (killed,) = run.happened
    assert takeovers(run.spells(), killed)
    assert (run.late_s > 0).all()


def rows_in(site: DirectorySite, load: PacedBids) -> list[list[dict]]:
    with site.producer("bids", load.partitions, "reader") as log:
        return [
            [row for chunk in log.read(p, 0, log.end(p)) if chunk.rows is not None for row in chunk.rows.to_pylist()]
            for p in range(load.partitions)
        ]


@pytest.mark.slow
def test_without_pace_everything_is_written_at_once(tmp_path):
    site, load = DirectorySite(tmp_path), PacedBids(20_000, 3, 100.0, period_us=1_000_000)
    site.create("bids", load.partitions)
    with SparkProducers(site, "bids", load, tasks=3) as producers:
        producers.begin(paced=False)
        told = producers.wait(600)
    assert sum(one.rows for one in told) == sum(map(len, rows_in(site, load)))
    assert rows_in(site, load)[1] == [row for _, batch in load.batches(1) for row in batch.to_pylist()]


class Broken(PacedBids):
    """A feed that raises."""

    def batches(self, partition: int):
        raise ValueError("nothing to give")


def test_an_error_in_a_task_reaches_the_driver(tmp_path):
    site, load = DirectorySite(tmp_path), Broken(1_000, 2, 2.0)
    site.create("bids", load.partitions)
    with SparkProducers(site, "bids", load) as producers:
        producers.begin()
        with pytest.raises(ProducerFailed, match="nothing to give"):
            producers.wait(600)


@dataclass(frozen=True)
class Deadly(PacedBids):
    """A feed that kills its process the first time, half way."""

    died: str = ""

    def batches(self, partition: int):
        for number, one in enumerate(super().batches(partition)):
            if number == 5 and not Path(self.died).exists():
                Path(self.died).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield one


def test_a_producer_that_dies_is_run_again_by_spark_and_goes_on(tmp_path):
    site, load = DirectorySite(tmp_path / "site"), Deadly(1_000, 1, 2.0, period_us=100_000, died=str(tmp_path / "died"))
    site.create("bids", load.partitions)
    with SparkProducers(site, "bids", load) as producers:
        producers.begin()
        producers.wait(600)
    assert Path(load.died).exists()
    assert rows_in(site, load) == [[row for _, batch in load.batches(0) for row in batch.to_pylist()]]
