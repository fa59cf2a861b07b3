"""The heartbeat stream as one node uses it: it reads everybody's heartbeats into its membership, and sends its own."""

from __future__ import annotations

from collections.abc import Set

from holons.node.membership import Membership
from holons.node.messages import Heartbeat, decode_heartbeat
from holons.node.ports import Ports
from holons.node.settings import MESSAGES_MAX, Settings
from holons.streams import Cursor
from holons.wire import encode

_AT_ONCE = float("-inf")
_REST_RATIO = 10.0  # after making a heartbeat, wait at least this many times as long as it took,
_HEARTBEATS_MIN = 4  # but send at least so many in a failure timeout


class HeartbeatStream:
    """Sends a heartbeat when one is due, and reads those of all nodes."""

    def __init__(self, ports: Ports, settings: Settings, membership: Membership, pid: int) -> None:
        self._ports = ports
        self._settings = settings
        self._membership = membership
        self.pid = pid
        """The process of this node, for people who look for it."""
        self._cursor: Cursor = {}
        self._sequence = 0
        self._sent_at_s = _AT_ONCE
        self._making_s = 0.0
        self.position = 0
        """Of the newest heartbeat of this node."""
        self.listed: Set[tuple[str, int]] = frozenset()
        """Partitions, by job, that the others know this node may touch."""

    def read(self) -> None:
        """Takes in the heartbeats that have come, and lets time pass for those that have not."""
        limit = MESSAGES_MAX
        heartbeats = self._ports.heartbeats.read(self._cursor, limit)
        for message in heartbeats:
            self._membership.receive(decode_heartbeat(message.data))
        self._membership.watch(self._ports.clock.now_s(), caught_up=len(heartbeats) < limit)

    def hurry(self) -> None:
        """The next heartbeat is due at once."""
        self._sent_at_s = _AT_ONCE

    def due(self, now_s: float) -> bool:
        """Returns whether it is time for the next heartbeat.

        One that lists many partitions takes a while to make, and must leave time for the work; but nobody may take this node
        for dead.
        """
        rest_s = min(_REST_RATIO * self._making_s, self._settings.failure_timeout_s / _HEARTBEATS_MIN)
        return now_s - self._sent_at_s >= max(self._settings.heartbeat_s, self._making_s + rest_s)

    def next_sequence(self) -> int:
        """Returns the number of the heartbeat that is about to be sent; a number is used once, sent or not."""
        self._sequence += 1
        return self._sequence

    def send(self, heartbeat: Heartbeat, now_s: float) -> None:
        """Sends a heartbeat that was begun at `now_s`."""
        self._making_s = self._ports.clock.now_s() - now_s
        self.position = self._ports.heartbeats.append(encode(heartbeat))
        self._membership.sent(heartbeat.sequence)
        self._sent_at_s = now_s

    def long_dead(self) -> Cursor:
        """Forgets nodes that died long ago; returns how far their heartbeats were read, which nobody needs any more."""
        return {node: self._cursor.get(node, 0) for node in self._membership.forget()}
