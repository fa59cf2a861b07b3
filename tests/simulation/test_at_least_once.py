"""At least once: under every kind of fault each row is there, in order, perhaps again; and nothing else is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.simulation.scenarios import SCENARIOS, VARIANTS, prepared
from tests.simulation.test_processes import until
from tests.workloads import load

import holons as h
from holons import codec
from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.processes import ProcessNodes
from holons.engines.simulator import Simulation
from holons.engines.simulator.simulation import FAULTS_UNTIL_S
from holons.errors import BadInput
from holons.node import Settings
from holons.semantics import run as run_oracle
from holons.windows import END

SETTINGS = Settings(
    guarantee="at-least-once", rows_max=7, residence_s=1.0, snapshot_deltas=4, poison_deaths=100, replicas=1
)


class AtLeastOnce(Simulation):
    """Judges the outputs once all faults are over: every row, in order of first occurrence, and no other."""

    def run(self, expected: Any) -> Any:
        self.expected = expected
        return super().run(expected)

    def _all_out(self, wanted: Any) -> bool:
        return self.world.now_s > FAULTS_UNTIL_S + 1.0 and not self.wrong()

    def _difference(self, expected: Any) -> str:
        return self.wrong()

    def wrong(self) -> str:
        for job, channels in self.expected.items():
            got = self.world.collected(job)
            places = {(channel, number) for rows in (channels, got) for channel in rows for number in rows[channel]}
            for channel, number in sorted(places):
                theirs = [codec.encode(row) for row in channels.get(channel, {}).get(number, [])]
                ours = [codec.encode(row) for row in got.get(channel, {}).get(number, [])]
                where = f"{job} {channel} partition {number}"
                if list(dict.fromkeys(ours)) != list(dict.fromkeys(theirs)):
                    return f"{where}: rows are missing, out of order, or should not be there"
                if any(Counter(ours)[row] < count for row, count in Counter(theirs).items()):
                    return f"{where}: a row is missing"
        return ""

    def repeated(self) -> int:
        """How many rows are there again."""
        return sum(self._count(self.world.collected(job)) - self._count(rows) for job, rows in self.expected.items())

    @staticmethod
    def _count(collected: Any) -> int:
        return sum(len(rows) for partitions in collected.values() for rows in partitions.values())


def simulations(name: str, settings: Settings, seeds: int, nodes: int = 3) -> int:
    """Runs some seeds; returns how many rows came again."""
    repeated = 0
    for seed in range(seeds):
        jobs, streams, expected = prepared(name, seed % VARIANTS)
        simulation = AtLeastOnce(jobs, streams, seed, settings=settings, nodes=nodes)
        outcome = simulation.run(expected)
        assert not outcome.problem, str(outcome)
        repeated += simulation.repeated()
    return repeated


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_row_is_lost(name):
    assert simulations(name, SETTINGS, seeds=6) > 0, "rows come again, else this is a test of nothing"


def test_two_copies_write_everything_twice_and_in_order():
    twice = Settings(guarantee="at-least-once", replicas=2, rows_max=7, snapshot_deltas=4, poison_deaths=100)
    assert simulations("bid share", twice, seeds=3, nodes=4) > 0


def test_a_guarantee_that_nobody_gives():
    with pytest.raises(BadInput, match="exactly-once, at-least-once"):
        Settings(guarantee="at-most-once")  # type: ignore[arg-type]


# --- in processes, over files -------------------------------------------------------------------------------------------


def check_at_least_once(collected: Any, expected: Any) -> int:
    """Every row is there, in order of first occurrence, and no other; returns how many are there again."""
    assert {channel: list(rows) for channel, rows in collected.items()} == {
        channel: list(rows) for channel, rows in expected.items()
    }
    repeated = 0
    for channel, partitions in expected.items():
        for partition, rows in partitions.items():
            theirs, ours = ([codec.encode(row) for row in some] for some in (rows, collected[channel][partition]))
            assert list(dict.fromkeys(ours)) == list(dict.fromkeys(theirs)), f"{channel} {partition}"
            assert not Counter(theirs) - Counter(ours), f"a row of {channel} {partition} is missing"
            repeated += len(ours) - len(theirs)
    return repeated


def bids(partition: int, rows: int = 4_000) -> pl.DataFrame:
    rng = np.random.default_rng(partition)
    return pl.DataFrame({"ts": np.sort(rng.integers(0, 60_000_000, rows)), "kind": rng.choice(["bid", "x"], rows)})


@pytest.mark.slow
def test_owners_are_killed_and_rows_come_again_but_none_is_missing(tmp_path):
    job, rows = load("bid_share"), [bids(partition) for partition in range(4)]
    expected = run_oracle(job, {"bids": [[frame, END] for frame in rows]}, rows_per_call=500)
    site = DirectorySite(tmp_path)
    site.load({"bids": rows})
    settings = Settings(guarantee="at-least-once", rows_max=50, checkpoint_s=0.05, failure_timeout_s=0.5, replicas=2)
    with ProcessNodes(site, settings) as nodes:
        nodes.submit(job)
        names = [nodes.start() for _ in range(3)]
        until(lambda: site.collected(job.name), "no row came out")
        nodes.kill(names[0])
        nodes.start()
        assert nodes.wait(600)
        assert not nodes.stopped()
    assert check_at_least_once(site.collected(job.name), expected) > 0, "both owners of a partition emit"
    with pytest.raises(BadInput, match="has been running at-least-once"):
        h.run(job, log=tmp_path, engine="embedded")
    again = h.run(job, log=tmp_path, engine="embedded", settings=settings).wait().results()
    check_at_least_once(again.collected, expected)
    assert again.count() == sum(again.count(partition=partition) for partition in range(4)) == len(again.to_polars())


def test_nodes_of_one_process_take_the_setting_too():
    job, rows = load("bid_share"), [bids(partition, 300) for partition in range(2)]
    expected = run_oracle(job, {"bids": [[frame, END] for frame in rows]}, rows_per_call=500)
    settings = Settings(guarantee="at-least-once", replicas=2)
    results = h.run(job, {"bids": rows}, engine="embedded", settings=settings).wait().results()
    assert check_at_least_once(results.collected, expected) == results.count() / 2, "each row twice"


def test_an_upgrade_takes_over_behind_rows_that_came_again(tmp_path):
    job = load("bid_share")
    site, settings = DirectorySite(tmp_path), Settings(guarantee="at-least-once", replicas=2, checkpoint_s=0.05)
    with site.producer("bids", 1, "producer#1") as log:
        log.append(0, bids(0, 1_000).to_arrow().to_batches()[0])
        first = h.run(job, log=tmp_path, engine="embedded", settings=settings)
        until(lambda: first.results().count() > 30, "no row came out", within_s=60)
        first.stop()
        log.mark(0, END.ts)
    other = h.job(job.program, "bids", name=job.name, columns=["ts", "kind"])
    second = h.run(other, log=tmp_path, engine="embedded", settings=settings, upgrade=True).wait().results()
    expected = run_oracle(job, {"bids": [[bids(0, 1_000), END]]}, rows_per_call=500)
    assert len(site.jobs().versions) == 2
    check_at_least_once(second.collected, expected)
