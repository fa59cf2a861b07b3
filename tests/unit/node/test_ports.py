"""A run and a shared state that are nobody's but this test's go through a real node, recovery and the simulator.

A *round* is ten more rows of every partition. Each partition publishes the sum of each of its rounds, and once all have done
so, or have ended, each emits the total. Nothing here has windows, handles or a program that does anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import holons as h
from holons.engines.memory_site import MemorySite
from holons.engines.simulator import simulate
from holons.errors import CheckpointLost, CodecError, WrongScope
from holons.node import Node, Settings
from holons.program import Job, Output, PartitionRun, RecordHeader, Records, RunProgress, SharedState
from holons.streams import MemoryLog
from holons.windows import BEGINNING, END, ENDING

ROWS = 10
CHANNEL = "totals"


# --- the shared state -------------------------------------------------------------------------------------------------


class Summed(msgspec.Struct, frozen=True, array_like=True, tag="summed/1"):
    """The sums of a partition's rounds from `first` on."""

    partition: int
    first: int
    sums: list[int]

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)


class Ended(msgspec.Struct, frozen=True, array_like=True, tag="ended/1"):
    """A partition has ended after so many rounds: another kind of message in the same stream."""

    partition: int
    rounds: int

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)


class Held(msgspec.Struct, array_like=True, tag="held/1"):
    """What is known of one partition."""

    sums: list[int] = msgspec.field(default_factory=list)
    trimmed: int = 0
    """How many sums before these are gone."""
    ended: bool = False

    @property
    def rounds(self) -> int:
        return self.trimmed + len(self.sums)


class Sums:
    """The sums of all partitions' rounds."""

    def __init__(self, partitions: int, resume: bytes | memoryview | None = None) -> None:
        self.held = [Held() for _ in range(partitions)]
        if resume is not None:
            self.held = msgspec.msgpack.decode(resume, type=list[Held])
        self._waiting: list[Summed | Ended] = []

    @property
    def progress(self) -> list[list[int]]:
        return [[ENDING if held.ended else held.rounds or BEGINNING for held in self.held]]

    @property
    def reached(self) -> list[int]:
        return self.progress[0]

    def receive(self, data: bytes) -> bool:
        try:
            self._waiting.append(_messages.decode(data))
        except msgspec.DecodeError as error:
            raise CodecError(f"not a message of sums: {error}") from error
        before = self.snapshot_bytes()
        while any(self._apply(message) for message in list(self._waiting)):
            pass
        return self.snapshot_bytes() != before

    def _apply(self, message: Summed | Ended) -> bool:
        held = self.held[message.partition]
        if (message.rounds if isinstance(message, Ended) else message.first) > held.rounds:
            return False
        self._waiting.remove(message)
        if isinstance(message, Ended):
            held.ended = True
            return True
        for number, value in enumerate(message.sums, start=message.first):
            if number >= held.rounds:
                held.sums.append(value)
            elif number >= held.trimmed:
                assert held.sums[number - held.trimmed] == value, "two runs of one partition disagree"
        return True

    def receive_preview(self, data: bytes) -> None:
        raise AssertionError("there are no previews")

    def gaps(self) -> Sequence[tuple[int, int, int]]:
        return [(0, message.partition, 0) for message in self._waiting]

    def oldest(self, stage: int) -> int:
        return min((held.trimmed + 1 for held in self.held if held.sums), default=ENDING)

    def trim(self, processed: Sequence[int], emitted: Sequence[int]) -> int:
        dropped = 0
        for held in self.held:
            needless = max(0, min(emitted[0], held.rounds) - held.trimmed)
            held.sums, held.trimmed, dropped = held.sums[needless:], held.trimmed + needless, dropped + needless
        return dropped

    def serves(self, processed: Sequence[int], emitted: Sequence[int]) -> bool:
        return all(held.trimmed <= max(emitted[0], 0) for held in self.held)

    def snapshot_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self.held)

    def peek(self, index: int, window: h.Window, *, preview: bool) -> object:
        return None

    def total(self, number: int) -> int | None:
        """The total of a round; None if not all partitions are past it."""
        if any(held.rounds <= number and not held.ended for held in self.held):
            return None
        return sum(held.sums[number - held.trimmed] for held in self.held if held.rounds > number)


_messages = msgspec.msgpack.Decoder(Summed | Ended)


# --- the run ----------------------------------------------------------------------------------------------------------


class Read(msgspec.Struct, array_like=True, tag="read/1"):
    """The process record."""

    offset: int = 0
    count: int = 0
    value: int = 0
    rounds: int = 0
    ended: bool = False


class Emitted(msgspec.Struct, array_like=True, tag="emitted/1"):
    """The window record."""

    calls: int = 0
    finished: bool = False


class Rounds:
    """Sums up the rounds of one partition."""

    def __init__(self, partition: int, resume: Records) -> None:
        self.partition = partition
        self.read = Read() if resume.process is None else msgspec.msgpack.decode(resume.process, type=Read)
        self.emitted = Emitted() if resume.window is None else msgspec.msgpack.decode(resume.window, type=Emitted)
        self._read_to = self.read.offset
        self._waiting: list[list[int] | None] = []
        self._outputs: list[Output] = []
        self._messages: list[Summed | Ended] = []

    @property
    def progress(self) -> RunProgress:
        sealed_to = ENDING if self.read.ended else self.read.rounds or BEGINNING
        return RunProgress(
            offset=self.read.offset,
            read_to=self._read_to,
            watermark=sealed_to,
            sealed_to=sealed_to,
            emitted_to=(ENDING if self.emitted.finished else self.emitted.calls or BEGINNING,),
            calls=self.emitted.calls,
            forgotten_to=(BEGINNING,),
            parked=False,
            busy=bool(self._waiting),
        )

    def feed(self, batch, offset, whole=None, appended=()):
        assert offset == self._read_to
        values = pl.DataFrame(batch)["value"].to_list()
        self._waiting.append(values)
        self._read_to += len(values)

    def mark(self, ts, offset):
        assert offset == self._read_to
        self._waiting.append(None if ts == END.ts else [])
        self._read_to += 1

    def work(self, state: SharedState) -> bool:
        if not self._waiting:
            return False
        values, read = self._waiting.pop(0), self.read
        if values is None:
            self._messages.append(Ended(self.partition, read.rounds))
            read.ended = True
        first, sums = read.rounds, []
        for value in values or ():
            read.count, read.value = read.count + 1, read.value + value
            if read.count == ROWS:
                sums.append(read.value)
                read.count = read.value = 0
        if sums:
            read.rounds += len(sums)
            self._messages.append(Summed(self.partition, first, sums))
        read.offset += 1 if values is None else len(values)
        return True

    def emit(self, state: SharedState, calls_max: int) -> bool:
        assert isinstance(state, Sums)
        before = self.emitted.calls
        while self.emitted.calls < before + calls_max:
            if all(held.ended and held.rounds <= self.emitted.calls for held in state.held):
                happened, self.emitted.finished = not self.emitted.finished, True
                return happened or self.emitted.calls > before
            total = state.total(self.emitted.calls)
            if total is None:
                break
            table = pa.table({"round": [self.emitted.calls], "total": [total]})
            self._outputs.append(Output(CHANNEL, self.partition, self.emitted.calls, table))
            self.emitted.calls += 1
        return self.emitted.calls > before

    def drain(self):
        outputs, messages = self._outputs, self._messages
        self._outputs, self._messages = [], []
        return outputs, messages

    @property
    def ordinals(self) -> dict[str, int]:
        return {CHANNEL: self.emitted.calls}

    def owes_windows(self, watermark: int) -> bool:
        return self.emitted.calls < watermark and not self.emitted.finished

    def closes_windows(self, state: SharedState, watermark: int) -> bool:
        return not self.emitted.finished

    def forget(self, emitted_to: Sequence[int]) -> None:
        pass

    def previews(self) -> list:
        return []

    def process_record(self) -> bytes:
        assert not self._outputs
        assert not self._messages
        return msgspec.msgpack.encode(self.read)

    def window_record(self) -> bytes:
        return msgspec.msgpack.encode(self.emitted)


class Idle(h.Program):
    """Says nothing of what is done: a job has a program."""

    def process(self, events):
        raise AssertionError("nobody calls this")


class SumJob(Job):
    """A job of such runs; it keeps what its runs and states resumed from."""

    resumed: list[object] = []

    def open_state(self, partitions, resume=None) -> SharedState:
        self.resumed += [] if resume is None else ["state"]
        return Sums(partitions, resume)

    def open_run(self, partition, partitions, *, input_index=0, resume=None, cut=None) -> PartitionRun:
        self.resumed += [] if resume in (None, Records()) else [partition]
        return Rounds(partition, resume or Records())

    def process_header(self, record) -> RecordHeader:
        _ = msgspec.msgpack.decode(record, type=Read)
        return RecordHeader({})

    def window_header(self, record) -> RecordHeader:
        return RecordHeader({CHANNEL: msgspec.msgpack.decode(record, type=Emitted).calls})

    awaits = True

    def sealed_by_clock(self, sealed_to: int, counted_to: tuple[int, ...]) -> list[int]:
        return [sealed_to]


@pytest.fixture
def job() -> SumJob:
    SumJob.resumed = []
    return SumJob(Idle(), (h.Input("numbers"),), name="sums")


# --- what must come out -----------------------------------------------------------------------------------------------


@cache
def inputs(seed: int, rows: Sequence[int]) -> tuple[list[list[pl.DataFrame]], dict[str, dict[int, list[dict]]]]:
    """Partitions of so many rows, and the totals, by a sum over slices."""
    values = [np.random.default_rng(seed + number).integers(0, 100, count) for number, count in enumerate(rows)]
    frames = [[pl.DataFrame({"ts": np.arange(len(column)), "value": column})] for column in values]
    rounds = max(len(column) // ROWS for column in values)
    whole = [column[: len(column) // ROWS * ROWS] for column in values]
    totals = [sum(int(column[n * ROWS : (n + 1) * ROWS].sum()) for column in whole) for n in range(rounds)]
    emitted = [{"round": number, "total": total} for number, total in enumerate(totals)]
    return frames, {CHANNEL: dict.fromkeys(range(len(rows)), emitted)}


def append(site: MemorySite, values: Sequence[list[pl.DataFrame]], start: int, length: int) -> None:
    for partition, (frame,) in enumerate(values):
        for batch in frame.slice(start, length).to_arrow().to_batches():
            site.inputs["numbers"].append(partition, batch)


def tick(site: MemorySite, node: Node, seconds: float) -> None:
    for _ in range(round(seconds / 0.05)):
        site.clock.sleep_s(0.05)
        node.tick()
        assert not node.failures, node.failures


def test_a_node_runs_what_it_knows_by_protocol_only_and_goes_on_from_records(job):
    frames, expected = inputs(1, (400, 250, 395))
    site = MemorySite({"numbers": MemoryLog(3)})
    settings = Settings(checkpoint_s=0.1, snapshot_deltas=1, failure_timeout_s=0.5, rows_max=7, stagger_s=0.05)
    first = Node("first", site.ports("first"), settings)
    first.add_job("sums", job)
    append(site, frames, 0, 200)
    tick(site, first, 5.0)
    assert job.resumed == []
    assert site.records.positions("sums/0/process")
    assert site.records.positions("sums/replica")
    assert all(held.trimmed for held in first.jobs["sums"].state.held), "what no record needs is gone"

    second = Node("second", site.ports("second"), settings)  # the first has died
    second.add_job("sums", job)
    append(site, frames, 200, 200)
    for partition in range(3):
        site.inputs["numbers"].mark(partition, END.ts)
    for _ in range(200):
        tick(site, second, 0.5)
        if second.finished:
            break
    assert second.finished
    assert sorted(map(str, job.resumed)) == ["0", "1", "2", "state"]
    assert site.collected("sums") == expected


@pytest.mark.parametrize("replicas", [1, 2])
def test_it_survives_what_the_simulator_does(job, replicas):
    resumed = []
    for seed in range(6):
        frames, expected = inputs(seed, (100, 60, 0, 95))
        outcome = simulate({"sums": job}, {"numbers": frames}, {"sums": expected}, seed, replicas=replicas)
        assert not outcome.problem, str(outcome)
        resumed += job.resumed
    assert "state" in resumed
    assert {0, 1, 2, 3} <= set(resumed), "runs have gone on from records"


def test_the_simulator_finds_a_run_that_does_not_go_on_where_its_record_says(job, monkeypatch):
    def forgetful(self, partition, partitions, *, input_index=0, resume=None, cut=None):
        run = Rounds(partition, resume or Records())
        run.read.count = 0
        return run

    monkeypatch.setattr(SumJob, "open_run", forgetful)
    outcomes = []
    for seed in range(6):
        frames, expected = inputs(seed, (100, 60, 0, 95))
        outcomes.append(simulate({"sums": job}, {"numbers": frames}, {"sums": expected}, seed).problem)
    assert any(outcomes)


def test_a_run_that_would_read_what_is_gone_does_not_begin(job):
    frames, _ = inputs(1, (400, 250, 395))
    site = MemorySite({"numbers": MemoryLog(3)})
    settings = Settings(checkpoint_s=0.1, snapshot_deltas=1, rows_max=7)
    node = Node("first", site.ports("first"), settings)
    node.add_job("sums", job)
    append(site, frames, 0, 200)
    tick(site, node, 5.0)
    for position in site.records.positions("sums/1/window"):
        site.records.drop("sums/1/window", (*position, 1))
    with pytest.raises(CheckpointLost, match="trimmed"):
        node.jobs["sums"].start(1)


def test_what_its_job_has_no_handles_for_cannot_be_peeked_at(job):
    node = Node("first", MemorySite({"numbers": MemoryLog(1)}).ports("first"), replace(Settings(), heartbeat_s=0.0))
    node.add_job("sums", job)
    node.tick()
    with pytest.raises(WrongScope, match="has no shared handle"):
        node.jobs["sums"].peek("totals", h.Window(0, 1))
