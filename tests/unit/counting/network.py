"""An adversarial transport: messages come in any order, repeated, late; machines restart and run twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from tests.unit.counting.streams import Reading, Streams

from holons import wire
from holons.counting.schemes import ALL, ROOT, Local, Message, PaneResult, Root, Scheme
from holons.counting.schemes.messages import Cut

MessageT = TypeVar("MessageT", bound=msgspec.Struct)
_decode = wire.decoder(Message, "a message of a scheme", "the test")

STEPS_MAX = 20_000


class Stuck(AssertionError):
    """Messages never come to an end."""


@dataclass
class Runner:
    """A machine that runs one partition, and how far it has read."""

    local: Local
    reading: Reading

    def step(self, count: int) -> None:
        for rows, watermark in self.reading.read(count):
            if rows is None:
                self.local.mark(watermark)
            else:
                self.local.insert(rows, watermark)
        self.local.work(caught_up=self.reading.finished)


@dataclass
class Faults:
    """What goes wrong, and how often."""

    repeated: float = 0.2
    root_restarts: float = 0.0
    partitions_again: float = 0.0
    lost: Callable[[Message], bool] = lambda message: False


@dataclass
class Network:
    """Everything in one process. A message that is lost is sent again, which is the same as being late."""

    scheme: Scheme
    streams: Streams
    rng: random.Random
    faults: Faults = field(default_factory=Faults)
    pace: float | None = None
    """How often rows are read while messages are under way; any way if it is not given."""

    def __post_init__(self) -> None:
        self.log: list[tuple[int, bytes]] = []
        self.runners: list[Runner] = []
        self.waiting: list[tuple[Runner | None, bytes]] = []
        self.root: Root = self.scheme.root(self)
        self.published: list[PaneResult] = []
        for partition in range(self.streams.partitions):
            self.start(partition)

    # --- the transport ----------------------------------------------------------------------------------------------

    def send(self, to: int, message: Message) -> None:
        if self.faults.lost(message):
            return
        data = wire.encode(message)
        self.log.append((to, data))
        if to in (ROOT, ALL):
            self.waiting.append((None, data))
        self.waiting += [(runner, data) for runner in self.runners if to in (ALL, runner.reading.partition)]

    def deliver(self, runner: Runner | None, data: bytes) -> None:
        message = _decode(data)
        if runner is None:
            self.root.receive(message)
        elif runner in self.runners:
            runner.local.receive(message)
            runner.local.work(caught_up=runner.reading.finished)

    # --- faults -----------------------------------------------------------------------------------------------------

    def start(self, partition: int) -> None:
        """Runs a partition from the beginning of its log; it is sent all that was sent to it before."""
        runner = Runner(self.scheme.local(partition, self), Reading(self.streams, partition))
        self.runners.append(runner)
        self.waiting += [(runner, data) for to, data in self.log if to in (ALL, partition)]

    def restart_root(self) -> None:
        self.keep_results()
        self.root = self.scheme.root(self)
        heard = [_decode(data) for to, data in self.log if to in (ROOT, ALL)]
        self.waiting = [(runner, data) for runner, data in self.waiting if runner is not None]
        cuts = [_decode(data) for _, data in self.log]
        heard += [message for message in cuts if isinstance(message, Cut) and message not in heard]
        self.rng.shuffle(heard)
        self.root.replay(heard)

    def keep_results(self) -> None:
        for result in self.root.results:
            if result.cut > len(self.published):
                assert result.cut == len(self.published) + 1, "no pane is left out"
                self.published.append(result)
            else:
                before = self.published[result.cut - 1]
                assert self.plain(before) == self.plain(result), "a restarted root says the same"

    def plain(self, result: PaneResult) -> tuple[tuple[int, ...], bytes]:
        return result.ranks, self.scheme.aggregate.encode(result.state)

    # --- running ----------------------------------------------------------------------------------------------------

    def run(self) -> list[tuple[tuple[int, ...], bytes]]:
        """Runs until nobody has anything to say; returns each pane's ranks and bytes."""
        pace, faults = self.rng.choice((0.02, 0.1, 0.4)) if self.pace is None else self.pace, 0
        for _ in range(STEPS_MAX):
            if not self.step(pace):
                break
            if faults < 3 and self.rng.random() < self.faults.root_restarts:
                self.restart_root()
                faults += 1
            if faults < 3 and self.rng.random() < self.faults.partitions_again:
                self.run_again(self.rng.randrange(self.streams.partitions))
                faults += 1
        else:
            raise Stuck(f"{len(self.waiting)} messages are under way after {STEPS_MAX} steps")
        self.keep_results()
        return [self.plain(result) for result in self.published]

    def run_again(self, partition: int) -> None:
        """Runs a partition twice from now on, or in place of the run before."""
        if self.rng.random() < 0.5:
            self.runners = [runner for runner in self.runners if runner.reading.partition != partition]
        self.start(partition)

    def messages(self, kind: type[MessageT]) -> list[MessageT]:
        """All messages of one kind that were sent, in the order in which they were."""
        return [message for _, data in self.log if isinstance(message := _decode(data), kind)]

    def step(self, pace: float) -> bool:
        unread = [runner for runner in self.runners if not runner.reading.finished]
        if unread and (not self.waiting or self.rng.random() < pace):
            self.rng.choice(unread).step(self.rng.choice((1, 1, 3, 9, 40)))
        elif self.waiting:
            index = self.rng.randrange(len(self.waiting))
            self.waiting[index], self.waiting[-1] = self.waiting[-1], self.waiting[index]
            runner, data = self.waiting.pop()
            if self.rng.random() < self.faults.repeated:
                self.waiting.append((runner, data))
            self.deliver(runner, data)
        else:
            for runner in self.runners:
                runner.local.work(caught_up=True)
            return bool(self.waiting)
        return True
