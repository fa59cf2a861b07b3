"""Producers: processes that fill an input stream, each batch at its time. A subclass decides where they run.

A feed says which batches each partition gets, and when. Producers start, report that they are ready, and begin together, so
that a process that starts slowly does not look like a slow node. Every batch has its position in the log, so a producer that
is run again (as Spark does when one dies) finds the batches that were written, and continues after them.
"""

from __future__ import annotations

import heapq
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias

import msgspec
import pyarrow as pa

from holons import wire
from holons.clock import SystemClock
from holons.engines.driver import ProcessHandle
from holons.errors import ProducerFailed, ProducerFenced, PromiseBroken
from holons.node import Site
from holons.streams import Cursor, ReadableLog, SharedLog, WritableLog
from holons.windows import END

_WAIT_S = 0.05  # how long a producer sleeps at most before it asks whether it is still wanted
_LOOK_S = 0.005  # how often messages are looked for
_STOP_S = 5.0  # how long a process that was killed may take to end


class Feed(Protocol):
    """The batches of a stream, each with the time at which it is written."""

    @property
    def partitions(self) -> int:
        """How many partitions the stream has."""
        ...

    def batches(self, partition: int) -> Iterable[tuple[float, pa.RecordBatch]]:
        """Yields the batches of a partition in order, each with the second at which it is due; the same ones every time."""
        ...


class Ready(msgspec.Struct, frozen=True, array_like=True, tag="ready"):
    """Says that a producer has started."""

    writer: str


class Begin(msgspec.Struct, frozen=True, array_like=True, tag="begin"):
    """Tells all producers when second 0 of the feed is."""

    at_s: float
    paced: bool
    """Whether batches wait for their time; otherwise they are written as fast as possible."""


class Ended(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    """Says that a producer has written everything, or failed."""

    writer: str
    rows: int
    lags_s: tuple[float, ...] = ()
    """For each second of the feed, by how much the latest batch was late."""
    error: str = ""


ProducerMessage: TypeAlias = Ready | Begin | Ended


@dataclass(frozen=True)
class ProducerTask:
    """Everything that one producer needs to know."""

    site: Site
    stream: str
    feed: Feed
    partitions: tuple[int, ...]
    writer: str
    talk: str
    """The shared stream in which producers and their driver exchange messages."""


class Producers(ABC):
    """Fills a stream with a feed, by so many tasks. As a context manager it leaves none running at its end."""

    def __init__(self, site: Site, stream: str, feed: Feed, *, tasks: int = 1) -> None:
        token, count = uuid.uuid4().hex[:8], min(tasks, feed.partitions)
        self.clock = SystemClock()
        self.tasks = [
            ProducerTask(
                site,
                stream,
                feed,
                tuple(range(number, feed.partitions, count)),
                f"producer-{number + 1}#{token}",
                f"producers-{token}",
            )
            for number in range(count)
        ]
        self._talk = site.shared(f"producers-{token}", f"driver#{token}")
        self._cursor: Cursor = {}
        self._ready: set[str] = set()
        self._ended: dict[str, Ended] = {}
        self._running = self.launch(self.tasks)

    @abstractmethod
    def launch(self, tasks: Sequence[ProducerTask]) -> list[ProcessHandle]:
        """Starts processes that call `produce`, one for each task."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def begin(self, *, paced: bool = True, head_start_s: float = 0.2, timeout_s: float = 60.0) -> float:
        """Waits until all have started, and lets them begin; returns when second 0 is, by the machine's clock."""
        until_s = self.clock.now_s() + timeout_s
        while len(self._ready) < len(self.tasks):
            self._listen()
            if self.clock.now_s() > until_s:
                raise ProducerFailed(
                    f"only {len(self._ready)} of {len(self.tasks)} producers have started in {timeout_s:.0f} s",
                    hint="is the machine too busy, or has Spark too few free slots?",
                )
            self.clock.sleep_s(_LOOK_S)
        start_s = self.clock.now_s() + head_start_s
        self._talk.append(wire.encode(Begin(start_s, paced)))
        return start_s

    def ended(self) -> list[Ended] | None:
        """Returns what the producers reported at their end; None while one still writes. Raises if one failed."""
        self._listen()
        return list(self._ended.values()) if len(self._ended) == len(self.tasks) else None

    def wait(self, timeout_s: float) -> list[Ended]:
        """Waits until everything is written; returns what the producers reported."""
        until_s = self.clock.now_s() + timeout_s
        while (reports := self.ended()) is None:
            if self.clock.now_s() > until_s:
                raise ProducerFailed(
                    f"the producers have not written everything in {timeout_s:.0f} s", hint="is the machine too busy?"
                )
            self.clock.sleep_s(_LOOK_S)
        return reports

    def _listen(self) -> None:
        gone = not any(process.alive() for process in self._running)
        for message in _received(self._talk, self._cursor):
            if isinstance(message, Ready):
                self._ready.add(message.writer.partition(".")[0])
            elif isinstance(message, Ended):
                if message.error:
                    raise ProducerFailed(
                        f"{message.writer} failed: {message.error}", hint="look at the feed's batches method"
                    )
                self._ended[message.writer.partition(".")[0]] = message
        if gone and len(self._ended) < len(self.tasks):
            raise ProducerFailed(
                "the producers ended before everything was written",
                hint="look at what their processes, or Spark's workers, have printed",
            )

    def stop(self) -> None:
        """Kills the producers that still write."""
        for process in self._running:
            if process.alive() and len(self._ended) < len(self.tasks):
                process.kill()
        for process in self._running:
            process.join(_STOP_S)


def produce(task: ProducerTask, wanted: Callable[[], bool], *, attempt: int = 0) -> None:
    """Runs a producer: writes every batch at its time, then the end of the stream; stops when it is no longer wanted."""
    writer = f"{task.writer}.{attempt}" if attempt else task.writer
    with closing(task.site.shared(task.talk, writer)) as talk:
        talk.append(wire.encode(Ready(writer)))
        begin = _awaited(talk, wanted)
        report = None if begin is None else _written(task, writer, begin, wanted)
        if report is not None:
            talk.append(wire.encode(report))


def _written(task: ProducerTask, writer: str, begin: Begin, wanted: Callable[[], bool]) -> Ended | None:
    """Writes everything; returns what to report, or None if that is for nobody, or for the next attempt."""
    try:
        with closing(task.site.producer(task.stream, task.feed.partitions, writer)) as log:
            written = _write(task, log, begin, wanted)
        return None if written is None else Ended(writer, *written)
    except ProducerFenced as error:
        again = str(error.where.get("holder", "")).startswith(f"{task.writer}.")  # its next attempt has taken over
        return None if again else Ended(writer, 0, error=str(error))
    except (Exception, PromiseBroken) as error:  # noqa: BLE001 - a feed may raise anything: whoever waits should know
        return Ended(writer, 0, error=f"{type(error).__name__}: {error}")


def _write(
    task: ProducerTask, log: WritableLog, begin: Begin, wanted: Callable[[], bool]
) -> tuple[int, tuple[float, ...]] | None:
    """Writes everything; returns how many rows and how late each second was, or None if it was no longer wanted."""
    clock, rows, lags_s = SystemClock(), 0, [0.0]
    offsets = {partition: _first(log, partition) for partition in task.partitions}
    for due_s, partition, batch in _merged(task):
        while begin.paced and (left_s := begin.at_s + due_s - clock.now_s()) > 0:
            clock.sleep_s(min(left_s, _WAIT_S))
            if not wanted():
                return None
        log.put(partition, offsets[partition], batch, live=begin.paced)
        offsets[partition] += batch.num_rows
        rows += batch.num_rows
        lags_s += [0.0] * (int(due_s) + 1 - len(lags_s))
        lags_s[int(due_s)] = max(lags_s[int(due_s)], clock.now_s() - begin.at_s - due_s)
    for partition in task.partitions:
        if log.end(partition) == offsets[partition]:
            log.mark(partition, END.ts)
    return rows, tuple(lags_s) if begin.paced else ()


def _merged(task: ProducerTask) -> Iterator[tuple[float, int, pa.RecordBatch]]:
    """Yields the batches of all partitions of a producer, in the order in which they are due."""

    def of(partition: int) -> Iterator[tuple[float, int, pa.RecordBatch]]:
        for due_s, batch in task.feed.batches(partition):
            yield due_s, partition, batch

    return heapq.merge(*map(of, task.partitions), key=lambda due: due[:2])


def _first(log: ReadableLog, partition: int) -> int:
    """Returns where the rows of a partition begin: after the mark that whoever created the stream may have left."""
    chunks = log.read(partition, 0, 1)
    return 1 if chunks and chunks[0].mark is not None else 0


def _awaited(talk: SharedLog, wanted: Callable[[], bool]) -> Begin | None:
    clock, cursor = SystemClock(), Cursor()
    while wanted():
        for message in _received(talk, cursor):
            if isinstance(message, Begin):
                return message
        clock.sleep_s(_LOOK_S)
    return None


def _received(talk: SharedLog, cursor: Cursor) -> list[ProducerMessage]:
    return [_decode(message.data) for message in talk.read(cursor, 1_000)]


_decode: Callable[[bytes], ProducerMessage] = wire.decoder(
    Ready | Begin | Ended, "a message of a producer", "the stream of the producers"
)
