"""What is damaged for good on a simulated site: records, messages and rows; and rows that kill whoever reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holons.errors import LogDamaged
from holons.store import MemoryStore, Position
from holons.streams import Chunk, MemoryHub, ReadableLog

if TYPE_CHECKING:
    from holons.engines.simulator.world import Gate


class SimulatedCrash(BaseException):
    """Ends a node in the middle of an operation."""


class PoisonedRow(SimulatedCrash):
    """Ends a node that has read a row which kills its reader; whoever watches over nodes starts another one."""


@dataclass
class Damage:
    """All that is damaged, as it is met behind a gate."""

    records: set[tuple[str, Position]] = field(default_factory=set)
    """By name and position."""
    messages: set[tuple[str, str, int]] = field(default_factory=set)
    """By stream, writer and position."""
    rows: set[tuple[str, int, int]] = field(default_factory=set)
    """By input, partition and offset."""
    poison: dict[tuple[str, int, int], float] = field(default_factory=dict)
    """Likewise, with the time until which they kill."""

    def check_rows(self, stream: str, partition: int, chunks: Sequence[Chunk], gate: Gate) -> None:
        """Raises if a damaged or a poisoned row was read."""
        first, end = chunks[0].offset, chunks[-1].end
        for name, number, offset in self.rows:
            if (name, number) == (stream, partition) and first <= offset < end:
                gate.world.sightings["a damaged row refused"] += 1
                raise LogDamaged(f"row {offset} of partition {partition} of {stream} is damaged")
        for (name, number, offset), until_s in self.poison.items():
            kills = gate.node >= 0 and gate.world.now_s < until_s
            if kills and (name, number) == (stream, partition) and first <= offset < end:
                raise PoisonedRow(f"{gate.name} dies of row {offset} of partition {partition} of {stream}")

    def newest_records(self, store: MemoryStore) -> list[tuple[str, Position]]:
        """Returns the newest record of each name that has at least two, none of which is damaged."""
        positions = {name: store.positions(name) for name in store.names()}
        return [
            (name, at[-1])
            for name, at in sorted(positions.items())
            if len(at) > 1 and not any((name, position) in self.records for position in at)
        ]


def newest_messages(hubs: Mapping[str, MemoryHub]) -> list[tuple[str, str, int]]:
    """Returns the newest message of each writer in each shared stream."""
    messages = []
    for stream, hub in sorted(hubs.items()):
        cursor: dict[str, int] = {}
        hub.read(cursor, 1_000_000)
        messages += [(stream, writer, at - 1) for writer, at in sorted(cursor.items()) if at > hub.start(writer)]
    return messages


def newest_rows(inputs: Mapping[str, ReadableLog]) -> list[tuple[str, int, int]]:
    """Returns the newest row, or mark, of each partition of each input that has any."""
    return [
        (stream, partition, log.end(partition) - 1)
        for stream, log in sorted(inputs.items())
        for partition in range(log.partitions)
        if log.end(partition) > log.start(partition)
    ]
