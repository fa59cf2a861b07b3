"""Runs a job on nodes that take turns in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holons.engines.inputs import PartitionRows, logs_of
from holons.engines.results import Results
from holons.node import Node, Ports
from holons.node.node import partitions_of
from holons.program import Collected, Job
from holons.streams import MemoryLog


def run(
    job: Job, streams: Mapping[str, Sequence[PartitionRows]], *, nodes: int = 1, rows_max: int = 100_000
) -> Results:
    """Runs until everything that can happen has happened; partitions are dealt out to the nodes in turn."""
    inputs = logs_of(streams)
    partitions = len(partitions_of(job, inputs))
    ports = Ports(inputs, MemoryLog(1), lambda _: MemoryLog(partitions))
    running = [Node(job, ports, range(partitions)[number::nodes], rows_max) for number in range(nodes)]
    busy = True
    while busy:
        turns = [node.tick() for node in running]  # every node has its turn
        busy = any(turns)
    return Results(_collect(ports, partitions))


def _collect(ports: Ports, partitions: int) -> Collected:
    collected: Collected = {}
    for channel, log in ports.outputs.items():
        for partition in range(partitions):
            chunks = log.read(partition, 0, log.end(partition))
            if chunks:
                rows = [row for chunk in chunks if chunk.rows is not None for row in chunk.rows.to_pylist()]
                collected.setdefault(channel, {})[partition] = rows
    return collected
