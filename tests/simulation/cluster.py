"""Nodes in the simulator's world, moved by hand: for scenarios that are told step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import holons as h
from holons.engines.memory_site import logs_of
from holons.engines.simulator.world import Gate, SimulatedSite
from holons.node import Node, Settings, Submitted, cancel, submit
from holons.program import Collected, canonical

FOREVER_S = 1e9
SETTINGS = Settings(poison_deaths=100, rows_max=7, snapshot_deltas=4)


class Cluster:
    """A world, and nodes in it that tick when told."""

    def __init__(self, streams: Mapping[str, Sequence[Any]], settings: Settings = SETTINGS, *, seed: int = 0) -> None:
        self.world = SimulatedSite(seed)
        self.world.inputs = logs_of(streams)
        self.settings = settings
        self.nodes: dict[str, Node] = {}
        self.gates: dict[str, Gate] = {}
        self.jobs: dict[str, tuple[h.Job, Sequence[Any]]] = {}
        self._driver = Gate(self.world, 99, "node-99#1").ports()

    # --- nodes -------------------------------------------------------------------------------------------------------

    def start(self, number: int, incarnation: int = 1, settings: Settings | None = None) -> Node:
        name = f"node-{number}#{incarnation}"
        gate = self.gates[name] = Gate(self.world, number, name)
        node = self.nodes[name] = Node(name, gate.ports(), settings or self.settings)
        for job, (code, cuts) in self.jobs.items():
            node.add_job(job, code, cuts)
        return node

    def kill(self, node: Node) -> None:
        del self.nodes[node.name]

    def cut(self, node: Node, *, deaf: bool = False, mute: bool = False) -> None:
        """From now on the node hears nobody, or nobody hears it."""
        number = self.gates[node.name].node
        self.world.deaf_until_s[number] = FOREVER_S if deaf else 0.0
        self.world.mute_until_s[number] = FOREVER_S if mute else 0.0

    # --- jobs --------------------------------------------------------------------------------------------------------

    def add(self, job: h.Job) -> None:
        """Gives a job to all nodes, now and later, without a submission."""
        self.jobs[job.name] = (job, ())
        for node in self.nodes.values():
            node.add_job(job.name, job)

    def submit(self, job: h.Job, *, upgrade: bool = False, to: Sequence[Node] | None = None) -> Submitted:
        version = submit(job, self._driver, upgrade=upgrade)
        self.jobs[version.id] = (job, version.cuts)
        for node in self.nodes.values() if to is None else to:
            node.add_job(version.id, job, version.cuts)
        return version

    def cancel(self, name: str) -> None:
        cancel(name, self._driver)

    # --- time --------------------------------------------------------------------------------------------------------

    def run(self, seconds: float, *, only: Sequence[Node] | None = None) -> None:
        """Lets nodes tick for so long."""
        until_s = self.world.now_s + seconds
        while self.world.now_s < until_s:
            self.world.now_s += 0.01
            for node in list(self.nodes.values() if only is None else only):
                node.tick()

    def run_until(self, condition: Callable[[], bool], within_s: float = 60.0) -> None:
        """Lets nodes tick until something holds; it must within so many seconds of virtual time."""
        until_s = self.world.now_s + within_s
        while not condition():
            assert self.world.now_s < until_s, f"not within {within_s} virtual seconds: {self.told()}"
            self.run(0.01)

    def told(self) -> dict[str, Any]:
        return {
            name: {
                "jobs": {job: sorted(here.tasklets) for job, here in node.jobs.items()},
                "stopped": node.stopped,
                "failures": node.failures,
            }
            for name, node in self.nodes.items()
        }

    # --- what came of it ---------------------------------------------------------------------------------------------

    def collected(self, name: str) -> Collected:
        """What stands of a job that was submitted; or of one that was added."""
        return self.world.collected(name)

    def emitted(self, name: str) -> int:
        """How many rows stand of a job, over all channels; none of them is read for that."""
        outputs = self.world.emitted(name)
        return sum(map(outputs.count, outputs.spans))

    def finish(self, name: str, expected: Collected, within_s: float = 60.0) -> None:
        """Runs until a job's outputs are what they must be."""
        wanted, rows = canonical(expected), rows_of(expected)
        self.run_until(lambda: self.emitted(name) >= rows and canonical(self.collected(name)) == wanted, within_s)


def rows_of(rows: Collected) -> int:
    """How many rows there are, over all channels and partitions."""
    return sum(len(mine) for partitions in rows.values() for mine in partitions.values())
