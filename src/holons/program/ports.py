"""What a node knows of a job by protocol only: what each partition runs, and the state that its partitions share.

`Job.open_run` and `Job.open_state` make both. A run and a state that belong together understand each other's messages; a
node only carries these, stores records and snapshots, and decides by `RunProgress` how far everybody is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec
import polars as pl
import pyarrow as pa

from holons.program.delays import NO_DELAYS, Delays
from holons.program.outputs import Output
from holons.wcrdt import Preview
from holons.windows import Window

AppendedRows: TypeAlias = tuple[int, int, bool]
"""How many rows of a log, in microseconds since 1970 when they were appended, and whether as they came into being."""


class RunProgress(msgspec.Struct, frozen=True):
    """How far a run is. Everything in it only grows, except whether it is parked or busy."""

    offset: int
    """Rows below this offset are processed."""
    read_to: int
    """The offset to read next."""
    watermark: int
    """The clock of stage 0."""
    sealed_to: int
    """Up to where stage 0 is sealed."""
    emitted_to: tuple[int, ...]
    """By clock, up to where windows are emitted: those of stages in event time, those of lanes in ranks."""
    calls: int
    """How many windows are emitted."""
    forgotten_to: tuple[int, ...]
    """By stage, how far a window record must have emitted to go with what the process part still holds."""
    parked: bool
    """Whether a call waits for a window."""
    busy: bool
    """Whether rows that were fed still wait for their call."""
    appended: int = 0
    """When the newest processed row was appended to its log, in microseconds since 1970; 0 if nobody knows."""
    delays: Delays = NO_DELAYS
    """How long after their own times live rows were appended."""
    late: int = 0
    """How many rows were diverted since they were late,"""
    dead: int = 0
    """how many since they had no usable time,"""
    future: int = 0
    """and how many of those since they were dated too far after they were appended."""
    counted_to: tuple[int, ...] = ()
    """By lane, up to which rank it is sealed."""
    rows_held: int = 0
    """How many counted rows wait for their cut."""

    @property
    def reached(self) -> int:
        """Up to where others may know it: of lanes they know the clock itself, else where stage 0 is sealed."""
        return max(self.sealed_to, self.watermark) if self.counted_to else self.sealed_to


class RecordHeader(NamedTuple):
    """What a node reads of a record before it relies on it."""

    ordinals: Mapping[str, int]
    """By output channel, how many rows it relies on."""
    forgotten_to: Sequence[int] = ()
    """Of a process record: by stage, how far a window record must have emitted to go with it."""


class SyncMessage(Protocol):
    """What a run tells the state of its job on all nodes. The first field on the wire is a tag that names its kind."""

    def encode(self) -> bytes:
        """The message as bytes."""
        ...


class SharedState(Protocol):
    """A node's copy of what all partitions of a job have sealed. Copies converge whatever happens to messages on the way."""

    @property
    def progress(self) -> Sequence[Sequence[int]]:
        """By stage and partition, up to where everything is known that the partition has sealed."""
        ...

    @property
    def reached(self) -> Sequence[int]:
        """By partition, up to where in event time it is known: where stage 0 is sealed, or how far its rows are counted."""
        ...

    def receive(self, data: bytes) -> bool:
        """Takes in a message of any run, in any order, any number of times; says whether it brought anything new."""
        ...

    def receive_preview(self, data: bytes) -> None:
        """Takes in a preview of any run."""
        ...

    def gaps(self) -> Sequence[tuple[int, int, int]]:
        """Where messages are missing while later ones wait for them: clock, partition, and up to where all are there.

        A state with gaps is not stored.
        """
        ...

    def oldest(self, stage: int) -> int:
        """The end of the oldest contribution of a stage that is still here; `ENDING` if there is none."""
        ...

    def trim(self, processed: Sequence[int], emitted: Sequence[int]) -> int:
        """Drops what no run reads again that has processed and emitted so much, by stage; says how many pieces."""
        ...

    def serves(self, processed: Sequence[int], emitted: Sequence[int]) -> bool:
        """Whether everything is still here that such a run reads."""
        ...

    def snapshot_bytes(self) -> bytes:
        """What `Job.open_state` resumes from: one value in MessagePack."""
        ...

    def peek(self, index: int, window: Window, *, preview: bool) -> Any:  # noqa: ANN401 - whatever the aggregate's value is
        """UNSAFE: what is known of a window of a handle now; None if nothing."""
        ...


class PartitionRun(Protocol):
    """What runs one partition of a job. All of its state comes from the records that it was opened with."""

    @property
    def progress(self) -> RunProgress:
        """How far it is now."""
        ...

    @property
    def ordinals(self) -> dict[str, int]:
        """By output channel, how many rows it has emitted, before it resumed and since."""
        ...

    def feed(
        self,
        batch: pa.RecordBatch | pa.Table | pl.DataFrame,
        offset: int,
        whole: Callable[[], pa.Table] | None = None,
        appended: Sequence[AppendedRows] = (),
    ) -> None:
        """Takes rows of the log, the first of them at `offset`; `whole` gives the same rows with all columns.

        `appended` says of all of them when they were appended, if that is known.
        """
        ...

    def mark(self, ts: int, offset: int) -> None:
        """Takes a mark of the log."""
        ...

    def work(self, state: SharedState) -> bool:
        """A bounded piece of work on what was fed; says whether anything happened."""
        ...

    def emit(self, state: SharedState, calls_max: int) -> bool:
        """Emits up to so many windows that are complete; says whether anything happened."""
        ...

    def drain(self) -> tuple[Sequence[Output], Sequence[SyncMessage]]:
        """What is to be written, in this order: outputs, then messages for the state on all nodes."""
        ...

    def owes_windows(self, watermark: int) -> bool:
        """Whether windows are not emitted yet that are complete once all partitions have reached a watermark of stage 0."""
        ...

    def closes_windows(self, state: SharedState, watermark: int) -> bool:
        """Whether a window that is known to hold something is over once all have reached a watermark of stage 0."""
        ...

    def forget(self, emitted_to: Sequence[int]) -> None:
        """Drops what only window records need that have not emitted so much, by stage."""
        ...

    def previews(self) -> Sequence[Preview]:
        """What is not sealed yet: for `peek`, and for nothing else."""
        ...

    def process_record(self) -> bytes:
        """The record that goes by `offset` and `sealed_to`, once everything is drained."""
        ...

    def window_record(self) -> bytes:
        """The record that goes by `calls` and `emitted_to`, once everything is drained."""
        ...
