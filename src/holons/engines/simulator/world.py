"""The site of simulated nodes, with virtual time, and the gates that make its ports fail.

Each operation on a port passes a gate. At a gate a node may die, so that it may crash between any two operations, and logs
and stores may refuse to answer. Messages are delayed, some for very long; some arrive twice; and links may be cut in one
direction only. What was written is never lost, since the streams are logs.
"""

from __future__ import annotations

import copy
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from holons.clock import Random, seeded
from holons.engines.memory_site import MemorySite
from holons.engines.simulator.damage import Damage, SimulatedCrash, newest_messages, newest_rows
from holons.engines.simulator.gated import (
    ContestedJournal,
    GatedDecisions,
    GatedJournal,
    GatedLog,
    SimulatedStore,
    SimulatedStream,
    unframed,
)
from holons.errors import LogUnavailable, StoreUnavailable
from holons.node import NodeSite, Ports, RetentionRules, Settings
from holons.store import GridStore, Position, Store
from holons.streams import JournaledLog, ReadableLog


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

    def ports(self, settings: Settings | None = None) -> Ports:
        """Returns the site as this incarnation uses it."""
        return GatedSite(self).ports(self.name, settings)

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

    def write(self, what: str) -> None:
        """Begins to write to a log, whose disk may be full."""
        self.log(what)
        if self._disk_full():
            raise LogUnavailable(f"{what}: no space left")

    def _disk_full(self) -> bool:
        full = self.world.disk_full_until_s > self.world.now_s
        if full:
            self.world.sightings["a write refused by a full disk"] += 1
        return full

    def look(self, what: str) -> None:
        """Looks at a log. No node dies of that: it dies at its next operation, and nobody can see the difference."""
        self._check_logs()

    def _check_logs(self) -> None:
        if self.world.log_down_until_s > self.world.now_s or self.node in self.world.without_logs:
            raise LogUnavailable("the logs do not answer")

    def store(self, what: str, *, write: bool = False) -> None:
        self.pass_through(what)
        if self.world.store_down_until_s > self.world.now_s or self.node in self.world.without_store:
            raise StoreUnavailable("the store does not answer")
        if write and self._disk_full():
            raise StoreUnavailable(f"{what}: no space left")

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
        self.disk_full_until_s = 0.0
        self.without_logs: set[int] = set()
        self.without_store: set[int] = set()
        """The nodes to which the logs, or the store, do not answer any more."""
        self.damage = Damage()
        self.sightings: Counter[str] = Counter()
        """Situations that were met, and how often: those that nobody sees who looks at nodes and logs from outside."""
        self.split_until_s = 0.0
        self.split_from: frozenset[int] = frozenset()
        """The nodes of one of the two groups that do not hear each other; all other nodes are the other group."""
        self.deaf_until_s: dict[int, float] = {}
        self.mute_until_s: dict[int, float] = {}

    def cut_for_good(self, node: int) -> bool:
        """Returns whether the logs or the store do not answer a node any more."""
        return node in self.without_logs | self.without_store

    def whole_record(self, name: str, position: Position) -> bytes | None:
        """Returns a record, unless it is torn or damaged."""
        if (name, position) in self.damage.records:
            return None
        return unframed(self.records.get(name, position))

    def damage_record(self, choice: int) -> None:
        """Damages the newest record of some name for good, if there is another one under that name."""
        newest = self.damage.newest_records(self.records)
        if newest:
            self.damage.records.add(newest[choice % len(newest)])

    def damage_message(self, choice: int) -> None:
        """Damages the newest message of a writer in a shared stream, or the newest row of an input, for good."""
        messages, rows = newest_messages(self.hubs), newest_rows(self.inputs)
        if choice % 3 == 0 and rows:
            self.damage.rows.add(rows[choice % len(rows)])
        elif messages:
            stream, writer, position = messages[choice % len(messages)]
            self.damage.messages.add((_name_in_seeds(stream), writer, position))

    def poison_row(self, choice: int, until_s: float) -> None:
        """Lets everybody die who reads the newest row of a partition of an input, or the one that comes next."""
        rows = newest_rows(self.inputs)
        if rows:
            stream, partition, newest = rows[choice % len(rows)]
            self.damage.poison[stream, partition, newest + choice // 7 % 2] = until_s

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
        return GatedLog(self._site.input(stream, reader), self._gate, stream)

    def journal(self, stream: str, *, create: bool = False) -> GatedJournal | None:
        journal = self._site.journals.get(stream)
        return None if journal is None else ContestedJournal(journal, self._gate)

    def output(
        self, job: str, channel: str, partitions: int, writer: str, *, resume: bool = False, appended: bool = False
    ) -> GatedLog:
        return GatedLog(self._site.output(job, channel, partitions, writer, appended=appended), self._gate)

    def channels(self, job: str) -> Mapping[str, int]:
        return self._site.channels(job)

    def retention(self) -> RetentionRules:
        return self._site.retention()

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
