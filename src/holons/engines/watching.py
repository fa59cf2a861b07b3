"""Makes a `Status` of what nodes say in their heartbeats: for people who watch, and for drivers that wait."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from holons.clock import Clock
from holons.engines.status import (
    Activity,
    NodeStatus,
    PartitionStatus,
    Status,
    WaitingFor,
    partitions_text,
    watermark_text,
)
from holons.node import Heartbeat, Running, decode_heartbeat
from holons.streams import Cursor, SharedLog
from holons.windows import BEGINNING, ENDING

_SILENT_S: Final = 3.0
"""A node that was not heard for so long is not shown."""
_HEARTBEATS_MAX: Final = 100_000
_FREE_MAX: Final = 1_000
"""So many partitions without an owner are named: nobody reads more, and a heartbeat may say any number."""
_NODES_MAX: Final = 3
"""So many nodes are named in a reason."""
_RATE_S: Final = 1.0
"""Rows per second are measured over at least so long."""


class _Unchanged(NamedTuple):
    """When something was last different from what it is now."""

    value: object
    since_s: float


class Watcher:
    """Reads heartbeats, and sums up. Earlier ones may be of dead nodes, so they do not count: live nodes send others."""

    def __init__(self, heartbeats: SharedLog, clock: Clock) -> None:
        self._heartbeats = heartbeats
        self._clock = clock
        self._cursor: Cursor = {}
        self._heard: dict[str, tuple[Heartbeat, float]] = {}
        self._first: dict[tuple[str, int], int] = {}
        self._furthest: dict[tuple[str, int], Running] = {}
        self._began_s = clock.now_s()
        self._unmoved: dict[tuple[str, int], _Unchanged] = {}
        self._waiting: dict[str, _Unchanged] = {}
        self._before: tuple[float, int, dict[str, dict[int, int]]] | None = None
        self._rate = 0.0
        self._node_rates: dict[str, float] = {}
        while heartbeats.read(self._cursor, _HEARTBEATS_MAX):
            pass

    def finished(self, jobs: int) -> set[str]:
        """The nodes that have so many jobs, and say that all of them have finished."""
        self._listen()
        return {name for name, (heartbeat, _) in self._heard.items() if heartbeat.finished and heartbeat.jobs == jobs}

    def heard(self) -> set[str]:
        """The nodes that have sent a heartbeat since this began to watch."""
        self._listen()
        return set(self._heard)

    def pids(self) -> dict[str, int]:
        """The process of each node that sent a heartbeat lately."""
        now_s = self._listen()
        return {name: heartbeat.pid for name, (heartbeat, at_s) in self._heard.items() if now_s - at_s < _SILENT_S}

    def look(self, job: str, inputs: Sequence[tuple[str, int]] = ()) -> Status:
        """The status of a job, given its input streams and how many partitions each has, if that is known."""
        now_s = self._listen()
        lately = {name: heard for name, (heard, at_s) in sorted(self._heard.items()) if now_s - at_s < _SILENT_S}
        running = {name: [part for part in heard.running if part.job == job] for name, heard in lately.items()}
        furthest = {partition: part for (owner, partition), part in sorted(self._furthest.items()) if owner == job}
        rows = sum(map(rows_read, furthest.values()))
        self._measure(
            now_s, rows, {name: {part.partition: part.offset for part in mine} for name, mine in running.items()}
        )
        parts = tuple(self._partition(part, running, now_s) for part in furthest.values())
        return Status(
            job=job,
            state="running" if lately else "starting",
            nodes=tuple(self._node(name, heard.pid, running[name]) for name, heard in lately.items()),
            partitions=parts,
            rows_read=rows,
            rows_before=sum(self._first[job, partition] for partition in furthest),
            rows_per_s=self._rate,
            rows_waiting=sum(part.lag for part in furthest.values()),
            windows=max((part.calls for part in furthest.values()), default=0),
            watermark=min((part.watermark for part in furthest.values()), default=None),
            waiting_for=self._waiting_for(job, parts, inputs, bool(lately), now_s),
        )

    def _listen(self) -> float:
        now_s = self._clock.now_s()
        for message in self._heartbeats.read(self._cursor, _HEARTBEATS_MAX):
            heartbeat = decode_heartbeat(message.data)
            self._heard[message.writer] = heartbeat, now_s
            for part in heartbeat.running:
                place = part.job, part.partition
                self._first.setdefault(place, rows_read(part))
                known = self._furthest.get(place)
                self._furthest[place] = newest = part if known is None or known.offset <= part.offset else known
                self._unmoved[place] = _since(self._unmoved.get(place), newest.watermark, now_s)
        return now_s

    def _partition(self, part: Running, running: Mapping[str, Iterable[Running]], now_s: float) -> PartitionStatus:
        owners = (name for name, mine in running.items() if any(other.partition == part.partition for other in mine))
        unmoved_s = now_s - self._unmoved[part.job, part.partition].since_s
        return PartitionStatus(
            part.partition, tuple(owners), _activity(part), rows_read(part), part.lag, part.watermark, unmoved_s
        )

    def _node(self, name: str, process: int, running: Iterable[Running]) -> NodeStatus:
        mine = sorted(running, key=lambda part: part.partition)
        return NodeStatus(
            name=name,
            process=process,
            partitions=tuple(part.partition for part in mine),
            rows_read=sum(map(rows_read, mine)),
            rows_per_s=self._node_rates.get(name, 0.0),
            lag=sum(part.lag for part in mine),
            watermark=min((part.watermark for part in mine), default=None),
        )

    def _waiting_for(
        self,
        job: str,
        parts: tuple[PartitionStatus, ...],
        inputs: Sequence[tuple[str, int]],
        heard: bool,
        now_s: float,
    ) -> WaitingFor | None:
        if not heard:
            at_s, last = max(((at_s, name) for name, (_, at_s) in self._heard.items()), default=(self._began_s, ""))
            silent = f"heartbeats: all nodes have gone silent, {_label(last)} last" if last else "nodes to start"
            return WaitingFor(silent, since_s=now_s - at_s)
        reason, holding, moved = _held_up(parts, PartitionNames(inputs, parts))
        if not reason:
            return None
        dead = self._silent_owners(job, holding, now_s)
        lately = [heartbeat for heartbeat, at_s in self._heard.values() if now_s - at_s < _SILENT_S]
        trouble = next((heartbeat for heartbeat in lately if heartbeat.trouble), None)
        if dead and (moved is None or (trouble is None and self._untouched(job, holding))):
            it, have = "it" if len(holding) == 1 else "them", "has" if len(dead) == 1 else "have"
            reason += f"; {', '.join(map(_label, dead))}, which ran {it}, {have} gone silent"
            reason += ", and what may be the cause is tried one partition at a time" if moved else ""
        if trouble:
            reason += f"; {_label(trouble.node)} cannot go on: {trouble.trouble}"
        self._waiting[job] = mark = _since(self._waiting.get(job), (holding, moved), now_s)
        return WaitingFor(reason, holding, now_s - mark.since_s)

    def _silent_owners(self, job: str, partitions: Collection[int], now_s: float) -> list[str]:
        """Returns the nodes that ran one of these partitions when they fell silent; if they are many, the last ones."""
        silent = sorted(
            (at_s, name)
            for name, (heartbeat, at_s) in self._heard.items()
            if now_s - at_s >= _SILENT_S
            and not heartbeat.leaving
            and any(part.job == job and part.partition in partitions for part in heartbeat.running)
        )
        return [name for _, name in silent[-_NODES_MAX:]]

    def _untouched(self, job: str, partitions: Collection[int]) -> bool:
        """Whether these partitions have rows to read, and their owners do not touch them: they wait for their turn."""
        parts = [self._furthest[job, partition] for partition in partitions]
        return all(part.lag and not (part.touched or part.parked or part.held) for part in parts)

    def _measure(self, now_s: float, rows: int, offsets: dict[str, dict[int, int]]) -> None:
        """Rows per second, over about the last second; a partition that a node has just taken over counts from then on."""
        if self._before is None:
            self._before = now_s, rows, offsets
        since_s, rows_before, before = self._before
        if now_s - since_s >= _RATE_S:
            self._rate = max(rows - rows_before, 0) / (now_s - since_s)
            self._node_rates = {
                name: sum(max(at - before.get(name, {}).get(partition, at), 0) for partition, at in mine.items())
                / (now_s - since_s)
                for name, mine in offsets.items()
            }
            self._before = now_s, rows, offsets


def rows_read(part: Running) -> int:
    """Up to where a node has read a partition; the end itself is no row."""
    return part.offset - (part.watermark >= ENDING)


def _since(known: _Unchanged | None, value: object, now_s: float) -> _Unchanged:
    return known if known is not None and known.value == value else _Unchanged(value, now_s)


def _activity(part: Running) -> Activity:
    if part.finished:
        return "finished"
    return "waiting" if part.parked else "held" if part.held else "idle" if part.idle else "reading"


def _label(node: str) -> str:
    return NodeStatus(node).label


class PartitionNames:
    """What the partitions of a job are called for people: by number, and where they come from if that is known."""

    def __init__(self, inputs: Sequence[tuple[str, int]], parts: Iterable[PartitionStatus]) -> None:
        self._streams = [(stream, number) for stream, count in inputs for number in range(count)]
        self._several = len(inputs) > 1
        self.count = len(self._streams) or 1 + max((part.partition for part in parts), default=-1)

    def one(self, partition: int) -> str:
        """Returns what one partition is called.

        >>> PartitionNames([("bids", 2)], ()).one(1), PartitionNames([("bids", 2), ("users", 1)], ()).one(2)
        ('partition 1 of bids', 'partition 2 (users[0])')
        """
        if partition >= len(self._streams):
            return f"partition {partition}"
        stream, number = self._streams[partition]
        return f"partition {partition} ({stream}[{number}])" if self._several else f"partition {partition} of {stream}"

    def all(self, partitions: Sequence[int]) -> str:
        """Returns what several partitions are called.

        >>> PartitionNames([("bids", 9)], ()).all([0, 1, 2, 3, 7])
        'partitions 0 to 3, 7 of bids'
        >>> PartitionNames([("bids", 2), ("users", 1)], ()).all([0, 2])
        'partitions 0, 2 (bids, users)'
        """
        if len(partitions) == 1:
            return self.one(partitions[0])
        streams = dict.fromkeys(self._streams[number][0] for number in partitions if number < len(self._streams))
        of = f" ({', '.join(streams)})" if self._several else "".join(f" of {stream}" for stream in streams)
        return f"partitions {partitions_text(partitions)}{of}"


def _held_up(parts: tuple[PartitionStatus, ...], names: PartitionNames) -> tuple[str, tuple[int, ...], object]:
    """What the run waits for, the partitions that are the cause, and what must change before it waits no more."""
    owned = {part.partition for part in parts if part.owners or part.activity == "finished"}
    if free := tuple(islice((number for number in range(names.count) if number not in owned), _FREE_MAX)):
        return f"a node to run {names.all(free)}", free, None
    open_parts = [part for part in parts if part.activity != "finished"]
    if not open_parts:
        return "", (), None
    slowest = min(part.watermark for part in open_parts)
    if slowest >= ENDING:
        where = f"{names.all(_all(open_parts))}{_on(open_parts)}"
        return (
            f"the last windows to be emitted: {where} {_verb(open_parts, 'has')} been read",
            _all(open_parts),
            slowest,
        )
    at = f" at {watermark_text(slowest)}" if slowest > BEGINNING else ""
    behind = [part for part in open_parts if part.watermark == slowest and part.activity != "idle"]
    if not behind:
        what = f"{names.all(_all(open_parts))} {_verb(open_parts, 'is')} quiet{at}"
        return f"new rows or the end: {what}", _all(open_parts), slowest
    holding, moved = _all(behind), (slowest, sum(part.rows_read for part in behind))
    lag = sum(part.lag for part in behind)
    if not lag and len(behind) == len(open_parts) and all(part.activity == "reading" for part in behind):
        return f"new rows or the end of {names.all(holding)}{_on(behind)}{at}", holding, moved
    what = f"{_verb(behind, 'has')} {lag:,} rows to read"
    if all(part.activity == "waiting" for part in behind):
        what = f"{_verb(behind, 'waits')} for a window"
    elif not lag:
        what = f"{_verb(behind, 'has')} no new rows" if at else "never had a row"
    held = [other.partition for other in open_parts if other.activity == "held"]
    others = f"; {names.all(held)} {'is' if len(held) == 1 else 'are'} held back until then" if held else ""
    return f"{names.all(holding)}{_on(behind)}{at}, which {what}{others}", holding, moved


def _all(parts: Iterable[PartitionStatus]) -> tuple[int, ...]:
    return tuple(part.partition for part in parts)


def _on(parts: Iterable[PartitionStatus]) -> str:
    """Where partitions run, for people, if that is on few nodes."""
    nodes = sorted({_label(part.owners[0]) for part in parts if part.owners})
    return f" on {', '.join(nodes)}" if 0 < len(nodes) <= _NODES_MAX else ""


def _verb(parts: Sequence[PartitionStatus], verb: str) -> str:
    """Returns a verb in the form that goes with one partition, or with several."""
    return verb if len(parts) == 1 else {"has": "have", "is": "are", "waits": "wait"}[verb]
