"""A program: the user's deterministic code, as a picklable value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, TypeVar

import polars as pl

from holons.errors import WrongScope
from holons.program.events import Event, Events
from holons.program.handles import Scope, WindowedHandle
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

    def answers(self) -> dict[str, WindowedHandle[Any]]:
        """The methods that are called for the windows of one handle each: those marked by `@h.on_window(handle)`."""
        members = inspect.getmembers(type(self), inspect.isfunction)
        return {name: getattr(method, _CALLBACK) for name, method in members if hasattr(method, _CALLBACK)}

    def channels(self) -> tuple[str, ...] | None:
        """The channels that a job of this program is known by; None: those of its callbacks."""
        return None

    def channels_of(self, method: str) -> tuple[str, ...] | None:
        """Those of them that a method puts out to; None: what it yields has a channel of its own."""
        return None

    def channel_schema(self, channel: str) -> pl.Schema | None:
        """The columns of a channel, if they are known before any row is written."""
        return None

    def stream_schema(self, stream: str) -> pl.Schema | None:
        """The columns of an input stream, if the program declares them."""
        return None

    def line_that_reads(self, stream: str, column: str) -> str:
        """Where in the user's code a column of an input is read, if that is known: for messages."""
        return ""

    def names_time(self, stream: str) -> str:
        """What a user writes to name the time column of an input: for messages."""
        return f'h.job(program, "{stream}", time="...")'

    def _running(self, what: str) -> Scope:
        if self._scope is None:
            raise WrongScope(f"{what} outside of a running program", hint="use it in process, each or on_window")
        return self._scope

    def __setattr__(self, name: str, value: object) -> None:
        if self._scope is not None:
            raise WrongScope(
                f"self.{name} was set while the program runs; it would be lost on recovery",
                hint=f"declare `{name} = h.Local(...)` and set self.{name}.value",
            )
        object.__setattr__(self, name, value)


WindowRows = Iterable[Any] | None
"""What `on_window` may give back: rows as dicts, polars frames, or nothing."""

OnWindow = Callable[[Window], WindowRows]
