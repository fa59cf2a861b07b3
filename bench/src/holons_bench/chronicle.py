"""What happened in a live run, and what can be read from it. Times are seconds since the load began."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

Deed: TypeAlias = Literal["killed", "started", "paused", "resumed"]


@dataclass(frozen=True)
class Heard:
    """A heartbeat: who runs which partitions."""

    at_s: float
    node: str
    pid: int
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class Happened:
    """What was done to a node."""

    at_s: float
    what: Deed
    node: str
    pid: int = 0


@dataclass(frozen=True)
class Spell:
    """A node ran a partition for a while."""

    partition: int
    node: str
    from_s: float
    to_s: float


@dataclass(frozen=True)
class Takeover:
    """A partition whose node was killed, and who ran it next."""

    partition: int
    node: str
    after_s: float


@dataclass
class Chronicle:
    """All that was seen of one run."""

    due_s: np.ndarray
    """When each window was over."""
    readable_s: np.ndarray
    """When its result could be read."""
    rows: list[dict[str, Any]]
    """The results."""
    heard: list[Heard] = field(default_factory=list)
    happened: list[Happened] = field(default_factory=list)
    read: list[tuple[float, int]] = field(default_factory=list)
    """How many rows all nodes together had read, over time."""
    producer_lag_s: tuple[float, ...] = ()
    """How late producers were at worst, for each second."""

    @property
    def late_s(self) -> np.ndarray:
        """Each window's latency."""
        return self.readable_s - self.due_s

    @property
    def faults_s(self) -> list[float]:
        """When something was done to a node that hurts."""
        return [event.at_s for event in self.happened if event.what in ("killed", "paused")]

    def since(self, from_s: float) -> np.ndarray:
        """Returns which windows were due after a warm-up."""
        return self.due_s >= from_s

    def spells(self, silence_s: float = 1.0) -> list[Spell]:
        """Returns who ran what, and when."""
        ends_s = {event.node: event.at_s for event in self.happened if event.what == "killed"}
        return spells(self.heard, ends_s, silence_s)

    def came_up_s(self) -> dict[str, float]:
        """Returns when each node was first heard of."""
        first: dict[str, float] = {}
        for heard in self.heard:
            first.setdefault(heard.node, heard.at_s)
        return first

    def throughput(self, step_s: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
        """Returns rows read per second, over time."""
        if len(self.read) < 2:
            return np.empty(0), np.empty(0)
        at_s, rows = np.array(self.read, dtype=np.float64).T
        edges_s = np.arange(max(at_s[0], 0.0), at_s[-1], step_s)
        return edges_s[1:], np.diff(np.interp(edges_s, at_s, rows)) / step_s


def spells(heard: Iterable[Heard], ends_s: Mapping[str, float], silence_s: float) -> list[Spell]:
    """Consecutive heartbeats that list a partition make a spell; death ends it, and so does a silence."""
    open_: dict[tuple[str, int], tuple[float, float]] = {}
    closed: list[Spell] = []

    def close(node: str, partition: int, to_s: float | None = None) -> None:
        from_s, last_s = open_.pop((node, partition))
        closed.append(Spell(partition, node, from_s, last_s if to_s is None else to_s))

    for heartbeat in sorted(heard, key=lambda heartbeat: heartbeat.at_s):
        for node, partition in [key for key in open_ if key[0] == heartbeat.node]:
            if heartbeat.at_s - open_[node, partition][1] > silence_s:
                close(node, partition)
            elif partition not in heartbeat.partitions:
                close(node, partition, heartbeat.at_s)
        for partition in heartbeat.partitions:
            from_s, _ = open_.get((heartbeat.node, partition), (heartbeat.at_s, 0.0))
            open_[heartbeat.node, partition] = from_s, heartbeat.at_s
    for node, partition in list(open_):
        close(node, partition, ends_s.get(node))
    return sorted(closed, key=lambda spell: (spell.partition, spell.from_s, spell.node))


def takeovers(ran: Sequence[Spell], killed: Happened) -> list[Takeover]:
    """Returns who took over what a killed node ran, and how long after. Partitions that nobody ran again are left out."""
    resumed = []
    for lost in ran:
        if lost.node == killed.node and lost.to_s == killed.at_s:
            later = [spell for spell in ran if spell.partition == lost.partition and spell.node != lost.node]
            after = [spell for spell in later if spell.to_s > killed.at_s]
            if after:
                first = min(after, key=lambda spell: spell.from_s)
                resumed.append(Takeover(lost.partition, first.node, max(0.0, first.from_s - killed.at_s)))
    return resumed


def short(node: str) -> str:
    """Returns a node's name for people: without the run's token.

    >>> short("node-2#ab12cd34"), short("node-2#ab12cd34.1")
    ('node-2', 'node-2.1')
    """
    name, _, rest = node.partition("#")
    _, dot, attempt = rest.partition(".")
    return f"{name}{dot}{attempt}"
