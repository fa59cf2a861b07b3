"""A site in this process's memory: for nodes that take turns, for tests, and under the simulator's faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from holons.clock import Clock, Random, seeded
from holons.engines.collecting import Outputs, emitted
from holons.engines.inputs import PartitionRows, fill
from holons.engines.rules import MemoryRetention
from holons.names import check_name
from holons.node import Site, no_such_input
from holons.program import Collected
from holons.store import MemoryStore, Store
from holons.streams import Journal, MemoryHub, MemoryJournal, SharedLog
from holons.streams.memory import MemoryLog, MemoryProducer
from holons.windows import BEGINNING


class TurnClock:
    """Time that passes by turns: nobody waits for anything but work."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now_s(self) -> float:
        return self._now_s

    def worked_s(self) -> float:
        return self._now_s

    def utc_us(self) -> int:
        return round(self._now_s * 1_000_000)

    def sleep_s(self, seconds: float) -> None:
        self._now_s += seconds

    def random(self) -> Random:
        return seeded(0)


class MemorySite(Site):
    """Logs, journals and records as plain attributes, which all nodes of this process share."""

    def __init__(self, inputs: Mapping[str, MemoryLog] | None = None, clock: Clock | None = None) -> None:
        self._clock = clock or TurnClock()
        self.inputs = dict(inputs or {})
        self.journals: dict[str, MemoryJournal] = {}
        """The inputs that have a journal are read through it."""
        self.decided = MemoryJournal()
        self.hubs: dict[str, MemoryHub] = {}
        """The shared streams."""
        self.outputs: dict[tuple[str, str], MemoryLog] = {}
        """By job and channel."""
        self._appended: set[str] = set()
        self._retention = MemoryRetention()
        self.records = MemoryStore()

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def name(self) -> str:
        return "memory"

    def streams(self) -> dict[str, int]:
        return {stream: log.partitions for stream, log in self.inputs.items()}

    def create(self, stream: str, partitions: int) -> None:
        self.producer(stream, partitions, "creator").mark(0, BEGINNING)

    def producer(self, stream: str, partitions: int, writer: str, *, resume: bool = False) -> MemoryProducer:
        log = self.inputs.setdefault(check_name("stream", stream), MemoryLog(partitions, self.clock))
        return log.producer(stream, writer)

    @contextmanager
    def loading(self, stream: str, partitions: int) -> Iterator[MemoryLog]:
        check_name("stream", stream)
        log = MemoryLog(partitions, self.clock)
        yield log
        self.inputs[stream] = log

    def input(self, stream: str, reader: str) -> MemoryLog:
        if stream not in self.inputs:
            raise no_such_input(self.name, stream, self.streams())
        return self.inputs[stream]

    def journal(self, stream: str, *, create: bool = False) -> Journal | None:
        return self.journals.setdefault(stream, MemoryJournal()) if create else self.journals.get(stream)

    def output(
        self, job: str, channel: str, partitions: int, writer: str, *, resume: bool = False, appended: bool = False
    ) -> MemoryLog:
        if appended:
            self._appended.add(job)
        return self.outputs.setdefault((job, check_name("channel", channel)), MemoryLog(partitions, self.clock))

    def channels(self, job: str) -> dict[str, int]:
        outputs = list(
            self.outputs.items()
        )  # copied at once: a node that takes its turn in another thread may add some
        return {channel: log.partitions for (owner, channel), log in outputs if owner == job}

    def appends(self, job: str) -> bool:
        return job in self._appended

    def hold(self, stream: str) -> AbstractContextManager[None]:
        return nullcontext()

    def tidier(self) -> Callable[[], None]:
        return lambda: None

    def retention(self) -> MemoryRetention:
        return self._retention

    def shared(self, stream: str, writer: str) -> SharedLog:
        return self.hubs.setdefault(stream, MemoryHub()).open(writer)

    def shared_streams(self) -> list[str]:
        return sorted(self.hubs)

    def decisions(self) -> Journal:
        return self.decided

    def store(self, writer: str, copies: int = 1) -> Store:
        return self.records

    def emitted(self, name: str) -> Outputs:
        """Returns the rows that a job has emitted so far, to be read when they are needed."""
        return emitted(self, name)

    def collected(self, name: str) -> Collected:
        """Returns all rows that a job has emitted so far, as dicts."""
        return emitted(self, name).collected()


def logs_of(streams: Mapping[str, Sequence[PartitionRows]]) -> dict[str, MemoryLog]:
    """Returns logs in memory that hold the given streams, and have ended."""
    logs = {stream: MemoryLog(len(partitions)) for stream, partitions in streams.items()}
    for stream, partitions in streams.items():
        fill(logs[stream], partitions)
    return logs
