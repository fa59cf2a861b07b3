"""At least once: under every kind of fault each row is there, in order, perhaps again; and nothing else is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.simulation.scenarios import SCENARIOS, VARIANTS, prepared

from holons import codec
from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.processes import ProcessNodes
from holons.engines.simulator import Simulation
from holons.engines.simulator.simulation import FAULTS_UNTIL_S
from holons.errors import BadInput
from holons.node import Settings

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


def test_logs_on_disk_are_not_appended_to_by_several_nodes(tmp_path):
    with pytest.raises(BadInput, match="one writer"):
        ProcessNodes(DirectorySite(tmp_path), SETTINGS)
