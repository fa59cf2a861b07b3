"""Which nodes are alive, as far as this node knows.

A peer is dead when the number of its heartbeats has not moved for `failure_timeout_s` of this node's time. That time counts
only while this node has read the heartbeat stream to its end and finds its own heartbeats there. So after a pause of this
node, or an outage of the log, nobody looks dead. A restarted node has a new name, so old heartbeats are never taken for
new ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from holons.node.messages import Heartbeat, Running
from holons.node.settings import Settings


@dataclass
class _Peer:
    heartbeat: Heartbeat
    moved_at_s: float
    """On the watching clock."""


class Membership:
    """One node's view of the others."""

    def __init__(self, me: str, settings: Settings) -> None:
        self.me = me
        self._settings = settings
        self._peers: dict[str, _Peer] = {}
        self.watched_s = 0.0
        """For how long this node has been able to receive heartbeats of others."""
        self._last_s: float | None = None
        self._sent = 0
        self._returned = 0

    def sent(self, sequence: int) -> None:
        """Notes that a heartbeat of this node was sent."""
        self._sent = sequence

    def receive(self, heartbeat: Heartbeat) -> None:
        """Takes in a heartbeat from the stream."""
        if heartbeat.node == self.me:
            self._returned = max(self._returned, heartbeat.sequence)
            return
        known = self._peers.get(heartbeat.node)
        if known is None or heartbeat.sequence > known.heartbeat.sequence:
            self._peers[heartbeat.node] = _Peer(heartbeat, self.watched_s)

    def watch(self, now_s: float, *, caught_up: bool) -> None:
        """Lets time pass; it counts against other nodes only if this node could have received their heartbeats."""
        elapsed = 0.0 if self._last_s is None else now_s - self._last_s
        self._last_s = now_s
        if caught_up and self._returned >= self._sent - 1:
            self.watched_s += min(max(elapsed, 0.0), self._settings.tick_max_s)

    def alive(self, node: str) -> bool:
        """Whether a node may be counted on."""
        if node == self.me:
            return True
        peer = self._peers.get(node)
        if peer is None or peer.heartbeat.leaving:
            return False
        return self.watched_s - peer.moved_at_s <= self._settings.failure_timeout_s

    def died(self, node: str, patience: float = 1.0) -> bool:
        """Whether a node went without a goodbye, and has been silent for so many failure timeouts."""
        peer = self._peers.get(node)
        if node == self.me or peer is None or peer.heartbeat.leaving:
            return False
        return self.watched_s - peer.moved_at_s > patience * self._settings.failure_timeout_s

    def forget(self) -> list[str]:
        """Forgets nodes that have been dead for very long, and returns them; a node that comes back counts as new."""
        long_dead_s = 60 * self._settings.failure_timeout_s
        gone = [node for node, peer in self._peers.items() if self.watched_s - peer.moved_at_s > long_dead_s]
        for node in gone:
            del self._peers[node]
        return gone

    def known(self, node: str) -> bool:
        """Whether a node has ever sent a heartbeat, or is expected to."""
        return node == self.me or node in self._peers

    def expect(self, node: str) -> None:
        """Expects a node that a claim names: it has the failure timeout to send a heartbeat."""
        if not self.known(node):
            self._peers[node] = _Peer(Heartbeat(node, -1), self.watched_s)

    def live(self) -> list[str]:
        """All nodes that may be counted on, myself included."""
        return sorted([self.me, *(node for node in self._peers if self.alive(node))])

    def running(self, node: str) -> tuple[Running, ...]:
        """What a peer reported last that it runs."""
        peer = self._peers.get(node)
        return peer.heartbeat.running if peer is not None else ()

    def all_running(self) -> list[tuple[str, Running]]:
        """The newest report of every node, dead ones included: progress does not go back."""
        return [(node, running) for node, peer in sorted(self._peers.items()) for running in peer.heartbeat.running]

    def suspicion(self, job: str, partition: int, patience: float = 1.0) -> tuple[int, int]:
        """Returns how many owners in a row died without getting beyond an offset, and that offset.

        Every heartbeat says what its node is about to touch, so the last heartbeat of a dead node says where it died.
        """
        reports = [
            (node, running)
            for node, running in self.all_running()
            if (running.job, running.partition) == (job, partition)
        ]
        passed = max((running.offset for node, running in reports if self.alive(node)), default=-1)
        worst = (0, 0)
        for slot in {running.slot for _, running in reports if running.slot >= 0}:
            owners = [(run.epoch, run.offset, node, run.touched) for node, run in reports if run.slot == slot]
            furthest = max(offset for _, offset, _, _ in owners)
            since = min(epoch for epoch, offset, _, _ in owners if offset == furthest)
            dead = {node for _, _, node, _ in owners if self.died(node, patience)}
            deaths = sum(touched and epoch >= since and node in dead for epoch, _, node, touched in owners)
            if passed <= furthest:
                worst = max(worst, (deaths, furthest))
        return worst
