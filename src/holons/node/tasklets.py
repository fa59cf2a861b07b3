"""One job on one node: its replica, and a tasklet for each partition that runs here.

A tasklet does a bounded slice of work and never blocks. What it has to write waits until it is written: a log that does
not answer delays a partition, and loses nothing.
"""

from __future__ import annotations

import sys
import zlib
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from holons import codec
from holons.errors import CheckpointLost, CodecError, LogUnavailable, RecordDamaged, StoreUnavailable, WrongScope
from holons.node.pace import Pace
from holons.node.ports import Ports, partitions_of
from holons.node.previews import PreviewExchange
from holons.node.recovery import Checkpoints, past, whole_records
from holons.node.settings import Settings
from holons.node.skew import ahead, owes_windows
from holons.program import Cut, Job, Output, PartitionRun
from holons.program.calls import check_peekable
from holons.store import Position
from holons.streams import Chunk, Cursor, InputLog, WritableLog, joined
from holons.wcrdt import Applied, Delta, Replica
from holons.windows import BEGINNING, ENDING, Window

_REST = 10.0  # so many times as long as storing something took, it is not stored again
_SNAPSHOT_WORTH = 4.0  # nor before so many times as many bytes came as were stored,
_SNAPSHOT_FREE = 1 << 20  # of which so many cost as good as nothing
_ROWS_FIRST = 8192
_CALLS_FIRST = 32


class JobOnNode:
    """A job's replica on this node, kept up to date from the sync stream."""

    def __init__(self, name: str, job: Job, ports: Ports, settings: Settings, cuts: Sequence[Cut] = ()) -> None:
        self.name = name
        self.job = job
        self.cuts = cuts
        self.ports = ports
        self.settings = settings
        self.places = partitions_of(job, ports.input)
        self.sync = ports.sync(name)
        self.tasklets: dict[int, PartitionTasklet] = {}
        self.idle: set[int] = set()
        """Partitions that those of their live owners who have read the most call idle."""
        self.replica, self.cursor = self._newest_replica()
        self.previews = PreviewExchange(self)
        self.trim_soon = False
        self.lost: CheckpointLost | None = None
        """Why a partition that belongs here cannot start."""
        self._since_snapshot = 0
        self._snapshot_at_s = float("-inf")
        self._snapshot_s = 0.0
        self._snapshot_bytes = self._bytes_since = 0
        self._cursors: dict[Position, Cursor] = {}
        self._stored_last: Position | None = None

    def listen(self) -> bool:
        """Takes in what others have sealed; says whether there was anything.

        Whether all of it was still there is asked after it was read: somebody may trim the stream at any moment, and to
        read goes on behind what is gone.
        """
        cursor = dict(self.cursor)
        messages = self.sync.read(cursor, self.settings.messages_max)
        if any(start > self.cursor.get(writer, 0) for writer, start in self.sync.starts().items()):
            self._rejoin()
            return True
        self.cursor = cursor
        for message in messages:
            if self.replica.apply(Delta.decode(message.data)) is Applied.NEW:
                self._since_snapshot += 1
                self._bytes_since += len(message.data)
        self.previews.exchange()
        return bool(messages)

    def peek(self, handle: str, window: Window) -> Any:  # noqa: ANN401 - whatever the aggregate's value is
        """UNSAFE, for people to look at: what this node knows of a window of a shared handle now; None if nothing.

        The value if it is completed (`WindowTrimmed` if it is gone), else what is sealed and previewed of it.
        """
        shared = {one.name: index for index, one in enumerate(self.job.layout.handles) if one.shared}
        if handle not in shared:
            raise WrongScope(f"{self.name} has no shared handle {handle!r}", hint=f"it has {', '.join(shared)}")
        check_peekable(self.job.layout.handles[shared[handle]], window)
        return self.replica.peek(shared[handle], window, preview=True)

    def _rejoin(self) -> None:
        """What I have not read is gone from the stream: starts from a snapshot.

        It may lack what partitions here still need, so they start from their newest records, which do not.
        """
        self.replica, self.cursor = self._newest_replica()
        partitions = list(self.tasklets)
        self.tasklets.clear()  # if a log or the store does not answer now, none goes on with what it had
        for partition in partitions:
            self.start(partition)

    def _newest_replica(self) -> tuple[Replica, Cursor]:
        starts = self.sync.starts()
        for _, (cursor, snapshot) in whole_records(self.ports.store, f"{self.name}/replica"):
            if _goes_on(cursor, starts):
                return Replica(self.job.layout.handles, len(self.places), snapshot), dict(cursor)
        if any(starts.values()):
            raise CheckpointLost(
                f"{self.name}: the sync stream was trimmed, and no snapshot of a replica reaches back so far",
                hint="restore the checkpoint store, or resubmit the job",
            )
        return Replica(self.job.layout.handles, len(self.places)), {}

    def _durable_cursors(self, first: Position) -> list[Cursor]:
        """Where the durable snapshots from a position on go on that are whole and of use, oldest first."""
        name, store, starts = f"{self.name}/replica", self.ports.store, self.sync.starts()
        known, self._cursors = self._cursors, {}
        for position in store.durable(name):
            with suppress(RecordDamaged, CodecError):  # torn, or gone by now
                self._cursors[position] = known.get(position) or codec.decode(store.get(name, position))[0]
        return [cursor for at, cursor in sorted(self._cursors.items()) if at >= first and _goes_on(cursor, starts)]

    def snapshot(self) -> None:
        """Stores the replica, and lets go of the part of the sync stream before the one that this node stored last time.

        What is newer may be news to others: who has not read what is trimmed must begin again from a snapshot. All that
        are kept still go on: two at least.
        Never while deltas wait for a missing one: the cursor is past them, and the snapshot would not hold them. A large
        replica takes long to store, and is stored less often: it is for those who join, and must not cost the others much.
        """
        now_s = self.ports.clock.now_s()
        rest_s = max(self.settings.checkpoint_s, _REST * self._snapshot_s)
        worth = self._bytes_since >= _SNAPSHOT_WORTH * (self._snapshot_bytes - _SNAPSHOT_FREE)
        if self._since_snapshot < self.settings.snapshot_deltas or not worth or now_s - self._snapshot_at_s < rest_s:
            return
        if self.replica.gaps():
            return
        name, store, position = f"{self.name}/replica", self.ports.store, self._snapshot_position()
        data = codec.encode([self.cursor, self.replica.snapshot()])
        store.put(name, position, data)
        self._cursors[position] = dict(self.cursor)
        self._since_snapshot, self._bytes_since, self._snapshot_bytes, self._snapshot_at_s = 0, 0, len(data), now_s
        before, self._stored_last = self._stored_last, position
        kept = self._durable_cursors(before) if before is not None else []
        if before is not None and len(kept) >= 2:
            self.sync.trim({writer: min(cursor.get(writer, 0) for cursor in kept) for writer in kept[0]})
            store.drop(name, before)
        self._snapshot_s = self.ports.clock.now_s() - now_s

    def _snapshot_position(self) -> Position:
        """Nobody else stores one there: others may have read as much, but not the same."""
        return sum(self.cursor.values()), zlib.crc32(self.sync.writer.encode())

    def start(self, partition: int) -> PartitionTasklet:
        """Begins to run a partition, from its newest checkpoint."""
        tasklet = self.tasklets[partition] = PartitionTasklet(self, partition)
        return tasklet

    def stop(self, partition: int) -> None:
        """No longer runs a partition; somebody else does."""
        self.tasklets.pop(partition, None)


def _goes_on(cursor: Cursor, starts: Cursor) -> bool:
    """Whether the sync stream still has all that follows a snapshot."""
    return all(cursor.get(writer, 0) >= start for writer, start in starts.items())


class PartitionTasklet:
    """One partition of a job, run here."""

    def __init__(self, here: JobOnNode, partition: int) -> None:
        self.here = here
        self.partition = partition
        index, self._place = here.places[partition]
        self._input: InputLog = here.ports.input(here.job.inputs[index].stream)
        self._columns = here.job.inputs[index].reads
        self.checkpoints = Checkpoints(here.ports.store, here.name, partition)
        bounds = (self._input.start(self._place), self._input.end(self._place))
        records = self.checkpoints.load(bounds, self._written_to)
        cut = here.cuts[partition] if partition < len(here.cuts) else None
        self.run = PartitionRun(here.job, partition, len(here.places), input_index=index, resume=records, cut=cut)
        self._check_served()
        self.stored_to = BEGINNING
        self.emitted_to: tuple[int, ...] = (BEGINNING,) * here.job.layout.stages
        self.suspicion, self.suspect_to = 0, 0
        """How many owners may have died of it, before they got beyond which offset."""
        self.quiet = False
        """Whether there was nothing to do the last time."""
        self.handed_over_at: tuple[int, int] | None = None
        """How far it was, in rows and windows, when it came to belong to somebody else."""
        self._rows = Pace(_ROWS_FIRST, here.settings.rows_max)
        self._calls = Pace(_CALLS_FIRST, here.settings.calls_max)
        self._behind = False
        """Whether more windows may wait than could be emitted the last time: they come before more rows."""
        self._stored: object = None
        self._outputs: deque[Output] = deque()
        self._deltas: deque[Delta] = deque()
        self._stored_at_s = here.ports.clock.now_s()
        self._storing_s = 0.0
        self.idle = False
        """Whether no row has come for so long that the others should not wait."""
        self._quiet_since_s: float | None = None

    def _check_served(self) -> None:
        """Never wrong rows: a run that would read what was trimmed does not begin."""
        layout, sealed_to = self.here.job.layout, self.run.process.state.sealed_to
        processed = [layout.reach(stage, sealed_to) for stage in range(layout.stages)]
        emitted_to = self.run.window.emitted_to
        if not self.here.replica.serves(processed, emitted_to) or not past(emitted_to, self.run.process.forgotten_to):
            raise CheckpointLost(
                f"{self.here.name}: partition {self.partition} would need windows that were trimmed",
                hint="its newest records are gone: restore the checkpoint store, or resubmit the job",
            )

    @property
    def offset(self) -> int:
        return self.run.process.state.offset

    @property
    def lag(self) -> int:
        """How many rows wait to be read."""
        return self._input.end(self._place) - self.run.process.read_to

    @property
    def held(self) -> bool:
        """Whether it waits for slower partitions before it reads on (invariant: bounded skew)."""
        max_ahead_us = self.here.settings.max_ahead_us
        return max_ahead_us is not None and ahead(self.run, self.here.replica, max_ahead_us)

    def _waits(self) -> bool:
        """Whether it reads nothing now: it has rows at hand, or windows to emit, or is held."""
        if self.run.parked is not None or self.held:
            self._watch(quiet=False)  # it waits for others, so they must not take it for idle
            return True
        max_ahead_us = self.here.settings.max_ahead_us
        owes = max_ahead_us is not None and owes_windows(self.run, self.here.replica, max_ahead_us)
        return owes or self._behind or self.run.process.busy

    @property
    def finished(self) -> bool:
        done = not (self._outputs or self._deltas or self.run.process.busy)
        return done and all(limit == ENDING for limit in self.run.window.emitted_to)

    def tick(self) -> bool:
        """A slice of work; says whether anything happened."""
        if not self._write():
            self._watch(quiet=False)
            return False
        try:
            happened = self._process()
            happened |= self._emit()
        finally:  # a program that fails has put out what came before
            self._drain()
            self._write()
        self.quiet = not happened
        if self.quiet or self.offset > self.suspect_to:
            self.suspicion = 0
        return happened

    def _process(self) -> bool:
        clock, read_to = self.here.ports.clock, self.run.process.read_to
        began_s, worked_s = clock.now_s(), clock.worked_s()
        happened = self._read()
        happened |= self.run.process.work(self.here.replica)
        self._rows.learn(self.run.process.read_to - read_to, clock.worked_s() - worked_s, clock.now_s() - began_s)
        return happened

    def _emit(self) -> bool:
        clock, calls = self.here.ports.clock, self.run.window.calls
        began_s, worked_s = clock.now_s(), clock.worked_s()
        happened = self.run.emit(self.here.replica, self._calls.size)
        done = self.run.window.calls - calls
        self._behind = done >= self._calls.size
        if self.checkpoints.prompt:
            self.run.process.forget(self.run.window.emitted_to)
        self._calls.learn(done, clock.worked_s() - worked_s, clock.now_s() - began_s)
        return happened

    def _drain(self) -> None:
        outputs, deltas = self.run.drain()
        self._outputs.extend(outputs)
        self._deltas.extend(deltas)

    def _read(self) -> bool:
        if self._waits():
            return False
        try:
            read_to, rows_max = self.run.process.read_to, self._rows.size
            chunks = _aligned(self._input.read(self._place, read_to, rows_max, self._columns))
            self._watch(quiet=all(chunk.rows is None for chunk in chunks))
            if self.idle and not chunks:
                self._mark_idle()
        except LogUnavailable:
            self._watch(quiet=False)
            return False
        for offset, rows, mark, whole in joined(chunks):
            if rows is None:
                assert mark is not None
                self.run.mark(mark, offset)
            else:
                self.run.feed(rows, offset, whole)
        return bool(chunks)

    def _watch(self, *, quiet: bool) -> None:
        """Idle is who has read to the end of its log, and gone on finding no row there for long enough.

        A partition that waits for a window has read a row, and is not idle; nor does an outage count.
        """
        idle_s, now_s = self.here.settings.idle_s, self.here.ports.clock.now_s()
        if not quiet:
            self._quiet_since_s = None
        elif self._quiet_since_s is None:
            self._quiet_since_s = now_s
        self.idle = idle_s is not None and self._quiet_since_s is not None and now_s - self._quiet_since_s > idle_s

    def _mark_idle(self) -> None:
        """Moves an idle partition up to the last of the others that are not: in its own log, for everyone to see.

        No mark if that moves nothing, or if all others are idle or have ended. If the log has moved on meanwhile, there
        is none either: whatever came is read first.
        """
        progress, idle = self.here.replica.progress[0], self.here.idle | {self.partition}
        target = min(
            (at for number, at in enumerate(progress) if number not in idle and at < ENDING), default=BEGINNING
        )
        if target > self.run.process.watermark:
            self._input.mark(self._place, target)

    def _write(self) -> bool:
        """Writes what waits: outputs, then deltas. False if a log does not answer."""
        try:
            while self._outputs:
                self._put(self._outputs[0])
                self._outputs.popleft()
            while self._deltas:
                self.here.sync.append(self._deltas[0].encode())
                self._deltas.popleft()
        except LogUnavailable:
            return False
        return True

    def _put(self, output: Output) -> None:
        log, at = self._output(output.channel), output.ordinal
        for batch in output.table.to_batches():
            assert isinstance(batch, pa.RecordBatch)
            if self._positioned:
                log.put(output.partition, at, batch)
            else:
                log.append(output.partition, batch)
            at += batch.num_rows

    @property
    def _positioned(self) -> bool:
        return self.here.settings.guarantee == "exactly-once"

    def _written_to(self, channel: str) -> int:
        """Up to which ordinal an output is there. Where ordinals are no positions, a record's word must do."""
        return self._output(channel).end(self.partition) if self._positioned else sys.maxsize

    def _output(self, channel: str) -> WritableLog:
        return self.here.ports.output(self.here.name, channel, len(self.here.places))

    def checkpoint(self, *, now: bool = False) -> None:
        """Stores where this partition is, now and then; then what nobody needs any more may go.

        Much state takes long to store, and is stored less often: what comes back after a failure is worth a part of the
        time, not all of it.
        """
        now_s = self.here.ports.clock.now_s()
        rest_s = _REST * self._storing_s * len(self.here.tasklets)  # all of them together take so small a part
        due = now or now_s - self._stored_at_s >= max(self.here.settings.checkpoint_s, rest_s)
        if not due or not self._write():
            return
        process, window = self.run.process.state, self.run.window
        reached = (process.offset, process.sealed_to, window.calls, tuple(window.emitted_to))
        try:
            if reached != self._stored and self.checkpoints.save(self.run):
                self._stored = reached
            floors = self.checkpoints.floors()
        except StoreUnavailable:
            return
        self._stored_at_s = self.here.ports.clock.now_s()
        self._storing_s = self._stored_at_s - now_s
        self.here.trim_soon = True
        if floors is not None:
            self.stored_to, self.emitted_to = floors
            stages = zip(self.emitted_to, self.run.window.emitted_to, strict=True)
            self.run.process.forget([min(stage) for stage in stages])  # this run may lag behind others


def _aligned(chunks: list[Chunk]) -> list[Chunk]:
    """What to take of a read: not the last chunk if it is cut, so that the next begins with it.

    Reads that grew from small ones lie across the log's values, and would for good: each would be handled in two parts.
    """
    return chunks[:-1] if len(chunks) > 1 and chunks[-1].cut else chunks
