"""How a node behaves: every interval and limit in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from holons.disk import Durability, check_durability
from holons.errors import BadInput

Guarantee: TypeAlias = Literal["exactly-once", "at-least-once"]


MESSAGES_MAX: Final = 10_000
"""How many messages of a shared stream are read at once."""


@dataclass(frozen=True)
class Settings:
    """Times are seconds of the node's own clock, unless they say event time."""

    heartbeat_s: float = 0.1
    failure_timeout_s: float = 1.0
    """A peer that has sent no heartbeat for this long is dead."""
    tick_max_s: float = 0.25
    """One tick counts for no more than this: a pause of this node is not a death of others."""
    stagger_s: float = 0.15
    """How much longer the second choice waits than the first before it claims a partition."""
    residence_s: float = 2.0
    """How long a partition stays before it may be moved just to even out the load."""
    lag_batches: int = 8
    """A node that has so many batches to read is behind: a node that has none may take over one of its partitions."""
    checkpoint_s: float = 0.5
    loss_patience_s: float = 0.0
    """A checkpoint must have been missing for this long before it is lost: who holds it may only be cut off."""
    snapshot_deltas: int = 64
    """How many new messages change a job's shared state before it is stored, so that joiners need not read everything."""
    idle_s: float | Literal["auto"] | None = "auto"
    """After this long without a row a partition holds up the others no longer, and a stream that is quiet closes windows.
    "auto": ten seconds for rows that come into being as they are appended, never for history. None: never."""
    max_ahead_s: float | None = 60.0
    """How far, in event time, a partition may read ahead of the slowest one and of its own windows. None: no limit."""
    ledger_rows: int = 2_000_000
    """How many rows of a partition may wait for the cut of a count window before it waits for slower partitions."""
    preview_s: float | None = None
    """How often partitions send what they have in open windows, for `peek(window, preview=True)`. None: not at all."""
    replicas: int = 1
    """On how many nodes each partition runs."""
    copies: int = 1
    """With checkpoints in memory (`store="memory"`): how many other nodes hold each record beside the one that wrote it. So
    many nodes may die together, and nothing is lost."""
    guarantee: Guarantee = "exactly-once"
    """With "at-least-once", output rows are appended, not put at their positions. After a fault rows may come again; none is
    missing, and first occurrences are in order."""
    durability: Durability = "process"
    """What was acknowledged survives the death of any process; with "disk" also that of the machine: everything is synced
    before it counts as written, in the order outputs, deltas, checkpoints."""
    rows_max: int = 200_000
    """How many rows are read at once."""
    calls_max: int = 256
    """How many windows are emitted in one slice."""
    poison_deaths: int = 3
    """After this many nodes died at one and the same offset of a partition, its job is stopped."""

    def __post_init__(self) -> None:
        check_durability(self.durability)
        if isinstance(self.idle_s, str) and self.idle_s != "auto":
            raise BadInput(f"idle_s={self.idle_s!r}", hint='seconds, or "auto", or None for never')
        if self.guarantee not in get_args(Guarantee):
            raise BadInput(
                f"no guarantee is called {self.guarantee!r}", hint=f"use one of {', '.join(get_args(Guarantee))}"
            )

    @property
    def appends(self) -> bool:
        """Whether output rows are appended instead of put at positions."""
        return self.guarantee == "at-least-once"

    @property
    def max_ahead_us(self) -> int | None:
        """`max_ahead_s` in microseconds of event time."""
        return None if self.max_ahead_s is None else round(self.max_ahead_s * 1_000_000)
