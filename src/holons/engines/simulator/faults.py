"""What can go wrong, as data: a list of faults drawn from a seed, which can be replayed and shortened."""

from __future__ import annotations

import enum
from dataclasses import dataclass

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


def draw_faults(seed: int, nodes: int, until_s: float, most: int = 8) -> list[Fault]:
    """Faults for one run, in order of time; none begins after `until_s`."""
    rng = seeded(seed)
    kinds = [*Kind, Kind.CRASH, Kind.CRASH, Kind.CRASH]  # crashes are what it is about
    faults = [
        Fault(
            kind=rng.choice(kinds),
            at_s=rng.uniform(0.0, until_s),
            node=rng.randrange(nodes),
            for_s=rng.choice([0.05, 0.5, 1.5, 4.0]) * rng.uniform(0.5, 1.5),
            detail=rng.randrange(1000),
        )
        for _ in range(rng.randint(0, most))
    ]
    return sorted(faults, key=lambda fault: fault.at_s)
