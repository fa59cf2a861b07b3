"""A job: a program bound to its input streams."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import cloudpickle

from holons.errors import BadInput, BadProgram, UnpicklableProgram, WrongScope
from holons.names import check_name
from holons.program.calls import check_peekable
from holons.program.digest import LATER, digest_of
from holons.program.layout import Layout, layout_of
from holons.program.outputs import RESERVED, Channel, Cut
from holons.program.ports import PartitionRun, RecordHeader, SharedState
from holons.program.program import Program
from holons.program.records import PROCESS, WINDOW, Records, cut_after
from holons.wcrdt import Replica
from holons.windows import ENDING, Duration, Window, micros

_LIVE_MAX_FUTURE: Final = "1h"


@dataclass(frozen=True)
class Input:
    """An input stream: its name, its time column, how far rows may be out of order, and which columns are read.

    With `columns`, the program sees these and the time column, and what it does not see need not be read: a log of ours
    then checks and touches only their bytes. Rows that are set aside (`late`, `dead`) are whole all the same.

    A row whose time lies more than `max_future` after the time at which it was appended is `dead`, and moves no clock: one
    such row would else make all honest ones late. "auto" is an hour for rows that are appended as they come into being,
    and no limit for history, which is loaded; None is no limit.

    A job begins where its streams begin, which is later than 0 where a stream is not kept for ever; that is a warning,
    `InputTrimmed`. With `whole` it is refused then.
    """

    stream: str
    time: str = "ts"
    disorder: Duration = "0s"
    columns: Collection[str] | None = field(default=None, metadata={LATER: True})
    max_future: Duration | None = field(default="auto", metadata={LATER: True})

    whole: bool = field(default=False, metadata={LATER: True})

    def __post_init__(self) -> None:
        check_name("stream", self.stream)
        if self.max_future is not None and self.max_future != "auto":
            micros(self.max_future, zero_allowed=True)
        if self.columns is None:
            return
        if isinstance(self.columns, str):
            raise BadProgram(
                f"columns={self.columns!r} is one text", hint=f"a list of names: columns=[{self.columns!r}]"
            )
        object.__setattr__(self, "columns", tuple(sorted(set(self.columns))))  # in which order does not matter

    @property
    def reads(self) -> frozenset[str] | None:
        """The columns that the program sees; None: all."""
        return None if self.columns is None else frozenset((*self.columns, self.time))

    @property
    def disorder_us(self) -> int:
        return micros(self.disorder, zero_allowed=True)

    def max_future_us(self, *, live: bool) -> int | None:
        """Returns `max_future` in microseconds, for live rows or for history; None: no limit."""
        allowed = self.max_future
        if allowed == "auto":
            allowed = _LIVE_MAX_FUTURE if live else None
        return None if allowed is None else micros(allowed, zero_allowed=True)

    def latest(self, appended: int, *, live: bool) -> int:
        """Returns the latest time that a row may have which was appended then."""
        ahead_us = self.max_future_us(live=live)
        return ENDING if ahead_us is None else appended + ahead_us


@dataclass(frozen=True)
class Job:
    """A program and its inputs. A frozen, picklable value; nothing runs yet."""

    program: Program
    inputs: tuple[Input, ...]
    name: str = ""
    layout: Layout = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.inputs:
            raise BadProgram("a job needs an input stream", hint='h.job(MyProgram(), "bids")')
        if len({source.stream for source in self.inputs}) < len(self.inputs):
            raise BadProgram("one stream is listed twice", hint="name each input stream once")
        for source in self.inputs:
            micros(source.disorder, zero_allowed=True)
        object.__setattr__(self, "layout", layout_of(self.program))
        object.__setattr__(self, "name", check_name("job", self.name or type(self.program).__name__))
        check_picklable(self.program)

    def together(self, others: Sequence[Job], name: str) -> Job:
        """Several pipelines as one job."""
        raise BadProgram("a program is a job by itself", hint="h.job(program, stream); only pipelines are put together")

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """The channels that people ask for, and what is known of columns before any row is written."""
        program = self.program
        declared = [Channel(name, program._channel_schema(name)) for name in self.layout.channels]
        streams = [schema for source in self.inputs if (schema := program._stream_schema(source.stream)) is not None]
        return *declared, *(Channel(name, schema) for name in RESERVED for schema in streams)

    @cached_property
    def digest(self) -> str:
        """What this job does, as a short text: other code, other settings or other inputs give another one."""
        return digest_of(self.program, self.inputs)

    # --- what nodes ask a job for ----------------------------------------------------------------------------------

    def open_state(self, partitions: int, resume: bytes | memoryview | None = None) -> SharedState:
        """The state that the runs of all partitions share, from the beginning or from a snapshot."""
        return Replica.resumed(self.layout.handles, partitions, resume)

    def open_run(
        self,
        partition: int,
        partitions: int,
        *,
        input_index: int = 0,
        resume: Records | None = None,
        cut: Cut | None = None,
    ) -> PartitionRun:
        """What runs one partition, from the beginning of its log or from the records of a checkpoint."""
        from holons.program.run import ProgramRun

        return ProgramRun(self, partition, partitions, input_index=input_index, resume=resume, cut=cut)

    def process_header(self, record: bytes) -> RecordHeader:
        """What a node reads of a process record."""
        header = PROCESS.header(record)
        return RecordHeader(header.ordinals, header.forgotten_to)

    def window_header(self, record: bytes) -> RecordHeader:
        """What a node reads of a window record."""
        return RecordHeader(WINDOW.header(record).ordinals)

    def cut_after(self, records: Records, before: Cut) -> Cut:
        """Where a run of this job leaves off that has stored these records, and was itself silent up to `before`."""
        cut = cut_after(records, before)
        for callback in self.layout.callbacks:
            for channel in () if callback.window.counted else self.layout.channels_of(callback):
                if channel in cut.counted:
                    raise BadInput(
                        f"{self.name} cannot be upgraded: channel {channel!r} was of count windows, and would now be of "
                        f"{callback.window}: nothing says which of these follow on those",
                        hint="give the new windows another channel; or cancel the job, and submit it as a new one",
                    )
        return cut

    @property
    def awaits(self) -> bool:
        """Whether `process` may read completed windows."""
        return self.layout.asynchronous

    def sealed_by_clock(self, sealed_to: int, counted_to: Sequence[int]) -> list[int]:
        """How far each stage is sealed once stage 0 is sealed so far everywhere; then how far each lane is."""
        return [*(self.layout.reach(stage, sealed_to) for stage in range(self.layout.stages)), *counted_to]

    def peek(self, state: SharedState, handle: str, window: Window) -> Any:  # noqa: ANN401 - whatever the aggregate's value is
        """UNSAFE, for people to look at: what a state knows of a window of a shared handle now; None if nothing.

        The value if it is completed (`WindowTrimmed` if it is gone), else what is sealed and previewed of it.
        """
        shared = {described.name: index for index, described in enumerate(self.layout.handles) if described.shared}
        if handle not in shared:
            raise WrongScope(f"{self.name} has no shared handle {handle!r}", hint=f"it has {', '.join(shared)}")
        check_peekable(self.layout.handles[shared[handle]], window)
        return state.peek(shared[handle], window, preview=True)


def job(
    program: Program | Job,
    *inputs: str | Input | Job,
    time: str = "ts",
    disorder: Duration = "0s",
    columns: Collection[str] | None = None,
    max_future: Duration | None = "auto",
    name: str = "",
) -> Job:
    """Binds a program to streams: `h.job(BidShare(), "bids", time="date_time", disorder="2s", columns=["price"])`.

    `time`, `disorder`, `columns` and `max_future` hold for the streams given by name; pass `h.Input(...)` where they differ.
    Pipelines that end in `.to(...)` are jobs already; several of them become one.
    """
    if isinstance(program, Job):
        for source in inputs:
            if not isinstance(source, Job):
                raise BadProgram(
                    f"{source!r} is not a pipeline",
                    hint='pipelines know their streams: h.job(first.to("x"), second.to("y"))',
                )
        if (time, disorder, columns, max_future) != ("ts", "0s", None, "auto"):
            raise BadProgram(
                "time, disorder, columns and max_future are for programs; a pipeline knows its own",
                hint='say it where it begins: h.source("bids", time="date_time", disorder="2s")',
            )
        return program.together([source for source in inputs if isinstance(source, Job)], name)
    for source in inputs:
        if isinstance(source, Job):
            raise BadProgram("a program's input is a stream, not a job", hint='h.job(MyProgram(), "bids")')
    bound = tuple(
        source if isinstance(source, Input) else Input(source, time, disorder, columns, max_future)
        for source in inputs
        if not isinstance(source, Job)
    )
    return Job(program, bound, name)


def check_picklable(program: Program) -> None:
    """Raises `UnpicklableProgram`, naming the attribute, unless the program can travel to other processes."""
    try:
        cloudpickle.dumps(program)
    except Exception as error:
        guilty = [name for name, value in vars(program).items() if not _travels(value)]
        where = f" because of self.{', self.'.join(guilty)}" if guilty else ""
        raise UnpicklableProgram(
            f"{type(program).__name__} cannot be sent to other processes{where}: {error}",
            hint="open files, connections and locks inside process, or pass their settings instead",
        ) from error


def _travels(value: object) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:  # noqa: BLE001 - pickling may raise anything
        return False
    return True
