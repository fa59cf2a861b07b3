"""What can go wrong, as data: a list of faults drawn from a seed, which can be replayed and shortened."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holons.clock import seeded


class Kind(enum.Enum):
    """Kinds of faults."""

    CRASH = "crash"
    """The node dies at some later operation: before a delta, between two outputs, in the middle of a checkpoint."""
    CRASH_ALL = "crash all"
    STALL = "stall"
    """The node stands still (as after SIGSTOP) and then goes on."""
    SLOW = "slow"
    ISOLATE = "isolate"
    """The node hears nobody, or nobody hears it, or both."""
    LOG_OUTAGE = "log outage"
    STORE_OUTAGE = "store outage"
    JOIN = "join"
    LEAVE = "leave"
    CRASH_OTHERS = "crash others"
    """All nodes but one die at once."""
    SPLIT = "split"
    """Two groups of nodes do not hear each other."""
    CLOCK_JUMP = "clock jump"
    """The node's clock leaps ahead, as after a suspended machine. It never goes back: the port says so."""
    LOST_ANSWER = "lost answer"
    """What is written is there, but every other time its writer is told that it failed, and writes it again."""


FIRST_KINDS: Final = tuple(Kind)[:9]
"""What recorded seeds draw from: up to `LEAVE`. More kinds in the draw would give every seed another meaning."""


@dataclass(frozen=True)
class Fault:
    """One fault: what, when, to whom, for how long. `detail` chooses among variants."""

    kind: Kind
    at_s: float
    node: int
    for_s: float
    detail: int

    def __str__(self) -> str:
        return f"{self.at_s:.2f}s {self.kind.value} node {self.node} for {self.for_s:.2f}s ({self.detail})"


def draw_faults(
    seed: int, nodes: int, until_s: float, most: int = 8, kinds: Sequence[Kind] = FIRST_KINDS
) -> list[Fault]:
    """Faults of these kinds for one run, in order of time; none begins after `until_s`."""
    rng = seeded(seed)
    crashes = [Kind.CRASH] * 3 if Kind.CRASH in kinds else []  # they are what it is about
    drawn = [*kinds, *crashes]
    faults = [
        Fault(
            kind=rng.choice(drawn),
            at_s=rng.uniform(0.0, until_s),
            node=rng.randrange(nodes),
            for_s=rng.choice([0.05, 0.5, 1.5, 4.0]) * rng.uniform(0.5, 1.5),
            detail=rng.randrange(1000),
        )
        for _ in range(rng.randint(0, most))
    ]
    return sorted(faults, key=lambda fault: fault.at_s)
