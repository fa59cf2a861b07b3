"""The site of simulated nodes, with virtual time, and the gates that make its ports fail.

Each operation on a port passes a gate. At a gate a node may die, so that it may crash between any two operations, and logs
and stores may refuse to answer. Messages are delayed, some for very long; some arrive twice; and links may be cut in one
direction only. What was written is never lost, since the streams are logs.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from holons import codec
from holons.clock import Random, seeded
from holons.engines.memory_site import MemorySite
from holons.errors import LogUnavailable, RecordDamaged, StoreUnavailable
from holons.node import NodeSite, Ports
from holons.store import GridStore, MemoryStore, Position, Store
from holons.streams import Chunk, Cursor, Journal, JournaledLog, Message, ReadableLog, SharedLog, WritableLog


class SimulatedCrash(BaseException):
    """Ends a node in the middle of an operation."""


@dataclass
class Gate:
    """What every operation of one incarnation of a node on the site passes."""

    world: SimulatedSite
    node: int
    name: str
    operations_left: int | None = None
    """The node dies once it has begun this many more operations; None: it does not die."""
    rate: float = 1.0
    offset_s: float = 0.0
    written: int = 0

    def ports(self) -> Ports:
        """Returns the site as this incarnation uses it."""
        return GatedSite(self).ports(self.name)

    def sleep(self, seconds: float) -> None:
        """Waits, which a node never does."""
        raise AssertionError("a node never sleeps: it is ticked")

    def pass_through(self, what: str) -> None:
        """Begins an operation, which may be the last one of the node."""
        if self.operations_left is not None:
            self.operations_left -= 1
            if self.operations_left < 0:
                raise SimulatedCrash(f"{self.name} dies at {what}")

    def log(self, what: str) -> None:
        self.pass_through(what)
        self._check_logs()

    def look(self, what: str) -> None:
        """Looks at a log. No node dies of that: it dies at its next operation, and nobody can see the difference."""
        self._check_logs()

    def _check_logs(self) -> None:
        if self.world.log_down_until_s > self.world.now_s:
            raise LogUnavailable("the logs do not answer")

    def store(self, what: str) -> None:
        self.pass_through(what)
        if self.world.store_down_until_s > self.world.now_s:
            raise StoreUnavailable("the store does not answer")

    def answer(self, failure: type[LogUnavailable] | type[StoreUnavailable]) -> None:
        """Ends a write, which was done; the answer to the writer may be lost."""
        self.written += 1
        lost = zlib.crc32(f"{self.world.seed}/{self.name}/{self.written}".encode()) % 2
        if lost and self.world.answers_lost_until_s > self.world.now_s:
            raise failure("the answer was lost")


class SimulatedSite(MemorySite):
    """Everything that outlives a node, and the faults that are in force."""

    def __init__(self, seed: int, *, grid: int | None = None) -> None:
        """`grid`: in how many other nodes' memory records are kept; None: in a store that outlives them all."""
        super().__init__(clock=SimulatedClock(Gate(self, -1, "site-0#1")))
        self.seed = seed
        self.grid = grid
        self.now_s = 0.0
        self.log_down_until_s = 0.0
        self.store_down_until_s = 0.0
        self.answers_lost_until_s = 0.0
        self.split_until_s = 0.0
        self.split_from: frozenset[int] = frozenset()
        """The nodes of one of the two groups that do not hear each other; all other nodes are the other group."""
        self.deaf_until_s: dict[int, float] = {}
        self.mute_until_s: dict[int, float] = {}

    def executed(self, stream: str) -> ReadableLog:
        """Returns an input with its marks in the order that nodes read it; looking at it changes nothing."""
        log, journal = self.inputs[stream], self.journals.get(stream)
        return log if journal is None else JournaledLog(log, copy.deepcopy(journal))

    def reaches(self, writer: str, reader: int) -> bool:
        """Returns whether messages of a writer reach a node now; every node hears itself, and actors are never cut off."""
        kind, _, number = writer.partition("#")[0].rpartition("-")
        from_node = int(number)
        if kind != "node" or reader < 0 or from_node == reader:
            return True
        if self.split_until_s > self.now_s and (from_node in self.split_from) != (reader in self.split_from):
            return False
        cut = max(self.mute_until_s.get(from_node, 0.0), self.deaf_until_s.get(reader, 0.0))
        return cut <= self.now_s


class GatedSite(NodeSite):
    """A simulated site as one incarnation of a node uses it: everything that it hands out is behind the node's gate."""

    def __init__(self, gate: Gate) -> None:
        self._site = gate.world
        self._gate = gate

    @property
    def clock(self) -> SimulatedClock:
        return SimulatedClock(self._gate)

    def input(self, stream: str, reader: str) -> GatedLog:
        return GatedLog(self._site.input(stream, reader), self._gate)

    def journal(self, stream: str, *, create: bool = False) -> GatedJournal | None:
        journal = self._site.journals.get(stream)
        return None if journal is None else ContestedJournal(journal, self._gate)

    def output(
        self, job: str, channel: str, partitions: int, writer: str, *, resume: bool = False, appended: bool = False
    ) -> GatedLog:
        return GatedLog(self._site.output(job, channel, partitions, writer), self._gate)

    def shared(self, stream: str, writer: str) -> SimulatedStream:
        return SimulatedStream(self._site.shared(stream, writer), _name_in_seeds(stream), self._gate)

    def decisions(self) -> GatedDecisions:
        return GatedDecisions(self._site.decided, self._gate)

    def store(self, writer: str, copies: int = 1) -> Store:
        if self._site.grid is None:
            return SimulatedStore(self._site.records, self._gate)
        return GridStore(self.shared("grid", writer), self.clock, self._site.grid)


def _name_in_seeds(stream: str) -> str:
    """Returns the name by which chances are drawn for a stream; another one would give recorded seeds another meaning."""
    kind, dash, job = stream.partition("-")
    return f"{kind}/{job}" if dash else {"heartbeats": "beats"}.get(stream, stream)


class SimulatedClock:
    """The clock of one node: it may run fast or slow, and does not begin at zero."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def now_s(self) -> float:
        return self._gate.world.now_s * self._gate.rate + self._gate.offset_s

    def worked_s(self) -> float:
        return self.now_s()

    def utc_us(self) -> int:
        return round(self.now_s() * 1_000_000)

    def sleep_s(self, seconds: float) -> None:
        self._gate.sleep(seconds)

    def random(self) -> Random:
        return seeded(self._gate.world.seed)


class SimulatedStream:
    """A shared stream whose messages arrive late, twice and out of order."""

    def __init__(self, log: SharedLog, stream: str, gate: Gate) -> None:
        self._log = log
        self._stream = stream
        self._gate = gate
        self._written_s: dict[tuple[str, int], float] = {}
        self._done: dict[str, set[int]] = {}
        self._seen_to: dict[str, int] = {}

    @property
    def writer(self) -> str:
        return self._gate.name

    def append(self, data: bytes) -> int:
        self._gate.log(f"append to {self._stream}")
        position = self._log.append(data)
        self._gate.pass_through(f"appended to {self._stream}")
        self._gate.answer(LogUnavailable)
        return position

    def read(self, cursor: Cursor, count_max: int) -> list[Message]:
        self._gate.log(f"read {self._stream}")
        arrived: list[Message] = []
        for message in self._log.read(self._from(cursor), 1_000_000):
            done = self._done.setdefault(message.writer, set())
            if message.position in done or not self._arrived(message):
                continue
            done.add(message.position)
            arrived.append(message)
            if self._chance(message, "twice") < 0.05:
                arrived.append(message)
        for writer, done in self._done.items():
            at = max(cursor.get(writer, 0), self._log.start(writer))
            while at in done:
                at += 1
            cursor[writer] = self._seen_to[writer] = at
        return arrived

    def _from(self, cursor: Cursor) -> Cursor:
        """Returns where to read; a reader whose cursor differs from the last one gets everything from there again."""
        for writer, seen_to in self._seen_to.items():
            if cursor.get(writer, 0) != seen_to:
                self._done[writer] = set()
        return dict(cursor)

    def _arrived(self, message: Message) -> bool:
        world, key = self._gate.world, (message.writer, message.position)
        first_seen_s = self._written_s.setdefault(key, world.now_s)
        chance = self._chance(message, "delay")
        delay_s = chance * 0.02 if chance < 0.93 else (chance - 0.93) * 40.0
        if message.writer == self.writer:
            delay_s = 0.0
        return world.now_s >= first_seen_s + delay_s and world.reaches(message.writer, self._gate.node)

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

    def __init__(self, log: WritableLog, gate: Gate) -> None:
        self._log = log
        self._gate = gate

    @property
    def partitions(self) -> int:
        return self._log.partitions

    def append(self, partition: int, rows: pa.RecordBatch, *, live: bool = True) -> int:
        self._gate.log("append rows")
        offset = self._log.append(partition, rows, live=live)
        self._gate.pass_through("rows appended")
        return offset

    def mark(self, partition: int, ts: int) -> int | None:
        self._gate.log("mark")
        return self._log.mark(partition, ts)

    def put(
        self, partition: int, offset: int, rows: pa.RecordBatch, *, appended: int | None = None, live: bool = True
    ) -> bool:
        self._gate.log(f"put {rows.num_rows} rows")
        half = rows.num_rows // 2
        if half:  # a crash may fall between the rows of one batch
            self._log.put(partition, offset, rows.slice(0, half), appended=appended, live=live)
            self._gate.pass_through("half of the rows put")
        new = self._log.put(partition, offset, rows, appended=appended, live=live)
        self._gate.answer(LogUnavailable)
        return new

    def read(self, partition: int, offset: int, rows_max: int, columns: Collection[str] | None = None) -> list[Chunk]:
        self._gate.log("read rows")
        return self._log.read(partition, offset, rows_max, columns)

    def start(self, partition: int) -> int:
        return self._log.start(partition)

    def end(self, partition: int) -> int:
        return self._log.end(partition)

    def close(self) -> None:
        self._log.close()


class GatedJournal:
    """A journal behind a gate."""

    def __init__(self, journal: Journal, gate: Gate) -> None:
        self._journal: Journal = journal
        self._gate = gate

    def propose(self, partition: int, number: int, data: bytes) -> bytes | None:
        self._gate.log("propose an entry")
        won = self._journal.propose(partition, number, data)
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

    def put(self, name: str, position: Position, data: bytes) -> None:
        self._gate.store(f"put {name}")
        framed = zlib.crc32(data).to_bytes(4, "big") + data
        if position in self._store.positions(name) and self._whole(name, position) is not None:
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
        data = self._whole(name, position)
        if data is None:
            raise RecordDamaged(f"half of record {name} at {position}")
        return data

    def _whole(self, name: str, position: Position) -> bytes | None:
        framed = self._store.get(name, position)
        data = framed[4:]
        return data if framed[:4] == zlib.crc32(data).to_bytes(4, "big") else None

    def drop(self, name: str, below: Position) -> None:
        self._gate.store(f"drop {name}")
        self._store.drop(name, below)

    def tend(self, live: Sequence[str]) -> bool:
        return True
