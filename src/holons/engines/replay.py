"""A job run once more over its input logs, with notes of what goes into the windows in question.

All partitions run together, since they may await each other's windows. Notes are taken by contributions of this file, so
that ordinary runs pay nothing for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import astuple

from holons.algebra import IntArray, Rows, State
from holons.algebra.rows import column
from holons.arrow import python_rows
from holons.counting import Cuts, Samples
from holons.counting.counted import present_rows
from holons.errors import BadInput
from holons.node import partitions_of
from holons.program import Job, Layout, Output, ProgramRun
from holons.program.lanes import Lanes
from holons.streams import ReadableLog
from holons.wcrdt import Contributions, Delta, Handle, Replica, Sealed, SealedPanes
from holons.windows import BEGINNING, Window, WindowSpec

_ROWS_PER_READ = 10_000


class EmittedRow(NamedTuple):
    """A row that a partition has emitted."""

    partition: int
    ordinal: int
    row: dict[str, Any]


class WindowTarget(NamedTuple):
    """Handles that share their windows, and the window in question if windows are known ahead."""

    channels: tuple[str, ...]
    callback: int
    stage: int
    spec: WindowSpec
    handles: tuple[int, ...]
    window: Window | None


def window_targets(job: Job, start: int, channel: str | None) -> list[WindowTarget]:
    """Returns all handles of the job, or of a channel, each with the window that starts at an instant."""
    layout = job.layout
    made = [
        WindowTarget(layout.channels_of(one), number, one.stage, one.window, one.handles, None)
        for number, one in enumerate(layout.callbacks)
    ]
    answered = {index for target in made for index in target.handles}
    silent: dict[tuple[int, WindowSpec], list[int]] = {}
    for index, handle in enumerate(layout.handles):
        if index not in answered and handle.window.known_ahead:
            silent.setdefault((handle.stage, handle.window), []).append(index)
    made += [WindowTarget((), -1, stage, spec, tuple(indices), None) for (stage, spec), indices in silent.items()]
    if channel is not None:
        made = [target for target in made if channel in target.channels]
        if not made:
            names = ", ".join(name for one in layout.callbacks for name in layout.channels_of(one))
            raise BadInput(f"the job has no channel {channel!r} of windows", hint=f"there is {names}")
    return [target._replace(window=target.spec.starting(start)) for target in made]


@dataclass
class InsertNotes:
    """What one partition inserted into the windows in question."""

    spans: Mapping[int, tuple[int, float]]
    """By handle, from when to when rows count."""
    inserted: dict[int, list[tuple[IntArray, IntArray, npt.NDArray[np.generic] | None]]] = field(default_factory=dict)
    """By handle, times, offsets (in a later stage: which of the calls inserted them), and keys where windows have keys."""
    called: list[Window] = field(default_factory=list)
    """The windows for which `on_window` was called, in order."""
    states: dict[int, dict[int, State]] = field(default_factory=dict)
    """By handle and pane, what was sealed."""

    ranked: dict[int, list[tuple[IntArray, IntArray]]] = field(default_factory=dict)
    """By handle that counts rows, their times and offsets, as they came."""

    def offsets_between(self, index: int, first: int, last: int) -> IntArray:
        """Returns the offsets of this partition's rows of ranks `(first, last]`."""
        if first >= last:
            return np.zeros(0, dtype=np.int64)
        times, offsets = (np.concatenate(columns) for columns in zip(*self.ranked[index], strict=True))
        came = np.argsort(offsets, kind="stable")
        return offsets[came][np.argsort(times[came], kind="stable")][first:last]

    def keys_at(self, index: int, ts: int) -> set[int | str]:
        """Returns the keys of all rows that were inserted into a handle at an instant."""
        inserted = self.inserted.get(index, [])
        return {key for times, _, keys in inserted if keys is not None for key in keys[times == ts].tolist()}


class NotingContributions(Contributions):
    """Contributions that note which rows are inserted."""

    def __init__(self, handles: Sequence[Handle], indices: Sequence[int], notes: InsertNotes) -> None:
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
            if self._handles[index].stage:  # there, origins only count rows, and lead back to nothing
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


class NotingLanes(Lanes):
    """Lanes that note which rows are counted, and what was sealed."""

    def __init__(self, layout: Layout, partition: int, partitions: int, notes: InsertNotes) -> None:
        super().__init__(layout, partition, partitions)
        self._layout = layout
        self._notes = notes

    def take(self, index: int, rows: Rows) -> bool:
        if not super().take(index, rows):
            return False
        counted = present_rows(rows)
        self._notes.ranked.setdefault(index, []).append((counted.ts, counted.origin.offsets()))
        return True

    def work(self, views: Sequence[Cuts], local: Mapping[int, SealedPanes]) -> list[Samples | Delta] | None:
        messages = super().work(views, local)
        deltas = (message for message in messages or () if isinstance(message, Delta))
        for index, pane, payload in (astuple(seal) for delta in deltas for seal in delta.seals):
            own = local[index].get(pane, 0) if index in local else payload
            assert own is not None
            self._notes.states.setdefault(index, {})[pane] = self._layout.handles[index].pane_aggregate.decode(own)
        return messages


class Replay:
    """Runs all partitions of a job from the beginning of their logs."""

    def __init__(self, job: Job, logs: Mapping[str, ReadableLog], targets: Sequence[WindowTarget], start: int) -> None:
        self.job = job
        self.targets = targets
        self.start = start
        handles = job.layout.handles
        self.places = partitions_of(job, logs.__getitem__)
        self.replica = Replica(handles, len(self.places))
        self.stitched: set[tuple[int, Window]] = set()
        """The windows that were stitched and emitted, each with the number of its callback."""
        self.outputs: dict[tuple[int, Window], dict[str, list[EmittedRow]]] = {}
        spans: dict[int, tuple[int, float]] = {}
        for target in targets:
            for index in target.handles:
                low = BEGINNING if handles[index].accumulate else start
                spans[index] = low, np.inf if target.window is None else target.window.end
        self.notes = [InsertNotes(spans) for _ in self.places]
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
            lanes = NotingLanes(job.layout, number, len(self.places), notes)
            run.replace_contributions(partial(self._noting, notes), lanes)
            self.runs.append((run, log, place))

    def run(self, *, to_the_end: bool = False) -> None:
        """Runs until all windows in question are emitted, or the logs have ended."""
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
        """Calls `on_window` one window at a time, so that it is known which rows each window emits."""
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
                self.stitched.add((callback, window))
            by_channel = self.outputs.setdefault((callback, window), {})
            for output in self._drain(run):
                rows = enumerate(python_rows(output.table), start=output.ordinal)
                by_channel.setdefault(output.channel, []).extend(EmittedRow(run.partition, *row) for row in rows)

    def _drain(self, run: ProgramRun) -> list[Output]:
        """Applies what a run has sealed, and returns what it has emitted."""
        outputs, messages = run.drain()
        for message in messages:
            self.replica.take_in(message)
        return outputs

    def _noting(self, notes: InsertNotes, stage: int) -> NotingContributions:
        return NotingContributions(self.job.layout.handles, self.job.layout.stage_handles(stage), notes)

    def offsets(self, index: int, partition: int, window: Window) -> IntArray:
        """Returns the offsets of one partition's rows in a window of a handle that counts rows."""
        handle = self.job.layout.handles[index]
        panes = handle.window.panes(window)
        cuts = self.replica.lanes[self.job.layout.lanes.index(index)].after(0)
        edges = [int(cuts[min(cut, len(cuts)) - 1].ranks[partition]) if cut else 0 for cut in (panes.start, panes.stop)]
        return self.notes[partition].offsets_between(index, *edges)

    def _done(self) -> bool:
        return all(self._passed(target) for target in self.targets)

    def _passed(self, target: WindowTarget) -> bool:
        """Whether all windows of a target have been emitted that start at the instant in question."""
        emitted_to = min(run.progress.emitted_to[target.stage] for run, _, _ in self.runs)
        if target.window is not None:
            return emitted_to >= target.window.end
        keys = {key for notes in self.notes for key in notes.keys_at(target.handles[0], self.start)}
        emitted = {window for number, window in self.stitched if number == target.callback and window.end <= emitted_to}
        return emitted_to > self.start and keys <= {window.key for window in emitted if self.start in window}

    def starting(self, target: WindowTarget) -> list[Window]:
        """Returns the emitted windows of a target that start at the instant in question."""
        return sorted(
            window for number, window in self.stitched if (number, window.start) == (target.callback, self.start)
        )


def _feed(run: ProgramRun, log: ReadableLog, place: int) -> bool:
    chunks = log.read(place, run.progress.read_to, _ROWS_PER_READ)
    for chunk in chunks:
        if chunk.rows is None:
            assert chunk.mark is not None
            run.mark(chunk.mark, chunk.offset)
        else:
            run.feed(chunk.rows, chunk.offset, appended=[(chunk.length, chunk.appended, chunk.live)])
    return bool(chunks)
