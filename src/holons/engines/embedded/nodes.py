"""Nodes that take turns in this process, over a site in memory."""

from __future__ import annotations

from holons.clock import SystemClock
from holons.engines.memory_site import MemorySite
from holons.engines.status import Status
from holons.engines.watching import Watcher
from holons.node import Node, Settings
from holons.program import Job

_TURN_S = 0.01


class TurnNodes:
    """Nodes of this process that take turns: each call of `tend` is one turn of all of them."""

    pause_s = 0.0

    def __init__(self, job: Job, site: MemorySite, nodes: int, settings: Settings) -> None:
        self._job, self._site = job, site
        self.version = job.name
        self._nodes = [Node(f"node-{number}", site.ports(f"node-{number}"), settings) for number in range(1, nodes + 1)]
        for node in self._nodes:
            node.add_job(job.name, job)
        self._watcher = Watcher(site.shared("heartbeats", "watcher"), SystemClock())

    def tend(self) -> bool:
        self._site.clock.sleep_s(_TURN_S)
        for node in self._nodes:
            node.tick()
            if node.failures:
                raise next(iter(node.failures.values()))
        finished = self._watcher.finished(1)
        return all(node.finished and node.name in finished for node in self._nodes)

    def look(self) -> Status:
        streams = self._site.streams()
        return self._watcher.look(
            self._job.name, [(source.stream, streams[source.stream]) for source in self._job.inputs]
        )
