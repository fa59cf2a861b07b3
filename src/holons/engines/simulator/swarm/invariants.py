"""Invariants that watch a run step by step. A violation names the invariant and the time at which it was seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from holons import codec
from holons.arrow import python_rows
from holons.engines.simulator.swarm.watch import Watch
from holons.errors import CodecError, WindowTrimmed
from holons.node import Node, read_jobs
from holons.node.finishing import all_finished
from holons.node.job_on_node import JobOnNode
from holons.node.messages import decode_claim
from holons.node.ownership import Owner, Slot
from holons.node.recovery import STATE
from holons.store import Position
from holons.streams import Cursor, ReadableLog
from holons.wcrdt import Delta
from holons.windows import BEGINNING, ENDING, Window

if TYPE_CHECKING:
    from holons.engines.simulator.swarm.run import SwarmRun


_DROPPED_WITHIN_S: Final = 1.5
"""Several turns even of a slow node."""


class _Grown(NamedTuple):
    """What was seen of one partition of a log."""

    log: ReadableLog
    end: int
    pieces: list[tuple[int, pa.RecordBatch | None, int | None]]


class LogsOnlyGrow(Watch):
    """What a log has had once stays as it was: a row has its position for good."""

    name = "logs only grow"

    def __init__(self) -> None:
        self._seen: dict[tuple[Any, ...], _Grown] = {}

    def stepped(self, run: SwarmRun) -> None:
        for key, log in self._logs(run):
            for partition in range(log.partitions):
                place = (*key, partition)
                known = self._seen.get(place) or _Grown(log, 0, [])
                end = log.end(partition)
                self.check(run, end >= known.end, f"{place} went back from {known.end} to {end}")
                if end > known.end:
                    new = [(c.offset, c.rows, c.mark) for c in log.read(partition, known.end, end - known.end)]
                    self._seen[place] = _Grown(log, end, known.pieces + new)

    def at_the_end(self, run: SwarmRun) -> None:
        for place, known in self._seen.items() if not run.lost_unsynced else ():
            start = known.log.start(place[-1])
            for offset, rows, mark in known.pieces:
                if offset < start:
                    continue  # dropped, since nobody needs it
                length = 1 if rows is None else rows.num_rows
                there = known.log.read(place[-1], offset, length)
                self.check(
                    run,
                    [chunk.mark for chunk in there if chunk.rows is None] == [mark] * (rows is None),
                    f"{place} {offset}",
                )
                if rows is not None:
                    now = [row for chunk in there if chunk.rows is not None for row in python_rows(chunk.rows)]
                    self.check(run, codec.encode(now) == codec.encode(python_rows(rows)), f"{place} {offset}")

    def _logs(self, run: SwarmRun) -> Iterator[tuple[tuple[Any, ...], ReadableLog]]:
        if run.lost_unsynced:
            return
        yield from (((stream,), log) for stream, log in run.world.inputs.items())
        yield from run.world.outputs.items()


class OneProducer(Watch):
    """Only the producer that holds a partition of an input is told that rows of its are there."""

    name = "a partition has one producer at a time"

    def __init__(self) -> None:
        self._seen = 0

    def stepped(self, run: SwarmRun) -> None:
        for stream, partition, offset, writer in run.ledger.acknowledged[self._seen :]:
            holder = run.world.inputs[stream].producers[partition].writer
            what = f"{writer} wrote to {offset} of partition {partition} of {stream}, which {holder} holds"
            self.check(run, holder == writer, what)
        self._seen = len(run.ledger.acknowledged)


class OwnersNeverGoBack(Watch):
    """Each node knows ever greater owners of a slot, and each of them has claimed it: so all come to the same map."""

    name = "owners never go back"

    def __init__(self) -> None:
        self._claimed: set[tuple[Slot, Owner]] = set()
        self._cursor: Cursor = {}
        self._known: dict[str, dict[Slot, Owner]] = {}

    def stepped(self, run: SwarmRun) -> None:
        if "control" in run.world.hubs:
            for message in run.world.hubs["control"].read(self._cursor, 1_000):
                claim = decode_claim(message.data)
                self.check(run, claim.node == message.writer, f"{message.writer} claims for {claim.node}")
                self._claimed.add(((claim.job, claim.partition, claim.slot), Owner(claim.epoch, claim.node)))

    def ticked(self, run: SwarmRun, node: Node) -> None:
        self.stepped(run)
        known, owners = self._known.get(node.name, {}), node.ownership.owners()
        for slot, owner in owners.items() if owners != known else ():
            before = known.get(slot, owner)
            self.check(run, owner >= before, f"{node.name} knew {before} as owner of {slot}, and now {owner}")
            self.check(run, (slot, owner) in self._claimed, f"{node.name} knows {owner} of {slot}, who claimed nothing")
        self._known[node.name] = owners


class ProgressNeverGoesBack(Watch):
    """As long as a run of a partition lives it only moves on; and so does a replica."""

    name = "progress never goes back"

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str, int], tuple[object, tuple[int, ...]]] = {}
        self._states: dict[tuple[str, str], tuple[object, tuple[int, ...]]] = {}

    def ticked(self, run: SwarmRun, node: Node) -> None:
        for name, here in node.jobs.items():
            marks = tuple(at for stage in here.state.progress for at in stage)
            self._compare(run, self._states, (node.name, name), here.state, marks)
            for partition, tasklet in here.tasklets.items():
                at = tasklet.run.progress
                reached = (at.offset, at.read_to, at.watermark, at.sealed_to, at.calls, *at.emitted_to)
                self._compare(run, self._runs, (node.name, name, partition), tasklet, reached)

    def _compare(self, run: SwarmRun, kept: dict[Any, Any], key: object, of: object, reached: tuple[int, ...]) -> None:
        before, was = kept.get(key, (None, ()))
        if before is of and was != reached:
            self.check(
                run, all(new >= old for new, old in zip(reached, was, strict=True)), f"{key}: {was}, then {reached}"
            )
        kept[key] = of, reached


class RecordsAreCovered(Watch):
    """A record is stored only after the outputs and the deltas that it relies on (invariant: covering checkpoints)."""

    name = "records are covered by logs"

    def __init__(self) -> None:
        self._seen: set[tuple[str, Position]] = set()
        self._cursors: dict[str, Cursor] = {}
        self._sealed: dict[tuple[str, int], int] = {}

    def stepped(self, run: SwarmRun) -> None:
        if run.lost_unsynced or run.world.grid is not None:
            return
        self._read_deltas(run)
        for name, version, partition, kind in _partition_records(run):
            for position in run.world.records.positions(name):
                if (name, position) not in self._seen and (data := run.world.whole_record(name, position)) is not None:
                    self._seen.add((name, position))
                    self._check(run, name, version, partition, kind, position, data)

    def _check(
        self, run: SwarmRun, name: str, version: str, partition: int, kind: str, position: Position, data: bytes
    ) -> None:
        job = run.job_of(version)
        header = (job.process_header if kind == "process" else job.window_header)(data)
        for channel, rows in header.ordinals.items() if not run.drawn.settings.appends else ():
            log = run.world.outputs.get((version, channel))
            end = 0 if log is None else log.end(partition)
            self.check(run, end >= rows, f"{name} at {position} relies on {rows} rows of {channel}, which has {end}")
        if kind == "process" and position[1] > BEGINNING:
            sealed_to = self._sealed.get((version, partition), BEGINNING)
            self.check(run, sealed_to >= position[1], f"{name} at {position}: deltas reach {sealed_to} only")

    def _read_deltas(self, run: SwarmRun) -> None:
        """Notes how far the deltas of stage 0 reach, by version and partition, before anybody trims them."""
        for stream, hub in run.world.hubs.items():
            kind, _, version = stream.partition("-")
            for message in hub.read(self._cursors.setdefault(stream, {}), 100_000) if kind == "sync" else ():
                delta = _delta(message.data)
                if delta is not None and delta.stage == 0:
                    place = version, delta.partition
                    self._sealed[place] = max(self._sealed.get(place, BEGINNING), delta.end)


class TrimmedOnlyWhatNobodyNeeds(Watch):
    """A node that joins finds a replica that the sync stream continues; and what records need is in every replica."""

    name = "only what nobody needs is trimmed"

    def look(self, run: SwarmRun) -> None:
        if run.lost_unsynced or run.world.grid is not None:
            return
        for version in run.versions():
            hub = run.world.hubs.get(f"sync-{version}")
            starts = {} if hub is None else hub.starts()
            if any(starts.values()):
                cursors = [STATE.header(data).cursor for _, data in run.whole_records(f"{version}/replica")]
                served = any(all(cursor.get(name, 0) >= at for name, at in starts.items()) for cursor in cursors)
                self.check(
                    run, served, f"the sync stream of {version} begins at {starts}, its replicas go to {cursors}"
                )
            for member in run.members:
                if member.node is not None and version in member.node.jobs:
                    self._check_served(run, member.node, version)

    def _check_served(self, run: SwarmRun, node: Node, version: str) -> None:
        here = node.jobs[version]
        for partition in range(len(here.places)):
            window = run.whole_records(f"{version}/{partition}/window")[-1:]
            process = run.whole_records(f"{version}/{partition}/process")[-1:]
            if window and process:
                (_, sealed_to, *counted_to), (_, *emitted_to) = process[0][0], window[0][0]
                served = here.state.serves(here.job.sealed_by_clock(sealed_to, counted_to), emitted_to)
                self.check(run, served, f"{node.name} has trimmed what partition {partition} of {version} resumes from")


class NothingFollowsTheEnd(Watch):
    """Once a node takes a job for finished, all of its outputs are there (finished is a fact about outputs)."""

    name = "finished only if outputs are complete"

    def __init__(self) -> None:
        self._ends: dict[str, dict[str, list[int]]] = {}

    def ticked(self, run: SwarmRun, node: Node) -> None:
        for name, here in node.jobs.items():
            if name not in self._ends and all_finished(here):
                self._ends[name] = self._ends_of(run, name)

    def at_the_end(self, run: SwarmRun) -> None:
        if run.drawn.settings.appends or run.lost_unsynced:
            return
        for name, ends in self._ends.items():
            now = self._ends_of(run, name)
            self.check(run, now == ends, f"outputs of {name} were {ends} when a node took it for finished; now {now}")

    def _ends_of(self, run: SwarmRun, name: str) -> dict[str, list[int]]:
        logs = ((channel, log) for (job, channel), log in run.world.outputs.items() if job == name)
        return {channel: [log.end(partition) for partition in range(log.partitions)] for channel, log in logs}


class DecisionsAgree(Watch):
    """All nodes know the same decisions about jobs in the same order, and of a job one version runs at the most.

    Nodes run nothing else: they get the code of versions that were decided, and drop those of which they know the end.
    """

    name = "decisions agree"

    def __init__(self) -> None:
        self._since_s: dict[tuple[str, str], float] = {}
        """By node and version, since when a node runs what it knows to be stopped."""

    def ticked(self, run: SwarmRun, node: Node) -> None:
        """A node drops a job the next time that it listens, which it does as soon as the logs answer."""
        world, number = run.world, int(node.name.partition("#")[0].partition("-")[2])
        answers = world.log_down_until_s < world.now_s and number not in world.without_logs
        for version in set(node.jobs) & set(node.stopped):
            key = node.name, version
            since_s = self._since_s[key] = self._since_s.get(key, world.now_s) if answers else world.now_s
            what = f"{node.name} goes on with {version}, which it knows to be stopped"
            self.check(run, world.now_s - since_s < _DROPPED_WITHIN_S, what)

    def look(self, run: SwarmRun) -> None:
        if run.lost_unsynced:
            return
        jobs = read_jobs(run.world.decided)
        versions, stopped = list(jobs.versions), list(jobs.stopped)
        names = [version.name for version in jobs.versions.values() if version.id not in jobs.stopped]
        self.check(run, len(names) == len(set(names)), f"several versions run: {names}")
        strangers = set(run.assigned()) - set(versions) if run.drawn.drivers else set()
        self.check(run, not strangers, f"nodes were given the code of {strangers}, which nobody decided to run")
        for member in run.members:
            if member.node is not None:
                known = list(member.node.stopped)
                what = f"{member.node.name} knows {known} as stopped, the journal says {stopped} of {versions}"
                if (
                    run.world.decided.start(0) > 0
                ):  # a summary has an order of its own, and leaves out who ended long ago
                    self.check(run, jobs.versions.keys() & set(known) <= set(stopped), what)
                else:
                    self.check(run, known == stopped[: len(known)], what)


class CompletedWindowsAgree(Watch):
    """A window that a node takes for completed has the same value on each node, and keeps it (complete before read)."""

    name = "completed windows agree"

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, Window], bytes] = {}

    def look(self, run: SwarmRun) -> None:
        for member in run.members:
            for here in member.node.jobs.values() if member.node is not None and not run.lost_unsynced else ():
                for handle in here.job.layout.handles:
                    reached = min(here.state.progress[handle.stage])
                    if handle.shared and handle.window.known_ahead and BEGINNING < reached < ENDING:
                        spec = handle.window.aligned
                        window = spec.window(spec.last_ended(reached))
                        if window.end <= reached:  # else no count window has ended yet: the first begins at rank 0
                            self._look_at(run, here, handle.name, window)

    def _look_at(self, run: SwarmRun, here: JobOnNode, handle: str, window: Window) -> None:
        try:
            value = codec.encode(repr(here.peek(handle, window)))
        except WindowTrimmed:
            return
        known = self._values.setdefault((here.name, handle, window), value)
        self.check(
            run, known == value, f"{handle} of {window} is {value!r} on {here.ports.control.writer}, was {known!r}"
        )


def _delta(message: bytes) -> Delta | None:
    """Returns a message of the sync stream as a delta; None if it is another one, of a count window."""
    try:
        return Delta.decode(message)
    except CodecError:
        return None


def _partition_records(run: SwarmRun) -> Iterator[tuple[str, str, int, str]]:
    """Yields the records of partitions: name, version, partition and kind."""
    for name in run.world.records.names():
        version, *rest = name.split("/")
        if len(rest) == 2:
            yield name, version, int(rest[0]), rest[1]


def invariants() -> list[Watch]:
    """Returns those who watch one run."""
    return [
        LogsOnlyGrow(),
        OneProducer(),
        OwnersNeverGoBack(),
        ProgressNeverGoesBack(),
        RecordsAreCovered(),
        TrimmedOnlyWhatNobodyNeeds(),
        NothingFollowsTheEnd(),
        DecisionsAgree(),
        CompletedWindowsAgree(),
    ]
