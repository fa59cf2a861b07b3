"""The window part of a partition: it calls `on_window` for completed windows, and makes the contributions of later stages.

Windows are called in the order (end, start, key) over all callbacks of a stage, up to where the replica is complete. So
what `on_window` sees, and in which order, does not depend on when deltas arrive.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from holons.algebra import Keyed, Origin, State
from holons.algebra.rows import element_length, prepare
from holons.errors import InsertBelowWatermark, InvariantBroken, WrongScope
from holons.program.calls import check_channel, check_kept, check_peekable, placed, written_twice
from holons.program.elements import keyed_element
from holons.program.events import Times
from holons.program.handles import LocalScope, When
from holons.program.job import Job
from holons.program.layout import Callback, Layout, at_path, bind
from holons.program.locals import checked_locals, freeze, initial_locals, thaw
from holons.program.outputs import NOTHING_EMITTED, Cut, Emitted, Output, number, tables
from holons.program.process import seal_up_to
from holons.program.records import WINDOW, WindowRecord
from holons.wcrdt import Contributions, Delta, Handle, Replica, SealedPanes, Sessions, check_fits, nested, restoring
from holons.windows import BEGINNING, ENDING, Window, instant_text


class WindowPart:
    """Calls `on_window` for one partition."""

    def __init__(
        self, job: Job, partition: int, partitions: int, resume: bytes | None = None, *, cut: Cut | None = None
    ) -> None:
        self.layout = job.layout
        self.cut = cut or Cut()
        self.partition = partition
        self.outputs: list[Output] = []
        self.deltas: list[Delta] = []
        later = range(1, self.layout.stages)
        self.calls = 0
        self.cursors: list[Emitted] = [NOTHING_EMITTED] * self.layout.clocks
        self.emitted_to = [BEGINNING] * self.layout.clocks
        self.sealed_to = [BEGINNING] * self.layout.stages
        self.locals = initial_locals(job, "window")
        self.local_stages: dict[str, int] = {}
        self.ordinals: dict[str, int] = {}
        self.writers = self.layout.writers  # by channel, the first callback that wrote to it
        self.inserted = [0] * self.layout.stages
        """By stage, how many rows were inserted into it, so that each has a place of its own."""
        handles = self.layout.handles
        inserted = [i for stage in later for i in self.layout.stage_handles(stage)]
        self.local_panes = {i: SealedPanes(handles[i]) for i in inserted if not handles[i].shared}
        self.contributions = {stage: Contributions(handles, self.layout.stage_handles(stage)) for stage in later}
        stitched = {c.handles[0] for c in self.layout.callbacks if not c.window.known_ahead}
        self.sessions = {index: Sessions(handles[index]) for index in sorted(stitched)}
        if resume is not None:
            with restoring("a window record"):
                self._restore(resume)
        self.scope = WindowScope(self, partitions)
        self._program = bind(job.program, self.scope)

    def work(
        self, replica: Replica, process_panes: dict[int, SealedPanes], sealed: Sequence[int], calls: int = 1024
    ) -> bool:
        """Calls `on_window` up to so many times for completed windows; says whether anything happened.

        `sealed` is by clock how far this partition has sealed itself, and so has its WLocal values.
        """
        self.scope.replica, self.scope.panes = replica, process_panes | self.local_panes
        happened = False
        for stage in range(self.layout.clocks):
            known = self._known(stage, replica, sealed)
            limit = reach = self.layout.emission_limit(stage, known)
            if limit >= ENDING and stage >= self.layout.stages:
                cuts = replica.lanes[stage - self.layout.stages]
                limit, reach = cuts.full_to, ENDING if cuts.total is not None else cuts.full_to
            if reach <= self.emitted_to[stage] and not self.sessions:
                continue
            while calls > 0:
                due = self._next(stage, replica, known, limit)
                if due is None:
                    break
                self._call(*due)
                calls -= 1
                happened = True
            else:
                return happened
            happened |= self._advance(stage, reach)
        for panes in self.local_panes.values():  # a run resumes after what was emitted, and needs nothing older
            panes.trim(panes.handle.read_to(self.emitted_to, self.layout.stages) - panes.handle.keep_us)
        return happened

    def closes(self, replica: Replica, watermark: int) -> bool:
        """Returns whether a window that holds something is over once all have reached a watermark of stage 0."""
        reach = [self.layout.reach(stage, watermark) for stage in range(self.layout.stages)]
        if any(contributions.ends_by(reach[stage]) for stage, contributions in self.contributions.items()):
            return True
        return any(
            self._closes(callback, index, replica.panes[index].present, reach[callback.stage])
            for callback in self.layout.callbacks
            for index in callback.handles
            if not callback.window.counted  # those are over once there are enough rows
        )

    def _closes(self, callback: Callback, index: int, present: Sequence[int], reach: int) -> bool:
        emitted_to, limit = self.emitted_to[callback.stage], callback.window.emission_limit(reach)
        if callback.window.known_ahead:
            window = callback.window.aligned.next_window(emitted_to, present)
            return window is not None and window.end <= limit
        sessions = self.sessions[index]
        newest = callback.window.pane_end(present[-1]) if present else BEGINNING
        return limit > emitted_to and (bool(sessions.open or sessions.closed) or newest > emitted_to)

    def _known(self, clock: int, replica: Replica, sealed: Sequence[int]) -> int:
        """Returns up to where all values are complete that windows of a stage or a lane may read.

        Windows may read earlier stages too, whose messages may come later than those that followed from them.
        """
        earliest = clock if clock >= self.layout.stages else 0
        known = min(replica.watermark(earlier) for earlier in range(earliest, clock + 1))
        for handle in self.layout.handles:
            if not handle.shared and earliest <= handle.stage <= clock:
                known = min(known, sealed[handle.stage])
        return known

    def _next(self, stage: int, replica: Replica, known: int, limit: int) -> tuple[Callback, Window, Emitted] | None:
        """Returns the next window of a stage to emit, over all its callbacks."""
        cursor = self.cursors[stage]
        best: tuple[Callback, Window, Emitted] | None = None
        for number_, callback in enumerate(self.layout.callbacks):
            if callback.stage != stage:
                continue
            window = self._candidate(callback, number_, replica, cursor, known)
            if window is None or window.end > limit:
                continue
            order: Emitted = (*window.order(), number_)
            if best is None or order < best[2]:
                best = callback, window, order
        return best

    def _candidate(
        self, callback: Callback, number_: int, replica: Replica, cursor: Emitted, known: int
    ) -> Window | None:
        if not callback.window.known_ahead:
            sessions = self.sessions[callback.handles[0]]
            sessions.stitch(replica.panes[callback.handles[0]], known)  # not only up to the limit of all kinds
            return sessions.next_closed()
        spec, windows = callback.window.aligned, []
        for index in callback.handles:
            present = replica.panes[index].present
            window = spec.next_window(cursor[0] - 1 if cursor[0] > BEGINNING else BEGINNING, present)
            if window is not None and (*window.order(), number_) <= cursor:
                window = spec.next_window(cursor[0], present)
            if window is not None:
                windows.append(window)
        return min(windows, default=None)

    def _call(self, callback: Callback, window: Window, cursor: Emitted) -> None:
        session = None if callback.window.known_ahead else self.sessions[callback.handles[0]].take()
        if not callback.once or self.partition == 0:
            self.scope.begin(callback, window, session)
            try:
                counted = callback.window.counted
                with placed(partition=self.partition, window=callback.window.text(window) if counted else window):
                    rows = getattr(at_path(self._program, callback.path), callback.method)(window)
                    emitted = {callback.channel: tables(rows if rows is not None else ())}
                    for channel, outputs in self.scope.outputs.items():
                        emitted.setdefault(channel, []).extend(tables(outputs))
            finally:
                self.scope.end()
            for channel, rows_of_channel in emitted.items():
                if not self._emitted_before(callback, window, cursor, channel):
                    self.outputs += number(channel, self.partition, self.ordinals, rows_of_channel)
        self.cursors[callback.stage] = cursor
        self.calls += 1

    def _emitted_before(self, callback: Callback, window: Window, place: Emitted, channel: str) -> bool:
        """Whether an older version of the job has emitted a window, as far as a channel is concerned."""
        if not callback.window.counted or not self.cut.emitted_to:
            return self.cut.covers(callback.stage, place)
        channel = channel if channel in self.layout.channels_of(callback) else callback.channel
        return self.cut.covers_counted(channel, place, self.scope.last_time_of(callback.handles[0], window))

    def _advance(self, stage: int, limit: int) -> bool:
        """Moves the clock of the next stage: all windows up to `limit` are emitted."""
        if limit <= self.emitted_to[stage]:
            return False
        self.emitted_to[stage] = limit
        later = stage + 1
        if later >= self.layout.stages:
            return True
        end = self.layout.boundary(later, self.layout.boundary(stage, limit))
        if end > self.sealed_to[later]:
            seals = seal_up_to(self.contributions[later], end, self.local_panes)
            self.deltas.append(Delta(later, self.partition, self.sealed_to[later], end, seals))
            self.sealed_to[later] = end
        return True

    def snapshot(self) -> bytes:
        """Returns the record to resume from, between any two calls. Nothing may wait to be sent."""
        if self.deltas or self.outputs:
            raise InvariantBroken(
                "covering checkpoints: outputs and deltas are written before the record", hint="drain first"
            )
        opened = [contributions.record() for contributions in self.contributions.values()]
        sealed = {index: panes.record() for index, panes in sorted(self.local_panes.items())}
        stitched = {index: sessions.record() for index, sessions in self.sessions.items()}
        record = WindowRecord(
            calls=self.calls,
            cursors=self.cursors,
            emitted_to=self.emitted_to,
            sealed_to=self.sealed_to,
            local_stages=dict(sorted(self.local_stages.items())),
            ordinals=dict(sorted(self.ordinals.items())),
            inserted=self.inserted,
            contributions=[part for part, _ in opened],
            panes={index: part for index, (part, _) in sealed.items()},
            stitched={index: part for index, (part, _) in stitched.items()},
            counted=self.layout.lane_channels,
            writers=dict(sorted(self.writers.items())),
        )
        states = [
            freeze(self.locals),
            [states for _, states in opened],
            [nested(seals) for _, seals in sealed.values()],
            [states for _, states in stitched.values()],
        ]
        return WINDOW.encode(record, states)

    def _restore(self, resume: bytes) -> None:
        record, (locals_, opened, sealed, stitched) = WINDOW.decode(resume)
        check_fits(len(record.cursors) == len(record.emitted_to) == self.layout.clocks)
        check_fits(len(record.sealed_to) == len(record.inserted) == self.layout.stages)
        self.calls, self.cursors, self.inserted = record.calls, record.cursors, record.inserted
        self.writers.update(record.writers)
        self.emitted_to, self.sealed_to = record.emitted_to, record.sealed_to
        self.locals, self.local_stages, self.ordinals = thaw(locals_), record.local_stages, record.ordinals
        for contributions, part, states in zip(self.contributions.values(), record.contributions, opened, strict=True):
            contributions.restore(part, states)
        for (index, panes), seals in zip(record.panes.items(), sealed, strict=True):
            self.local_panes[index].restore(panes, seals)
        for (index, windows), states in zip(record.stitched.items(), stitched, strict=True):
            self.sessions[index].restore(windows, states)


class WindowScope:
    """What handles may do in `on_window`: read completed windows, and insert into the next stage."""

    def __init__(self, part: WindowPart, partitions: int) -> None:
        self._part = part
        self._layout: Layout = part.layout
        self._partitions = partitions
        self._callback: Callback | None = None
        self._window: Window | None = None
        self._session: State | None = None
        self.outputs: dict[str, list[object]] = {}
        """By channel, the rows that the call has emitted besides those that it yields."""
        self.replica: Replica | None = None
        self.known_here: Callable[[int, Window], State | None] | None = None
        """Returns what this partition has inserted into a window of a WLocal, sealed or not: for `peek`."""
        self.panes: dict[int, SealedPanes] = {}

    def begin(self, callback: Callback, window: Window, session: State | None) -> None:
        """Begins a call."""
        self._callback, self._window, self._session = callback, window, session

    def end(self) -> None:
        """Ends the call."""
        self._callback = self._window = self._session = None
        self.outputs = {}

    @property
    def partition(self) -> int:
        return self._part.partition

    @property
    def partitions(self) -> int:
        return self._partitions

    def insert(self, handle: str, element: object, ts: When, key: object) -> None:
        index, described = self._handle(handle)
        callback, window = self._now()
        if described.window.counted or callback.window.counted:
            counting = handle if described.window.counted else callback.method
            raise WrongScope(
                f"insert into {handle} in {callback.method}: {counting} is for count windows, which are over rows of "
                "streams and feed no other windows",
                hint="insert it in process",
            )
        if described.stage != callback.stage + 1:
            raise WrongScope(
                f"{handle} belongs to stage {described.stage}, and {callback.method} feeds stage {callback.stage + 1}",
                hint=f"insert it in process, or declare {handle} with stage={callback.stage + 1}",
            )
        if isinstance(ts, Times):
            raise WrongScope("rows of a batch in on_window", hint="insert at the window's own time: insert(x, window)")
        element = keyed_element(described, element, key)
        count = element_length(element)
        times = ts if isinstance(ts, np.ndarray) else np.full(1 if count is None else count, ts, dtype=np.int64)
        floor, first = self._layout.floor_for(callback.stage, window.end), int(times.min(initial=ENDING))
        if first < floor:
            raise InsertBelowWatermark(
                f"{handle}: insert at {instant_text(first)}, below {instant_text(floor)}, in on_window of {window}",
                hint="insert at the window itself: insert(x, window)",
            )
        origin = Origin(self._part.partition, self._part.inserted[described.stage], len(times))
        self._part.inserted[described.stage] += len(times)
        self._part.contributions[described.stage].insert(index, prepare(element, times, origin))

    def advance(self, handle: str, ts: Times | int) -> None:
        raise WrongScope(f"{handle}.advance in on_window", hint="a later stage's clock follows on_window by itself")

    def read(self, handle: str, window: Window) -> Any:  # noqa: ANN401
        index, described = self._handle(handle)
        callback, now = self._now()
        if not described.window.known_ahead:
            if window != now or index not in callback.handles or self._session is None:
                raise WrongScope(
                    f"{handle}[{window}]: {described.window.noun} is read in its own on_window",
                    hint="use the window that on_window is called with",
                )
            return self._placed(described.aggregate.value(self._session))
        self._check_completed(handle, described, window)
        return self._placed(self._value(index, window))

    def _check_completed(self, handle: str, described: Handle, window: Window) -> None:
        """Raises unless a window is completed for everybody whenever the one is whose call this is."""
        callback, now = self._now()
        self._check_axis(handle, described)
        if described.stage > callback.stage:
            raise WrongScope(f"{handle} belongs to a later stage", hint=f"read it in the on_window of {handle}")
        if described.own_stage and described.stage < callback.stage:
            raise WrongScope(f"{handle} is read in its own stage alone", hint="declare it without own_stage")
        described.window.aligned.check(window)
        if window.end > now.end:
            raise WrongScope(
                f"{handle}[{described.window.text(window)}] in on_window of {described.window.text(now)}: "
                "it may not be completed",
                hint="read windows that end at or before the window that on_window is called with",
            )
        check_kept(described, window, now.end)

    def _check_axis(self, handle: str, described: Handle) -> None:
        """Windows of time and of ranks, and those of different ranks, say nothing about each other."""
        callback, _ = self._now()
        if described.stage != callback.stage and (described.window.counted or callback.window.counted):
            raise WrongScope(
                f"{handle} in {callback.method}: windows of {described.window} and of {callback.window} are not completed "
                "in one order",
                hint=f"read {handle} in its own on_window; several values of the same rows are one handle: h.Product(...)",
            )

    def last_time(self, handle: str, window: Window) -> int:
        index, described = self._handle(handle)
        if not described.window.counted:
            raise WrongScope(
                f"{handle}.last_time({window}): that is for count windows", hint="the window itself has its times"
            )
        self._check_completed(handle, described, window)
        return self.last_time_of(index, window)

    def last_time_of(self, index: int, window: Window) -> int:
        """When the last row of a completed count window was."""
        assert self.replica is not None
        return self.replica.last_time(index, window)

    def _value(self, index: int, window: Window) -> Any:  # noqa: ANN401
        handle = self._layout.handles[index]
        if handle.shared:
            assert self.replica is not None
            return self.replica.value(index, window)
        self._check_readable(handle)
        return handle.aggregate.value(self.panes[index].state(window))

    def _check_readable(self, handle: Handle) -> None:
        if self._now()[0].once:
            raise WrongScope(
                f"{handle.name} is a WLocal, but only one partition runs this on_window",
                hint='use a WCRDT, or emit = "each"',
            )

    def _placed(self, value: Any) -> Any:  # noqa: ANN401
        """Tells a keyed value which partition reads it, for `share()`: all of it where one partition emits for all."""
        if not isinstance(value, Keyed):
            return value
        return value.placed(0, 1) if self._now()[0].once else value.placed(self._part.partition, self._partitions)

    def completed(self, handle: str, window: Window) -> Awaitable[Any]:
        raise WrongScope(f"await of {handle} in on_window", hint=f"read it directly: self.{handle}[window]")

    def peek(self, handle: str, window: Window, preview: bool) -> Any:  # noqa: ANN401
        index, described = self._handle(handle)
        check_peekable(described, window)
        assert self.replica is not None
        if described.shared:
            return self._placed(self.replica.peek(index, window, preview=preview))
        if self.replica.completed(index, window):
            return self._placed(self._value(index, window))
        self._check_readable(described)
        assert self.known_here is not None
        state = self.known_here(index, window) if preview else None
        return None if state is None else self._placed(described.aggregate.value(state))

    def watermark(self, handle: str) -> int:
        assert self.replica is not None
        return self.replica.watermark(self._handle(handle)[1].stage)

    def local(self, name: str, scope: LocalScope) -> Any:  # noqa: ANN401
        self._check_local(name, scope)
        return self._part.locals[name]

    def set_local(self, name: str, scope: LocalScope, value: object) -> None:
        self._check_local(name, scope)
        self._part.locals.update(checked_locals({name: copy.deepcopy(value)}))

    def output(self, rows: object, channel: str) -> None:
        callback, _ = self._now()
        check_channel(channel)
        callbacks = self._layout.callbacks
        first = callbacks[self._part.writers.setdefault(channel, callbacks.index(callback))]
        if first.stage != callback.stage:
            raise written_twice(channel, first.method, callback.method)
        self.outputs.setdefault(channel, []).append(rows)

    def _now(self) -> tuple[Callback, Window]:
        if self._callback is None or self._window is None:
            raise WrongScope(
                "a handle of `on_window` was used after its call returned", hint="do not keep handles around"
            )
        return self._callback, self._window

    def _handle(self, name: str) -> tuple[int, Handle]:
        index = self._layout.indices[name]
        return index, self._layout.handles[index]

    def _check_local(self, name: str, scope: LocalScope) -> None:
        if scope != "window":
            raise WrongScope(
                f"{name} is a Local of process, used in on_window: their relative timing is not deterministic",
                hint=f'declare one for on_window: {name} = h.Local(..., scope="window")',
            )
        stage = self._part.local_stages.setdefault(name, self._now()[0].stage)
        if stage != self._now()[0].stage:
            raise WrongScope(
                f"{name} is used in two stages, whose relative timing is not deterministic", hint="use two"
            )
