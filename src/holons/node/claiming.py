"""The claims that a node writes: what it remembers of slots, and the decisions of `placement` carried out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holons.node import placement
from holons.node.membership import Membership
from holons.node.messages import Claim
from holons.node.ownership import Ownership, Slot
from holons.node.placement import SlotState, View
from holons.node.ports import Ports
from holons.node.settings import Settings
from holons.node.trials import Trials
from holons.wire import encode

if TYPE_CHECKING:
    from holons.node.job_on_node import JobOnNode


class Claims:
    """Claims vacant slots when it is this node's turn, and takes partitions over to even out."""

    def __init__(self, ports: Ports, settings: Settings, membership: Membership, ownership: Ownership) -> None:
        self._ports = ports
        self._settings = settings
        self._membership = membership
        self._ownership = ownership
        self._slots: dict[Slot, SlotState] = {}
        self._began_s = ports.clock.now_s()
        self.written = 0
        """How many claims this node has written."""

    def merge(self, claim: Claim) -> None:
        """Takes in a claim that was read from the control log."""
        self._membership.expect(claim.node)
        if self._ownership.merge(claim):
            self._update((claim.job, claim.partition, claim.slot), vacant_since_s=None, held_since_s=self._now_s())

    def forget(self, job: str) -> None:
        """A job is over: who holds what of it no longer matters."""
        self._ownership.forget(job)
        self._slots = {slot: state for slot, state in self._slots.items() if slot[0] != job}

    def claim(self, jobs: Mapping[str, JobOnNode], trials: Trials) -> None:
        """Claims what is vacant, then takes one partition over if that evens out. A node that has just started listens."""
        if self._now_s() - self._began_s < 2 * self._settings.heartbeat_s:
            return
        view = self._view(jobs)
        for job, streams in view.streams.items():
            for partition in range(len(streams)):
                for number in range(self._settings.replicas):
                    view = self._claim_if_vacant(view, (job, partition, number), trials)
        self._even_out(view, jobs)

    def _claim_if_vacant(self, view: View, slot: Slot, trials: Trials) -> View:
        if not placement.is_vacant(view, slot):
            if view.state(slot).vacant_since_s is not None:
                self._update(slot, vacant_since_s=None)
            return view
        job, partition, _ = slot
        if placement.holds_partition(view, view.me, job, partition):
            return view
        since_s = self._slots.get(slot, SlotState()).vacant_since_s
        if since_s is None:
            since_s = view.now_s
            self._update(slot, vacant_since_s=since_s)
        if view.now_s - since_s < placement.turn(view, slot) * self._settings.stagger_s:
            return view
        return view if trials.poisoned(job, partition) else self._write(view, slot)

    def _even_out(self, view: View, jobs: Mapping[str, JobOnNode]) -> None:
        victim = placement.fuller_node(view)
        if victim is None:
            victim = placement.slower_node(view)
            if victim is None or _lag(jobs) > self._settings.rows_max:
                return
        slot = placement.slot_to_take(view, victim)
        if slot is not None:
            self._write(view, slot)

    def _write(self, view: View, slot: Slot) -> View:
        """Claims a slot with the next epoch, unless this node has done so already."""
        owner = view.owners.get(slot)
        epoch = 0 if owner is None else owner.epoch + 1
        if view.state(slot).claimed_epoch >= epoch:
            return view
        self._ports.control.append(encode(Claim(*slot, epoch, view.me)))
        self._update(slot, claimed_epoch=epoch)
        self.written += 1
        return view.claiming(slot, epoch)

    def _view(self, jobs: Mapping[str, JobOnNode]) -> View:
        live, me = self._membership.live(), self._membership.me
        return View(
            me=me,
            now_s=self._now_s(),
            settings=self._settings,
            live=tuple(live),
            streams={name: tuple(stream for stream, _ in here.places) for name, here in jobs.items()},
            owners=self._ownership.owners(),
            held={node: frozenset().union(*(self._ownership.held_by(node, job) for job in jobs)) for node in live},
            running={node: self._membership.running(node) for node in live if node != me},
            slots=dict(self._slots),
        )

    def _update(self, slot: Slot, **changes: Any) -> None:  # noqa: ANN401 - the fields of a SlotState
        self._slots[slot] = self._slots.get(slot, SlotState())._replace(**changes)

    def _now_s(self) -> float:
        return self._ports.clock.now_s()


def _lag(jobs: Mapping[str, JobOnNode]) -> int:
    """How many rows wait to be read here, not counting partitions that wait for slower ones."""
    return sum(tasklet.lag for here in jobs.values() for tasklet in here.tasklets.values() if not tasklet.held)
