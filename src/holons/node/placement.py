"""Who should run what: which slots are vacant, whose turn it is to claim them, and which one to take over to even out.

Pure functions over a frozen `View` of membership and ownership. Every node decides by itself; views differ for a moment, so
two nodes may claim the same slot. That costs work, not rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

from holons.node.messages import Running
from holons.node.ownership import Owner, Slot, preference
from holons.node.settings import Settings

Stream: TypeAlias = tuple[str, int]
"""A job, and the index of one of its streams."""


class SlotState(NamedTuple):
    """What a node remembers of a slot beside its owner. Times are of the node's own clock."""

    vacant_since_s: float | None = None
    claimed_epoch: int = -1
    """The epoch of this node's own newest claim."""
    held_since_s: float | None = None
    """When the owner's claim was read."""


@dataclass(frozen=True)
class View:
    """What a node knows when it decides."""

    me: str
    now_s: float
    settings: Settings
    live: tuple[str, ...]
    """The nodes that may be counted on, this one included."""
    streams: Mapping[str, tuple[int, ...]]
    """By job that runs here: for each partition, the index of the stream that it reads."""
    owners: Mapping[Slot, Owner]
    held: Mapping[str, Set[Slot]]
    """By live node, the slots of these jobs that it holds."""
    running: Mapping[str, tuple[Running, ...]]
    """By live node other than this one, what it reported last."""
    slots: Mapping[Slot, SlotState]

    @cached_property
    def sizes(self) -> Mapping[Stream, int]:
        """How many partitions each stream has."""
        return Counter((job, stream) for job, streams in self.streams.items() for stream in streams)

    @cached_property
    def loads(self) -> Mapping[str, Counter[Stream]]:
        """By live node, its slots of each stream; of this node also those whose claim it has not read back."""
        loads = {node: Counter(self.stream(slot) for slot in held) for node, held in self.held.items()}
        loads[self.me].update(
            self.stream(slot)
            for slot, state in self.slots.items()
            if state.claimed_epoch >= 0 and slot[0] in self.streams and self._outbids(slot, state.claimed_epoch)
        )
        return loads

    @cached_property
    def listed(self) -> Mapping[str, Set[tuple[str, int]]]:
        """By live node other than this one, the partitions that it reported last."""
        return {node: {(report.job, report.partition) for report in reports} for node, reports in self.running.items()}

    def _outbids(self, slot: Slot, epoch: int) -> bool:
        owner = self.owners.get(slot)
        return owner is None or Owner(epoch, self.me) > owner

    def stream(self, slot: Slot) -> Stream:
        """Returns the stream of a slot's partition."""
        return slot[0], self.streams[slot[0]][slot[1]]

    @property
    def others(self) -> list[str]:
        """The live nodes beside this one."""
        return [node for node in self.live if node != self.me]

    def owner(self, job: str, partition: int, number: int) -> str | None:
        """Returns the node that holds a slot."""
        owner = self.owners.get((job, partition, number))
        return None if owner is None else owner.node

    def state(self, slot: Slot) -> SlotState:
        """Returns what this node remembers of a slot."""
        return self.slots.get(slot, SlotState())

    def claiming(self, slot: Slot, epoch: int) -> View:
        """Returns this view after a claim of this node that it has not read back yet."""
        after = replace(self, slots={**self.slots, slot: self.state(slot)._replace(claimed_epoch=epoch)})
        mine = self.loads[self.me] + Counter({self.stream(slot): int(self._outbids(slot, epoch))})
        vars(after).update(
            sizes=self.sizes, listed=self.listed, loads={**self.loads, self.me: mine}
        )  # not all over again
        return after


# --- vacant slots -----------------------------------------------------------------------------------------------------


def is_vacant(view: View, slot: Slot) -> bool:
    """Returns whether a slot may be claimed: its owner is dead, neglects it, or holds a lower slot of the partition."""
    job, partition, number = slot
    owner = view.owner(*slot)
    return (
        owner is None
        or owner not in view.live
        or _neglected(view, slot, owner)
        or any(view.owner(job, partition, lower) == owner for lower in range(number))
    )


def _neglected(view: View, slot: Slot, owner: str) -> bool:
    """Whether an owner is alive, but has not listed the partition for too long."""
    if owner == view.me:
        return False
    listed = slot[:2] in view.listed.get(owner, ())
    held_since_s = view.state(slot).held_since_s
    return not listed and held_since_s is not None and view.now_s - held_since_s > 2 * view.settings.failure_timeout_s


def holds_partition(view: View, node: str, job: str, partition: int, except_slot: int | None = None) -> bool:
    """Returns whether a node holds a slot of a partition, beside one: the copies belong on distinct nodes."""
    numbers = range(view.settings.replicas)
    return any(view.owner(job, partition, number) == node for number in numbers if number != except_slot)


def turn(view: View, slot: Slot) -> int:
    """Returns how many nodes should claim a slot before this one: those with less than their share go first.

    A share of everything, and then one of each stream: a stream of few rows does not make up for one of many.
    """
    job, partition, number = slot
    free = [node for node in view.live if not holds_partition(view, node, job, partition, number)]
    first = _below_their_share(view, free, view.sizes)
    if view.me in first:  # the slots of one partition begin with different nodes
        first = _below_their_share(view, first, [view.stream(slot)]) or first
    if view.me in first:
        return (preference(slot, first).index(view.me) - number) % len(first)
    return len(first) + 1 + preference(slot, free).index(view.me)


def _below_their_share(view: View, nodes: list[str], streams: Collection[Stream]) -> list[str]:
    partitions = sum(view.sizes[stream] for stream in streams)
    share = -(-view.settings.replicas * partitions // len(view.live))
    return [node for node in nodes if sum(view.loads[node][stream] for stream in streams) < share]


# --- evening out ------------------------------------------------------------------------------------------------------


def fuller_node(view: View) -> str | None:
    """Returns the node that holds the most slots, if it holds at least two more than this one."""
    fullest = max(view.others, key=lambda node: (len(view.held[node]), node), default=None)
    return fullest if fullest is not None and len(view.held[fullest]) - len(view.held[view.me]) >= 2 else None


def slower_node(view: View) -> str | None:
    """Returns the node with the most rows to read, if those are many, and if it holds more slots than this one.

    This node may take one over if it has hardly anything to read itself. What waits, for a window or for slower partitions,
    does not count: it would wait here as well.
    """
    lags = {node: sum(running.lag for running in view.running[node] if _movable(running)) for node in view.others}
    slowest = max(lags, key=lambda node: (lags[node], node), default=None)
    if slowest is None:
        return None
    behind = lags[slowest] // view.settings.lag_batches > view.settings.rows_max
    return slowest if behind and len(view.held[view.me]) < len(view.held[slowest]) >= 2 else None


def slot_to_take(view: View, victim: str) -> Slot | None:
    """Returns the slot to take from a node: of a stream of which it has more than this node, with the most rows to read."""
    lags = {(running.job, running.partition): running.lag for running in view.running[victim] if _movable(running)}
    slots = sorted(slot for slot in view.held[victim] if slot[:2] in lags)
    surplus = {slot: view.loads[victim][view.stream(slot)] - view.loads[view.me][view.stream(slot)] for slot in slots}
    for slot in sorted(slots, key=lambda slot: (-surplus[slot], -lags[slot[:2]])):
        held_since_s = view.state(slot).held_since_s
        resided = held_since_s is not None and view.now_s - held_since_s > view.settings.residence_s
        if resided and not holds_partition(view, view.me, *slot):
            return slot
    return None


def _movable(running: Running) -> bool:
    """Whether a partition does not wait, for a window or for slower partitions."""
    return not (running.held or running.parked)
