"""One call of the user's `process`: what it may do, and its effects until it returns."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from holons.algebra import IntArray, Origin, Rows, State
from holons.algebra.rows import prepare
from holons.errors import (
    AwaitWouldDeadlock,
    BadElement,
    BadName,
    BadProgram,
    DescribedError,
    InsertBelowWatermark,
    ProgramFailed,
    WindowTrimmed,
    WrongScope,
)
from holons.names import check_name
from holons.program.elements import by_kind, element_columns, keyed_element
from holons.program.events import Events, Times
from holons.program.handles import LocalScope, When
from holons.program.layout import Layout
from holons.program.lines import line_of_user
from holons.program.outputs import RESERVED, tables
from holons.wcrdt import Handle, Replica
from holons.windows import BEGINNING, TIME_LIMIT, Window, instant_text


@dataclass(frozen=True)
class Wanted:
    """A window that a parked call waits for."""

    index: int
    window: Window


class AwaitedWindow(Awaitable[Any]):
    """The result of `handle.completed(window)`: to await it parks the call until the window is completed."""

    def __init__(self, wanted: Wanted, name: str) -> None:
        self._wanted = wanted
        self._name = name
        self.awaited = False

    def __await__(self) -> Generator[Wanted, Any, Any]:
        self.awaited = True
        return (yield self._wanted)

    def __bool__(self) -> bool:
        raise self.not_awaited()

    def not_awaited(self) -> WrongScope:
        """Returns the error for a value that was asked for and not awaited."""
        return WrongScope(
            f"{self._name}.completed({self._wanted.window}) was not awaited", hint="write `await` in front of it"
        )


class Call:
    """The effects of one call, held back until it returns."""

    def __init__(
        self,
        events: Events,
        watermarks: Callable[[], IntArray],
        values: dict[str, Any],
        sealed_to: int,
        by_hand: int,
    ) -> None:
        self.events = events
        self.sealed_to = sealed_to
        self.row: int | None = None
        self.locals: dict[str, Any] = {}
        self.awaited: set[Wanted] = set()
        self.asked: list[AwaitedWindow] = []
        self._values = values
        self._watermarks = watermarks
        self._by_hand = by_hand
        self._inserts: list[tuple[int, Rows, bool]] = []
        self._singles: dict[int, list[tuple[object, int, int]]] = {}
        self._advances: list[tuple[IntArray, IntArray]] = []
        self._outputs: dict[str, list[tuple[IntArray, pl.DataFrame]]] = {}
        self._output_rows: dict[str, list[dict[str, object]]] = {}

    def insert(self, index: int, element: object, ts: Times | int) -> None:
        if isinstance(ts, Times):
            self._check_origin(ts.origin)
            self._inserts.append((index, prepare(element, ts.micros, ts.origin, ascending=ts.ascending), ts.own))
        else:
            self._singles.setdefault(index, []).append((element, ts, self._current_row("insert")))

    def advance(self, ts: Times | int) -> None:
        if isinstance(ts, Times):
            self._check_origin(ts.origin)
            self._advances.append((self._positions(ts.origin), ts.micros))
        else:
            row = self._current_row("advance")
            self._advances.append((np.array([row], dtype=np.int64), np.array([ts], dtype=np.int64)))

    def output(self, rows: object, channel: str) -> None:
        check_channel(channel)
        if isinstance(rows, Events):
            self._check_origin(rows.ts.origin)
            self._outputs.setdefault(channel, []).append((rows.ts.origin.offsets(), rows.frame))
        elif isinstance(rows, dict):
            self._current_row("output of a dict")
            self._output_rows.setdefault(channel, []).append(rows)
        else:
            raise BadElement(
                f"output takes events, not a {type(rows).__name__}",
                hint="select from the events of this call: self.output(bids.select(...)); in `each`, a dict",
            )

    def _current_row(self, what: str) -> int:
        if self.row is None:
            raise WrongScope(
                f"{what} with a single time in `process`: a batch has no time of its own",
                hint="pass a column, one value per row: `events.ts`; single values are for `each` and `on_window`",
            )
        return self.row

    def _check_origin(self, origin: Origin) -> None:
        ours = self.events.ts.origin
        if (origin.partition, origin.base) != (ours.partition, ours.base):
            raise WrongScope(
                "the rows are of another batch", hint="use the events of this call; keep values in h.Local"
            )

    def _positions(self, origin: Origin) -> IntArray:
        """Returns the places of rows among this call's events."""
        return np.searchsorted(self.events.ts.origin.offsets(), origin.offsets())

    def local(self, name: str) -> Any:  # noqa: ANN401
        if name not in self.locals:
            self.locals[name] = copy.deepcopy(self._values[name])
        return self.locals[name]

    # --- once the call has returned ---------------------------------------------------------------------------------

    def checked_inserts(self, layout: Layout) -> Iterator[tuple[int, Rows]]:
        """Yields all inserts, each checked against the watermark at the position of its own row."""
        for completed in self.asked:
            if not completed.awaited:
                raise completed.not_awaited()
        for index, singles in self._singles.items():
            # types come from each row alone: in one column with 0.5, 1 would be 1.0
            for alike in by_kind(singles, in_order=layout.handles[index].window.counted):
                elements, times, places = zip(*alike, strict=True)
                origin = self.events.ts.origin.take(np.array(places, dtype=np.int64))
                rows = prepare(element_columns(elements), np.array(times, dtype=np.int64), origin)
                self._inserts.append((index, rows, False))
        for index, rows, own in self._inserts:
            if rows.count and (not own or self._advances or self._by_hand > BEGINNING):
                self._check_times(layout.handles[index], rows)
            yield index, rows

    def _check_times(self, handle: Handle, rows: Rows) -> None:
        if int(rows.ts.max()) >= TIME_LIMIT or int(rows.ts.min()) <= -TIME_LIMIT:
            raise BadElement(
                f"{handle.name}: an insert at a time out of range", hint="times are microseconds since 1970"
            )
        watermarks = np.maximum(self._watermarks(), self._by_hand_before())[self._positions(rows.origin)]
        below = np.flatnonzero(rows.ts < watermarks)
        if len(below):
            row = int(below[0])
            raise InsertBelowWatermark(
                f"{handle.name}: insert at {instant_text(int(rows.ts[row]))}, below the watermark "
                f"{instant_text(int(watermarks[row]))}",
                hint="insert at the event's own time, advance less, or allow more disorder",
                offset=int(rows.origin.offsets()[row]),
            )

    def _by_hand_before(self) -> IntArray:
        """Returns the watermark that was set by hand before each row."""
        steps = np.full(len(self.events) + 1, self._by_hand, dtype=np.int64)
        for positions, times in self._advances:
            np.maximum.at(steps, positions + 1, times)
        return np.maximum.accumulate(steps)[:-1]

    def advanced_to(self) -> int:
        """Returns the watermark that was set by hand, as it is after this call."""
        return max([self._by_hand, *(int(times.max()) for _, times in self._advances if len(times))])

    def ordered_outputs(self, columns: dict[str, list[str]]) -> Iterator[tuple[str, list[pa.Table]]]:
        """Yields the outputs of the call by channel, in the order of the rows that they come from.

        `columns` remembers the columns of the first output of each channel.
        """
        for channel, outputs in self._outputs.items():
            parts = [part for part in outputs if len(part[1])]
            for _, frame in parts:
                if frame.columns != columns.setdefault(channel, frame.columns):
                    raise BadProgram(
                        f"channel {channel!r} has rows of different columns",
                        hint="select the same columns each time, or use a channel for each",
                    )
            if parts:
                yield channel, tables(_in_log_order(parts))
        for channel, rows in self._output_rows.items():
            yield channel, tables(rows)


class ProcessScope:
    """What handles may do in `process`: insert, advance, output, await."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.call: Call | None = None
        self.replica: Replica | None = None
        self.known_here: Callable[[int, Window], State | None] | None = None
        """Returns what this partition has inserted into a window of a WLocal, sealed or not: for `peek`."""

    @property
    def partition(self) -> int:
        return self._call().events.partition

    @property
    def partitions(self) -> int:
        raise WrongScope(
            "the number of partitions in process", hint="what a row does must not depend on it; see on_window"
        )

    def insert(self, handle: str, element: object, ts: When, key: object) -> None:
        index, described = self._handle(handle)
        if isinstance(ts, np.ndarray):
            raise WrongScope(
                f"{handle}: a plain column of times in process, without the rows' origins",
                hint='pass `events.ts`, or `events.times("column")`',
            )
        if described.stage and not described.window.counted:
            raise WrongScope(
                f"{handle} is fed by on_window (stage {described.stage}), not by process",
                hint=f"insert into {handle} in on_window, or declare it without stage=",
            )
        self._call().insert(index, keyed_element(described, element, key), ts)

    def advance(self, handle: str, ts: Times | int) -> None:
        if self._layout.asynchronous and not self._layout.row_by_row:
            raise WrongScope(
                "advance in an async process: the seals would fall into the middle of the call",
                hint="use `async def each`, or a plain process",
            )
        described = self._handle(handle)[1]
        if described.window.counted:
            raise WrongScope(
                f"{handle}.advance: {described.window.noun} is full when its rows are there, whatever the time",
                hint="advance a handle with windows of time, or leave it out",
            )
        if described.stage:
            raise WrongScope(f"{handle} belongs to a later stage, whose clock follows on_window")
        self._call().advance(ts)

    def read(self, handle: str, window: Window) -> Any:  # noqa: ANN401
        index, _ = self._handle(handle)
        if Wanted(index, window) not in self._call().awaited:
            raise WrongScope(
                f"{handle}[{window}] in process: what it gives would depend on timing",
                hint="read it in on_window, or `await handle.completed(window)` in an async process",
            )
        return self._value(Wanted(index, window))

    def last_time(self, handle: str, window: Window) -> int:
        raise WrongScope(f"{handle}.last_time in process", hint="ask in on_window, where the window is completed")

    def completed(self, handle: str, window: Window) -> Awaitable[Any]:
        if not self._layout.asynchronous:
            raise WrongScope("`completed` in a plain process", hint="write `async def process`, and await it")
        index, described = self._handle(handle)
        check_awaitable(self._layout, described, window, self._call().sealed_to)
        completed = AwaitedWindow(Wanted(index, window), handle)
        self._call().asked.append(completed)
        return completed

    def peek(self, handle: str, window: Window, preview: bool) -> Any:  # noqa: ANN401
        index, described = self._handle(handle)
        check_peekable(described, window)
        if not described.shared:
            if not preview:
                raise WrongScope(f"{handle} is a WLocal: it is read in on_window", hint="or peek(window, preview=True)")
            assert self.known_here is not None
            state = self.known_here(index, window)
            return None if state is None else described.aggregate.value(state)
        assert self.replica is not None
        return self.replica.peek(index, window, preview=preview)

    def watermark(self, handle: str) -> int:
        assert self.replica is not None
        return self.replica.watermark(self._handle(handle)[1].stage)

    def local(self, name: str, scope: LocalScope) -> Any:  # noqa: ANN401
        self._check_local(name, scope)
        return self._call().local(name)

    def set_local(self, name: str, scope: LocalScope, value: object) -> None:
        self._check_local(name, scope)
        self._call().locals[name] = copy.deepcopy(value)

    def output(self, rows: object, channel: str) -> None:
        self._call().output(rows, channel)

    def ready(self, wanted: Wanted) -> bool:
        """Whether a parked call may continue."""
        assert self.replica is not None
        return self.replica.completed(wanted.index, wanted.window)

    def granted(self, wanted: Wanted) -> Any:  # noqa: ANN401
        """Returns the value that a parked call waited for."""
        self._call().awaited.add(wanted)
        return self._value(wanted)

    def _value(self, wanted: Wanted) -> Any:  # noqa: ANN401
        assert self.replica is not None
        return self.replica.value(wanted.index, wanted.window)

    def _call(self) -> Call:
        if self.call is None:
            raise WrongScope(
                "a handle of `process` was used after its call returned", hint="do not keep handles around"
            )
        return self.call

    def _handle(self, name: str) -> tuple[int, Handle]:
        index = self._layout.indices[name]
        return index, self._layout.handles[index]

    def _check_local(self, name: str, scope: LocalScope) -> None:
        if scope != "process":
            raise WrongScope(
                f"{name} is a Local of on_window, used in process: their relative timing is not deterministic",
                hint=f'declare a second one for process: {name} = h.Local(..., scope="process")',
            )


def check_channel(channel: str) -> None:
    """Raises unless a program may write to a channel of this name."""
    if channel in RESERVED:
        raise WrongScope(f"channel {channel!r} belongs to the runtime", hint="choose another name", line=line_of_user())
    try:
        check_name("channel", channel)
    except BadName as error:
        error.where["line"] = line_of_user()
        raise


def written_twice(channel: str, first: str, second: str) -> WrongScope:
    """Returns the error for a channel that two methods write to whose calls have no common order (position is identity)."""
    return WrongScope(
        f"channel {channel!r} is written in {first} and in {second}, whose relative timing is not deterministic: their "
        "rows would stand in any order",
        hint="write to a channel each, and read both; callbacks of one stage may share a channel",
        line=line_of_user(),
    )


def check_awaitable(layout: Layout, handle: Handle, window: Window, sealed_to: int) -> None:
    """An await is legal exactly if this partition has sealed the window itself, for every cut of its log."""
    if not handle.shared or not handle.window.awaitable:
        kind = handle.window.noun if handle.shared else "a WLocal"
        raise WrongScope(f"{handle.name} is {kind}, which cannot be awaited", hint="read it in on_window")
    handle.window.aligned.check(window)
    reached = layout.reach(handle.stage, sealed_to)
    if window.end > reached:
        raise AwaitWouldDeadlock(
            f"await of {handle.name} {window} when sealed up to {instant_text(reached)}: this partition has not sealed it, "
            "so it would wait for itself",
            hint="await an earlier window: `handle.window.before(window)` for the one before an event's own; "
            "with disorder, go back further, until it ends at or before the event's time less the disorder",
        )
    check_kept(handle, window, reached)


def check_peekable(handle: Handle, window: Window) -> None:
    """Raises unless windows are known ahead: a window that its rows make does not exist before it closes."""
    if not handle.window.known_ahead:
        raise WrongScope(
            f"{handle.name} is {handle.window.noun}, which has no window until it closes", hint="read it in on_window"
        )
    handle.window.aligned.check(window)


def check_kept(handle: Handle, window: Window, reached: int) -> None:
    """Raises for reads older than `keep`, trimmed or not, so that the moment of trimming never shows."""
    if window.end < reached - handle.keep_us:
        raise WindowTrimmed(
            f"{handle.name} {handle.window.text(window)} is older than the handle keeps",
            hint="a count window keeps the windows that end within one size before it"
            if handle.window.counted
            else 'keep more: h.WCRDT(..., keep="1h")',
        )


@contextmanager
def placed(**where: object) -> Iterator[None]:
    """Adds the place to errors; those of the user's code become `ProgramFailed`."""
    try:
        yield
    except DescribedError as error:
        for name, value in where.items():
            error.where.setdefault(name, value)
        raise
    except Exception as error:
        failed = ProgramFailed(f"the program raised {type(error).__name__}: {error}")
        failed.where.update(where)
        raise failed from error


def _in_log_order(parts: list[tuple[IntArray, pl.DataFrame]]) -> list[pl.DataFrame]:
    """Returns rows by offset, in as few frames as their types allow: a row keeps its types, wherever a batch ended."""
    frames = [frame for _, frame in parts]
    order = np.argsort(np.concatenate([offsets for offsets, _ in parts]), kind="stable")
    if all(frame.schema == frames[0].schema for frame in frames):
        return [pl.concat(frames)[order]]
    owners = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames])[order]
    places = np.concatenate([np.arange(len(frame)) for frame in frames])[order]
    edges = [0, *(np.flatnonzero(owners[1:] != owners[:-1]) + 1).tolist(), len(owners)]
    return [frames[owners[low]][places[low:high]] for low, high in itertools.pairwise(edges) if low < high]
