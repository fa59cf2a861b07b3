"""Whatever a job's age: what is kept stays the same size, and so does what a restart reads. Bytes, not seconds."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.workloads import load

from holons.engines.memory_site import MemorySite
from holons.node import Node, Ports, Settings
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.streams import MemoryLog
from holons.windows import END

SECOND = 1_000_000
PARTITIONS = 2
SETTINGS = Settings(rows_max=500, checkpoint_s=0.1, snapshot_deltas=16, failure_timeout_s=0.3)


class Counting:
    """Counts the bytes that come out of a store or a shared stream."""

    def __init__(self, inner: Any, counted: list[int]) -> None:
        self._inner = inner
        self._counted = counted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get(self, *arguments: Any) -> bytes:
        data = self._inner.get(*arguments)
        self._counted[0] += len(data)
        return data

    def read(self, *arguments: Any) -> Any:
        messages = self._inner.read(*arguments)
        self._counted[0] += sum(len(message.data) for message in messages)
        return messages


def counting(ports: Ports, counted: list[int]) -> Ports:
    return dataclasses.replace(
        ports,
        store=Counting(ports.store, counted),
        heartbeats=Counting(ports.heartbeats, counted),
        control=Counting(ports.control, counted),
        sync=lambda job: Counting(ports.sync(job), counted),
    )


def rows(first: int, windows: int, partition: int) -> pa.RecordBatch:
    """Three events for each window of a second."""
    ts = np.arange(first * 3, (first + windows) * 3, dtype=np.int64) * (SECOND // 3)
    kinds = np.where((ts // 7 + partition) % 5 == 0, "auction", "bid")
    return pa.record_batch({"ts": ts, "kind": pa.array(kinds)})


@pytest.mark.parametrize("blocks", [30, pytest.param(100, marks=pytest.mark.slow)])
def test_thousands_of_windows_leave_nothing_behind(blocks):
    job = load("bid_share")
    world = MemorySite({"bids": MemoryLog(PARTITIONS)})
    fed: list[list[Any]] = [[] for _ in range(PARTITIONS)]
    started = 0
    nodes: list[Node] = []
    counted = [0]

    def start() -> Node:
        nonlocal started
        started += 1
        name = f"node-{started}"
        node = Node(name, counting(world.ports(name), counted), SETTINGS)
        node.add_job(job.name, job)
        nodes.append(node)
        return node

    def turn(times: int = 1) -> None:
        for _ in range(times):
            world.clock.sleep_s(0.01)
            for node in nodes:
                node.tick()

    def read_by_a_restart() -> int:
        """What the node that takes the place of another reads, until it runs something."""
        nodes.pop(0)
        counted[0] = 0
        before = counted[0]
        fresh = start()
        while not (job.name in fresh.jobs and fresh.jobs[job.name].tasklets):
            turn()
        return counted[0] - before

    def sizes() -> dict[str, int]:
        return {
            "state": max(node.jobs[job.name].state.bytes_held() for node in nodes if job.name in node.jobs),
            "store": world.records.bytes_held(),
            **{name: hub.bytes_held() for name, hub in world.hubs.items()},
        }

    start()
    start()
    seen, restarts = [], []
    for block in range(blocks):
        for partition in range(PARTITIONS):
            batch = rows(block * 100, 100, partition)
            world.inputs["bids"].append(partition, batch)
            fed[partition].append(batch)
        turn(40)
        if block % 10 == 9:
            turn(100)
            seen.append(sizes())
            restarts.append(read_by_a_restart())
            turn(100)
    for partition in range(PARTITIONS):
        world.inputs["bids"].mark(partition, END.ts)
    while not all(node.finished for node in nodes):
        turn()

    assert len(world.collected(job.name)["on_window"][0]) == 100 * blocks
    for name in seen[0]:
        first, most = seen[0][name], max(sample[name] for sample in seen)
        assert most <= 2 * first + 1000, f"{name} grew: {[sample[name] for sample in seen]}"
    assert max(restarts[1:]) <= 2 * restarts[1], restarts
    expected = run_oracle(job, {"bids": [[*batches, END] for batches in fed]}, rows_per_call=10_000)
    assert canonical(world.collected(job.name)) == canonical(expected)
