"""Checkpoints of a partition: written in order, verified when loaded.

A checkpoint is two records, process and window, each named by how far it reaches; recovery joins the newest of both
that the logs still bear out (invariant: covering checkpoints). The older of two is kept in case the newer is torn; a
process record says how far a window record must be that goes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from holons.errors import CheckpointLost, CodecError, RecordDamaged
from holons.program import Job, PartitionRun, RecordHeader, Records
from holons.store import Position, Store
from holons.streams import Cursor
from holons.wcrdt import RecordFormat
from holons.windows import BEGINNING, ENDING

Forget: TypeAlias = Literal["nothing", "rows", "everything"]
"""What a partition does again although records say that it was done: nothing, its rows, or its windows too."""
_KEPT = 2
T = TypeVar("T")


class StateRecord(msgspec.Struct, frozen=True, array_like=True, tag="replica/1"):
    """A snapshot of a job's shared state, and from where on the sync stream continues it."""

    cursor: Cursor
    state: msgspec.Raw
    forgotten: int = 0
    """How many messages were read of writers that the stream has forgotten since: so positions never go back."""


STATE = RecordFormat(StateRecord)


def whole_records(store: Store, name: str, header: Callable[[bytes], T]) -> list[tuple[Position, T, bytes]]:
    """Returns all records of a name that are whole, newest first, with what `header` reads of each.

    A record that cannot be read is torn: its writer died before it was written. Or other nodes have stored newer ones
    meanwhile and dropped it: then the list has changed, and is gone through again. A record that another version of
    holons has written is neither: that is an error.
    """
    while True:
        whole, positions, torn = [], store.positions(name), False
        for position in reversed(positions):
            try:
                data = store.get(name, position)
                whole.append((position, header(data), data))
            except (RecordDamaged, CodecError):
                torn = True
        if not torn or whole or store.positions(name) == positions:
            return whole


def past(emitted_to: Sequence[int], forgotten_to: Sequence[int]) -> bool:
    """Whether windows of all stages are past what was forgotten. Nothing is emitted where nothing is said."""
    stages = zip_longest(emitted_to, forgotten_to, fillvalue=BEGINNING)
    return all(emitted >= forgotten for emitted, forgotten in stages)


def stream_lost(what: str, why: str) -> CheckpointLost:
    """Returns the error of something that cannot be sealed again although the sync stream has lost it."""
    return CheckpointLost(
        f"{what}: the sync stream has lost what was sealed, and {why}",
        hint="its directory is older than the checkpoints: restore all of the site from one copy, or resubmit the job",
    )


class Reached(NamedTuple):
    """How far durable records have come: nothing before will be asked for again."""

    sealed_to: int
    counted_to: tuple[int, ...]
    """By lane."""
    emitted_to: tuple[int, ...]
    """By clock."""

    @staticmethod
    def least(reached: Sequence[Reached]) -> Reached:
        """Returns how far all of several have come."""
        sealed, counted, emitted = zip(*reached, strict=True)
        return Reached(min(sealed), _least(counted), _least(emitted))


def _least(positions: Iterable[Sequence[int]]) -> tuple[int, ...]:
    return tuple(min(position) for position in zip(*positions, strict=True))


def _process_record(name: str, partition: int) -> str:
    return f"{name}/{partition}/process"


def needed_from(store: Store, name: str, partition: int) -> int | None:
    """Returns the first offset of its input that recovery of a partition may read; None: all that it ever began with."""
    records = store.durable(_process_record(name, partition))
    ended = records[-1:] and min(records[-1][1:]) >= ENDING
    return min(position[0] for position in records) if len(records) >= _KEPT or ended else None


class Checkpoints:
    """The records of one partition of one job."""

    def __init__(self, store: Store, name: str, partition: int, job: Job, begin: int = 0) -> None:
        """`begin` is the first offset of the input that the job reads."""
        self._store = store
        self._job = job
        self._begin = begin
        self._process = _process_record(name, partition)
        self._window = f"{name}/{partition}/window"
        self.prompt = True
        """Whether window records are durable at once, as far as is known. Then the next one will be, before the process
        record that goes with it: so a run may forget the WLocals that it has emitted, and need not wait for a record."""

    def save(self, run: PartitionRun) -> bool:
        """Stores both records of a drained run. Their positions only grow: nobody goes back in any stage.

        The window record goes first: once it is stored, the process record need not hold the values of WLocals that
        it is past. That is what makes one of a join small. False if no durable window record is past what the run has
        forgotten: then its process record has to wait.
        """
        emitted_to = run.progress.emitted_to
        self.prompt = past(emitted_to, self._emitted_to())
        if self.prompt:
            reached = run.progress.calls, *emitted_to
            self._put(self._window, reached, run.window_record())
            self.prompt = reached in self._store.durable(self._window)
        if self.prompt:
            run.forget(emitted_to)
        forgotten_to = run.progress.forgotten_to
        if not past(self._emitted_to(), forgotten_to):
            return False
        progress = run.progress
        self._put(self._process, (progress.offset, progress.sealed_to, *progress.counted_to), run.process_record())
        return True

    def _emitted_to(self) -> tuple[int, ...]:
        """How far the newest durable window record is, in each stage."""
        newest = self._store.durable(self._window)[-1:]
        return newest[0][1:] if newest else ()

    def _put(self, name: str, position: Position, record: bytes) -> None:
        self._store.put(name, position, record)
        known = self._store.durable(name)
        if len(known) > _KEPT:
            self._store.drop(name, known[-_KEPT])

    def floors(self) -> Reached | None:
        """How far all durable records have come; None while there may be older ones to come back to."""
        process, window = self._store.durable(self._process), self._store.durable(self._window)
        ended = process[-1:] and min(process[-1][1:]) >= ENDING  # no second record will ever follow
        if (len(process) < _KEPT and not ended) or len(window) < _KEPT:
            return None
        sealed, *counted = _least(position[1:] for position in process)
        return Reached(sealed, tuple(counted), _least(position[1:] for position in window))

    def load(
        self,
        input_bounds: Callable[[], tuple[int, int]],
        output_end: Callable[[str], int],
        forget: Forget = "nothing",
    ) -> Records:
        """The newest records that the logs bear out; nothing at all if none was ever stored.

        An owner that runs meanwhile may replace them, and those of before and of after need not go together. So they are
        only lost if they are once more when everything is read anew, and none has been stored meanwhile.
        """
        if forget != "nothing":
            return self._load_without(forget, input_bounds()[0], output_end)
        lost: tuple[list[Position], list[Position]] | None = None
        while True:
            bounds = input_bounds()
            emitted, window = self._newest(self._window, self._job.window_header, lambda *_: True, output_end)
            try:
                return Records(self._process_record(bounds, emitted, output_end), window)
            except CheckpointLost:
                stored = self._store.positions(self._window), self._store.positions(self._process)
                if stored == lost:
                    raise
                lost = stored

    def _load_without(self, forget: Forget, start: int, output_end: Callable[[str], int]) -> Records:
        """The records without what is to be forgotten."""
        if start > self._begin:
            raise stream_lost(self._process, f"the input log only begins at {start}")
        if forget == "everything":
            return Records()
        return Records(None, self._newest(self._window, self._job.window_header, lambda *_: True, output_end)[1])

    def _process_record(
        self, bounds: tuple[int, int], emitted: Position, output_end: Callable[[str], int]
    ) -> bytes | None:
        """Returns the newest process record that goes with a window record."""
        start, end = bounds
        _, process = self._newest(
            self._process,
            self._job.process_header,
            lambda position, record: start <= position[0] <= end and past(emitted[1:], record.forgotten_to),
            output_end,
        )
        if process is None and start > self._begin:
            raise CheckpointLost(
                f"{self._process}: no record, and the input log only begins at {start}",
                hint="restore the checkpoint store, or resubmit the job to start from what the log still has",
            )
        return process

    def _newest(
        self,
        name: str,
        header: Callable[[bytes], RecordHeader],
        fits: Callable[[Position, RecordHeader], bool],
        output_end: Callable[[str], int],
    ) -> tuple[Position, bytes | None]:
        """Returns the newest record that fits, and whose outputs are all written."""
        refused = 0
        for position, record, data in whole_records(self._store, name, header):
            written = all(output_end(channel) >= ordinal for channel, ordinal in record.ordinals.items())
            if written and fits(position, record):
                return position, data
            refused += 1
        if refused:
            raise CheckpointLost(
                f"{name}: none of {refused} records is borne out by the logs and by the other records",
                hint="a log has lost rows that were acknowledged: restore it, or resubmit the job",
            )
        return (), None
