"""The sequential oracle: what every output of a program must be.

A specification, written to be obviously right and not fast. It keeps every inserted row, decides lateness row by row,
recomputes each window from the rows that fall into it, and knows nothing of panes, seals, deltas or replicas. It
shares no code with them either: what agrees with it agrees for a reason.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from holons.algebra import Groups, Keyed, Origin, Rows, State
from holons.algebra.aggregate import Aggregate
from holons.algebra.rows import element_length, prepare
from holons.errors import AwaitWouldDeadlock, InsertBelowWatermark, WrongScope
from holons.program.events import Event, Events, Times, event_times
from holons.program.handles import NO_KEY, When
from holons.program.job import Job
from holons.program.layout import Callback, at_path, bind
from holons.program.outputs import Collected, tables
from holons.wcrdt.handle import Handle
from holons.windows import BEGINNING, TIME_LIMIT, Mark, Window

Item: TypeAlias = pl.DataFrame | pa.RecordBatch | pa.Table | Mark
Log: TypeAlias = Sequence[Item]
"""One partition, whole: rows in batches of any size, and marks."""


def run(job: Job, streams: Mapping[str, Sequence[Log]], *, rows_per_call: int = 1) -> Collected:
    """Runs a job over whole partitions, one after the other, and returns every output of every channel."""
    world = _World(job)
    for given in job.inputs:
        for log in streams[given.stream]:
            world.partitions.append(_Partition(world, len(world.partitions), given.stream, log, rows_per_call))
    while world.step():
        pass
    return world.outputs


@dataclass
class _Inserted:
    """Rows inserted into one handle by one partition, as one call gave them."""

    rows: Rows
    key: object = None

    def keyed_times(self) -> list[tuple[Any, int]]:
        """Each row's session key and time."""
        keys = self.key if isinstance(self.key, list) else [self.key] * self.rows.count
        return list(zip(keys, self.rows.ts.tolist(), strict=True))


@dataclass
class _World:
    """Everything there is, in one place."""

    job: Job
    partitions: list[_Partition] = field(default_factory=list)
    outputs: Collected = field(default_factory=dict)
    known: dict[tuple[int, Window, int | None], Any] = field(default_factory=dict)
    listed: dict[tuple[str, int], list[Window]] = field(default_factory=dict)

    def emit(self, channel: str, partition: int, rows: list[dict[str, Any]]) -> None:
        self.outputs.setdefault(channel, {}).setdefault(partition, []).extend(rows)

    def step(self) -> bool:
        """Lets every partition run as far as it can, then emits what is complete."""
        moved = [partition.run() for partition in self.partitions]
        emitted = [partition.emit(stage) for stage in range(self.job.layout.stages) for partition in self.partitions]
        return any(moved) or any(emitted)

    def watermark(self, stage: int) -> int:
        """How far all partitions have come in a stage."""
        return min((partition.clocks[stage] for partition in self.partitions), default=BEGINNING)

    def value(self, handle: Handle, index: int, window: Window, only: int | None = None) -> Any:  # noqa: ANN401
        """A window's value, from the rows themselves: partition by partition, in order. Only for completed windows."""
        if (index, window, only) in self.known:
            return self.known[index, window, only]
        start = BEGINNING if handle.accumulate else window.start
        state = handle.aggregate.zero(1)
        for partition in self.partitions:
            if only is None or partition.number == only:
                state = handle.aggregate.merge(state, partition.fold(handle, index, start, window.end, window.key))
        value = self.known[index, window, only] = handle.aggregate.value(state)
        return value

    def windows(self, callback: Callback, limit: int) -> list[Window]:
        """Every window of a callback that holds a row and ends by `limit`, in order."""
        inserts = sum(len(partition.inserted[index]) for partition in self.partitions for index in callback.handles)
        if (callback.channel, inserts) not in self.listed:
            self.listed[callback.channel, inserts] = sorted(self._all_windows(callback))
        return [window for window in self.listed[callback.channel, inserts] if window.end <= limit]

    def _all_windows(self, callback: Callback) -> set[Window]:
        rows = [
            row for partition in self.partitions for index in callback.handles for row in partition.keyed_times(index)
        ]
        return callback.window.windows_holding(rows)


class _Partition:
    """One partition: its log, its clock, and all it ever inserted."""

    def __init__(self, world: _World, number: int, stream: str, log: Log, rows_per_call: int) -> None:
        self.world = world
        self.number = number
        self.layout = world.job.layout
        self.given = next(given for given in world.job.inputs if given.stream == stream)
        self.clocks = [BEGINNING] * self.layout.stages
        self.event_clock = BEGINNING
        self.inserted: dict[int, list[_Inserted]] = {index: [] for index in range(len(self.layout.handles))}
        self.locals = {name: copy.deepcopy(local.initial) for name, local in self.layout.locals.items()}
        self.emitted: list[set[tuple[int, Window]]] = [set() for _ in range(self.layout.stages)]
        self.script = self._script(log, rows_per_call)
        self.waiting: _Await | None = None
        self.ended = False
        self.scope = _ProcessScope(self)
        self.program = bind(world.job.program, self.scope)
        self.window_scope = _WindowScope(self)
        self.window_program = bind(world.job.program, self.window_scope)

    # --- rows in ---------------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Goes on until the log ends or an await blocks."""
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

    def _script(self, log: Log, rows_per_call: int) -> Generator[_Await, None, None]:
        """The whole life of the partition; yields where it has to wait."""
        offset = 0
        pending: list[tuple[int, int, int, pl.DataFrame]] = []

        def flush() -> Generator[_Await, None, None]:
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
            frame = item if isinstance(item, pl.DataFrame) else pl.DataFrame(pl.from_arrow(item))
            for position, ts in enumerate(event_times(frame[self.given.time], self.given.stream).to_list()):
                row = frame.slice(position, 1)
                if ts is None or not -TIME_LIMIT < ts < TIME_LIMIT:
                    name = self.given.time
                    reason = (
                        f"no time in column {name!r}" if ts is None else f"the time in column {name!r} is out of range"
                    )
                    self._set_aside("dead", row, offset, reason)
                elif ts < self.event_clock:
                    self._set_aside("late", row, offset, None)
                else:
                    clock = max(self.event_clock, ts - self.given.disorder_us)
                    if len(pending) >= rows_per_call or (self.layout.asynchronous and pending and self._crosses(clock)):
                        yield from flush()
                    pending.append((offset, ts, clock, row))
                    self.event_clock = clock
                offset += 1
        yield from flush()

    def _crosses(self, clock: int) -> bool:
        """Whether a clock seals some window that the last row's did not: then a new call must begin."""
        return any(spec.boundary(clock) != spec.boundary(self.event_clock) for spec in self.layout.specs(0))

    def _set_aside(self, channel: str, row: pl.DataFrame, offset: int, reason: str | None) -> None:
        values = row.to_dicts()[0] | {"_stream": self.given.stream, "_offset": offset}
        self.world.emit(channel, self.number, [values | ({"_reason": reason} if reason else {})])

    def _call(self, rows: list[pl.DataFrame], offsets: list[int], times: list[int]) -> Generator[_Await, None, None]:
        frame = pl.concat(rows)
        if self.given.columns is not None:  # a program sees what it says it reads, and no more
            frame = frame[[name for name in frame.columns if name in (*self.given.columns, self.given.time)]]
        index = np.array(offsets, dtype=np.int64)
        origin = Origin(self.number, 0, len(index), index)
        events = Events(frame, Times(np.array(times, dtype=np.int64), origin, own=True), self.given.stream)
        self.scope.begin(events)
        if not self.layout.row_by_row:
            yield from self._drive(self.program.process(events))
        else:
            for row, values in enumerate(frame.to_dicts()):
                self.scope.row = events.slice(row, row + 1)
                yield from self._drive(self.program.each(Event(values, times[row], self.number, self.given.stream)))
                self.scope.row_done()
        self.scope.finish()

    @staticmethod
    def _drive(result: Coroutine[Any, Any, None] | None) -> Generator[_Await, None, None]:
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
        """Calls `on_window` for every completed window not called yet; then the next stage's clock follows."""
        limit = self.layout.emission_limit(stage, self.layout.boundary(stage, self.world.watermark(stage)))
        due = [
            (window.order(), number, callback, window)
            for number, callback in enumerate(self.layout.callbacks)
            if callback.stage == stage
            for window in self.world.windows(callback, limit)
            if (number, window) not in self.emitted[stage]
        ]
        for _, number, callback, window in sorted(due, key=lambda one: (one[0], one[1])):
            self.emitted[stage].add((number, window))
            if callback.once and self.number != 0:
                continue
            self.window_scope.now = (callback, window)
            rows = getattr(at_path(self.window_program, callback.path), callback.method)(window)
            made = [(callback.channel, tables(rows if rows is not None else ()))]  # a generator runs only now
            beside, self.window_scope.put_out = self.window_scope.put_out, []
            for channel, put_out in [*made, *((channel, tables(given)) for channel, given in beside)]:
                for table in put_out:
                    self.world.emit(channel, self.number, table.to_pylist())
        moved = bool(due)
        if stage + 1 < self.layout.stages:
            clock = self.layout.boundary(stage, limit)
            moved |= clock > self.clocks[stage + 1]
            self.clocks[stage + 1] = max(self.clocks[stage + 1], clock)
        return moved

    # --- what was inserted -----------------------------------------------------------------------------------------

    def keyed_times(self, index: int) -> list[tuple[Any, int]]:
        return [pair for block in self.inserted[index] for pair in block.keyed_times()]

    def fold(self, handle: Handle, index: int, start: int, end: int, key: object) -> State:
        """This partition's rows of a window, one by one."""
        state = handle.aggregate.zero(1)
        for block in self.inserted[index]:
            chosen = (block.rows.ts >= start) & (block.rows.ts < end)
            if handle.window.keyed:
                chosen &= np.array([other == key for other, _ in block.keyed_times()], dtype=np.bool_)
            for row in np.flatnonzero(chosen).tolist():
                state = handle.aggregate.merge(state, _fold_one(handle.aggregate, block.rows, row))
        return state


def _fold_one(aggregate: Aggregate[Any], rows: Rows, row: int) -> State:
    return aggregate.fold(Groups.single(1), rows.take(np.array([row])))


class _Await(Awaitable[Any]):
    """A wait for a window, and what it will give."""

    def __init__(self, ready: Callable[[], bool], value: Callable[[], Any]) -> None:
        self.ready = ready
        self.value = value

    def __await__(self) -> Generator[_Await, Any, Any]:
        return (yield self)


class _ProcessScope:
    """`process` in the oracle: keeps what is inserted, answers awaits from the whole world."""

    def __init__(self, partition: _Partition) -> None:
        self.owner = partition
        self.layout = partition.layout
        self.row: Events | None = None
        self.events: Events | None = None
        self.start = BEGINNING
        self.by_hand = BEGINNING
        self.outputs: list[tuple[int, int, str, dict[str, Any]]] = []

    @property
    def partition(self) -> int:
        return self.owner.number

    @property
    def partitions(self) -> int:
        raise WrongScope("the number of partitions in process")

    def begin(self, events: Events) -> None:
        self.events, self.row = events, None
        self.start = self.owner.clocks[0]

    def row_done(self) -> None:
        """A row may move the clock for those after it, not for itself."""
        self.owner.clocks[0] = max(self.owner.clocks[0], self.by_hand)

    def finish(self) -> None:
        self.row_done()
        for _, _, channel, row in sorted(self.outputs, key=lambda output: output[:2]):
            self.owner.world.emit(channel, self.owner.number, [row])
        self.outputs = []

    def insert(self, handle: str, element: object, ts: When, key: object) -> None:
        assert not isinstance(ts, np.ndarray)
        index = self.layout.indices[handle]
        described = self.layout.handles[index]
        if described.stage:
            raise WrongScope(f"{handle} is fed by on_window")
        times = self._times(ts)
        if described.window.keyed:
            rows = prepare((0 if key is NO_KEY else key, element), times.micros, times.origin)
            assert isinstance(rows.element, tuple)
            block = _Inserted(rows.with_element(rows.element[1]), _plain_keys(rows.element[0]))
        else:
            block = _Inserted(prepare(element, times.micros, times.origin))
        if block.rows.count and int(block.rows.ts.min()) < self.owner.clocks[0]:
            raise InsertBelowWatermark(f"{handle}: below the watermark")
        self.owner.inserted[index].append(block)

    def _times(self, ts: Times | int) -> Times:
        if isinstance(ts, Times):
            return ts
        if self.row is None:
            raise WrongScope("a single time in process")
        return Times(np.array([ts], dtype=np.int64), self.row.ts.origin)

    def advance(self, handle: str, ts: Times | int) -> None:
        times = self._times(ts)
        assert len(self.events or ()) == 1 or self.row is not None, "advance: run the oracle with rows_per_call=1"
        if len(times):
            self.by_hand = max(self.by_hand, int(times.micros.max()))

    def read(self, handle: str, window: Window) -> Any:  # noqa: ANN401
        index = self.layout.indices[handle]
        return self.owner.world.value(self.layout.handles[index], index, window)

    def completed(self, handle: str, window: Window) -> Awaitable[Any]:
        described = self.layout.handles[self.layout.indices[handle]]
        if window.end > self.layout.reach(described.stage, self.start):
            raise AwaitWouldDeadlock(f"{handle} {window}")
        world, stage = self.owner.world, described.stage
        return _Await(
            lambda: self.layout.boundary(stage, world.watermark(stage)) >= window.end,
            lambda: self.read(handle, window),
        )

    def peek(self, handle: str, window: Window, preview: bool) -> Any:  # noqa: ANN401
        raise WrongScope("peek has no meaning in a specification", hint="it depends on timing")

    def watermark(self, handle: str) -> int:
        raise WrongScope("watermark() has no meaning in a specification", hint="it depends on timing")

    def local(self, name: str, scope: str) -> Any:  # noqa: ANN401
        if scope != "process":
            raise WrongScope(f"{name} is a Local of on_window")
        return self.owner.locals[name]

    def set_local(self, name: str, scope: str, value: object) -> None:
        if scope != "process":
            raise WrongScope(f"{name} is a Local of on_window")
        self.owner.locals[name] = copy.deepcopy(value)

    def output(self, rows: object, channel: str) -> None:
        if isinstance(rows, Events):
            for offset, row in zip(rows.ts.origin.offsets().tolist(), rows.frame.to_dicts(), strict=True):
                self.outputs.append((offset, len(self.outputs), channel, row))
        else:
            assert isinstance(rows, dict)
            assert self.row is not None
            self.outputs.append((int(self.row.ts.origin.offsets()[0]), len(self.outputs), channel, rows))


class _WindowScope:
    """`on_window` in the oracle: recomputes whatever is read."""

    def __init__(self, partition: _Partition) -> None:
        self.owner = partition
        self.layout = partition.layout
        self.now: tuple[Callback, Window] | None = None
        self.put_out: list[tuple[str, list[object]]] = []
        self.fed: dict[int, int] = {}

    @property
    def partition(self) -> int:
        return self.owner.number

    @property
    def partitions(self) -> int:
        return len(self.owner.world.partitions)

    def insert(self, handle: str, element: object, ts: When, key: object) -> None:
        assert self.now is not None
        assert not isinstance(ts, Times)
        callback, window = self.now
        index = self.layout.indices[handle]
        described = self.layout.handles[index]
        if described.stage != callback.stage + 1:
            raise WrongScope(f"{handle} is not of the next stage")
        if np.min(ts, initial=TIME_LIMIT) < self.layout.floor_for(callback.stage, window.end):
            raise InsertBelowWatermark(f"{handle}: below the stage's clock")
        given = (0 if key is NO_KEY else key, element) if described.window.keyed else element
        length = element_length(given)
        count = len(ts) if isinstance(ts, np.ndarray) else 1 if length is None else length
        times = np.full(count, ts, dtype=np.int64)
        fed = self.fed.get(described.stage, 0)
        self.fed[described.stage] = fed + count
        origin = Origin(self.partition, fed, count)
        rows = prepare(given, times, origin)
        keys: object = None
        if described.window.keyed:
            assert isinstance(rows.element, tuple)
            keys, rows = _plain_keys(rows.element[0]), rows.with_element(rows.element[1])
        self.owner.inserted[index].append(_Inserted(rows, keys))

    def read(self, handle: str, window: Window) -> Any:  # noqa: ANN401
        assert self.now is not None
        callback, now = self.now
        index = self.layout.indices[handle]
        described = self.layout.handles[index]
        if window.end > now.end or described.stage > callback.stage:
            raise WrongScope(f"{handle}[{window}] in on_window of {now}")
        only = None if described.shared else self.partition
        value = self.owner.world.value(described, index, window, only)
        if not isinstance(value, Keyed):
            return value
        readers = 1 if callback.once else len(self.owner.world.partitions)
        return value.placed(self.partition % readers, readers)

    def advance(self, handle: str, ts: Times | int) -> None:
        raise WrongScope("advance in on_window")

    def completed(self, handle: str, window: Window) -> Awaitable[Any]:
        raise WrongScope("await in on_window")

    def peek(self, handle: str, window: Window, preview: bool) -> Any:  # noqa: ANN401
        raise WrongScope("peek has no meaning in a specification", hint="it depends on timing")

    def watermark(self, handle: str) -> int:
        raise WrongScope("watermark() has no meaning in a specification", hint="it depends on timing")

    def local(self, name: str, scope: str) -> Any:  # noqa: ANN401
        if scope != "window":
            raise WrongScope(f"{name} is a Local of process")
        return self.owner.locals[name]

    def set_local(self, name: str, scope: str, value: object) -> None:
        if scope != "window":
            raise WrongScope(f"{name} is a Local of process")
        self.owner.locals[name] = copy.deepcopy(value)

    def output(self, rows: object, channel: str) -> None:
        self.put_out.append((channel, [rows]))


def _plain_keys(keys: object) -> object:
    """Keys as a list, or the one key of all rows; booleans are 0 and 1."""
    plain = keys.to_list() if isinstance(keys, pl.Series) else keys.tolist() if isinstance(keys, np.ndarray) else keys
    if isinstance(plain, list):
        return [int(key) if isinstance(key, bool) else key for key in plain]
    return int(plain) if isinstance(plain, bool) else plain
