"""Shared streams, logs, journals and stores as a node or an actor meets them: late, torn, damaged, gone."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from holons import codec
from holons.clock import seeded
from holons.errors import LogDamaged, LogUnavailable, RecordDamaged, StoreUnavailable
from holons.store import MemoryStore, Position, Store
from holons.streams import Chunk, Cursor, Journal, Message, SharedLog, WritableLog

if TYPE_CHECKING:
    from holons.engines.simulator.world import Gate


class SimulatedStream:
    """A shared stream whose messages arrive late, twice and out of order."""

    def __init__(self, log: SharedLog, stream: str, gate: Gate) -> None:
        self._log = log
        self._stream = stream
        self._gate = gate
        self._due_s: dict[tuple[str, int], float] = {}
        """By message, when it arrives: from when it was first seen."""
        self._done: dict[str, set[int]] = {}
        self._seen_to: dict[str, int] = {}

    @property
    def writer(self) -> str:
        return self._gate.name

    def append(self, data: bytes) -> int:
        self._gate.write(f"append to {self._stream}")
        position = self._log.append(data)
        self._gate.pass_through(f"appended to {self._stream}")
        self._gate.answer(LogUnavailable)
        return position

    def read(self, cursor: Cursor, count_max: int) -> list[Message]:
        self._gate.log(f"read {self._stream}")
        arrived: list[Message] = []
        world = self._gate.world
        for message in self._log.read(self._from(cursor), 1_000_000):
            done = self._done.setdefault(message.writer, set())
            if message.position in done or not self._arrived(message):
                continue
            if (self._stream, message.writer, message.position) in world.damage.messages:
                world.sightings["a damaged message refused"] += 1
                raise LogDamaged(f"message {message.position} of {message.writer} in {self._stream} is damaged")
            done.add(message.position)
            arrived.append(message)
            if self._chance(message, "twice") < 0.05:
                arrived.append(message)
        starts = self._log.starts()
        for writer, done in self._done.items():
            at = max(cursor.get(writer, 0), starts.get(writer, 0))
            while at in done:
                at += 1
            cursor[writer] = self._seen_to[writer] = at
        return arrived

    def _from(self, cursor: Cursor) -> Cursor:
        """Returns where to read; a reader whose cursor differs from the last one gets everything from there again.

        Of each writer: a state that was restored lacks also what had come of others ahead of its turn.
        """
        if not self._seen_to.items() <= cursor.items() and any(
            cursor.get(writer, 0) != seen_to for writer, seen_to in self._seen_to.items()
        ):
            self._done.clear()
        return dict(cursor)

    def _arrived(self, message: Message) -> bool:
        world, key = self._gate.world, (message.writer, message.position)
        due_s = self._due_s.get(key)
        if due_s is None:
            chance = self._chance(message, "delay")
            delay_s = chance * 0.02 if chance < 0.93 else (chance - 0.93) * 40.0
            due_s = self._due_s[key] = world.now_s + (0.0 if message.writer == self.writer else delay_s)
        return world.now_s >= due_s and world.reaches(message.writer, self._gate.node)

    def _chance(self, message: Message, what: str) -> float:
        """Returns a number in [0, 1) that depends on the seed, the message and the reader only."""
        key = f"{self._gate.world.seed}/{self._stream}/{message.writer}/{message.position}/{self.writer}/{what}"
        return zlib.crc32(key.encode()) / 2**32

    def start(self, writer: str) -> int:
        return self._log.start(writer)

    def starts(self) -> Cursor:
        return self._log.starts()

    def trim(self, below: Cursor) -> None:
        self._gate.log(f"trim {self._stream}")
        self._log.trim(below)

    def close(self) -> None:
        self._log.close()


class GatedLog:
    """A log behind a gate."""

    def __init__(self, log: WritableLog, gate: Gate, stream: str = "") -> None:
        """`stream` is the input that this is, if it is one: rows of inputs may be damaged, or kill who reads them."""
        self._log = log
        self._gate = gate
        self._stream = stream

    @property
    def partitions(self) -> int:
        return self._log.partitions

    def append(self, partition: int, rows: pa.RecordBatch, *, live: bool = True) -> int:
        self._gate.write("append rows")
        offset = self._log.append(partition, rows, live=live)
        self._gate.pass_through("rows appended")
        return offset

    def mark(self, partition: int, ts: int) -> int | None:
        self._gate.write("mark")
        return self._log.mark(partition, ts)

    def put(
        self, partition: int, offset: int, rows: pa.RecordBatch, *, appended: int | None = None, live: bool = True
    ) -> bool:
        self._gate.write(f"put {rows.num_rows} rows")
        half = rows.num_rows // 2
        if half:  # a crash may fall between the rows of one batch
            self._log.put(partition, offset, rows.slice(0, half), appended=appended, live=live)
            self._gate.pass_through("half of the rows put")
        new = self._log.put(partition, offset, rows, appended=appended, live=live)
        self._gate.answer(LogUnavailable)
        return new

    def read(self, partition: int, offset: int, rows_max: int, columns: Collection[str] | None = None) -> list[Chunk]:
        self._gate.log("read rows")
        chunks = self._log.read(partition, offset, rows_max, columns)
        if self._stream and chunks:
            self._gate.world.damage.check_rows(self._stream, partition, chunks, self._gate)
        return chunks

    def start(self, partition: int) -> int:
        return self._log.start(partition)

    def end(self, partition: int) -> int:
        return self._log.end(partition)

    def trim(self, partition: int, below: int) -> None:
        self._gate.log("trim rows")
        self._log.trim(partition, below)
        self._gate.pass_through("rows trimmed")

    def appended_before(self, partition: int, time_us: int) -> int:
        return self._log.appended_before(partition, time_us)

    def close(self) -> None:
        self._log.close()


class GatedJournal:
    """A journal behind a gate."""

    lost = "an entry of an input's journal lost to another reader"

    def __init__(self, journal: Journal, gate: Gate) -> None:
        self._journal: Journal = journal
        self._gate = gate

    def propose(self, partition: int, number: int, data: bytes) -> bytes | None:
        self._gate.write("propose an entry")
        won = self._journal.propose(partition, number, data)
        if won is not None and won != data:
            self._gate.world.sightings[self.lost] += 1
        self._gate.pass_through("entry proposed")
        return won

    def get(self, partition: int, number: int) -> bytes | None:
        self._gate.log("get an entry")
        return self._journal.get(partition, number)

    def reaches(self, partition: int, number: int) -> bool:
        self._gate.look("look for an entry")
        return self._journal.reaches(partition, number)

    def start(self, partition: int) -> int:
        return self._journal.start(partition)

    def end(self, partition: int, known: int = 0) -> int:
        return self._journal.end(partition)

    def trim(self, partition: int, below: int) -> None:
        self._gate.log("trim entries")
        self._journal.trim(partition, below)


class ContestedJournal(GatedJournal):
    """The journal of an input behind a gate. Sometimes another owner is faster: with another mark, or another answer."""

    def __init__(self, journal: Journal, gate: Gate) -> None:
        super().__init__(journal, gate)
        self._random = seeded(zlib.crc32(f"{gate.world.seed}/{gate.name}".encode()))

    def propose(self, partition: int, number: int, data: bytes) -> bytes | None:
        if number == self._journal.end(partition) and self._random.random() < 0.3:
            foreign, marks, mark = codec.decode(data)
            earlier = None if number % 2 else mark - self._random.randrange(1, 2_000_000)
            self._journal.propose(partition, number, codec.encode((foreign, marks, earlier)))
        return super().propose(partition, number, data)


class GatedDecisions(GatedJournal):
    """The journal of jobs behind a gate. Whoever hears nobody does not hear of decisions either."""

    lost = "a decision lost to another one"

    def get(self, partition: int, number: int) -> bytes | None:
        self._gate.look("look for a decision")
        deaf = self._gate.world.deaf_until_s.get(self._gate.node, 0.0) > self._gate.world.now_s
        return None if deaf else self._journal.get(partition, number)


class SimulatedStore:
    """A store that may not answer, and in which a crash leaves half of a record."""

    def __init__(self, store: MemoryStore, gate: Gate) -> None:
        self._store: Store = store
        self._replace: Callable[[str, Position, bytes], None] = store.replace
        self._gate = gate
        self._refused = ""
        """The name of the record that was refused last, until another one is taken."""

    def put(self, name: str, position: Position, data: bytes) -> None:
        self._gate.store(f"put {name}", write=True)
        framed = zlib.crc32(data).to_bytes(4, "big") + data
        if position in self._store.positions(name) and unframed(self._store.get(name, position)) is not None:
            return
        self._replace(name, position, framed[: len(framed) // 2])
        self._gate.pass_through(f"half of {name} put")
        self._replace(name, position, framed)
        self._gate.pass_through(f"{name} put")
        self._gate.answer(StoreUnavailable)

    def positions(self, name: str) -> list[Position]:
        self._gate.store(f"list {name}")
        return self._store.positions(name)

    def durable(self, name: str) -> list[Position]:
        return self.positions(name)

    def get(self, name: str, position: Position) -> bytes:
        self._gate.store(f"get {name}")
        damaged = (name, position) in self._gate.world.damage.records
        data = None if damaged else unframed(self._store.get(name, position))
        if data is None:
            self._refused = name
            self._gate.world.sightings["a torn or damaged record refused"] += 1
            raise RecordDamaged(f"half of record {name} at {position}")
        self._gate.world.sightings["an older record took the place of a damaged one"] += self._refused == name
        self._refused = ""
        return data

    def drop(self, name: str, below: Position) -> None:
        self._gate.store(f"drop {name}")
        self._store.drop(name, below)

    def tend(self, live: Sequence[str]) -> bool:
        return True


def unframed(framed: bytes) -> bytes | None:
    """Returns what a stored record holds; None if only half of it is there."""
    data = framed[4:]
    return data if framed[:4] == zlib.crc32(data).to_bytes(4, "big") else None
