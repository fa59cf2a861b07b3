"""The state of a program: `WCRDT`, `WLocal`, `Local` and `Nested`.

As class attributes these are declarations, plain data. In a running program they are bound to a **scope**, which says
what may be done with them there: `process` inserts, `on_window` reads, and neither sees the other's state (invariant:
scoped state).
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from holons.algebra import Aggregate, IntArray
from holons.errors import BadProgram, BadWindow, UnknownWindow, WrongScope
from holons.program.events import Times
from holons.windows import Duration, Instant, Window, WindowSpec, instant, micros

if TYPE_CHECKING:
    from holons.program.program import Program

V = TypeVar("V")
LocalScope = Literal["process", "window"]

When: TypeAlias = "Times | int | IntArray"
"""The times of an insert: of a batch's rows, one for all, or (in `on_window`) a column."""

NO_KEY: Final = object()
"""There is no key. A null key, by contrast, means that there is no row."""


class Scope(Protocol):
    """What bound handles act on: one scope for `process`, one for `on_window`, in every engine and in the oracle."""

    @property
    def partition(self) -> int: ...

    @property
    def partitions(self) -> int: ...

    def insert(self, handle: str, element: object, ts: When, key: object) -> None: ...

    def advance(self, handle: str, ts: Times | int) -> None: ...

    def read(self, handle: str, window: Window) -> Any: ...  # noqa: ANN401

    def last_time(self, handle: str, window: Window) -> int: ...

    def completed(self, handle: str, window: Window) -> Awaitable[Any]: ...

    def peek(self, handle: str, window: Window, preview: bool) -> Any: ...  # noqa: ANN401

    def watermark(self, handle: str) -> int: ...

    def local(self, name: str, scope: LocalScope) -> Any: ...  # noqa: ANN401

    def set_local(self, name: str, scope: LocalScope, value: object) -> None: ...

    def output(self, rows: object, channel: str) -> None: ...


class Declared:
    """A piece of a program's state, bound to a scope while the program runs."""

    _scope: Scope | None = None
    _name: str = ""

    def bound(self, scope: Scope, name: str) -> Declared:
        """Returns a copy of this declaration that acts on a scope."""
        handle = copy.copy(self)
        handle._scope = scope
        handle._name = name
        return handle

    def _running(self) -> Scope:
        if self._scope is None:
            raise WrongScope(
                f"a {type(self).__name__} was used outside of a running program",
                hint="use self.<handle> inside process, each or on_window; nothing happens at class level",
            )
        return self._scope


class WindowedHandle(Declared, Generic[V]):
    """What `WCRDT` and `WLocal` have in common: a value for each window."""

    shared: ClassVar[bool]
    own_stage = False
    """Whether no later stage reads this handle; see `wcrdt.Handle`."""

    def __init__(
        self,
        crdt: Aggregate[V],
        window: WindowSpec,
        *,
        accumulate: bool = False,
        keep: Duration | None = None,
        stage: int = 0,
    ) -> None:
        if not isinstance(crdt, Aggregate):
            raise BadProgram(f"{crdt!r} is not an aggregate", hint="e.g. h.GCounter(), h.MaxRegister(), h.TopK(10)")
        if not isinstance(window, WindowSpec):
            raise BadWindow(f"{window!r} is not a window", hint='e.g. h.Tumbling("1s"), h.Sliding("10s", every="1s")')
        if stage < 0:
            raise BadProgram(
                f"stage {stage} does not exist", hint="stage 0 is process; a handle fed by on_window has 1"
            )
        if accumulate and not window.may_accumulate:
            raise BadWindow("only tumbling windows accumulate", hint="use h.Tumbling(...) with accumulate=True")
        if window.counted and stage:
            raise BadWindow(
                f"{window} in stage {stage}: rows of streams are counted, not what on_window inserts",
                hint="count rows in process, without stage=; over results use h.Tumbling",
            )
        if window.counted and keep is not None:
            raise BadWindow(
                f"keep={keep!r} is a time, and {window} counts rows",
                hint="a count window keeps the windows that end within one size before it; there is nothing to choose",
            )
        if not window.known_ahead and not self.shared:
            raise BadWindow("sessions are stitched over all partitions", hint="use h.WCRDT with h.Session")
        self.crdt = crdt
        self.window = window
        self.accumulate = accumulate
        self.stage = stage
        self.keep_us = window.default_keep_us if keep is None else micros(keep, zero_allowed=True)

    def insert(self, element: object, ts: Times | Instant | Window | IntArray, *, key: object = NO_KEY) -> None:
        """Adds to the windows that `ts` falls into: whole columns in `process`, scalars in `each` and `on_window`.

        In `on_window` there may also be a column of elements, all at one time or each at its own (`ts`: microseconds in
        a NumPy column). `element` may be a scalar for all rows. A row with a null element does not count. `key` is for
        session windows.
        """
        self._running().insert(self._name, element, ts if isinstance(ts, np.ndarray) else _time(ts), key)

    def advance(self, ts: Times | Instant) -> None:
        """Moves this partition's watermark by hand, beyond what event time says; one value per row."""
        self._running().advance(self._name, _time(ts))

    def __getitem__(self, window: Window) -> V:
        """The value of a completed window; in `on_window(w)` for windows that end at or before `w`."""
        if not isinstance(window, Window):
            raise UnknownWindow(
                f"{self._name}[{window!r}]: that is no window", hint="use the window that on_window is called with"
            )
        return self._running().read(self._name, window)

    def last_time(self, window: Window) -> int:
        """When the last row of a completed count window was, in microseconds: in `on_window`."""
        return self._running().last_time(self._name, window)

    def completed(self, window: Window) -> Awaitable[V]:
        """`await` this in an `async def process`: the value, once every partition has sealed the window."""
        return self._running().completed(self._name, window)

    def peek(self, window: Window, *, preview: bool = False) -> V | None:
        """UNSAFE: the value, or None if the window is not completed yet. What you get depends on timing.

        With `preview`, a window that is not completed has the value of what is known of it: what partitions have sealed,
        and the newest previews of the others (`Settings.preview_s`); None if nothing is known. Of a `WLocal`, that is what
        this partition has inserted. A session has no window until it closes, so it cannot be peeked at.
        """
        return self._running().peek(self._name, window, preview)

    def watermark(self) -> int:
        """UNSAFE: the global watermark as this node knows it. It depends on timing."""
        return self._running().watermark(self._name)


class WCRDT(WindowedHandle[V]):
    """A windowed value shared by all partitions: `total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))`."""

    shared = True


class WLocal(WindowedHandle[V]):
    """A windowed value of this partition alone, readable in `on_window`."""

    shared = False


class Local(Declared, Generic[V]):
    """A value of this partition, kept across calls: read and write `.value`. `scope` says from where."""

    def __init__(self, initial: V, scope: LocalScope = "process") -> None:
        if scope not in ("process", "window"):
            raise BadProgram(f"a Local has no scope {scope!r}", hint='scope="process" or scope="window"')
        self.initial = initial
        self.scope: LocalScope = scope

    @property
    def value(self) -> V:
        return self._running().local(self._name, self.scope)

    @value.setter
    def value(self, value: V) -> None:
        self._running().set_local(self._name, self.scope, value)


P = TypeVar("P", bound="Program")


class Nested(Generic[P]):
    """A program inside a program: `shares = h.Nested(BidShare)`, then `self.shares.process(events)`.

    The parent passes it events; its `on_window` runs by itself, into channels of its own.
    """

    def __init__(self, program: type[P] | P) -> None:
        self.program: P = program() if isinstance(program, type) else program

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - stands for the program once bound
        if name.startswith("__") or name == "program":
            raise AttributeError(name)
        return getattr(self.program, name)


def _time(ts: Times | Instant | Window) -> Times | int:
    if isinstance(ts, Times):
        return ts
    if isinstance(ts, Window):
        return ts.last
    if isinstance(ts, int | np.integer) or hasattr(ts, "tzinfo"):
        return instant(ts)
    raise WrongScope(
        f"a timestamp cannot be a {type(ts).__name__}",
        hint='pass `events.ts`, `events.times("column")`, or a single time in each and on_window',
    )
