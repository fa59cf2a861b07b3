"""What a node is connected to. Everything that it reads, writes or waits for comes in here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holons.clock import Clock
from holons.node.rules import RetentionRules
from holons.program import Job
from holons.store import Store
from holons.streams import InputLog, Journal, ReadableLog, SharedLog, WritableLog


@dataclass(frozen=True)
class Ports:
    """Logs, a store and a clock: real ones, or the simulator's."""

    clock: Clock
    heartbeats: SharedLog
    control: SharedLog
    """The claims of all nodes."""
    decisions: Journal
    """What was decided about jobs."""
    sync: Callable[[str], SharedLog]
    """The sync stream of a job."""
    previews: Callable[[str], SharedLog]
    """The preview stream of a job: opened only if previews are on."""
    input: Callable[[str], InputLog]
    """An input stream by name."""
    output: Callable[[str, str, int], WritableLog]
    """The log of a job's channel, with so many partitions."""
    store: Store
    channels: Callable[[str], Mapping[str, int]]
    """The channels to which a version of a job has written, and how many partitions each has."""
    retention: RetentionRules
    """For how long inputs and outputs are kept, and who reads them beside jobs."""
    trouble: Callable[[], str] = str
    """What does not answer now, for people; empty if all does, or nobody knows."""


def partitions_of(job: Job, ports_input: Callable[[str], ReadableLog]) -> list[tuple[int, int]]:
    """The partitions of a job: for each, which input it reads and which of that stream's partitions."""
    return [
        (index, partition)
        for index, source in enumerate(job.inputs)
        for partition in range(ports_input(source.stream).partitions)
    ]
