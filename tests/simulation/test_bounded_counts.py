"""Count windows for as long as one likes: what is kept stays the same size, also while partitions are silent or stop."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import holons as h
from holons.engines.memory_site import MemorySite
from holons.node import Node, Settings
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.streams import MemoryLog
from holons.windows import END, Mark

SECOND = 1_000_000
SETTINGS = Settings(rows_max=200, checkpoint_s=0.1, snapshot_deltas=16, failure_timeout_s=0.3, max_ahead_s=None)
JOB = h.job(
    h.source("in").window(h.CountWindow(20)).agg(sum=h.sum("n"), rows=h.count()).to("tumbling"),
    h.source("in").window(h.CountWindow(30, every=20)).group_by("key").agg(n=h.count()).to("sliding"),
    name="counts",
)


def rows(first_s: int, seconds: int, partition: int) -> pa.RecordBatch:
    """Twenty rows a second."""
    ts = np.arange(first_s * 20, (first_s + seconds) * 20, dtype=np.int64) * (SECOND // 20) + partition
    return pa.record_batch({"ts": ts, "n": ts // 7 % 10, "key": ts % 3})


class World:
    """Two nodes, three partitions, and everything that was ever appended."""

    def __init__(self, settings: Settings) -> None:
        self.site = MemorySite({"in": MemoryLog(3)})
        self.appended: list[list[Any]] = [[], [], []]
        self.settings = settings
        self.nodes: list[Node] = []
        self.started = 0
        self.most_held = 0

    def start(self) -> None:
        self.started += 1
        self.nodes.append(Node(f"node-{self.started}", self.site.ports(f"node-{self.started}"), self.settings))
        self.nodes[-1].add_job(JOB.name, JOB)

    def add(self, partition: int, piece: Any) -> None:
        self.appended[partition].append(piece)
        log = self.site.inputs["in"]
        if isinstance(piece, Mark):
            log.mark(partition, piece.ts)
        else:
            log.append(partition, piece)

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.site.clock.sleep_s(0.01)
            for node in self.nodes:
                node.tick()
        held = (tasklet.run.progress.rows_held for here in self.here() for tasklet in here.tasklets.values())
        self.most_held = max(self.most_held, *held, 0)

    def here(self) -> list[Any]:
        return [node.jobs[JOB.name] for node in self.nodes if JOB.name in node.jobs]

    def read_of(self, partition: int) -> int:
        """How many rows and marks of a partition were read."""
        return max((here.tasklets[partition].offset for here in self.here() if partition in here.tasklets), default=0)

    def sizes(self) -> dict[str, int]:
        state = max(here.state.bytes_held() for here in self.here())
        return {
            "state": state,
            "store": self.site.records.bytes_held(),
            "sync": self.site.hubs["sync-counts"].bytes_held(),
        }

    def finish(self) -> None:
        for partition in range(3):
            self.add(partition, END)
        while not all(node.finished for node in self.nodes):
            self.turn()
        logs = {"in": self.appended}
        assert canonical(self.site.collected(JOB.name)) == canonical(run_oracle(JOB, logs, rows_per_call=10_000))


@pytest.mark.parametrize("blocks", [24, pytest.param(250, marks=pytest.mark.slow)])
def test_thousands_of_windows_leave_nothing_behind_beside_a_silent_partition_and_one_that_stops(blocks):
    world = World(SETTINGS)
    world.start()
    world.start()
    seen = []
    for block in range(blocks):
        stopped = block % 4 in (1, 2)  # for two blocks nothing comes of partition 1, not even a mark
        world.add(0, rows(block * 20, 20, 0))
        if not stopped:
            world.add(1, rows((block - 2 * (block % 4 == 3)) * 20, 20 + 40 * (block % 4 == 3), 1))
        world.add(2, Mark((block + 1) * 20 * SECOND))
        world.turn(10)
        if block % 4 == 3:
            world.turn(40)
            seen.append(world.sizes())
            if block % 8 == 7:
                world.nodes.pop(0)
                world.start()
                world.turn(80)
    world.finish()
    assert world.site.collected(JOB.name)["tumbling"][0][-1]["window_end"] >= 39 * 20 * blocks
    half = len(seen) // 2
    for name in seen[0]:
        early, late = (max(sizes[name] for sizes in part) for part in (seen[:half], seen[half:]))
        assert late <= 1.5 * early + 1000, f"{name} grew: {[sizes[name] for sizes in seen]}"


@pytest.mark.parametrize("limit", [500, None])
def test_a_partition_waits_for_slower_ones_before_its_rows_fill_the_memory(limit):
    settings = SETTINGS if limit is None else dataclasses.replace(SETTINGS, ledger_rows=limit)
    world = World(settings)
    world.start()
    world.add(0, rows(0, 100, 0))
    world.add(1, rows(0, 100, 1))
    world.turn(200)
    if limit is None:
        assert world.most_held == 2 * 2000, "all that there is, in two lanes"
    else:
        assert limit < world.most_held <= limit + 2 * SETTINGS.rows_max, "one read more"
        assert {tasklet.held for tasklet in world.here()[0].tasklets.values() if tasklet.partition < 2} == {True}
    world.add(2, Mark(50 * SECOND))
    world.turn(200)
    assert world.site.collected(JOB.name)["tumbling"][0][-1]["window_end"] == 2000
    world.finish()


@pytest.mark.parametrize("max_ahead_s", [5.0, None])
def test_a_partition_that_counts_does_not_read_far_ahead_of_the_slowest_one(max_ahead_s):
    world = World(dataclasses.replace(SETTINGS, max_ahead_s=max_ahead_s))
    world.start()
    world.add(0, rows(0, 100, 0))
    for partition in (1, 2):
        world.add(partition, Mark(10 * SECOND))
    world.turn(200)
    (watermark,) = (here.tasklets[0].run.progress.watermark for here in world.here())
    one_read = SETTINGS.rows_max // 20 * SECOND
    assert watermark == 99.95 * SECOND if max_ahead_s is None else 15 * SECOND <= watermark <= 15 * SECOND + one_read
    world.finish()


def test_an_idle_partition_follows_what_the_others_have_read():
    world = World(dataclasses.replace(SETTINGS, idle_s=0.2))
    world.start()
    world.add(0, rows(0, 100, 0))
    world.turn(60)
    marks = world.read_of(1)
    for second in range(100, 400):
        world.add(0, rows(second, 1, 0))
        world.turn(2)
    world.turn(100)
    assert world.site.collected(JOB.name)["tumbling"][0][-1]["window_end"] >= 3000
    marks = world.read_of(1) - marks
    assert 0 < marks <= 100, "not one for each slice of work: there are 700 of a hundredth of a second"
