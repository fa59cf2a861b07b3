"""One partition of a job, run on this node: a tasklet that does a bounded slice of work per turn and never blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holons.errors import CheckpointLost, LogUnavailable, RowsTrimmed, StoreUnavailable
from holons.node.idle import LIVE_IDLE_S, Idleness, furthest, mark_beside_active
from holons.node.messages import Running
from holons.node.outbox import Outbox
from holons.node.pace import Pace
from holons.node.recovery import Checkpoints, Forget, Reached, past, stream_lost
from holons.node.skew import ahead, owes_windows
from holons.node.state_keeper import REST_RATIO
from holons.program import Cut
from holons.streams import Chunk, InputLog, joined
from holons.windows import BEGINNING, ENDING

if TYPE_CHECKING:
    from holons.node.job_on_node import JobOnNode

_FIRST_ROWS = 8192
_FIRST_CALLS = 32


class PartitionTasklet:
    """Reads a partition's log, runs the program over it, and writes and stores what comes of it."""

    def __init__(self, here: JobOnNode, partition: int, forget: Forget = "nothing") -> None:
        self.here = here
        self.partition = partition
        index, self._place = here.places[partition]
        self._input: InputLog = here.ports.input(here.job.inputs[index].stream)
        self._source = here.job.inputs[index]
        cut = here.cuts[partition] if partition < len(here.cuts) else Cut()
        self.checkpoints = Checkpoints(here.ports.store, here.name, partition, here.job, cut.begin)
        self.outbox = Outbox(here, partition)
        records = self.checkpoints.load(self._input_bounds, self.outbox.written_to, forget)
        self.run = here.job.open_run(partition, len(here.places), input_index=index, resume=records, cut=cut)
        self._check_served(forget)
        progress = self.run.progress
        self.durable = Reached(
            BEGINNING, (BEGINNING,) * len(progress.counted_to), (BEGINNING,) * len(progress.emitted_to)
        )
        """What its durable records have passed."""
        self.suspicion, self.suspect_to = 0, 0
        """How many owners may have died of it, before they got beyond which offset."""
        self.quiet = False
        """Whether there was nothing to do the last time."""
        self.handed_over_at: tuple[int, int] | None = None
        """How far it was, in rows and windows, when it came to belong to somebody else."""
        self._rows = Pace(_FIRST_ROWS, here.settings.rows_max)
        self._calls = Pace(_FIRST_CALLS, here.settings.calls_max)
        self._behind = False
        """Whether more windows may wait than could be emitted the last time: they come before more rows."""
        self._idleness = Idleness()
        self._stored: object = None
        self._stored_at_s = here.ports.clock.now_s()
        self._storing_s = 0.0

    def _input_bounds(self) -> tuple[int, int]:
        return self._input.start(self._place), self._input.end(self._place)

    def _check_served(self, forget: Forget) -> None:
        """Never wrong rows: a run that would read what was trimmed does not begin."""
        here, run = self.here, self.run.progress
        processed = here.job.sealed_by_clock(run.sealed_to if here.job.awaits else ENDING, run.counted_to)
        served = here.state.serves(processed, run.emitted_to)
        if forget != "nothing" and not served:
            raise stream_lost(f"{here.name}: partition {self.partition}", "windows that it awaits were trimmed")
        if not served or not past(run.emitted_to, run.forgotten_to):
            raise CheckpointLost(
                f"{self.here.name}: partition {self.partition} would need windows that were trimmed",
                hint="its newest records are gone: restore the checkpoint store, or resubmit the job",
            )

    @property
    def offset(self) -> int:
        """The offset up to which its rows are processed."""
        return self.run.progress.offset

    @property
    def lag(self) -> int:
        """How many rows wait to be read."""
        return self._input.end(self._place) - self.run.progress.read_to

    @property
    def idle(self) -> bool:
        """Whether no row has come for so long that the others should not wait."""
        return self._idleness.idle

    @property
    def event_time(self) -> int:
        """What event time is by now, by its live rows and the time that has passed since; `BEGINNING` if no row was live.

        It is the time of the log, which is when the newest row was appended and how long ago that is, less the longest
        delay with which live rows came lately, and less the disorder that they may have. So no row is late that comes as
        punctually as those before.
        """
        run = self.run.progress
        if not run.delays.known:
            return BEGINNING
        now_us = run.appended + round(self._idleness.quiet_s * 1_000_000)
        return now_us - run.delays.longest - self._source.disorder_us

    @property
    def held(self) -> bool:
        """Whether it waits for slower partitions before it reads on (invariant: bounded skew)."""
        settings, run, others = self.here.settings, self.run.progress, self.here.slowest.beside(self.partition)
        if run.rows_held > settings.ledger_rows and run.reached > others:
            return True
        return settings.max_ahead_us is not None and ahead(run, others, self.here.state, settings.max_ahead_us)

    @property
    def finished(self) -> bool:
        """Whether its input has ended, and everything of it is written."""
        run = self.run.progress
        return not (self.outbox or run.busy) and all(limit == ENDING for limit in run.emitted_to)

    def report(self, slot: int, epoch: int, *, touched: bool) -> Running:
        """What a heartbeat says of it; `touched` is whether the node is about to work on it."""
        run = self.run.progress
        return Running(
            job=self.here.name,
            partition=self.partition,
            slot=slot,
            epoch=epoch,
            offset=run.offset,
            calls=run.calls,
            idle=self.idle,
            parked=run.parked,
            stored_to=self.durable.sealed_to,
            counted_to=self.durable.counted_to,
            emitted_to=self.durable.emitted_to,
            lag=self.lag,
            watermark=run.watermark,
            touched=touched,
            finished=self.finished,
            held=self.held,
            ordinals=self.run.ordinals if self.finished else {},
            appended=run.appended,
            event_time=self.event_time,
        )

    # --- a slice of work -------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """A slice of work; says whether anything happened."""
        if not self.outbox.write():
            self._observe(quiet=False)
            return False
        try:
            happened = self._process()
            happened |= self._emit()
        finally:  # a program that fails has emitted what came before
            self.outbox.add(*self.run.drain())
            self.outbox.write()
        self.quiet = not happened
        if self.quiet or self.offset > self.suspect_to:
            self.suspicion = 0
        return happened

    def _process(self) -> bool:
        clock, read_to = self.here.ports.clock, self.run.progress.read_to
        began_s, worked_s = clock.now_s(), clock.worked_s()
        happened = self._read()
        happened |= self.run.work(self.here.state)
        self._rows.learn(self.run.progress.read_to - read_to, clock.worked_s() - worked_s, clock.now_s() - began_s)
        return happened

    def _emit(self) -> bool:
        clock, calls = self.here.ports.clock, self.run.progress.calls
        began_s, worked_s = clock.now_s(), clock.worked_s()
        happened = self.run.emit(self.here.state, self._calls.size)
        done = self.run.progress.calls - calls
        self._behind = done >= self._calls.size
        if self.checkpoints.prompt:
            self.run.forget(self.run.progress.emitted_to)
        self._calls.learn(done, clock.worked_s() - worked_s, clock.now_s() - began_s)
        return happened

    # --- reading ---------------------------------------------------------------------------------------------------

    def _read(self) -> bool:
        if self._waits():
            return False
        try:
            read_to, rows_max = self.run.progress.read_to, self._rows.size
            chunks = aligned(self._input.read(self._place, read_to, rows_max, self._source.reads))
            if chunks and chunks[0].offset > read_to and self._input.start(self._place) > read_to:
                raise RowsTrimmed(
                    f"{self.here.name}: rows from {read_to} on are not kept any more",
                    hint="newer records of the partition cover them",
                    partition=self.partition,
                )
            self._observe(quiet=all(chunk.rows is None for chunk in chunks))
            if self.idle and not chunks:
                self._mark_idle()
        except LogUnavailable:
            self._observe(quiet=False)
            return False
        for offset, rows, mark, whole, appended in joined(chunks):
            if rows is None:
                assert mark is not None
                self.run.mark(mark, offset)
            else:
                self.run.feed(rows, offset, whole, appended)
        return bool(chunks)

    def _waits(self) -> bool:
        """Whether it reads nothing now: it has rows at hand, or windows to emit, or is held."""
        run = self.run.progress
        if run.parked or self.held:
            self._observe(quiet=False)  # it waits for others, so they must not take it for idle
            return True
        max_ahead_us = self.here.settings.max_ahead_us
        if self._behind or run.busy or max_ahead_us is None:
            return self._behind or run.busy
        return owes_windows(self.run, self.here.slowest.beside(self.partition), max_ahead_us)

    def _observe(self, *, quiet: bool) -> None:
        self._idleness.observe(self.here.ports.clock.now_s(), self._idle_after_s() if quiet else None, quiet=quiet)

    def _idle_after_s(self) -> float | None:
        """After how long without rows it is idle; None: never. By default that depends on whether its rows are live.

        Of a partition that never had a row nobody knows; it is taken for live if others of the job are.
        """
        setting = self.here.settings.idle_s
        if setting != "auto":
            return setting
        run = self.run.progress
        live = run.delays.known or (not run.appended and self.here.live)
        return LIVE_IDLE_S if live else None

    def _mark_idle(self) -> None:
        """Moves an idle partition up: in its own log, for everyone to see.

        While other partitions are not idle, up to the last of those; by default not beyond what its own rows say of event
        time. If all are idle, event time itself closes windows that are open, and then stands still. There is no mark if
        that moves nothing. If the log has moved on meanwhile, there is none either: whatever came is read first.
        Where rows are counted, others move with every row, and not only from window to window: then marks are rare.
        """
        here = self.here
        reached, counts = here.state.reached, bool(self.run.progress.counted_to)
        mark = mark_beside_active(reached, here.idle.partitions | {self.partition})
        if mark is None:
            mark = here.job.sealed_by_clock(here.idle.event_time, self.run.progress.counted_to)[0]
            if not self.run.closes_windows(
                here.state, mark
            ):  # others have open ones and have gone ahead, or count rows
                mark = min(here.idle.event_time if counts else mark, furthest(reached))
        elif here.settings.idle_s == "auto" and self.run.progress.delays.known:
            mark = min(mark, self.event_time)
        now_s = here.ports.clock.now_s()
        if mark > self.run.progress.watermark and (
            not counts or self._idleness.rested(now_s, here.settings.heartbeat_s)
        ):
            self._input.mark(self._place, mark)

    # --- storing ---------------------------------------------------------------------------------------------------

    def checkpoint(self, *, now: bool = False) -> None:
        """Stores where this partition is, now and then; then what nobody needs any more may go.

        Much state takes long to store, and is stored less often: what comes back after a failure is worth a part of the
        time, not all of it.
        """
        now_s = self.here.ports.clock.now_s()
        rest_s = REST_RATIO * self._storing_s * len(self.here.tasklets)  # all of them together rest that much
        due = now or now_s - self._stored_at_s >= max(self.here.settings.checkpoint_s, rest_s)
        if not due or not self.outbox.write():
            return
        run = self.run.progress
        reached = (run.offset, run.sealed_to, run.counted_to, run.calls, run.emitted_to)
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
            self.durable = floors
            clocks = zip(floors.emitted_to, run.emitted_to, strict=True)
            self.run.forget([min(clock) for clock in clocks])  # this run may lag behind others


def aligned(chunks: list[Chunk]) -> list[Chunk]:
    """Returns what to take of a read: not the last chunk if it is cut, so that the next read begins with it.

    Reads that grew from small ones lie across the log's values, and would for good: each would be handled in two parts.
    """
    return chunks[:-1] if len(chunks) > 1 and chunks[-1].cut else chunks
