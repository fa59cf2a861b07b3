"""The sequential oracle: what every output of a program must be.

The oracle is a specification, written to be obviously right and not to be fast. It keeps every inserted row, decides
lateness row by row, and recomputes each window from the rows that fall into it. It knows nothing of panes, seals, deltas
or replicas, and shares no code with them: a program that agrees with it does not agree by accident.
"""

from __future__ import annotations

import copy
from collections.abc import Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from holons.algebra import Origin, State
from holons.program.events import Event, Events, Times, event_times
from holons.program.job import Job
from holons.program.layout import Callback, at_path, bind
from holons.program.outputs import Collected, tables
from holons.semantics.counted import CountedRows, fold_rows
from holons.semantics.scopes import Await, Inserted, OracleProcessScope, OracleWindowScope
from holons.wcrdt.handle import Handle
from holons.windows import BEGINNING, TIME_LIMIT, Mark, Window, instant_text, micros
from holons.windows.duration import duration_text

Batch: TypeAlias = pl.DataFrame | pa.RecordBatch | pa.Table


@dataclass(frozen=True)
class Stamped:
    """A batch of which it is known when it was appended to its log, and whether as its rows came into being."""

    batch: Batch
    appended: int
    live: bool


Item: TypeAlias = Batch | Stamped | Mark
Log: TypeAlias = Sequence[Item]
"""One whole partition: rows in batches of any size, and marks."""


def run(job: Job, streams: Mapping[str, Sequence[Log]], *, rows_per_call: int = 1) -> Collected:
    """Runs a job over whole partitions, one after the other, and returns every output of every channel."""
    world = OracleWorld(job)
    for source in job.inputs:
        for log in streams[source.stream]:
            world.partitions.append(OraclePartition(world, len(world.partitions), source.stream, log, rows_per_call))
    while world.step():
        pass
    return world.outputs


@dataclass
class OracleWorld:
    """All partitions of a job, and all of its outputs, in one place."""

    job: Job
    partitions: list[OraclePartition] = field(default_factory=list)
    outputs: Collected = field(default_factory=dict)
    values: dict[tuple[int, Window, int | None], Any] = field(default_factory=dict)
    """Values that were computed already: by handle, window, and partition if it is of one alone."""
    known_rows: dict[tuple[int, int, tuple[int, ...]], CountedRows] = field(default_factory=dict)
    """By handle that counts rows, how many inserts it had, and the clocks at which this was all."""
    known_windows: dict[tuple[str, int], list[Window]] = field(default_factory=dict)
    """By channel, and how many inserts its handles had when these windows were computed."""

    def emit(self, channel: str, partition: int, rows: list[dict[str, Any]]) -> None:
        self.outputs.setdefault(channel, {}).setdefault(partition, []).extend(rows)

    def step(self) -> bool:
        """Lets every partition run as far as it can, then emits what is complete."""
        moved = [partition.run() for partition in self.partitions]
        emitted = [partition.emit(clock) for clock in range(self.job.layout.clocks) for partition in self.partitions]
        return any(moved) or any(emitted)

    def watermark(self, stage: int) -> int:
        """Returns the least clock of all partitions in a stage."""
        return min((partition.clocks[stage] for partition in self.partitions), default=BEGINNING)

    def value(self, handle: Handle, index: int, window: Window, only: int | None = None) -> Any:  # noqa: ANN401
        """Computes the value of a completed window from its rows, partition by partition, in order."""
        if (index, window, only) in self.values:
            return self.values[index, window, only]
        start = BEGINNING if handle.accumulate else window.start
        state = handle.aggregate.zero(1)
        for partition in self.partitions:
            if only is None or partition.number == only:
                if handle.window.counted:
                    part = fold_rows(handle, self.counted(index).rows(window, partition.number))
                else:
                    part = partition.fold(handle, index, start, window.end, window.key)
                state = handle.aggregate.merge(state, part)
        value = self.values[index, window, only] = handle.aggregate.value(state)
        return value

    def counted(self, index: int) -> CountedRows:
        """Returns the rows that a handle counts, in the order of all of them, as far as that is known by now."""
        inserted = [partition.inserted[index] for partition in self.partitions]
        key = index, sum(map(len, inserted)), tuple(partition.clocks[0] for partition in self.partitions)
        if key not in self.known_rows:
            self.known_rows = {known: rows for known, rows in self.known_rows.items() if known[0] != index}
            self.known_rows[key] = CountedRows.of(inserted, [partition.clocks[0] for partition in self.partitions])
        return self.known_rows[key]

    def windows(self, callback: Callback, limit: int) -> list[Window]:
        """Returns every window of a callback that holds a row and ends by `limit`, in order."""
        if callback.window.counted:
            return self.counted(callback.handles[0]).windows(callback.window)
        inserts = sum(len(partition.inserted[index]) for partition in self.partitions for index in callback.handles)
        if (callback.channel, inserts) not in self.known_windows:
            self.known_windows[callback.channel, inserts] = sorted(self._all_windows(callback))
        return [window for window in self.known_windows[callback.channel, inserts] if window.end <= limit]

    def _all_windows(self, callback: Callback) -> set[Window]:
        rows = [
            row for partition in self.partitions for index in callback.handles for row in partition.keyed_times(index)
        ]
        return callback.window.windows_holding(rows)


class OraclePartition:
    """One partition: its log, its clocks, and every row that it has inserted."""

    def __init__(self, world: OracleWorld, number: int, stream: str, log: Log, rows_per_call: int) -> None:
        self.world = world
        self.number = number
        self.layout = world.job.layout
        self.source = next(source for source in world.job.inputs if source.stream == stream)
        self.clocks = [BEGINNING] * self.layout.stages
        self.event_clock = BEGINNING
        self.inserted: dict[int, list[Inserted]] = {index: [] for index in range(len(self.layout.handles))}
        self.locals = {name: copy.deepcopy(local.initial) for name, local in self.layout.locals.items()}
        self.emitted: list[set[tuple[int, Window]]] = [set() for _ in range(self.layout.clocks)]
        self.script = self._script(log, rows_per_call)
        self.waiting: Await | None = None
        self.ended = False
        self.scope = OracleProcessScope(self)
        self.program = bind(world.job.program, self.scope)
        self.window_scope = OracleWindowScope(self)
        self.window_program = bind(world.job.program, self.window_scope)

    # --- rows in ---------------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Runs until the log ends or an await blocks; says whether anything happened."""
        moved = False
        while True:
            if self.waiting is not None and not self.waiting.ready():
                return moved
            try:
                self.waiting = next(self.script)
            except StopIteration:
                ended, self.ended = self.ended, True
                return moved or not ended
            moved = True

    def _script(self, log: Log, rows_per_call: int) -> Generator[Await, None, None]:
        """Runs the whole log; yields wherever a call has to wait."""
        offset = 0
        pending: list[tuple[int, int, int, pl.DataFrame]] = []

        def flush() -> Generator[Await, None, None]:
            if pending:
                self.clocks[0] = max(self.clocks[0], pending[0][2])  # the first row may seal windows
                yield from self._call([row for *_, row in pending], [at for at, *_ in pending], [p[1] for p in pending])
                pending.clear()
            self.clocks[0] = max(self.clocks[0], self.event_clock)

        for item in log:
            if isinstance(item, Mark):
                yield from flush()
                self.event_clock = max(self.event_clock, item.ts)
                yield from flush()
                offset += 1
                continue
            batch = item.batch if isinstance(item, Stamped) else item
            frame = batch if isinstance(batch, pl.DataFrame) else pl.DataFrame(pl.from_arrow(batch))
            for position, ts in enumerate(event_times(frame[self.source.time], self.source.stream).to_list()):
                row = frame.slice(position, 1)
                if ts is None or not -TIME_LIMIT < ts < TIME_LIMIT:
                    name = self.source.time
                    reason = (
                        f"no time in column {name!r}" if ts is None else f"the time in column {name!r} is out of range"
                    )
                    self._divert("dead", row, offset, reason)
                elif isinstance(item, Stamped) and (ahead := self._too_far_ahead(ts, item)):
                    self._divert("dead", row, offset, ahead)
                elif ts < self.event_clock:
                    self._divert("late", row, offset, None)
                else:
                    clock = max(self.event_clock, ts - self.source.disorder_us)
                    if len(pending) >= rows_per_call or (self.layout.asynchronous and pending and self._crosses(clock)):
                        yield from flush()
                    pending.append((offset, ts, clock, row))
                    self.event_clock = clock
                offset += 1
        yield from flush()

    def _too_far_ahead(self, ts: int, batch: Stamped) -> str | None:
        """Why a row is dead that is dated later than its source allows; None if it is not."""
        allowed = self.source.max_future
        if allowed == "auto":
            allowed = "1h" if batch.live else None
        if allowed is None or ts - batch.appended <= micros(allowed, zero_allowed=True):
            return None
        return (
            f"the time in column {self.source.time!r} is more than {duration_text(micros(allowed, zero_allowed=True))} "
            f"after the row was appended, at {instant_text(batch.appended)}"
        )

    def _crosses(self, clock: int) -> bool:
        """Whether a clock seals some window that the clock at the last row did not seal: then a new call must begin."""
        return any(spec.boundary(clock) != spec.boundary(self.event_clock) for spec in self.layout.specs(0))

    def _divert(self, channel: str, row: pl.DataFrame, offset: int, reason: str | None) -> None:
        """Emits a row that `process` does not see, with its place in the log."""
        values = row.to_dicts()[0] | {"_stream": self.source.stream, "_offset": offset}
        self.world.emit(channel, self.number, [values | ({"_reason": reason} if reason else {})])

    def _call(self, rows: list[pl.DataFrame], offsets: list[int], times: list[int]) -> Generator[Await, None, None]:
        frame = pl.concat(rows)
        if self.source.columns is not None:  # a program sees the columns that it names, and no more
            frame = frame[[name for name in frame.columns if name in (*self.source.columns, self.source.time)]]
        index = np.array(offsets, dtype=np.int64)
        origin = Origin(self.number, 0, len(index), index)
        events = Events(frame, Times(np.array(times, dtype=np.int64), origin, own=True), self.source.stream)
        self.scope.begin(events)
        if not self.layout.row_by_row:
            yield from self._drive(self.program.process(events))
        else:
            for row, values in enumerate(frame.to_dicts()):
                self.scope.row = events.slice(row, row + 1)
                yield from self._drive(self.program.each(Event(values, times[row], self.number, self.source.stream)))
                self.scope.row_done()
        self.scope.finish()

    @staticmethod
    def _drive(result: Coroutine[Any, Any, None] | None) -> Generator[Await, None, None]:
        if result is None:
            return
        answer = None
        while True:
            try:
                wait = result.send(answer)
            except StopIteration:
                return
            if not wait.ready():
                yield wait
            answer = wait.value()

    # --- windows out -----------------------------------------------------------------------------------------------

    def emit(self, stage: int) -> bool:
        """Calls `on_window` for every completed window that was not called yet; then the clock of the next stage follows."""
        limit = BEGINNING  # where rows are counted, windows are full, or not
        if stage < self.layout.stages:
            limit = self.layout.emission_limit(stage, self.layout.boundary(stage, self.world.watermark(stage)))
        due = [
            (window.order(), number, callback, window)
            for number, callback in enumerate(self.layout.callbacks)
            if callback.stage == stage
            for window in self.world.windows(callback, limit)
            if (number, window) not in self.emitted[stage]
        ]
        for _, number, callback, window in sorted(due, key=lambda candidate: candidate[:2]):
            self.emitted[stage].add((number, window))
            if callback.once and self.number != 0:
                continue
            self.window_scope.now = (callback, window)
            rows = getattr(at_path(self.window_program, callback.path), callback.method)(window)
            yielded = [(callback.channel, tables(rows if rows is not None else ()))]  # a generator runs only now
            beside, self.window_scope.outputs = self.window_scope.outputs, []
            for channel, emitted in [*yielded, *((channel, tables(outputs)) for channel, outputs in beside)]:
                for table in emitted:
                    self.world.emit(channel, self.number, table.to_pylist())
        moved = bool(due)
        if stage + 1 < self.layout.stages:
            clock = self.layout.boundary(stage, limit)
            moved |= clock > self.clocks[stage + 1]
            self.clocks[stage + 1] = max(self.clocks[stage + 1], clock)
        return moved

    # --- what was inserted -----------------------------------------------------------------------------------------

    def keyed_times(self, index: int) -> list[tuple[Any, int]]:
        """Returns the key and the time of every row that was inserted into a handle."""
        return [pair for block in self.inserted[index] for pair in block.keyed_times()]

    def fold(self, handle: Handle, index: int, start: int, end: int, key: object) -> State:
        """Folds this partition's rows of a window, one by one."""
        chosen_rows = []
        for block in self.inserted[index]:
            chosen = (block.rows.ts >= start) & (block.rows.ts < end)
            if handle.window.keyed:
                chosen &= np.array([other == key for other, _ in block.keyed_times()], dtype=np.bool_)
            chosen_rows += [(block.rows, row) for row in np.flatnonzero(chosen).tolist()]
        return fold_rows(handle, chosen_rows)
