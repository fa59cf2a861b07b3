"""Keepers, who say for how long inputs and outputs are kept, and named consumers, for whom rows stay until they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holons.engines.simulator.actors import Stage
from holons.engines.simulator.simulation import FAULTS_UNTIL_S
from holons.engines.simulator.swarm.watch import Violation
from holons.node import Decisions
from holons.node.retention import retain
from holons.program import Job
from holons.streams import InputLog, WritableLog

_CONSUMER = "follower"
_OUTPUTS_FROM_S = 2.5
"""Outputs have a rule from then on: by then most have rows, and their consumers."""
_READ_ROWS = (0, 1, 20)


@dataclass(frozen=True)
class Keeper:
    """Says how long rows of a job are kept, once it has been submitted, and drops what nobody needs any more."""

    job: Job
    inputs_kept_s: float | None
    """None: for ever."""
    outputs_kept_s: float | None
    name: str = "keeper"

    def run(self, stage: Stage) -> None:
        world, ports = stage.simulation.world, stage.ports()
        decisions, rules = Decisions(ports.decisions), world.retention()
        rules.keep_input("to come", "1h")  # a rule may be there before its stream
        while world.now_s < FAULTS_UNTIL_S:
            decisions.read()
            if decisions.jobs.running(self.job.name):
                if self.inputs_kept_s is not None:
                    for source in self.job.inputs:
                        rules.keep_input(source.stream, f"{round(self.inputs_kept_s * 1_000)}ms")
                if self.outputs_kept_s is not None and world.now_s > _OUTPUTS_FROM_S:
                    rules.keep_output(self.job.name, f"{round(self.outputs_kept_s * 1_000)}ms")
            retain(ports, decisions)
            starts = (log.start(part) for log in world.inputs.values() for part in range(log.partitions))
            world.sightings["an input trimmed"] += any(starts)
            starts = (log.start(part) for log in world.outputs.values() for part in range(log.partitions))
            world.sightings["an output trimmed"] += any(starts)
            stage.sleep(stage.random.uniform(0.1, 0.6))


@dataclass(frozen=True)
class Consumer:
    """Reads inputs and outputs of a job under a name; it knows from the site how far it is, and finds no gap there.

    It comes before there is a rule: who comes later begins with what is still kept.
    """

    job: Job
    name: str = "consumer"

    def run(self, stage: Stage) -> None:
        world, ports = stage.simulation.world, stage.ports()
        while world.now_s < FAULTS_UNTIL_S:
            for source in self.job.inputs:
                self._follow(stage, ports.input(source.stream), source.stream, "")
            for version in world.jobs().history(self.job.name):
                for channel, partitions in world.channels(version.id).items():
                    self._follow(stage, ports.output(version.id, channel, partitions), channel, version.id)
            stage.sleep(stage.random.choice([0.1, 0.4, 2.0]))

    def _follow(self, stage: Stage, log: InputLog | WritableLog, stream: str, version: str) -> None:
        """Reads on in a stream; nobody has any rows of it dropped before that."""
        rules = stage.simulation.world.retention()
        known: Sequence[int] | None = rules.consumed(stream, version).get(_CONSUMER)
        if known is None:
            if rules.inputs() or rules.outputs():
                return
            rules.consume(_CONSUMER, stream, (), version=version)
            known = ()
        positions = [*known, *[0] * (log.partitions - len(known))]
        for partition, position in enumerate(positions):
            start = log.start(partition)
            if start > position:
                what = (
                    f"rows of {stream} {version}, partition {partition}, from {position} on, and it begins at {start}"
                )
                raise Violation(f"invariant broken at {stage.simulation.world.now_s:.3f} s: a consumer needs {what}")
            chunks = log.read(partition, position, stage.random.choice(_READ_ROWS))
            positions[partition] = chunks[-1].end if chunks else position
        rules.consume(_CONSUMER, stream, positions, version=version)
        stage.simulation.world.sightings["a named consumer moved on"] += any(positions)
