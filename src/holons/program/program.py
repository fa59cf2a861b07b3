"""A program: the user's deterministic code, as a picklable value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, Literal, TypeVar

import polars as pl

from holons.errors import BadProgram, WrongScope
from holons.program.events import Event, Events
from holons.program.handles import Declared, Nested, Scope, WindowedHandle
from holons.windows import Window

_CALLBACK = "_holons_on_window"
F = TypeVar("F", bound=Callable[..., Any])


def on_window(handle: WindowedHandle[Any]) -> Callable[[F], F]:
    """Marks a method as the callback for one handle's windows, where a program has several kinds of them."""

    def mark(method: F) -> F:
        setattr(method, _CALLBACK, handle)
        return method

    return mark


class Program:
    """Subclass this: declare state, write `process` (or `each`), and `on_window`.

    `process(events)` sees one partition's rows in batches; it may be `async` and await completed windows. What it
    does must not depend on where a batch ends. `each(event)` instead sees one row at a time: simpler, and slow.
    `on_window(window)` is called once for each completed window in which some partition inserted something, in order
    of (end, start); what it yields (dicts, or polars frames) is the output of its channel.
    """

    emit: ClassVar[Literal["each", "once"]] = "each"
    """Who runs `on_window`: each partition, or one fixed partition of the job."""

    _scope: Scope | None = None

    def process(self, events: Events) -> Any:  # noqa: ANN401 - None, or a coroutine
        """Handles a batch of one partition."""
        raise NotImplementedError

    def each(self, event: Event) -> Any:  # noqa: ANN401
        """Handles one row, if `process` is not there."""
        raise NotImplementedError

    def output(self, rows: Events | pl.DataFrame | dict[str, object], channel: str = "process") -> None:
        """Writes rows to one of the job's channels: events in `process`, a dict in `each`, either or a frame in `on_window`.

        In `on_window` what is yielded has a channel already; this is for others beside it.
        """
        self._running("output").output(rows, channel)

    @property
    def partition(self) -> int:
        """The partition that runs this, counted over all inputs of the job."""
        return self._running("partition").partition

    @property
    def partitions(self) -> int:
        """How many partitions the job has, over all of its inputs. Only in `on_window`."""
        return self._running("partitions").partitions

    # Pipelines say these otherwise. They are private, so that a program of a user's may call its handles what it likes.

    def _window_methods(self) -> dict[str, WindowedHandle[Any]]:
        """Returns the methods that are called for the windows of a handle: those marked by `@h.on_window(handle)`."""
        members = inspect.getmembers(type(self), inspect.isfunction)
        return {name: getattr(method, _CALLBACK) for name, method in members if hasattr(method, _CALLBACK)}

    def _channel_names(self) -> tuple[str, ...] | None:
        """Returns the channels that a job of this program is known by; None: those of its callbacks."""
        return None

    def _channels_of(self, method: str) -> tuple[str, ...] | None:
        """Returns the channels that a method emits to; None: what it yields has a channel of its own."""
        return None

    def _channel_schema(self, channel: str) -> pl.Schema | None:
        """Returns the columns of a channel, if they are known before any row is written."""
        return None

    def _stream_schema(self, stream: str) -> pl.Schema | None:
        """Returns the columns of an input stream, if the program declares them."""
        return None

    def _line_that_reads(self, stream: str, column: str) -> str:
        """Returns where in the user's code a column of an input is read, if that is known: for messages."""
        return ""

    def _time_hint(self, stream: str) -> str:
        """Returns what a user writes to name the time column of an input: for messages."""
        return f'h.job(program, "{stream}", time="...")'

    def _running(self, what: str) -> Scope:
        if self._scope is None:
            raise WrongScope(f"{what} outside of a running program", hint="use it in process, each or on_window")
        return self._scope

    def __setattr__(self, name: str, value: object) -> None:
        _check_name(type(self), name, value)
        if self._scope is not None:
            raise WrongScope(
                f"self.{name} was set while the program runs; it would be lost on recovery",
                hint=f"declare `{name} = h.Local(...)` and set self.{name}.value",
            )
        object.__setattr__(self, name, value)


_WRITTEN_BY_USERS: Final = frozenset({"emit", "process", "each", "on_window"})
_RESERVED: Final = _WRITTEN_BY_USERS.union(name for name in vars(Program) if not name.startswith("__"))


def check_names(program: Program) -> None:
    """Raises `BadProgram` if a handle, or anything else of a user's, has the name of something that every program has."""
    for kind in type(program).__mro__:
        if kind.__module__.partition(".")[0] != "holons":
            for name, value in vars(kind).items():
                _check_name(kind, name, value)


def _check_name(kind: type, name: str, value: object) -> None:
    if name not in _RESERVED:
        return
    is_state = isinstance(value, Declared | Nested)
    if is_state or name not in _WRITTEN_BY_USERS:
        what = f"a {type(value).__name__}" if is_state else "an attribute or method"
        raise BadProgram(
            f"{kind.__name__}.{name}: {what} cannot be called {name!r}, since every program has something of that name",
            hint=f"give it another name, for example my_{name.strip('_')}; "
            f"these are taken: {', '.join(sorted(name for name in _RESERVED if not name.startswith('_')))}",
        )


WindowRows = Iterable[Any] | None
"""What `on_window` may give back: rows as dicts, polars frames, or nothing."""

OnWindow = Callable[[Window], WindowRows]
