"""What a machine that dies leaves on its disk: each log, stream, journal and store loses what it had not synced."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from holons.clock import Random, seeded
from holons.engines.simulator.world import SimulatedSite
from holons.store import Position

_REMEMBERED = 6


class Reached(NamedTuple):
    """How far everything on a site was at one moment."""

    inputs: dict[tuple[str, int], int]
    outputs: dict[tuple[str, str, int], int]
    messages: dict[tuple[str, str], int]
    entries: dict[tuple[str, int], int]
    decisions: int
    records: dict[str, set[Position]]


class UnsyncedSuffixes:
    """Remembers how far everything was lately, so that a power cut can take each thing back to a moment of its own."""

    def __init__(self, world: SimulatedSite) -> None:
        self._world = world
        self._moments: deque[Reached] = deque(maxlen=_REMEMBERED)

    def remember(self) -> None:
        """Notes how far everything is now."""
        world = self._world
        self._moments.append(
            Reached(
                {(name, part): log.end(part) for name, log in world.inputs.items() for part in range(log.partitions)},
                {(*key, part): log.end(part) for key, log in world.outputs.items() for part in range(log.partitions)},
                {(name, writer): end for name, hub in world.hubs.items() for writer, end in hub.ends().items()},
                {
                    (name, part): journal.end(part)
                    for name, journal in world.journals.items()
                    for part in range(world.inputs[name].partitions)
                },
                world.decided.end(0),
                {name: set(world.records.positions(name)) for name in world.records.names()},
            )
        )

    def lose(self, choice: int) -> int:
        """Takes everything back to moments that are drawn one by one; returns how many things have lost something."""
        world, lost = self._world, 0
        rng = seeded(f"power {world.seed}/{choice}")
        self.remember()
        for name, log in sorted(world.inputs.items()):
            for part in range(log.partitions):
                lost += _cut(partial(log.lose, part), log.end(part), self._moment(rng).inputs.get((name, part), 0))
        for key, output in sorted(world.outputs.items()):
            for part in range(output.partitions):
                lost += _cut(
                    partial(output.lose, part), output.end(part), self._moment(rng).outputs.get((*key, part), 0)
                )
        for name, hub in sorted(world.hubs.items()):
            for writer, end in sorted(hub.ends().items()):
                lost += _cut(partial(hub.lose, writer), end, self._moment(rng).messages.get((name, writer), 0))
        for name, journal in sorted(world.journals.items()):
            for part in range(world.inputs[name].partitions):
                lost += _cut(
                    partial(journal.lose, part), journal.end(part), self._moment(rng).entries.get((name, part), 0)
                )
        lost += _cut(partial(world.decided.lose, 0), world.decided.end(0), self._moment(rng).decisions)
        for name in sorted(world.records.names()):
            synced = self._moment(rng).records.get(name, set())
            for position in world.records.positions(name):
                if position not in synced:
                    lost += 1
                    world.records.lose(name, position)
        self._moments.clear()
        return lost

    def _moment(self, rng: Random) -> Reached:
        return rng.choice(self._moments)


def _cut(lose: Callable[[int], None], end: int, kept: int) -> bool:
    """Lets something that reaches to `end` lose what lies behind a position; returns whether that was anything."""
    if kept < end:
        lose(kept)
    return kept < end
