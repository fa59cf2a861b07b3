"""What nodes are doing, as their heartbeats tell: for people who watch, and for drivers that wait."""

from __future__ import annotations

from dataclasses import dataclass, field

from holons.clock import Clock
from holons.node import Heartbeat, Running, decode_heartbeat
from holons.streams import Cursor, SharedLog
from holons.windows import BEGINNING, ENDING, instant_text

_SILENT_S = 3.0
_HEARTBEATS_MAX = 100_000


@dataclass(frozen=True)
class Seen:
    """All nodes that sent a heartbeat lately, and how far anybody has come with one job."""

    nodes: dict[str, tuple[Running, ...]] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)
    rows_read: int = 0
    rows_before: int = 0
    """So many of them had been read before anybody looked: an earlier run did that."""
    rows_per_s: float = 0.0
    node_rows_per_s: dict[str, float] = field(default_factory=dict)
    """By node; what several nodes run counts for each of them."""
    rows_waiting: int = 0
    windows: int = 0
    watermark: int | None = None
    """The least of all partitions."""


class Watcher:
    """Reads heartbeats, and sums up. Those that are there already may be of the dead: who lives will send another."""

    def __init__(self, heartbeats: SharedLog, clock: Clock) -> None:
        self._heartbeats = heartbeats
        self._clock = clock
        self._cursor: Cursor = {}
        self._heard: dict[str, tuple[Heartbeat, float]] = {}
        self._first: dict[tuple[str, int], int] = {}
        self._furthest: dict[tuple[str, int], Running] = {}
        self._before: tuple[float, int, dict[str, dict[int, int]]] | None = None
        self._rate = 0.0
        self._node_rates: dict[str, float] = {}
        while heartbeats.read(self._cursor, _HEARTBEATS_MAX):
            pass

    def finished(self, jobs: int) -> set[str]:
        """The nodes that have so many jobs, and say that all of them are out."""
        self._listen()
        return {name for name, (heartbeat, _) in self._heard.items() if heartbeat.finished and heartbeat.jobs == jobs}

    def pids(self) -> dict[str, int]:
        """The process of each node that sent a heartbeat lately."""
        now_s = self._listen()
        return {name: heartbeat.pid for name, (heartbeat, at_s) in self._heard.items() if now_s - at_s < _SILENT_S}

    def _listen(self) -> float:
        now_s = self._clock.now_s()
        for message in self._heartbeats.read(self._cursor, _HEARTBEATS_MAX):
            heartbeat = decode_heartbeat(message.data)
            self._heard[message.writer] = heartbeat, now_s
            for one in heartbeat.running:
                place = one.job, one.partition
                self._first.setdefault(place, rows_read(one))
                known = self._furthest.get(place)
                self._furthest[place] = one if known is None or known.offset <= one.offset else known
        return now_s

    def look(self, job: str) -> Seen:
        """What the nodes said last about a job."""
        now_s = self._listen()
        lately = {
            name: heartbeat.running for name, (heartbeat, at_s) in self._heard.items() if now_s - at_s < _SILENT_S
        }
        nodes = {name: tuple(one for one in running if one.job == job) for name, running in sorted(lately.items())}
        furthest = {partition: one for (owner, partition), one in self._furthest.items() if owner == job}
        rows = sum(rows_read(one) for one in furthest.values())
        before = sum(self._first[job, partition] for partition in furthest)
        self._measure(now_s, rows, {name: {one.partition: one.offset for one in told} for name, told in nodes.items()})
        return Seen(
            nodes=nodes,
            pids={name: self._heard[name][0].pid for name in nodes},
            rows_read=rows,
            rows_before=before,
            rows_per_s=self._rate,
            node_rows_per_s={name: self._node_rates.get(name, 0.0) for name in nodes},
            rows_waiting=sum(one.lag for one in furthest.values()),
            windows=max((one.calls for one in furthest.values()), default=0),
            watermark=min((one.watermark for one in furthest.values()), default=None),
        )

    def _measure(self, now_s: float, rows: int, offsets: dict[str, dict[int, int]]) -> None:
        """Rows per second, over about the last second; a partition that a node has just taken over counts from then on."""
        if self._before is None:
            self._before = now_s, rows, offsets
        since_s, rows_before, before = self._before
        if now_s - since_s >= 1.0:
            self._rate = max(rows - rows_before, 0) / (now_s - since_s)
            self._node_rates = {
                name: sum(max(at - before.get(name, {}).get(partition, at), 0) for partition, at in mine.items())
                / (now_s - since_s)
                for name, mine in offsets.items()
            }
            self._before = now_s, rows, offsets


def rows_read(one: Running) -> int:
    """Up to where a node has read a partition; the end itself is no row."""
    return one.offset - (one.watermark >= ENDING)


def node_text(name: str) -> str:
    """A node's name for people: without what makes it another one in each run."""
    base, _, incarnation = name.partition("#")
    attempt = incarnation.partition(".")[2]
    return f"{base}.{attempt}" if attempt else base


def watermark_text(watermark: int | None) -> str:
    """A watermark for people."""
    if watermark is None or watermark <= BEGINNING:
        return "-"
    return "ended" if watermark >= ENDING else instant_text(watermark)
