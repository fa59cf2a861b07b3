"""Who runs what: a lattice of claims, and who should claim next.

Ownership is a map (job, partition, slot) -> (epoch, node), merged by maximum. Only claims that were written and read
back count, and the same rule merges and decides, so that nobody owns what it does not run. Rendezvous hashing over the
live nodes says who should claim first; the others follow after a while, so a partition never waits for a corpse.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from holons.node.messages import Claim

Slot: TypeAlias = tuple[str, int, int]
"""(job, partition, slot)."""


class Owner(NamedTuple):
    """The holder of a slot; greater ones win."""

    epoch: int
    node: str


class Ownership:
    """All claims that were read so far."""

    def __init__(self) -> None:
        self._owners: dict[Slot, Owner] = {}

    def merge(self, claim: Claim) -> bool:
        """Takes a claim, in any order, any number of times; says whether it changed anything."""
        slot = (claim.job, claim.partition, claim.slot)
        owner = Owner(claim.epoch, claim.node)
        if owner <= self._owners.get(slot, Owner(-1, "")):
            return False
        self._owners[slot] = owner
        return True

    def owner(self, slot: Slot) -> Owner | None:
        """Who holds a slot."""
        return self._owners.get(slot)

    def held_by(self, node: str) -> list[Slot]:
        """The slots that a node holds."""
        return sorted(slot for slot, owner in self._owners.items() if owner.node == node)


def preference(slot: Slot, nodes: Iterable[str]) -> list[str]:
    """The nodes in the order in which they should claim a slot: rendezvous hashing."""
    job, partition, _ = slot
    return sorted(nodes, key=lambda node: hashlib.blake2b(f"{job}/{partition}/{node}".encode(), digest_size=8).digest())
