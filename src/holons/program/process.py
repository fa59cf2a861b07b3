"""The process part of a partition: rows in, contributions and process outputs out.

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
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from holons.algebra import Origin
from holons.errors import BadInput, InvariantBroken
from holons.program.calls import Call, ProcessScope, Wanted, placed
from holons.program.events import Event, Events, Times, event_times
from holons.program.job import Job
from holons.program.layout import bind
from holons.program.locals import checked_locals, freeze, initial_locals, thaw
from holons.program.outputs import DEAD, LATE, Output, number, tables
from holons.program.records import PROCESS, ProcessRecord
from holons.wcrdt import Contributions, Delta, Replica, Seal, SealedPanes, nested
from holons.windows import BEGINNING, TIME_LIMIT, EventClock, is_ascending, seal_points


@dataclass(frozen=True)
class _Slice:
    """Rows that are handled by one call, with the columns that the program sees."""

    frame: pl.DataFrame
    origin: Origin
    read_whole: Callable[[], pl.DataFrame]
    """The rows that these are a part of, with all columns."""
    first: int = 0
    """Where in those they begin."""

    def part(self, low: int, high: int) -> _Slice:
        """The rows from `low` up to `high`."""
        frame, origin = self.frame.slice(low, high - low), self.origin.between(low, high)
        return _Slice(frame, origin, self.read_whole, self.first + low)

    def whole(self) -> pl.DataFrame:
        """These rows with all columns."""
        return self.read_whole().slice(self.first, len(self.frame))


@dataclass(frozen=True)
class _QueuedMark:
    """A mark that waits for its turn."""

    ts: int
    offset: int


@dataclass
class _Begun:
    """A call under way, and what it will have done to the clock once it returns."""

    call: Call
    clock: EventClock
    end: int
    set_aside: list[tuple[str, pl.DataFrame]]
    coroutine: Coroutine[Any, Any, None] | None = None
    wanted: Wanted | None = None


@dataclass
class ProcessState:
    """Everything that a process part resumes from."""

    offset: int = 0
    watermark: int = BEGINNING
    by_hand: int = BEGINNING
    sealed_to: int = BEGINNING
    ordinals: dict[str, int] = field(default_factory=dict)
    locals: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)
    """What each channel of `output(events)` holds: always the same, wherever a batch ended."""


class ProcessPart:
    """One partition's rows, in log order, through the user's `process`."""

    scope_of: type[ProcessScope] = ProcessScope

    def __init__(
        self, job: Job, partition: int, input_index: int, resume: bytes | None = None, *, silent_below: int = 0
    ) -> None:
        self.layout = job.layout
        self.silent_below = silent_below
        """Rows below this offset have no outputs here: they are an older version's."""
        self.input = job.inputs[input_index]
        self.reads = self.input.reads
        self.disorder_us = self.input.disorder_us
        self.partition = partition
        self.state = ProcessState(locals=initial_locals(job, "process"))
        stage_handles = self.layout.stage_handles(0)
        self.local_panes = {
            i: SealedPanes(self.layout.handles[i]) for i in stage_handles if not self.layout.handles[i].shared
        }
        self.contributions = Contributions(self.layout.handles, stage_handles)
        if resume is not None:
            self._restore(resume)
        self.deltas: list[Delta] = []
        self.outputs: list[Output] = []
        self._todo: deque[_Slice | _QueuedMark] = deque()
        self._read_to = self.state.offset
        self._begun: _Begun | None = None
        self.scope = self.scope_of(self.layout)
        self._program = bind(job.program, self.scope)

    # --- what comes in ---------------------------------------------------------------------------------------------

    def feed(
        self,
        batch: pa.RecordBatch | pa.Table | pl.DataFrame,
        offset: int,
        whole: Callable[[], pa.Table] | None = None,
    ) -> None:
        """Takes rows of the log, the first of them at `offset`. Any cut of the log is as good as any other.

        If the batch has only the columns that the program reads, `whole` gives the same rows with all of them: rows that
        are set aside lose nothing.
        """
        frame = _frame(batch)
        self._expect(offset)
        self._read_to = offset + len(frame)
        read = cache(lambda: frame if whole is None else _frame(whole()))
        self._wait(frame, Origin(self.partition, offset, len(frame)), read)

    def _wait(self, frame: pl.DataFrame, origin: Origin, read_whole: Callable[[], pl.DataFrame]) -> None:
        """Rows wait for their calls."""
        everything, before = _Slice(self._seen(frame), origin, read_whole), self.silent_below - origin.first
        if self.layout.asynchronous and self.layout.row_by_row:
            self._todo.extend(everything.part(at, at + 1) for at in range(len(frame)))
        elif 0 < before < len(frame):  # each call is silent, or not
            self._todo += everything.part(0, before), everything.part(before, len(frame))
        elif len(frame):
            self._todo.append(everything)

    def _seen(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The columns that the program sees, as far as they are there."""
        if self.reads is None or len(self.reads) == frame.width:
            return frame
        return frame.select(name for name in frame.columns if name in self.reads)

    def mark(self, ts: int, offset: int) -> None:
        """Takes a mark of the log: a control row at an offset of its own (invariant: logged idleness)."""
        self._expect(offset)
        self._read_to = offset + 1
        self._todo.append(_QueuedMark(ts, offset))

    def _expect(self, offset: int) -> None:
        if offset != self._read_to:
            raise InvariantBroken(
                f"own-input: partition {self.partition} was fed offset {offset} after {self._read_to}"
            )

    @property
    def read_to(self) -> int:
        """The offset to read next."""
        return self._read_to

    @property
    def busy(self) -> bool:
        """Whether rows that were fed still wait for their call."""
        return bool(self._todo) or self._begun is not None

    @property
    def parked(self) -> Wanted | None:
        """The window that a call waits for, if it is parked."""
        return self._begun.wanted if self._begun else None

    @property
    def set_aside(self) -> dict[str, int]:
        """How many rows were late, and how many had no usable time."""
        return {channel: self.state.ordinals.get(channel, 0) for channel in (LATE, DEAD)}

    @property
    def watermark(self) -> int:
        """This partition's clock of stage 0."""
        return max(self.state.watermark, self.state.by_hand)

    # --- work ------------------------------------------------------------------------------------------------------

    def work(self, replica: Replica) -> bool:
        """Makes one call, or finishes a parked one; says whether anything happened."""
        self.scope.replica = replica
        if self._begun is not None:
            return self._drive(self._begun)
        if not self._todo:
            return False
        piece = self._todo.popleft()
        if isinstance(piece, _QueuedMark):
            self.state.watermark = max(self.state.watermark, piece.ts)
            self.state.offset = piece.offset + 1
            self._seal(self.watermark)
            return True
        with placed(partition=self.partition, offset=piece.origin.first):
            begun = self._begin(piece)
        self._drive(begun)
        return True

    def _begin(self, piece: _Slice) -> _Begun:
        self._check_columns(piece)
        frame, origin = piece.frame, piece.origin
        ts, valid, ascending = self._times(frame)
        clock = EventClock(self.disorder_us, self.state.watermark)
        observed = clock.observe(ts if valid is None else ts[valid], ascending=ascending)
        if self.layout.asynchronous:
            watermarks = observed.watermarks()
            cuts = seal_points(watermarks, self.layout.specs(0))
            if len(cuts):  # seals happen between calls: the other pieces wait for their turn
                edges = [*(cuts if valid is None else np.flatnonzero(valid)[cuts]).tolist(), len(frame)]
                self._todo.extendleft(reversed([piece.part(a, b) for a, b in itertools.pairwise(edges)]))
                return self._begin(piece.part(0, edges[0]))
            if len(watermarks):  # its first row may seal windows, which the call may then await
                self._seal(max(int(watermarks[0]), self.state.by_hand))
        set_aside: list[tuple[str, pl.DataFrame]] = []
        watermarks_at = observed.watermarks
        if valid is not None:
            set_aside.append((DEAD, _with_places(piece.whole(), self.input.stream, origin, ~valid, self._reason())))
            frame, ts, origin = frame.filter(valid), ts[valid], origin.take(valid)
        if observed.late is not None:
            whole = piece.whole() if valid is None else piece.whole().filter(valid)
            set_aside.append((LATE, _with_places(whole, self.input.stream, origin, observed.late)))
            on_time = ~observed.late
            left = observed.watermarks()[on_time]
            frame, ts, origin, watermarks_at = frame.filter(on_time), ts[on_time], origin.take(on_time), lambda: left
        events = Events(frame, Times(ts, origin, own=True, ascending=bool(ascending)), self.input.stream)
        call = Call(events, watermarks_at, self.state.locals, self.state.sealed_to, self.state.by_hand)
        return _Begun(call, clock, piece.origin.end, set_aside)

    def _check_columns(self, piece: _Slice) -> None:
        """Says which columns are missing, and what there is."""
        name, stream, there = self.input.time, self.input.stream, piece.frame.columns
        if name not in there:
            raise BadInput(
                f"stream {stream!r} has no time column {name!r}",
                hint=f"name one of {', '.join(piece.whole().columns)}: {self._program._time_hint(stream)}",
            )
        missing = sorted(self.reads.difference(there)) if self.reads is not None else []
        if missing:
            line, there = self._program._line_that_reads(stream, missing[0]), piece.whole().columns
            told = "" if line else "columns= names what the program reads; "
            raise BadInput(
                f"{line}{': ' if line else ''}stream {stream!r} has no column {', '.join(map(repr, missing))}",
                hint=f"{told}there is {', '.join(there)}",
            )

    def _times(self, frame: pl.DataFrame) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_] | None, bool | None]:
        """Each row's time, which rows have one (None: all), and whether those times ascend (None: not known)."""
        column = event_times(frame[self.input.time], self.input.stream)
        nulls = column.null_count()
        ts = (column.fill_null(TIME_LIMIT) if nulls else column).to_numpy()
        if len(ts) == 0:
            return ts, None, True
        ascending = not nulls and is_ascending(ts)
        low, high = (ts[0], ts[-1]) if ascending else (ts.min(), ts.max())
        if not nulls and int(high) < TIME_LIMIT and int(low) > -TIME_LIMIT:
            return ts, None, ascending
        return ts, (ts < TIME_LIMIT) & (ts > -TIME_LIMIT), None

    def _reason(self) -> pl.Expr:
        name = self.input.time
        return (
            pl.when(pl.col(name).is_null())
            .then(pl.lit(f"no time in column {name!r}"))
            .otherwise(pl.lit(f"the time in column {name!r} is out of range"))
        )

    def _drive(self, begun: _Begun) -> bool:
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

    def _run(self, begun: _Begun) -> bool:
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
        return Event(values, int(call.events.ts.micros[row]), self.partition, self.input.stream)

    def _commit(self, begun: _Begun) -> None:
        """The call has returned: its effects become real."""
        call, state = begun.call, self.state
        for index, rows in call.checked_inserts(self.layout):
            self.contributions.insert(index, rows)
        put_out = [(channel, tables([frame])) for channel, frame in begun.set_aside]
        put_out += call.ordered_outputs(state.columns)
        if begun.end > self.silent_below:
            for channel, made in put_out:
                self.outputs += number(channel, self.partition, state.ordinals, made)
        state.locals.update(checked_locals(call.locals))
        state.watermark, state.by_hand, state.offset = begun.clock.watermark, call.advanced_to(), begun.end
        self._seal(self.watermark)

    def _seal(self, watermark: int) -> None:
        """Sends what the clock has passed: one delta for every crossed window end, even if empty."""
        end = self.layout.boundary(0, watermark)
        if end <= self.state.sealed_to:
            return
        seals = seal_up_to(self.contributions, end, self.local_panes)
        self.deltas.append(Delta(0, self.partition, self.state.sealed_to, end, seals))
        self.state.sealed_to = end

    def absorb(self, contributions: Iterable[bytes], state: ProcessState) -> None:
        """Takes in rows that were folded elsewhere (`program.folding`), and what they did to the state; then seals."""
        for one in contributions:
            self.contributions.absorb(one)
        self.state, self._read_to = state, state.offset
        self._seal(self.watermark)

    # --- resuming --------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Returns the record to resume from. A parked call counts as not yet begun. Nothing may wait to be sent."""
        if self.deltas or self.outputs:
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
        )
        return PROCESS.encode(
            record, [freeze(state.locals), open_states, [nested(seals) for _, seals in panes.values()]]
        )

    def _restore(self, resume: bytes) -> None:
        record, (locals_, open_states, payloads) = PROCESS.decode(resume)
        self.state = ProcessState(
            offset=record.offset,
            watermark=record.watermark,
            by_hand=record.by_hand,
            sealed_to=record.sealed_to,
            ordinals=record.ordinals,
            locals=thaw(locals_),
            columns=record.columns,
        )
        self.contributions.restore(record.contributions, open_states)
        for (index, sealed), seals in zip(record.panes.items(), payloads, strict=True):
            self.local_panes[index].restore(sealed, seals)

    def forget(self, emitted_to: Sequence[int]) -> None:
        """Drops WLocal values that a stored window record is past (less what the handle keeps)."""
        for panes in self.local_panes.values():
            panes.trim(panes.handle.read_to(emitted_to) - panes.handle.keep_us)

    @property
    def forgotten_to(self) -> list[int]:
        """By stage, how far a window part must have emitted to find all WLocal values here that it may still read."""
        forgotten_to = [BEGINNING] * self.layout.stages
        for panes in self.local_panes.values():
            if panes.trimmed_to > BEGINNING:
                reached = panes.trimmed_to + panes.handle.keep_us
                readers = 1 if panes.handle.own_stage else self.layout.stages
                forgotten_to[:readers] = [max(before, reached) for before in forgotten_to[:readers]]
        return forgotten_to


def seal_up_to(contributions: Contributions, end: int, local_panes: dict[int, SealedPanes]) -> tuple[Seal, ...]:
    """Seals up to `end`; of local handles only the presence travels, their values stay in `local_panes`."""
    seals = []
    for index, pane, state in contributions.seal(end):
        panes = local_panes.get(index)
        if panes is not None:
            panes.add(pane, 0, state)
        seals.append(Seal(index, pane, contributions.encode(index, state) if panes is None else b""))
    return tuple(seals)


def _frame(batch: pa.RecordBatch | pa.Table | pl.DataFrame) -> pl.DataFrame:
    frame = batch if isinstance(batch, pl.DataFrame) else pl.from_arrow(batch, rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _with_places(
    frame: pl.DataFrame, stream: str, origin: Origin, chosen: npt.NDArray[np.bool_], reason: pl.Expr | None = None
) -> pl.DataFrame:
    """The chosen rows with where they were, for a side channel."""
    places: list[pl.Expr | pl.Series] = [pl.lit(stream).alias("_stream"), pl.Series("_offset", origin.offsets())]
    if reason is not None:
        places.append(reason.alias("_reason"))
    return frame.with_columns(*places).filter(chosen)
