"""Who runs what: a lattice of claims, and who should claim next.

Ownership is a map (job, partition, slot) -> (epoch, node), merged by maximum. Only claims that were written and read
back count, and the same rule merges and decides, so that nobody owns what it does not run. Rendezvous hashing over the
live nodes says who should claim first; the others follow after a while, so a partition never waits for a dead node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from holons import rendezvous
from holons.node.messages import Claim
from holons.streams import Cursor

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
        self._held: dict[tuple[str, str], set[Slot]] = {}
        """By (node, job)."""
        self._over: set[str] = set()

    def merge(self, claim: Claim) -> bool:
        """Takes a claim, in any order, any number of times; says whether it changed anything."""
        if claim.job in self._over:
            return False
        slot = (claim.job, claim.partition, claim.slot)
        owner = Owner(claim.epoch, claim.node)
        before = self._owners.get(slot, Owner(-1, ""))
        if owner <= before:
            return False
        self._held.get((before.node, claim.job), set()).discard(slot)
        self._held.setdefault((owner.node, claim.job), set()).add(slot)
        self._owners[slot] = owner
        return True

    def owner(self, slot: Slot) -> Owner | None:
        """Who holds a slot."""
        return self._owners.get(slot)

    def owners(self) -> dict[Slot, Owner]:
        """All slots that somebody holds, as they are now."""
        return dict(self._owners)

    def outbid(self, claim: Claim) -> bool:
        """Whether a greater claim of the same slot was read, or the job is over."""
        return claim.job in self._over or Owner(claim.epoch, claim.node) < self._owners.get(
            (claim.job, claim.partition, claim.slot), Owner(-1, "")
        )

    def held_by(self, node: str, job: str) -> set[Slot]:
        """The slots of a job that a node holds."""
        return self._held.get((node, job), set())

    def slot_held(self, node: str, job: str, partition: int, slots: int) -> tuple[int, int]:
        """The lowest slot of a partition that a node holds, and its epoch; (-1, -1) if it holds none."""
        for number in range(slots):
            owner = self._owners.get((job, partition, number))
            if owner is not None and owner.node == node:
                return number, owner.epoch
        return -1, -1

    def forget(self, job: str) -> None:
        """Drops all claims of a job that is over, for good."""
        self._over.add(job)
        for slot in [slot for slot in self._owners if slot[0] == job]:
            self._held.pop((self._owners.pop(slot).node, job), None)


class Trail:
    """Which claims of the control log no longer matter: those that were outbid, up to the first that counts."""

    def __init__(self) -> None:
        self._claims: dict[str, dict[int, Claim]] = {}
        self._needless: Cursor = {}

    def add(self, writer: str, position: int, claim: Claim, start: int) -> None:
        """Adds a claim of the log, which begins at `start` for this writer."""
        at = self._needless.setdefault(writer, start)
        if position >= at:
            self._claims.setdefault(writer, {})[position] = claim

    def needless(self, ownership: Ownership) -> Cursor:
        """Below which positions nothing matters, for each writer. What was not read yet may matter."""
        for writer, claims in self._claims.items():
            at = self._needless[writer]
            while (claim := claims.get(at)) is not None and ownership.outbid(claim):
                del claims[at]
                at += 1
            self._needless[writer] = at
        return self._needless


def preference(slot: Slot, nodes: Iterable[str]) -> list[str]:
    """The nodes in the order in which they should claim a slot: rendezvous hashing."""
    job, partition, _ = slot
    return rendezvous.preference(f"{job}/{partition}", nodes)
