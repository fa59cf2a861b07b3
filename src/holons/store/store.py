"""The checkpoint port.

A record is immutable and named by (name, position); positions of one name only grow, and a later one contains all that
an earlier one did. So nothing is ever overwritten, a torn write harms nobody, and two writers cannot undo each other
(invariant: covering checkpoints).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Position: TypeAlias = tuple[int, ...]
"""How far a record reaches; compared number by number."""


class Store(Protocol):
    """Where records are kept. All methods may raise `StoreUnavailable`; the caller tries again later."""

    def put(self, name: str, position: Position, data: bytes) -> None:
        """Keeps a record, durably and as a whole; a record that is already there stays as it is."""
        ...

    def positions(self, name: str) -> list[Position]:
        """Returns the positions of all records of a name that can be had, ascending: what recovery may start from."""
        ...

    def durable(self, name: str) -> list[Position]:
        """Returns the positions that survive whatever this store promises to survive: what trimming may rely on."""
        ...

    def get(self, name: str, position: Position) -> bytes:
        """Returns a record; raises `RecordDamaged` if its bytes are not the ones that were put."""
        ...

    def drop(self, name: str, below: Position) -> None:
        """Forgets the records below a position."""
        ...

    def tend(self, live: Sequence[str]) -> bool:
        """Called a few times in a heartbeat, with who is alive; a node that leaves does not count itself.

        Says whether that node may go: nothing that others need is with it alone.
        """
        ...
