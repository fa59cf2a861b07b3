"""Nodes that take turns in this process, over logs in memory."""

from __future__ import annotations

from collections.abc import Mapping

from holons.clock import Random, SystemClock, seeded
from holons.engines.collecting import Outputs, opened, outputs_in_logs
from holons.engines.watching import Seen, Watcher
from holons.node import Node, Ports, Settings
from holons.program import Job
from holons.store import MemoryStore
from holons.streams import InputLog, MemoryHub, MemoryLog

_TURN_S = 0.01


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

    def __init__(self, inputs: Mapping[str, InputLog]) -> None:
        self.clock = TurnClock()
        self.inputs = inputs
        self.heartbeats, self.control = MemoryHub(), MemoryHub()
        self.syncs: dict[str, MemoryHub] = {}
        self.previews: dict[str, MemoryHub] = {}
        self.outputs: dict[tuple[str, str], MemoryLog] = {}
        self.store = MemoryStore()

    def ports(self, node: str) -> Ports:
        """The world as one node sees it."""
        return Ports(
            clock=self.clock,
            heartbeats=self.heartbeats.open(node),
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

    def emitted(self, job: str) -> Outputs:
        """The rows that a job has emitted so far."""
        logs = list(self.outputs.items())  # at once: a turn in another thread may add some
        return outputs_in_logs(opened({channel: log for (owner, channel), log in logs if owner == job}))


class TurnNodes:
    """Nodes of this process that take turns: each look after them is one turn."""

    pause_s = 0.0

    def __init__(self, job: Job, world: World, nodes: int, settings: Settings) -> None:
        self._job, self._world = job, world
        self._nodes = [
            Node(f"node-{number}", world.ports(f"node-{number}"), settings) for number in range(1, nodes + 1)
        ]
        for node in self._nodes:
            node.add_job(job.name, job)
        self._watcher = Watcher(world.heartbeats.open("watcher"), SystemClock())

    def tend(self) -> bool:
        self._world.clock.sleep_s(_TURN_S)
        for node in self._nodes:
            node.tick()
            if node.failures:
                raise next(iter(node.failures.values()))
        told = self._watcher.finished(1)
        return all(node.finished and node.name in told for node in self._nodes)

    def look(self) -> tuple[Seen, int]:
        return self._watcher.look(self._job.name), 0
