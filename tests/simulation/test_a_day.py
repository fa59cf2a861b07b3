"""A day of a job, in virtual time and over real files: nodes, producers and versions come and go, and nothing grows.

Whatever dies leaves its files and its names behind; whoever lives on must clear them away. Sizes are those after warming up
and those at the end.
"""

from __future__ import annotations

import gc
from pathlib import Path

import pyarrow as pa
import pytest
from tests.handles import Count

import holons as h
from holons.clock import Random, seeded
from holons.engines.collecting import emitted
from holons.engines.directory_site import DirectorySite
from holons.node import Node, Settings, cancel, submit

SECOND = 1_000_000
STEP_S = 10
PARTITIONS = 2
JOB = h.job(Count(), "visits")
SETTINGS = Settings(
    heartbeat_s=5.0,
    failure_timeout_s=30.0,
    tick_max_s=20.0,
    stagger_s=5.0,
    residence_s=60.0,
    checkpoint_s=60.0,
    snapshot_deltas=16,
    preview_s=30.0,
)


class HandSet:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at_s = 1_700_000_000.0

    def now_s(self) -> float:
        return self.at_s

    def worked_s(self) -> float:
        return self.at_s

    def utc_us(self) -> int:
        return round(self.at_s * SECOND)

    def sleep_s(self, seconds: float) -> None:
        self.at_s += seconds

    def random(self) -> Random:
        return seeded(0)


class Day:
    """A site, two nodes, a producer, and somebody who looks after them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = HandSet()
        self.site = DirectorySite(directory, clock=self.clock)
        self.site.create("visits", PARTITIONS)
        rules = self.site.retention()
        rules.keep_input("visits", "10m")
        rules.keep_output(JOB.name, "20m")
        self.tidy = self.site.tidier()
        self.born = 0
        self.appended = 0
        self.nodes: list[Node] = []
        self.produce()
        self.submit()
        for _ in range(2):
            self.start()

    def produce(self) -> None:
        self.born += 1
        self.producer = self.site.producer("visits", PARTITIONS, f"producer#{self.born}")

    def submit(self) -> None:
        self.born += 1
        self.version = submit(JOB, self.site.ports(f"driver-{self.born}"))
        for node in self.nodes:
            node.add_job(self.version.id, JOB, self.version.cuts)

    def start(self) -> None:
        self.born += 1
        name = f"node-{self.born}#day"
        node = Node(name, self.site.ports(name, SETTINGS), SETTINGS)
        node.add_job(self.version.id, JOB, self.version.cuts)
        self.nodes.append(node)

    def pass_time(self, minutes: int) -> None:
        for _ in range(minutes * 60 // STEP_S):
            self.clock.sleep_s(STEP_S)
            for partition in range(PARTITIONS):
                ts = round(self.clock.at_s) * SECOND
                self.producer.append(partition, pa.record_batch({"ts": [ts + at * SECOND for at in range(5)]}))
            for _ in range(2):
                for node in self.nodes:
                    node.tick()

    def live(self, hours: int) -> None:
        """Every ten minutes a node dies and another one comes, every hour the producer and the version."""
        for _ in range(hours):
            for ten in range(6):
                self.pass_time(10)
                self.nodes.pop(0)
                self.start()
                self.tidy()
                if ten == 2:
                    self.produce()
                if ten == 3:
                    cancel(JOB.name, self.site.ports(f"canceller-{self.born}"))
                    self.submit()

    def sizes(self) -> dict[str, int]:
        gc.collect()
        found = list(self.directory.rglob("*"))
        sizes = {"bytes": sum(path.stat().st_size for path in found if path.is_file()), "files": len(found)}
        for part in sorted(self.directory.iterdir()):
            sizes[f"files in {part.name}"] = sum(1 for _ in part.rglob("*"))
        return sizes | {"open files": len(list(Path("/proc/self/fd").iterdir())), "objects": len(gc.get_objects())}


@pytest.mark.parametrize(
    "hours", [pytest.param(2, id="two hours"), pytest.param(24, marks=pytest.mark.slow, id="a day")]
)
def test_nothing_grows(tmp_path, hours):
    day = Day(tmp_path)
    day.live(hours // 2)  # what the dead leave stays for some minutes
    warm = day.sizes()
    day.live(hours // 2)
    late = day.sizes()
    print(*(f"{what}: {warm.get(what, 0):,} -> {late[what]:,}" for what in late), sep="\n")
    assert emitted(day.site, JOB.name).count("on_window") > 100, "the job is at work"
    grown = {what: (warm.get(what, 0), late[what]) for what in late if late[what] > 1.25 * warm.get(what, 0) + 20}
    assert not grown
