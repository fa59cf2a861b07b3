"""What programs may do in the oracle: insert and await in `process`, read and feed later stages in `on_window`."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from holons.algebra import Keyed, Origin, Rows
from holons.algebra.rows import element_length, prepare
from holons.errors import AwaitWouldDeadlock, InsertBelowWatermark, WrongScope
from holons.program.events import Events, Times
from holons.program.handles import NO_KEY, When
from holons.program.layout import Callback
from holons.wcrdt.handle import Handle
from holons.windows import BEGINNING, TIME_LIMIT, Window

if TYPE_CHECKING:
    from holons.semantics.oracle import OraclePartition


@dataclass
class Inserted:
    """The rows that one call inserted into one handle."""

    rows: Rows
    keys: object = None
    """Where every key has windows of its own, the keys of the rows, or the one key of all of them."""

    def keyed_times(self) -> list[tuple[Any, int]]:
        """Returns each row's key and time."""
        keys = self.keys if isinstance(self.keys, list) else [self.keys] * self.rows.count
        return list(zip(keys, self.rows.ts.tolist(), strict=True))


def _inserted(handle: Handle, element: object, key: object, times: Any, origin: Origin) -> Inserted:  # noqa: ANN401
    """Prepares inserted rows; a key counts only where every key has windows of its own."""
    if not handle.window.keyed:
        return Inserted(prepare(element, times, origin))
    rows = prepare((0 if key is NO_KEY else key, element), times, origin)
    assert isinstance(rows.element, tuple)
    return Inserted(rows.with_element(rows.element[1]), _plain_keys(rows.element[0]))


class Await(Awaitable[Any]):
    """An await of a window: whether it is completed, and then its value."""

    def __init__(self, ready: Callable[[], bool], value: Callable[[], Any]) -> None:
        self.ready = ready
        self.value = value

    def __await__(self) -> Generator[Await, Any, Any]:
        return (yield self)


class OracleProcessScope:
    """The scope of `process` in the oracle: keeps all inserted rows, and answers awaits from all partitions."""

    def __init__(self, partition: OraclePartition) -> None:
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
        """A row may move the clock for the rows after it, not for itself."""
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
        if described.stage and not described.window.counted:
            raise WrongScope(f"{handle} is fed by on_window")
        times = self._times(ts)
        block = _inserted(described, element, key, times.micros, times.origin)
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

    def last_time(self, handle: str, window: Window) -> int:
        raise WrongScope("last_time in process")

    def completed(self, handle: str, window: Window) -> Awaitable[Any]:
        described = self.layout.handles[self.layout.indices[handle]]
        if window.end > self.layout.reach(described.stage, self.start):
            raise AwaitWouldDeadlock(f"{handle} {window}")
        world, stage = self.owner.world, described.stage
        return Await(
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


class OracleWindowScope:
    """The scope of `on_window` in the oracle: recomputes every value that is read."""

    def __init__(self, partition: OraclePartition) -> None:
        self.owner = partition
        self.layout = partition.layout
        self.now: tuple[Callback, Window] | None = None
        self.outputs: list[tuple[str, list[object]]] = []
        self.inserted_into_stage: dict[int, int] = {}

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
        keyed = (0 if key is NO_KEY else key, element) if described.window.keyed else element
        length = element_length(keyed)
        count = len(ts) if isinstance(ts, np.ndarray) else 1 if length is None else length
        first = self.inserted_into_stage.get(described.stage, 0)
        self.inserted_into_stage[described.stage] = first + count
        times, origin = np.full(count, ts, dtype=np.int64), Origin(self.partition, first, count)
        self.owner.inserted[index].append(_inserted(described, element, key, times, origin))

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

    def last_time(self, handle: str, window: Window) -> int:
        return self.owner.world.counted(self.layout.indices[handle]).last_time(window)

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
        self.outputs.append((channel, [rows]))


def _plain_keys(keys: object) -> object:
    """Returns keys as a list, or the one key of all rows; booleans are 0 and 1."""
    plain = keys.to_list() if isinstance(keys, pl.Series) else keys.tolist() if isinstance(keys, np.ndarray) else keys
    if isinstance(plain, list):
        return [int(key) if isinstance(key, bool) else key for key in plain]
    return int(plain) if isinstance(plain, bool) else plain
