"""Drivers, producers and readers, who work beside the nodes. Each begins again from what it finds on the site."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from holons.engines.collecting import emitted
from holons.engines.inputs import pieces
from holons.engines.simulator.actors import Stage
from holons.engines.simulator.simulation import FAULTS_UNTIL_S
from holons.engines.simulator.swarm.drawing import DriverPlan
from holons.engines.simulator.swarm.judging import Kept
from holons.engines.simulator.workloads import Partition
from holons.errors import BadInput, CheckpointLost, JobRunning, LogDamaged, ProducerFenced
from holons.node import Decisions, cancel, submit
from holons.program import Events, Job, Program
from holons.streams import ProducerLog
from holons.windows import Mark

_READ_EVERY_S = 0.4
_WATCH_EVERY_S = 0.7


def newer(job: Job, columns: Mapping[str, Collection[str]], *, whole: bool) -> Job:
    """Returns another job that does the same: it says which columns it reads, and these are all that each stream has.

    It may want the `whole` of its inputs.
    """
    inputs = (
        replace(source, columns=tuple(columns.get(source.stream) or ()) or None, whole=whole) for source in job.inputs
    )
    return replace(job, inputs=tuple(inputs))


@dataclass
class Ledger:
    """What actors were told, for those who watch the run."""

    acknowledged: list[tuple[str, int, int, str]] = field(default_factory=list)
    """What producers were told is written: stream, partition, offset, and by whom."""
    read: list[tuple[str, Kept]] = field(default_factory=list)
    """What readers have read of which job."""


@dataclass(frozen=True)
class Driver:
    """Submits, upgrades or cancels a job at some time, and gives nodes the code."""

    plan: DriverPlan
    job: Job
    loads: bool = True
    """Whether nodes can load the code of the job."""
    name: str = "driver"

    def run(self, stage: Stage) -> None:
        stage.sleep(max(self.plan.at_s - stage.simulation.world.now_s, 0.0))
        sightings = stage.simulation.world.sightings
        try:
            if self.plan.wants == "cancel":
                stage.note(f"cancels {cancel(self.job.name, stage.ports()).id}")
                sightings["a job cancelled"] += 1
                return
            ports = stage.site.at_least("process").ports(stage.name)
            version = submit(self.job, ports, upgrade=self.plan.wants == "upgrade")
            stage.note(f"has submitted {version.id}")
            sightings["a version took over"] += bool(version.after)
            if self.loads:
                stage.assign(version.id, self.job, version.cuts)
            else:
                self._refused(stage, version.id)
            self._watch(stage, version.id, Decisions(ports.decisions))
        except JobRunning:
            sightings["a driver told that the job is running"] += 1
            stage.note("finds the job running")
        except BadInput as error:
            if self.plan.wants == "submit" or (self.plan.wants == "upgrade" and not _trimmed(stage, self.job)):
                raise
            sightings["an upgrade refused, since its input was trimmed"] += self.plan.wants == "upgrade"
            stage.note(f"is refused: {error}")
        except (CheckpointLost, LogDamaged) as error:
            if not stage.simulation.accounts_for(type(error).__name__):
                raise
            stage.note(f"gives up: {error}")

    def _refused(self, stage: Stage, version: str) -> None:
        """Gives all nodes that are up code which they cannot load; one that starts later gets it with the next driver."""
        stage.gate.pass_through(f"hand out {version}")
        for member in stage.simulation.members:
            if member.node is not None:
                member.node.refuse(version, ImportError("no module named 'mine'"))

    def _watch(self, stage: Stage, version: str, decisions: Decisions) -> None:
        """Stays as long as faults may occur, so that it dies with its machine, and then gives nodes the code again."""
        while stage.simulation.world.now_s < FAULTS_UNTIL_S and version not in decisions.jobs.stopped:
            stage.sleep(_WATCH_EVERY_S)
            decisions.read()


def _trimmed(stage: Stage, job: Job) -> bool:
    """Whether an input of a job does not begin at its beginning any more."""
    trimmed = stage.simulation.world.jobs().trimmed
    return any(any(trimmed[source.stream].starts) for source in job.inputs if source.stream in trimmed)


def failing(job: Job) -> Job:
    """Returns a job that does the same until a row comes that it cannot stand; or the job itself, if it awaits.

    Its mistake is an error of its own, or code that it makes itself and that cannot be read.
    """
    program = copy.copy(job.program)
    plain = type(program)
    process = plain.process
    if process is Program.process or inspect.iscoroutinefunction(process):
        return job

    def fragile(self: Any, events: Events) -> None:  # noqa: ANN401 - a program of a class that is made here
        if any(ts // 1_000 % 3 == 1 for ts in events.ts.micros.tolist()):
            compile("1 +" if len(events) > 1 else "1", "made by the program", "eval")
            raise ZeroDivisionError("a mistake of the program")
        process(self, events)

    program.__class__ = type(plain.__name__, (plain,), {"process": fragile})
    return replace(job, program=program)


@dataclass(frozen=True)
class Piece:
    """A piece of a partition: where it stands, and when it is due."""

    due_s: float
    partition: int
    at: int
    rows: pa.RecordBatch | Mark

    @property
    def end(self) -> int:
        return self.at + (1 if isinstance(self.rows, Mark) else self.rows.num_rows)


@dataclass(frozen=True)
class Producer:
    """Fills an input piece by piece. Begun again, or in the place of another one, it goes on where the input ends."""

    stream: str
    partitions: int
    pieces: tuple[Piece, ...]
    live: bool
    ledger: Ledger
    begins_s: float = 0.0
    name: str = "producer"

    def run(self, stage: Stage) -> None:
        stage.sleep(max(self.begins_s - stage.simulation.world.now_s, 0.0))
        while self._fenced(stage) and self.begins_s > 0.0:
            pass  # it has come to take over, and takes back what the other one has taken meanwhile

    def _fenced(self, stage: Stage) -> bool:
        """Writes everything; returns whether another producer has taken a partition over before the end."""
        log = GatedProducer(stage, self)
        try:
            for piece in self.pieces:
                stage.sleep(max(piece.due_s - stage.simulation.world.now_s, 0.0))
                self._write(log, piece)
        except ProducerFenced as error:
            stage.simulation.world.sightings["a producer fenced"] += 1
            stage.note(f"is fenced: {error.where}")
            return True
        return False

    def _write(self, log: GatedProducer, piece: Piece) -> None:
        end = log.take(piece.partition)
        if end >= piece.end:
            return
        if isinstance(piece.rows, Mark):
            log.mark(piece.partition, end, piece.rows.ts)
        else:
            log.put(piece.partition, end, piece.rows.slice(end - piece.at), live=self.live)


class GatedProducer:
    """An input as a producer writes it: it chooses a position, and commits later. In between it may die, or stand still."""

    def __init__(self, stage: Stage, producer: Producer) -> None:
        self._stage = stage
        self._producer = producer
        self._log: ProducerLog = stage.simulation.world.producer(producer.stream, producer.partitions, stage.name)

    def take(self, partition: int) -> int:
        """Takes a partition, and returns its end."""
        self._stage.gate.write("take a partition")
        return self._log.take(partition)

    def put(self, partition: int, offset: int, rows: pa.RecordBatch, *, live: bool) -> None:
        """Commits rows at a position."""
        self._stage.gate.write("commit rows")
        self._log.put(partition, offset, rows, live=live)
        self._committed(partition, offset)

    def mark(self, partition: int, offset: int, ts: int) -> None:
        """Commits a mark."""
        self._stage.gate.write("commit a mark")
        if self._log.take(partition) == offset:
            self._log.mark(partition, ts)
            self._committed(partition, offset)

    def _committed(self, partition: int, offset: int) -> None:
        """What is acknowledged from here on must stay."""
        self._producer.ledger.acknowledged.append((self._producer.stream, partition, offset, self._stage.name))
        self._stage.gate.pass_through("committed")


def producers(
    given: Mapping[str, Sequence[Partition]],
    ledger: Ledger,
    due_s: Callable[[], float],
    *,
    live: bool,
    replaced_s: float | None,
) -> Iterator[Producer]:
    """Yields a producer for each input; and one that comes later and writes the rows of each piece in another order."""
    for stream, partitions in given.items():
        cut = tuple(piece for partition, rows in enumerate(partitions) for piece in _cut(partition, rows, due_s))
        ordered = tuple(sorted(cut, key=lambda piece: (piece.due_s, piece.partition, piece.at)))
        yield Producer(stream, len(partitions), ordered, live, ledger)
        if replaced_s is not None:
            other = tuple(replace(piece, rows=_reversed(piece.rows)) for piece in ordered)
            yield Producer(stream, len(partitions), other, live, ledger, begins_s=replaced_s)


def _cut(partition: int, rows: Partition, due_s: Callable[[], float]) -> Iterator[Piece]:
    at, parts = 0, list(pieces(rows))
    cut: list[pa.RecordBatch | Mark] = []
    for part in parts:
        step = 1 if isinstance(part, Mark) else max(1, part.num_rows // 3)
        cut += [part] if isinstance(part, Mark) else [part.slice(i, step) for i in range(0, part.num_rows, step)]
    for due, part in zip(sorted(due_s() for _ in cut), cut, strict=True):
        piece = Piece(due, partition, at, part)
        yield piece
        at = piece.end


def _reversed(rows: pa.RecordBatch | Mark) -> pa.RecordBatch | Mark:
    return rows if isinstance(rows, Mark) else rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64()))


@dataclass(frozen=True)
class Reader:
    """Follows the results of a job while it runs: what it has read once must be there at the end."""

    job: str
    ledger: Ledger
    name: str = "reader"

    def run(self, stage: Stage) -> None:
        world = stage.simulation.world
        while world.now_s < FAULTS_UNTIL_S:
            stage.gate.log("read results")
            self.ledger.read.append((self.job, Kept.of(emitted(world, self.job))))
            stage.sleep(_READ_EVERY_S)
