"""Why a window has its value: which rows of which partitions went into it, and what each contributed.

Programs are deterministic, so nothing need have been recorded: the input logs are run through the program once more, all
partitions together (they may await each other's windows), and what goes into the window is noted on the way. The
noting is done by contributions of this file, so that ordinary runs pay nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from holons.algebra import IntArray, Rows, State
from holons.algebra.rows import column
from holons.errors import BadInput, CodecError, RecordDamaged, UnknownWindow, WindowNotCompleted
from holons.node import partitions_of
from holons.node.recovery import STATE
from holons.program import Job, Output, ProgramRun
from holons.store import Store
from holons.streams import ReadableLog, SharedLog
from holons.wcrdt import Contributions, Delta, Handle, Replica, Sealed
from holons.windows import BEGINNING, AlignedSpec, Window, WindowSpec

Verdict: TypeAlias = Literal["agrees", "differs", "trimmed", "not sealed"]
"""What nodes sealed: the same, something else, nothing that is still there, or nothing yet."""

_READ_ROWS = 10_000
_NEAR = 3


class EmittedRow(NamedTuple):
    """A row that came out."""

    partition: int
    ordinal: int
    row: dict[str, Any]


@dataclass(frozen=True)
class Contribution:
    """What one partition added to a window of one handle, and by which rows."""

    handle: str
    partition: int
    rows: int
    first: int | None
    """The offset of the first row in its partition's log; None in a later stage, whose rows are in no log."""
    last: int | None
    value: object
    sealed: Verdict | None = None
    """How it compares with what nodes sealed; None if nobody asked."""
    first_window: Window | None = None
    """In a later stage, the first window of the stage before whose `on_window` inserted rows here."""
    last_window: Window | None = None


@dataclass(frozen=True)
class Explanation:
    """A window, the folded values of its shared handles, and where they come from."""

    window: Window
    channels: tuple[str, ...]
    """Where its rows go; nowhere if no `on_window` answers it, or if it only feeds later windows."""
    values: Mapping[str, object]
    contributions: tuple[Contribution, ...]
    outputs: Mapping[str, tuple[EmittedRow, ...]]
    """What came out, by channel."""
    stage: int = 0
    """Of its handles: 0 takes rows of the input, a later one those that `on_window` of the stage before inserts."""


class SealedByNodes:
    """What nodes sealed, as far as the sync stream and stored replicas still tell."""

    def __init__(self, deltas: Iterable[Delta], replica: Replica | None = None) -> None:
        self._deltas: dict[tuple[int, int], list[Delta]] = {}
        for delta in deltas:
            self._deltas.setdefault((delta.stage, delta.partition), []).append(delta)
        self._replica = replica

    @classmethod
    def read(
        cls, job: Job, partitions: int, sync: SharedLog, store: Store | None = None, name: str = ""
    ) -> SealedByNodes:
        """From a job's sync stream, and from the newest replica that is stored whole. It may run under another `name`."""
        deltas: list[Delta] = []
        cursor: dict[str, int] = {}
        while messages := sync.read(cursor, _READ_ROWS):
            deltas += (Delta.decode(message.data) for message in messages)
        name = f"{name or job.name}/replica"
        for position in reversed(store.positions(name) if store is not None else []):
            assert store is not None
            try:
                snapshot = STATE.header(store.get(name, position)).state
            except (RecordDamaged, CodecError):
                continue
            return cls(deltas, Replica.resumed(job.layout.handles, partitions, snapshot))
        return cls(deltas)

    def compare(self, index: int, handle: Handle, partition: int, ours: Mapping[int, bytes | None]) -> Verdict:
        """Compares panes of one partition, each with the payload that it ought to have."""
        found = {pane: self._look(index, handle, partition, pane) for pane in ours}
        if any(isinstance(there, tuple) and there[0] != ours[pane] for pane, there in found.items()):
            return "differs"
        missing = [there for there in found.values() if isinstance(there, str)]
        return missing[0] if missing else "agrees"

    def _look(
        self, index: int, handle: Handle, partition: int, pane: int
    ) -> tuple[bytes | None] | Literal["trimmed", "not sealed"]:
        end, reached = handle.window.pane_end(pane), BEGINNING
        for delta in self._deltas.get((handle.stage, partition), []):
            reached = max(reached, delta.end)
            if delta.start < end <= delta.end:
                same = (seal.payload for seal in delta.seals if (seal.handle, seal.pane) == (index, pane))
                return (next(same, None),)
        if self._replica is not None:
            panes, progress = self._replica.panes[index], self._replica.progress[handle.stage][partition]
            if progress >= end and handle.window.pane_needed_until(pane) > panes.trimmed_to:
                return (panes.get(pane, partition),)
            reached = max(reached, progress)
        return "trimmed" if reached >= end else "not sealed"


# --- which windows are meant ------------------------------------------------------------------------------------------


class _Target(NamedTuple):
    """Handles that share their windows, and the window in question; a session's end is not known beforehand."""

    channels: tuple[str, ...]
    callback: int
    stage: int
    spec: WindowSpec
    handles: tuple[int, ...]
    window: Window | None


def _targets(job: Job, start: int, channel: str | None) -> list[_Target]:
    """All handles of the job, or of a channel; those of which no window can start there have none."""
    layout = job.layout
    made = [
        _Target(layout.channels_of(one), number, one.stage, one.window, one.handles, None)
        for number, one in enumerate(layout.callbacks)
    ]
    answered = {index for target in made for index in target.handles}
    silent: dict[tuple[int, WindowSpec], list[int]] = {}
    for index, handle in enumerate(layout.handles):
        if index not in answered and handle.window.known_ahead:
            silent.setdefault((handle.stage, handle.window), []).append(index)
    made += [_Target((), -1, stage, spec, tuple(indices), None) for (stage, spec), indices in silent.items()]
    if channel is not None:
        made = [target for target in made if channel in target.channels]
        if not made:
            names = ", ".join(name for one in layout.callbacks for name in layout.channels_of(one))
            raise BadInput(f"the job has no channel {channel!r} of windows", hint=f"there is {names}")
    return [target._replace(window=target.spec.starting(start)) for target in made]


# --- noting what goes in ----------------------------------------------------------------------------------------------


@dataclass
class _Notes:
    """What one partition inserted into the windows in question."""

    spans: Mapping[int, tuple[int, float]]
    """By handle: from when to when rows count."""
    inserted: dict[int, list[tuple[IntArray, IntArray, npt.NDArray[np.generic] | None]]] = field(default_factory=dict)
    """By handle: times, offsets (in a later stage: which of the calls inserted them), and keys of sessions."""
    called: list[Window] = field(default_factory=list)
    """The windows for which `on_window` was called, in order."""
    states: dict[int, dict[int, State]] = field(default_factory=dict)
    """By handle and pane: what was sealed."""


class _Noting(Contributions):
    """Contributions that note what goes in."""

    def __init__(self, handles: Sequence[Handle], indices: Sequence[int], notes: _Notes) -> None:
        super().__init__(handles, indices)
        self._notes = notes

    def insert(self, index: int, rows: Rows) -> None:
        super().insert(index, rows)
        low, high = self._notes.spans.get(index, (0, 0))
        inside = (rows.ts >= low) & (rows.ts < high)
        if inside.any():
            keys = None
            if self._handles[index].window.keyed:
                assert isinstance(rows.element, tuple)
                keys = np.asarray(column(rows.element[0], rows.count))[inside]
            places = rows.origin.offsets()[inside]
            if self._handles[index].stage:  # there, origins only count the rows: they lead back to nothing
                places = np.full(len(places), len(self._notes.called), dtype=np.int64)
            noted = rows.ts[inside], places, keys
            self._notes.inserted.setdefault(index, []).append(noted)

    def seal(self, watermark: int) -> list[Sealed]:
        sealed = super().seal(watermark)
        for index, pane, state in sealed:
            low, high = self._notes.spans.get(index, (0, 0))
            window = self._handles[index].window
            if window.pane_end(pane) > low and window.pane_start(pane) < high:
                self._notes.states.setdefault(index, {})[pane] = state
        return sealed


# --- running it again -------------------------------------------------------------------------------------------------


class _Replay:
    """All partitions of a job, from the beginning of their logs."""

    def __init__(self, job: Job, logs: Mapping[str, ReadableLog], targets: Sequence[_Target], start: int) -> None:
        self.job = job
        self.targets = targets
        self.start = start
        handles = job.layout.handles
        self.places = partitions_of(job, logs.__getitem__)
        self.replica = Replica(handles, len(self.places))
        self.sessions: set[tuple[int, Window]] = set()
        """By callback."""
        self.outputs: dict[tuple[int, Window], dict[str, list[EmittedRow]]] = {}
        spans: dict[int, tuple[int, float]] = {}
        for target in targets:
            for index in target.handles:
                low = BEGINNING if handles[index].accumulate else start
                spans[index] = low, np.inf if target.window is None else target.window.end
        self.notes = [_Notes(spans) for _ in self.places]
        self.runs: list[tuple[ProgramRun, ReadableLog, int]] = []
        for number, (input_index, place) in enumerate(self.places):
            log = logs[job.inputs[input_index].stream]
            if log.start(place):
                raise BadInput(
                    f"partition {place} of {job.inputs[input_index].stream!r} only begins at offset {log.start(place)}",
                    hint="what came before was trimmed, so the program cannot be run again from the beginning",
                )
            run = ProgramRun(job, number, len(self.places), input_index=input_index)
            notes = self.notes[number]
            run.replace_contributions(partial(self._noting, notes))
            self.runs.append((run, log, place))

    def run(self, *, to_the_end: bool = False) -> None:
        """Until everything that was asked for is out, or the logs are at their end."""
        moved = True
        while moved and (to_the_end or not self._done()):
            moved = False
            for run, log, place in self.runs:
                if not run.progress.busy:
                    moved |= _feed(run, log, place)
                moved |= run.work(self.replica)
                self._drain(run)
                moved |= self._emit(run)
                self._drain(run)

    def _emit(self, run: ProgramRun) -> bool:
        """Calls `on_window` one window at a time, so that it is known what came out of which."""
        moved = False
        while True:
            before = list(run.emitted)
            moved |= run.emit(self.replica, calls_max=1)
            called = [new for old, new in zip(before, run.emitted, strict=True) if old != new]
            if not called:
                return moved
            end, start, (_, key), callback = called[0]
            keyed = self.job.layout.callbacks[callback].window.keyed
            window = Window(start, end, key if keyed else None)
            self.notes[run.partition].called.append(window)
            if keyed:
                self.sessions.add((callback, window))
            by_channel = self.outputs.setdefault((callback, window), {})
            for output in self._drain(run):
                rows = enumerate(output.table.to_pylist(), start=output.ordinal)
                by_channel.setdefault(output.channel, []).extend(EmittedRow(run.partition, *row) for row in rows)

    def _drain(self, run: ProgramRun) -> list[Output]:
        """Applies what a run has sealed, and returns what it has emitted."""
        outputs, deltas = run.drain()
        for delta in deltas:
            self.replica.apply(delta)
        return outputs

    def _noting(self, notes: _Notes, stage: int) -> _Noting:
        return _Noting(self.job.layout.handles, self.job.layout.stage_handles(stage), notes)

    def _done(self) -> bool:
        return all(self._passed(target) for target in self.targets)

    def _passed(self, target: _Target) -> bool:
        emitted = min(run.progress.emitted_to[target.stage] for run, _, _ in self.runs)
        if target.window is None:
            ends = [one.end for one in self.starting(target)]
            return bool(ends) and emitted > target.spec.pane_end(target.spec.pane_at(max(ends)))
        return emitted >= target.window.end

    def starting(self, target: _Target) -> list[Window]:
        """The sessions of a target that start at the instant in question."""
        return sorted(one for number, one in self.sessions if (number, one.start) == (target.callback, self.start))

    # --- what was seen -----------------------------------------------------------------------------------------------

    def explain(self, target: _Target, window: Window, sealed: SealedByNodes | None) -> Explanation:
        """One window of one target."""
        contributions, values = [], {}
        for index in target.handles:
            handle = self.job.layout.handles[index]
            parts = [self._part(index, partition, window, sealed) for partition in range(len(self.places))]
            contributions += parts
            if handle.shared and window.key is None:
                values[handle.name] = self.replica.value(index, window)
            elif handle.shared:
                states = [notes.states.get(index, {}) for notes in self.notes]
                everything = [state for one in states for state in _within(handle, window, one)]
                values[handle.name] = _value(handle, window, everything)
        by_channel = self.outputs.get((target.callback, window), {})
        outputs = {name: tuple(sorted(rows, key=lambda told: told[:2])) for name, rows in sorted(by_channel.items())}
        return Explanation(window, target.channels, values, tuple(contributions), outputs, target.stage)

    def _part(self, index: int, partition: int, window: Window, sealed: SealedByNodes | None) -> Contribution:
        handle, notes = self.job.layout.handles[index], self.notes[partition]
        low = BEGINNING if handle.accumulate else window.start
        inside = [
            places[(ts >= low) & (ts < window.end) & (True if keys is None else keys == window.key)]
            for ts, places, keys in notes.inserted.get(index, [])
        ]
        rows = np.concatenate(inside) if inside else np.zeros(0, dtype=np.int64)
        first, last = (int(rows.min()), int(rows.max())) if len(rows) else (None, None)
        first_window = last_window = None
        if handle.stage and first is not None and last is not None:
            first_window, last_window = notes.called[first], notes.called[last]
            first = last = None
        states = notes.states.get(index, {})
        return Contribution(
            handle=handle.name,
            partition=partition,
            rows=len(rows),
            first=first,
            last=last,
            value=_value(handle, window, _within(handle, window, states)),
            sealed=None if sealed is None else self._compared(index, partition, window, sealed),
            first_window=first_window,
            last_window=last_window,
        )

    def _compared(self, index: int, partition: int, window: Window, sealed: SealedByNodes) -> Verdict:
        handle, states = self.job.layout.handles[index], self.notes[partition].states.get(index, {})
        ours: dict[int, bytes | None] = {}
        for pane in handle.window.panes(window):
            state = states.get(pane)
            ours[pane] = None if state is None else handle.pane_aggregate.encode(state) if handle.shared else b""
        return sealed.compare(index, handle, partition, ours)


def _feed(run: ProgramRun, log: ReadableLog, place: int) -> bool:
    chunks = log.read(place, run.progress.read_to, _READ_ROWS)
    for chunk in chunks:
        if chunk.rows is None:
            assert chunk.mark is not None
            run.mark(chunk.mark, chunk.offset)
        else:
            run.feed(chunk.rows, chunk.offset)
    return bool(chunks)


def _within(handle: Handle, window: Window, states: Mapping[int, State]) -> list[State]:
    if handle.accumulate:  # the newest holds all that came before
        return [states[max(states)]] if states else []
    return [states[pane] for pane in handle.window.panes(window) if pane in states]


def _value(handle: Handle, window: Window, states: Sequence[State]) -> object:
    aggregate = handle.pane_aggregate
    state = reduce(aggregate.merge, states) if states else aggregate.zero(1)
    value = aggregate.value(state)
    if window.key is None:
        return value
    fragment = value.get(window.key)
    return handle.aggregate.value(handle.aggregate.zero(1)) if fragment is None else fragment["partial"]


def why(
    job: Job,
    logs: Mapping[str, ReadableLog],
    start: int,
    *,
    channel: str | None = None,
    key: int | str | None = None,
    sealed: SealedByNodes | None = None,
) -> list[Explanation]:
    """Every window that starts at `start` (of one channel, or one session key), each with what made it.

    The logs hold the job's input from the beginning. Raises `UnknownWindow`, naming windows near it, if there is none.
    """
    targets = _targets(job, start, channel)
    fitting = [one for one in targets if one.window is not None or not one.spec.known_ahead]
    replay = _Replay(job, logs, fitting, start)
    replay.run()
    found: list[Explanation] = []
    behind: set[int] = set()
    for target in replay.targets:
        if target.window is None:
            sessions = [one for one in replay.starting(target) if key in (None, one.key)]
            found += (replay.explain(target, one, sealed) for one in sessions)
            continue
        progress = replay.replica.progress[target.stage]
        behind |= {number for number, reached in enumerate(progress) if reached < target.window.end}
        present = (replay.replica.panes[index].between(start, target.window.end) for index in target.handles)
        if min(progress) >= target.window.end and any(present):
            found.append(replay.explain(target, target.window, sealed))
    if behind and not found:
        raise WindowNotCompleted(
            f"the window that starts at {start} is not sealed by partitions {sorted(behind)}: their logs end before",
            hint="wait for more rows, or for a mark",
        )
    if not found:
        replay.run(to_the_end=True)  # what is near may come later
        raise _nothing(replay, targets, channel)
    return found


def _nothing(replay: _Replay, targets: Sequence[_Target], channel: str | None) -> UnknownWindow:
    whose = replay.job.name if channel is None else f"channel {channel!r}"
    empty = any(target.window is not None for target in targets)
    what = f"nothing is in a window of {whose} that starts" if empty else f"no window of {whose} starts"
    near = ", ".join(f"{window.start} ({window})" for window in _windows_near(replay, targets))
    hint = f"near it are {near}" if near else "there is none at all: its logs are empty, or not sealed yet"
    return UnknownWindow(f"{what} at {replay.start}", hint=hint)


def _windows_near(replay: _Replay, targets: Sequence[_Target]) -> list[Window]:
    """The windows with something in them that start nearest, whichever target they are of."""
    callbacks = {target.callback for target in targets}
    found = {window for callback, window in replay.sessions if callback in callbacks}
    for target in targets:
        if target.spec.known_ahead:
            for index in target.handles:
                found.update(_windows(target.spec.aligned, replay.replica.panes[index].present))
    return sorted(found, key=lambda window: (abs(window.start - replay.start), window.start, window.end))[:_NEAR]


def _windows(spec: AlignedSpec, panes: Sequence[int]) -> Iterator[Window]:
    window = spec.next_window(BEGINNING, panes)
    while window is not None:
        yield window
        window = spec.next_window(window.end, panes)
