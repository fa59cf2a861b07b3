"""Runs a job on nodes that take turns in this process, over logs in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holons.clock import Random, seeded
from holons.engines.collecting import collect_logs
from holons.engines.inputs import PartitionRows, logs_of
from holons.node import Node, Ports, Settings
from holons.program import Collected, Job
from holons.store import MemoryStore
from holons.streams import Log, MemoryHub, MemoryLog

_TICK_S = 0.01


class TurnClock:
    """Time that passes by turns: nobody waits for anything but work."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now_s(self) -> float:
        return self._now_s

    def worked_s(self) -> float:
        return self._now_s

    def sleep_s(self, seconds: float) -> None:
        self._now_s += seconds

    def random(self) -> Random:
        return seeded(0)


class World:
    """Everything that nodes of one process share: logs, a store, a clock."""

    def __init__(self, inputs: dict[str, Log]) -> None:
        self.clock = TurnClock()
        self.inputs = inputs
        self.beats, self.control = MemoryHub(), MemoryHub()
        self.syncs: dict[str, MemoryHub] = {}
        self.previews: dict[str, MemoryHub] = {}
        self.outputs: dict[tuple[str, str], MemoryLog] = {}
        self.store = MemoryStore()

    def ports(self, node: str) -> Ports:
        """The world as one node sees it."""
        return Ports(
            clock=self.clock,
            beats=self.beats.open(node),
            control=self.control.open(node),
            sync=lambda job: self.syncs.setdefault(job, MemoryHub()).open(node),
            previews=lambda job: self.previews.setdefault(job, MemoryHub()).open(node),
            input=lambda stream: self.inputs[stream],
            output=self.output,
            store=self.store,
        )

    def output(self, job: str, channel: str, partitions: int) -> MemoryLog:
        """The log of a channel; made when it is first asked for."""
        return self.outputs.setdefault((job, channel), MemoryLog(partitions))

    def collected(self, job: str) -> Collected:
        """All outputs of a job so far."""
        return collect_logs({channel: log for (owner, channel), log in self.outputs.items() if owner == job})


def run(
    job: Job, streams: Mapping[str, Sequence[PartitionRows]], *, nodes: int = 1, rows_max: int = 100_000
) -> Collected:
    """Runs until every partition has ended and everything is out."""
    world = World(logs_of(streams))
    running = [
        Node(f"node-{number}", world.ports(f"node-{number}"), Settings(rows_max=rows_max)) for number in range(nodes)
    ]
    for node in running:
        node.add_job(job.name, job)
    while not all(node.settled for node in running):
        world.clock.sleep_s(_TICK_S)
        for node in running:
            node.tick()
            if node.failures:
                raise next(iter(node.failures.values()))
    return world.collected(job.name)
