"""Why a window has its value: which rows of which partitions went into it, and what each partition contributed.

Programs are deterministic, so nothing has to be recorded: the job is run once more over its input logs (`replay.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from holons.algebra import State
from holons.engines.replay import EmittedRow, Replay, WindowTarget, window_targets
from holons.engines.sealed_by_nodes import SealedByNodes, Verdict
from holons.errors import UnknownWindow, WindowNotCompleted
from holons.program import Job
from holons.streams import ReadableLog
from holons.wcrdt import Handle
from holons.windows import BEGINNING, AlignedSpec, Window

__all__ = ["Contribution", "EmittedRow", "Explanation", "SealedByNodes", "Verdict", "why"]

_NEAR_WINDOWS_MAX = 3


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
    """How the value compares with what nodes sealed; None if it was not compared."""
    first_window: Window | None = None
    """In a later stage, the first window of the stage before whose `on_window` inserted rows here."""
    last_window: Window | None = None


@dataclass(frozen=True)
class Explanation:
    """A window, the folded values of its shared handles, and what each partition contributed to them."""

    window: Window
    channels: tuple[str, ...]
    """The channels of its rows: none if no `on_window` answers it, or if it only feeds later windows."""
    values: Mapping[str, object]
    contributions: tuple[Contribution, ...]
    outputs: Mapping[str, tuple[EmittedRow, ...]]
    """The rows that were emitted, by channel."""
    stage: int = 0
    """The stage of its handles: 0 takes rows of the input, a later one rows that `on_window` of the stage before inserts."""
    text: str = ""
    """The window in words."""


def why(
    job: Job,
    logs: Mapping[str, ReadableLog],
    start: int,
    *,
    channel: str | None = None,
    key: int | str | None = None,
    sealed: SealedByNodes | None = None,
) -> list[Explanation]:
    """Explains every window that starts at `start` (of one channel, or of one key).

    The logs hold the job's input from the beginning. Raises `UnknownWindow`, naming windows near it, if there is none.
    """
    targets = window_targets(job, start, channel)
    fitting = [target for target in targets if target.window is not None or not target.spec.known_ahead]
    replay = Replay(job, logs, fitting, start)
    replay.run()
    explanations: list[Explanation] = []
    behind: set[int] = set()
    for target in replay.targets:
        if target.window is None:
            windows = [window for window in replay.starting(target) if key in (None, window.key)]
            explanations += (_explain(replay, target, window, sealed) for window in windows)
            continue
        progress = replay.replica.progress[target.stage]
        behind |= {number for number, reached in enumerate(progress) if reached < target.window.end}
        present = (replay.replica.panes[index].between(start, target.window.end) for index in target.handles)
        completed = min(progress) >= target.window.end and replay.replica.completed(target.handles[0], target.window)
        if completed and any(present):
            explanations.append(_explain(replay, target, target.window, sealed))
    if behind and not explanations:
        raise WindowNotCompleted(
            f"the window that starts at {start} is not sealed by partitions {sorted(behind)}: their logs end before",
            hint="wait for more rows, or for a mark",
        )
    if not explanations:
        replay.run(to_the_end=True)  # what is near may come later
        raise _nothing(replay, targets, channel)
    return explanations


def _explain(replay: Replay, target: WindowTarget, window: Window, sealed: SealedByNodes | None) -> Explanation:
    """Explains one window of one target."""
    contributions, values = [], {}
    for index in target.handles:
        handle = replay.job.layout.handles[index]
        parts = [_contribution(replay, index, partition, window, sealed) for partition in range(len(replay.places))]
        contributions += parts
        if handle.shared and window.key is None:
            values[handle.name] = replay.replica.value(index, window)
        elif handle.shared:
            states = [notes.states.get(index, {}) for notes in replay.notes]
            everything = [state for by_pane in states for state in _within(handle, window, by_pane)]
            values[handle.name] = _value(handle, window, everything)
    by_channel = replay.outputs.get((target.callback, window), {})
    outputs = {name: tuple(sorted(rows, key=lambda emitted: emitted[:2])) for name, rows in sorted(by_channel.items())}
    stage, text = (0 if target.spec.counted else target.stage), target.spec.text(window)
    return Explanation(window, target.channels, values, tuple(contributions), outputs, stage, text)


def _contribution(
    replay: Replay, index: int, partition: int, window: Window, sealed: SealedByNodes | None
) -> Contribution:
    handle, notes = replay.job.layout.handles[index], replay.notes[partition]
    counted = handle.window.counted
    low = BEGINNING if handle.accumulate else window.start
    inside = [
        places[(ts >= low) & (ts < window.end) & (True if keys is None else keys == window.key)]
        for ts, places, keys in notes.inserted.get(index, [])
    ]
    rows = np.concatenate(inside) if inside else np.zeros(0, dtype=np.int64)
    if counted:
        rows = replay.offsets(index, partition, window)
    first, last = (int(rows.min()), int(rows.max())) if len(rows) else (None, None)
    first_window = last_window = None
    if handle.stage and not counted and first is not None and last is not None:
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
        sealed=None if sealed is None else _compared(replay, index, partition, window, sealed),
        first_window=first_window,
        last_window=last_window,
    )


def _compared(replay: Replay, index: int, partition: int, window: Window, sealed: SealedByNodes) -> Verdict:
    handle, states = replay.job.layout.handles[index], replay.notes[partition].states.get(index, {})
    ours: dict[int, bytes | None] = {}
    for pane in handle.window.panes(window):
        state = states.get(pane)
        known = handle.shared or handle.window.counted
        ours[pane] = None if state is None else handle.seal(state) if known else b""
    return sealed.compare(index, handle, partition, ours)


def _within(handle: Handle, window: Window, states: Mapping[int, State]) -> list[State]:
    if handle.accumulate:  # the newest holds all that came before
        return [states[max(states)]] if states else []
    return [states[pane] for pane in handle.window.panes(window) if pane in states]


def _value(handle: Handle, window: Window, states: Sequence[State]) -> object:
    aggregate = handle.pane_aggregate
    state = reduce(aggregate.merge, states) if states else aggregate.zero(1)
    if handle.window.counted:
        return handle.aggregate.value(handle.aggregate_state(state))
    value = aggregate.value(state)
    if window.key is None:
        return value
    fragment = value.get(window.key)
    return handle.aggregate.value(handle.aggregate.zero(1)) if fragment is None else fragment["partial"]


def _nothing(replay: Replay, targets: Sequence[WindowTarget], channel: str | None) -> UnknownWindow:
    whose = replay.job.name if channel is None else f"channel {channel!r}"
    empty = any(target.window is not None for target in targets)
    what = f"nothing is in a window of {whose} that starts" if empty else f"no window of {whose} starts"
    near = ", ".join(f"{window.start} ({window})" for window in _windows_near(replay, targets))
    hint = f"near it are {near}" if near else "there is none at all: its logs are empty, or not sealed yet"
    return UnknownWindow(f"{what} at {replay.start}", hint=hint)


def _windows_near(replay: Replay, targets: Sequence[WindowTarget]) -> list[Window]:
    """Returns the windows with rows in them that start nearest, of any target."""
    callbacks = {target.callback for target in targets}
    nonempty = {window for callback, window in replay.stitched if callback in callbacks}
    for target in targets:
        if target.spec.known_ahead:
            for index in target.handles:
                windows = _windows(target.spec.aligned, replay.replica.panes[index].present)
                nonempty.update(window for window in windows if replay.replica.completed(index, window))
    return sorted(nonempty, key=lambda window: (abs(window.start - replay.start), window.start, window.end))[
        :_NEAR_WINDOWS_MAX
    ]


def _windows(spec: AlignedSpec, panes: Sequence[int]) -> Iterator[Window]:
    window = spec.next_window(BEGINNING, panes)
    while window is not None:
        yield window
        window = spec.next_window(window.end, panes)
