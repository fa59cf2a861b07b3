"""A program folded over rows that lie anywhere: parts apart from each other, taken in by one fold of the whole.

Whoever has some rows of a partition folds them into a `Partial` (`PartialFold`): open panes, nothing is sealed. The fold of
the whole (`Fold`) merges what it is given, seals, and emits, with the same parts as a node. Contributions are commutative
monoids, so it does not matter who folded which rows.

- *Bounded*: all rows are there, so none is late, and they may lie in any order.
- *Unbounded*: they come in rounds, and lateness follows position, as in a log. A part learns what came before its round, not
  what other parts have; where that would make a difference, `Fold.retold` says what they should have known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NoReturn

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from holons import codec, wire
from holons.algebra import IntArray, Origin
from holons.arrow import column_names
from holons.errors import BadInput, BadProgram, NotFoldable
from holons.program.calls import ProcessScope
from holons.program.job import Job
from holons.program.locals import freeze, thaw
from holons.program.outputs import RESERVED, Output
from holons.program.process import BegunCall, ProcessPart, ProcessState
from holons.program.records import Records
from holons.program.run import ProgramRun
from holons.program.screening import RowSlice
from holons.wcrdt import RecordFormat, Replica, ReplicaState, check_fits, restoring
from holons.windows import BEGINNING, ENDING, TIME_LIMIT, Window

_NEVER_LATE = TIME_LIMIT - BEGINNING


class Start(msgspec.Struct, frozen=True):
    """What a part begins with: what the rows before its own have done."""

    offset: int = 0
    watermark: int = BEGINNING
    by_hand: int = BEGINNING
    locals: bytes | None = None
    columns: dict[str, list[str]] = {}


class FoldedRows(msgspec.Struct, frozen=True):
    """Rows of a part that were handled at once."""

    first: int
    last: int
    lowest: int
    """The earliest time of those that were not late."""
    watermark: int
    outputs: list[tuple[str, bytes]]
    """Channel, and a table as an Arrow stream."""


class Partial(msgspec.Struct, frozen=True):
    """What some rows of one partition come to."""

    partition: int
    began: Start
    ended: Start
    contributions: bytes
    pieces: list[FoldedRows]

    def encode(self) -> bytes:
        return wire.encode(self)

    @staticmethod
    def decode(data: bytes) -> Partial:
        return _decode(data)


_decode: Callable[[bytes], Partial] = wire.decoder(Partial, "a partial fold", "what a task returned")


class FoldRecord(msgspec.Struct, frozen=True, array_like=True, tag="fold/1"):
    """Where a fold resumes: all partitions, and what they have sealed."""

    runs: list[Records]
    replica: ReplicaState


FOLD = RecordFormat(FoldRecord)


def check_foldable(job: Job) -> None:
    """A program that awaits needs nodes: the tasks of a fold cannot wait for each other."""
    if job.layout.asynchronous:
        raise NotFoldable(
            f"{type(job.program).__name__} awaits completed windows, and tasks cannot wait for each other",
            hint="run it on nodes: h.run(job, ...)",
        )
    for index in job.layout.lanes:
        handle = job.layout.handles[index]
        raise NotFoldable(
            f"{handle.name} is over {handle.window}: which rows belong to a window is known only when all partitions are",
            hint="run it on nodes: h.run(job, ...)",
        )


def needs_order(job: Job, *, bounded: bool) -> bool:
    """Whether a part must see its rows in order, and at once."""
    return not bounded or _has_locals(job)


def _has_locals(job: Job) -> bool:
    return any(local.scope == "process" for local in job.layout.locals.values())


class _FoldScope(ProcessScope):
    """What handles may do while rows are folded apart: nothing that looks at the whole."""

    def peek(self, handle: str, window: Window, preview: bool) -> Any:  # noqa: ANN401
        self._refuse(f"{handle}.peek")

    def watermark(self, handle: str) -> int:
        self._refuse(f"{handle}.watermark()")

    def completed(self, handle: str, window: Window) -> Awaitable[Any]:
        self._refuse(f"{handle}.completed")

    def _refuse(self, what: str) -> NoReturn:
        raise NotFoldable(f"{what} in process: a task knows nothing of the others", hint="run it on nodes: h.run(job)")


class PartialFold(ProcessPart):
    """Some rows of a partition, folded; nothing is sealed."""

    scope_of = _FoldScope

    def __init__(
        self, job: Job, partition: int, input_index: int, start: Start | None = None, *, bounded: bool
    ) -> None:
        super().__init__(job, partition, input_index)
        self._began = start or Start()
        self._bounded = bounded
        if bounded:
            self.disorder_us = _NEVER_LATE
        began, state = self._began, self.state
        state.offset, state.watermark, state.by_hand = began.offset, began.watermark, began.by_hand
        state.columns = dict(began.columns)
        if began.locals is not None:
            state.locals = thaw(codec.decode(began.locals))
        self._nothing = Replica(job.layout.handles, 1)
        self._lowest = ENDING
        self._pieces: list[FoldedRows] = []

    def take(self, frame: pl.DataFrame, orders: IntArray) -> None:
        """Folds rows, each with its order in the partition: ascending, and unless bounded above all before."""
        if len(frame) == 0:
            return
        repeated = np.flatnonzero(orders[1:] <= orders[:-1])
        if len(repeated):
            raise BadInput(
                "two rows of one partition have the same place in its order",
                hint="number the rows of a partition: each its own number, growing",
                partition=self.partition,
                order=int(orders[repeated[0]]),
            )
        self._lowest = ENDING
        self._enqueue(self.screening.seen(frame), Origin(self.partition, 0, len(frame), orders), lambda: frame)
        while self.work(self._nothing):
            pass
        outputs = [(output.channel, _written(output.table)) for output in self.outputs]
        self.outputs = []
        self._pieces.append(FoldedRows(int(orders[0]), int(orders[-1]), self._lowest, self.state.watermark, outputs))
        if self._bounded:
            self.state.by_hand = BEGINNING  # what follows may have been before

    def _begin(self, piece: RowSlice) -> BegunCall:
        begun = super()._begin(piece)
        times = begun.call.events.ts.micros
        if len(times):
            self._lowest = int(times.min())
        return begun

    def _seal(self, watermark: int) -> None:
        """Nothing is sealed by those who see only a part."""

    def partial(self) -> Partial:
        """What all of it comes to."""
        ended = _start_of(self.state)
        return Partial(self.partition, self._began, ended, self.contributions.snapshot(), self._pieces)


def _start_of(state: ProcessState) -> Start:
    values = codec.encode(freeze(state.locals)) if state.locals else None
    return Start(state.offset, state.watermark, state.by_hand, values, state.columns)


@dataclass(frozen=True)
class Starts:
    """What parts begin with, by partition; where several parts share one, by the order from which on it holds."""

    known: Mapping[int, Sequence[tuple[int, Start]]]

    def of(self, partition: int, order: int) -> Start:
        """What a part begins with whose first row has this order."""
        told = self.known.get(partition, ())
        place = bisect_right(told, order, key=lambda one: one[0])
        return told[place - 1][1] if place else Start()


class Fold:
    """The fold of the whole: takes parts in, seals, emits. All of its state is in `snapshot`."""

    def __init__(self, job: Job, partitions: Sequence[int], *, bounded: bool, resume: bytes | None = None) -> None:
        """`partitions` says how many each input of the job has."""
        check_foldable(job)
        self.job = job
        self.bounded = bounded
        inputs = [index for index, count in enumerate(partitions) for _ in range(count)]
        stored = None if resume is None else FOLD.header(resume)
        records = [Records()] * len(inputs) if stored is None else stored.runs
        check_fits(len(records) == len(inputs))
        self.runs = [
            ProgramRun(job, place, len(inputs), input_index=index, resume=record)
            for place, (index, record) in enumerate(zip(inputs, records, strict=True))
        ]
        with restoring("the record of a fold"):
            self.replica = Replica(job.layout.handles, len(inputs), None if stored is None else stored.replica)
        self._has_locals = _has_locals(job)

    # --- what parts need to know -------------------------------------------------------------------------------------

    def starts(self) -> Starts:
        """What the parts of the next round begin with."""
        return Starts({run.partition: [(BEGINNING, _start_of(run.state))] for run in self.runs})

    def retold(self, partials: Iterable[Partial]) -> Starts | None:
        """What the parts of a round should have begun with, if some took rows for punctual that are late."""
        if self.bounded:
            return None
        known, wrong = dict(self.starts().known), False
        for place, parts in _by_partition(partials).items():
            told, start = [], known[place][0][1]
            for part in parts:
                told.append((part.pieces[0].first, start))
                wrong |= min(piece.lowest for piece in part.pieces) < start.watermark
                highest = max(piece.watermark for piece in part.pieces)
                start = msgspec.structs.replace(start, watermark=max(start.watermark, highest))
            known[place] = told
        return Starts(known) if wrong else None

    # --- rounds ------------------------------------------------------------------------------------------------------

    def take(self, partials: Iterable[Partial]) -> list[Output]:
        """Takes in the parts of a round; returns what is complete by then."""
        for place, parts in _by_partition(partials).items():
            if not 0 <= place < len(self.runs):
                raise BadInput(f"there is no partition {place}", hint=f"there are {len(self.runs)}; see partitions=")
            self._take(self.runs[place], parts)
        return self._work()

    def finish(self) -> list[Output]:
        """Nothing comes any more: returns all that is left."""
        for run in self.runs:
            run.mark(ENDING, run.progress.read_to)
        return self._work()

    def _take(self, run: ProgramRun, parts: list[Partial]) -> None:
        before = run.state
        pieces = sorted((piece for part in parts for piece in part.pieces), key=lambda piece: piece.first)
        self._check(run, parts, pieces)
        last = parts[-1].ended
        state = replace(before, columns=_columns(parts))
        state.offset = max(before.offset, pieces[-1].last + 1)
        if not self.bounded:
            state.watermark = max(before.watermark, *(piece.watermark for piece in pieces))
            state.by_hand = max(before.by_hand, last.by_hand)
        if last.locals is not None:
            state.locals = thaw(codec.decode(last.locals))
        run.absorb((part.contributions for part in parts), state, _tables(pieces))

    def _check(self, run: ProgramRun, parts: list[Partial], pieces: list[FoldedRows]) -> None:
        """What rows did must not depend on who had them."""
        name = f"rows of partition {run.partition}"
        one_task = "let one task have a partition's rows, in order; or run it on nodes: h.run(job)"
        if len(parts) > 1 and self._has_locals:
            raise NotFoldable(f"{name} are in several tasks, and process has a Local", hint=one_task)
        if len(parts) > 1 and not self.bounded and any(part.ended.by_hand > part.began.by_hand for part in parts):
            raise NotFoldable(f"{name} are in several tasks, and process moves the watermark by hand", hint=one_task)
        mixed = any(piece.last >= later.first for piece, later in pairwise(pieces))
        if mixed and not self.bounded:
            raise NotFoldable(f"{name} are mixed over several tasks, so that none knows which are late", hint=one_task)
        if mixed and any(channel not in RESERVED for piece in pieces for channel, _ in piece.outputs):
            raise NotFoldable(f"{name} are mixed over several tasks, and process puts rows out", hint=one_task)
        if not self.bounded and pieces[0].first < run.state.offset:
            raise BadInput(
                f"{name} came again, or too late: order {pieces[0].first} after {run.state.offset - 1}",
                hint="each round must bring rows behind those of the rounds before",
            )

    def _work(self) -> list[Output]:
        outputs: list[Output] = []
        happened = True
        while happened:
            happened = False
            for run in self.runs:
                while run.step(self.replica):
                    happened = True
                made, messages = run.drain()
                outputs += made
                for message in messages:
                    self.replica.take_in(message)
                    happened = True
        self._trim()
        return outputs

    def _trim(self) -> None:
        progress = [run.progress for run in self.runs]
        emitted = [min(stage) for stage in zip(*(run.emitted_to for run in progress), strict=True)]
        self.replica.trim(self.job.sealed_by_clock(min(run.sealed_to for run in progress), ()), emitted)
        for run in self.runs:
            run.forget(run.progress.emitted_to)

    def snapshot(self) -> bytes:
        """Returns the record to resume from, between two rounds."""
        return FOLD.encode(FoldRecord([run.snapshot() for run in self.runs], self.replica.snapshot()))


def _by_partition(partials: Iterable[Partial]) -> dict[int, list[Partial]]:
    """Parts that have rows, by partition, in the order of their first rows."""
    found: dict[int, list[Partial]] = {}
    for part in partials:
        if part.pieces:
            found.setdefault(part.partition, []).append(part)
    return {place: sorted(parts, key=lambda part: part.pieces[0].first) for place, parts in sorted(found.items())}


def _columns(parts: list[Partial]) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    for part in parts:
        for channel, names in part.ended.columns.items():
            if columns.setdefault(channel, names) != names:
                raise BadProgram(
                    f"channel {channel!r} was given rows of different columns",
                    hint="select the same columns each time, or use a channel for each",
                )
    return columns


def _tables(pieces: list[FoldedRows]) -> dict[str, list[pa.Table]]:
    """What pieces put out, by channel, in order: rows that were set aside tell their own."""
    found: dict[str, list[pa.Table]] = {}
    for piece in pieces:
        for channel, data in piece.outputs:
            found.setdefault(channel, []).append(_read(data))
    for channel in RESERVED:
        if channel in found:
            found[channel] = [pa.concat_tables(found[channel], promote_options="default").sort_by("_offset")]
    return found


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _read(data: bytes) -> pa.Table:
    with restoring("the rows of a partial fold"), pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
        column_names(table.schema)  # says whether they are text
        table.validate(full=True)  # else damaged rows might end the process
        return table
