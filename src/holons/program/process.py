"""The process part of a partition: it takes rows, and makes contributions and the outputs of `process`.

Every call of the user's `process` is a transaction: what it inserts, outputs and sets takes effect when it returns.
So a call that is parked at an await can be given up at any time and begun again elsewhere.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from holons.algebra import Origin
from holons.counting import Samples
from holons.errors import InvariantBroken
from holons.program.calls import Call, ProcessScope, Wanted, placed
from holons.program.delays import NO_DELAYS, Delays
from holons.program.events import Event
from holons.program.job import Job
from holons.program.lanes import Lanes
from holons.program.layout import Layout, bind
from holons.program.locals import checked_locals, freeze, initial_locals, thaw
from holons.program.outputs import Cut, Output, number, tables
from holons.program.ports import AppendedRows
from holons.program.records import PROCESS, ProcessRecord
from holons.program.screening import AppendTimes, Batch, RowSlice, Screening, whole_frame
from holons.wcrdt import Contributions, Delta, Replica, Seal, SealedPanes, nested, restoring
from holons.windows import BEGINNING, EventClock, seal_points


@dataclass(frozen=True)
class _QueuedMark:
    """A mark that waits until the rows before it are processed."""

    ts: int
    offset: int


@dataclass
class BegunCall:
    """A call that has begun, and the clock as it will be once the call returns."""

    call: Call
    clock: EventClock
    end: int
    diverted: list[tuple[str, pl.DataFrame]]
    appended: int = 0
    """When the last of its rows was appended."""
    future: int = 0
    """How many of its rows are dated too far after that."""
    delays: Delays = NO_DELAYS
    """How long after their own times live rows were appended, up to here."""
    coroutine: Coroutine[Any, Any, None] | None = None
    wanted: Wanted | None = None


@dataclass
class ProcessState:
    """The position of a process part in its log, its clocks, and the values of its locals."""

    offset: int = 0
    watermark: int = BEGINNING
    by_hand: int = BEGINNING
    sealed_to: int = BEGINNING
    ordinals: dict[str, int] = field(default_factory=dict)
    locals: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)
    """The columns of each channel of `output(events)`: always the same, wherever a batch ended."""
    appended: int = 0
    """When the newest row was appended to the log; 0 if nobody knows."""
    future: int = 0
    """How many rows were dated too far after they were appended."""
    delays: Delays = NO_DELAYS
    """How long after their own times live rows were appended."""


class ProcessPart:
    """Runs the rows of one partition, in the order of the log, through the user's `process`."""

    scope_of: type[ProcessScope] = ProcessScope

    def __init__(
        self,
        job: Job,
        partition: int,
        input_index: int,
        resume: bytes | None = None,
        *,
        partitions: int = 1,
        cut: Cut | None = None,
    ) -> None:
        self.layout = job.layout
        self.silent_below = 0 if cut is None else cut.offset
        """Rows below this offset have no outputs here: an older version of the job has emitted them."""
        self.input = job.inputs[input_index]
        self.reads = self.input.reads
        self.screening = Screening(self.input, job.program)
        self.disorder_us = self.input.disorder_us
        self.partition = partition
        self.state = ProcessState(0 if cut is None else cut.begin, locals=initial_locals(job, "process"))
        stage_handles, handles = self.layout.stage_handles(0), self.layout.handles
        inserted = (*stage_handles, *self.layout.lanes)
        self.local_panes = {i: SealedPanes(handles[i]) for i in inserted if not handles[i].shared}
        self.contributions = Contributions(handles, stage_handles)
        self.lanes = Lanes(self.layout, partition, partitions)
        if resume is not None:
            with restoring("a process record"):
                self._restore(resume)
        self.messages: list[Delta | Samples] = []
        self.outputs: list[Output] = []
        self._waiting: deque[RowSlice | _QueuedMark] = deque()
        self._read_to = self.state.offset
        self._begun: BegunCall | None = None
        self.scope = self.scope_of(self.layout)
        self._program = bind(job.program, self.scope)

    # --- rows and marks --------------------------------------------------------------------------------------------

    def feed(
        self,
        batch: Batch,
        offset: int,
        whole: Callable[[], pa.Table] | None = None,
        appended: Sequence[AppendedRows] = (),
    ) -> None:
        """Takes rows of the log, the first of them at `offset`. Results do not depend on how the log is cut into batches.

        If the batch has only the columns that the program reads, `whole` returns the same rows with all columns, so that
        diverted rows lose nothing. `appended` says of all rows when they were appended; without it they may have any times.
        """
        self._check_offset(offset)
        rows = len(batch)
        self._read_to = offset + rows
        read = cache(lambda: whole_frame(batch if whole is None else whole()))
        self._enqueue(self.screening.seen(batch), Origin(self.partition, offset, rows), read, appended)

    def _enqueue(
        self,
        frame: pl.DataFrame,
        origin: Origin,
        read_whole: Callable[[], pl.DataFrame],
        appended: Sequence[AppendedRows] = (),
    ) -> None:
        """Lets rows wait for their calls."""
        everything = RowSlice(frame, origin, read_whole, AppendTimes(self.input, appended))
        before = self.silent_below - origin.first
        if self.layout.asynchronous and self.layout.row_by_row:
            self._waiting.extend(everything.part(at, at + 1) for at in range(origin.count))
        elif 0 < before < origin.count:  # the outputs of a call are all emitted, or none is
            self._waiting += everything.part(0, before), everything.part(before, origin.count)
        elif origin.count:
            self._waiting.append(everything)

    def mark(self, ts: int, offset: int) -> None:
        """Takes a mark of the log, a control row at an offset of its own (invariant: logged idleness)."""
        self._check_offset(offset)
        self._read_to = offset + 1
        self._waiting.append(_QueuedMark(ts, offset))

    def _check_offset(self, offset: int) -> None:
        if offset != self._read_to:
            raise InvariantBroken(
                f"own-input: partition {self.partition} was fed offset {offset} after {self._read_to}"
            )

    @property
    def read_to(self) -> int:
        """Returns the offset to read next."""
        return self._read_to

    @property
    def busy(self) -> bool:
        """Whether rows that were fed still wait for their call, or a call is parked."""
        return bool(self._waiting) or self._begun is not None

    @property
    def parked(self) -> Wanted | None:
        """Returns the window that the parked call waits for, if there is one."""
        return self._begun.wanted if self._begun else None

    @property
    def watermark(self) -> int:
        """Returns this partition's clock of stage 0."""
        return max(self.state.watermark, self.state.by_hand)

    # --- work ------------------------------------------------------------------------------------------------------

    def work(self, replica: Replica) -> bool:
        """Makes one call, or continues a parked one; says whether anything happened."""
        self.scope.replica = replica
        if self._begun is not None:
            return self._drive(self._begun)
        if not self._waiting:
            return False
        next_up = self._waiting.popleft()
        if isinstance(next_up, _QueuedMark):
            self.state.watermark = max(self.state.watermark, next_up.ts)
            self.state.offset = next_up.offset + 1
            self._seal(self.watermark)
            return True
        with placed(partition=self.partition, offset=next_up.origin.first):
            begun = self._begin(next_up)
        self._drive(begun)
        return True

    def _begin(self, rows: RowSlice) -> BegunCall:
        """Prepares a call for some rows. Where calls await, only for those up to the next row that seals a window."""
        self.screening.check_columns(rows)
        times = self.screening.times(rows)
        clock = EventClock(self.disorder_us, self.state.watermark)
        observed = clock.observe(times.usable(), ascending=times.ascending)
        if self.layout.asynchronous:
            watermarks = observed.watermarks()
            cuts = seal_points(watermarks, self.layout.specs(0))
            if len(cuts):  # seals happen between calls: the other rows wait for their turn
                places = cuts if times.valid is None else np.flatnonzero(times.valid)[cuts]
                edges = [*places.tolist(), len(rows.frame)]
                self._waiting.extendleft(reversed([rows.part(a, b) for a, b in itertools.pairwise(edges)]))
                return self._begin(rows.part(0, edges[0]))
            if len(watermarks):  # the first row may seal windows, which the call may then await
                self._seal(max(int(watermarks[0]), self.state.by_hand))
        screened = self.screening.screen(rows, times, observed)
        state = self.state
        call = Call(screened.events, screened.watermarks, state.locals, state.sealed_to, state.by_hand)
        future = 0 if times.future is None else int(times.future.sum())
        appended, delays = rows.appended.newest(rows.end), rows.appended.delays(state.delays, rows, times, observed)
        return BegunCall(call, clock, rows.origin.end, screened.diverted, appended, future, delays)

    def _drive(self, begun: BegunCall) -> bool:
        call = begun.call
        self.scope.call = call
        begun_at = self.state.offset
        self._begun = None
        try:
            with placed(partition=self.partition, offset=begun_at):
                if len(call.events) and not self._run(begun):
                    self._begun = begun
                    return False
                self._commit(begun)
        finally:
            self.scope.call = None
        return True

    def _run(self, begun: BegunCall) -> bool:
        """Runs the user's code; False if it is parked."""
        events = begun.call.events
        if not self.layout.asynchronous:
            if self.layout.row_by_row:
                self._each(begun.call)
            else:
                self._program.process(events)
            return True
        if begun.coroutine is None:
            if self.layout.row_by_row:
                begun.coroutine = self._program.each(self._event(begun.call, 0, events.frame.row(0, named=True)))
            else:
                begun.coroutine = self._program.process(events)
        assert begun.coroutine is not None
        value = None
        while True:
            if begun.wanted is not None:
                if not self.scope.ready(begun.wanted):
                    return False
                value, begun.wanted = self.scope.granted(begun.wanted), None
            try:
                begun.wanted = begun.coroutine.send(value)
            except StopIteration:
                return True

    def _each(self, call: Call) -> None:
        for row, values in enumerate(call.events.frame.iter_rows(named=True)):
            self._program.each(self._event(call, row, values))

    def _event(self, call: Call, row: int, values: dict[str, Any]) -> Event:
        call.row = row
        events = call.events
        return Event(values, int(events.ts.micros[row]), self.partition, self.input.stream, events.unreadable)

    def _commit(self, begun: BegunCall) -> None:
        """Makes the effects of a call real that has returned."""
        call, state = begun.call, self.state
        for index, rows in call.checked_inserts(self.layout):
            if not self.lanes.take(index, rows):
                self.contributions.insert(index, rows)
        outputs = [(channel, tables([frame])) for channel, frame in begun.diverted]
        outputs += call.ordered_outputs(state.columns)
        if begun.end > self.silent_below:
            for channel, emitted in outputs:
                self.outputs += number(channel, self.partition, state.ordinals, emitted)
        state.locals.update(checked_locals(call.locals))
        state.watermark, state.by_hand, state.offset = begun.clock.watermark, call.advanced_to(), begun.end
        state.appended, state.future = max(state.appended, begun.appended), state.future + begun.future
        state.delays = begun.delays
        self._seal(self.watermark)

    def _seal(self, watermark: int) -> None:
        """Seals all panes that the clock has passed, as one delta, even if it is empty; counts what came before it."""
        self.lanes.move(watermark)
        end = self.layout.boundary(0, watermark)
        if end <= self.state.sealed_to:
            return
        seals = seal_up_to(self.contributions, end, self.local_panes)
        self.messages.append(Delta(0, self.partition, self.state.sealed_to, end, seals))
        self.state.sealed_to = end

    def count(self, replica: Replica) -> bool | None:
        """Publishes ranks, and seals what is cut by now; says whether anything is to be sent, None if nothing is new."""
        messages = self.lanes.work(replica.lanes, self.local_panes)
        self.messages += messages or ()
        return None if messages is None else bool(messages)

    def absorb(self, contributions: Iterable[bytes], state: ProcessState) -> None:
        """Merges rows that were folded elsewhere (`program.folding`), with the state that they lead to; then seals."""
        for contribution in contributions:
            self.contributions.absorb(contribution)
        self.state, self._read_to = state, state.offset
        self._seal(self.watermark)

    # --- resuming --------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Returns the record to resume from. A parked call counts as not yet begun. Nothing may wait to be sent."""
        if self.messages or self.outputs:
            raise InvariantBroken(
                "covering checkpoints: outputs and deltas are written before the record", hint="drain first"
            )
        state, panes = self.state, {index: panes.record() for index, panes in sorted(self.local_panes.items())}
        contributions, open_states = self.contributions.record()
        record = ProcessRecord(
            offset=state.offset,
            watermark=state.watermark,
            by_hand=state.by_hand,
            sealed_to=state.sealed_to,
            ordinals=dict(sorted(state.ordinals.items())),
            columns=dict(sorted(state.columns.items())),
            forgotten_to=self.forgotten_to,
            contributions=contributions,
            panes={index: sealed for index, (sealed, _) in panes.items()},
            appended=state.appended,
            future=state.future,
            delays=state.delays,
        )
        sealed = [nested(seals) for _, seals in panes.values()]
        return PROCESS.encode(record, [freeze(state.locals), open_states, sealed, self.lanes.snapshot()])

    def _restore(self, resume: bytes) -> None:
        record, (locals_, open_states, payloads, lanes) = PROCESS.decode(resume)
        self.state = ProcessState(
            offset=record.offset,
            watermark=record.watermark,
            by_hand=record.by_hand,
            sealed_to=record.sealed_to,
            ordinals=record.ordinals,
            locals=thaw(locals_),
            columns=record.columns,
            appended=record.appended,
            future=record.future,
            delays=record.delays,
        )
        self.contributions.restore(record.contributions, open_states)
        for (index, sealed), seals in zip(record.panes.items(), payloads, strict=True):
            self.local_panes[index].restore(sealed, seals)
        self.lanes.restore(lanes)

    def forget(self, emitted_to: Sequence[int]) -> None:
        """Drops the WLocal values that a stored window record does not need any more."""
        for panes in self.local_panes.values():
            panes.trim(panes.handle.read_to(emitted_to, self.layout.stages) - panes.handle.keep_us)

    @property
    def forgotten_to(self) -> list[int]:
        """Returns for each clock how far a window part must have emitted to find all WLocal values here that it may read."""
        return forgotten_to(self.layout, self.local_panes)


def seal_up_to(contributions: Contributions, end: int, local_panes: dict[int, SealedPanes]) -> tuple[Seal, ...]:
    """Seals all panes up to `end`. Values of local handles stay in `local_panes`; that they exist is sent."""
    seals = []
    for index, pane, state in contributions.seal(end):
        panes = local_panes.get(index)
        if panes is not None:
            panes.add(pane, 0, state)
        seals.append(Seal(index, pane, contributions.encode(index, state) if panes is None else b""))
    return tuple(seals)


def forgotten_to(layout: Layout, local_panes: dict[int, SealedPanes]) -> list[int]:
    """Returns by clock how far a window part must have emitted to find all values that it may read in `local_panes`."""
    reached_by_clock = [BEGINNING] * layout.clocks
    for panes in local_panes.values():
        if panes.trimmed_to > BEGINNING:
            reached = panes.trimmed_to + panes.handle.keep_us
            own = panes.handle.stage
            readers = slice(own, own + 1 if panes.handle.own_stage else layout.stages)
            reached_by_clock[readers] = [max(before, reached) for before in reached_by_clock[readers]]
    return reached_by_clock
