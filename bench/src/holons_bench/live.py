"""A job on nodes under a steady load, with a script of faults, watched all the while.

Producers append to every partition at fixed times, whatever the nodes do. Event time passes as fast as real time, so a
window is due when its last event is; its latency is from then to the moment at which a reader of the output log has its
result. If a producer, a node or the reader falls behind, all windows that wait for it count in full: nothing is left
out because something was late (no coordinated omission). All clocks are the machine's monotonic one.
"""

from __future__ import annotations

import functools
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

import numpy as np

from holons.clock import SystemClock
from holons.engines.directory_site import DirectorySite
from holons.engines.driver import Driver, base_name, check_stopped
from holons.engines.embedded.processes import ProcessNodes
from holons.engines.embedded.producers import ProcessProducers
from holons.engines.producers import Feed, Producers
from holons.engines.status import Status
from holons.errors import HolonsError, InvariantBroken, NodesSilent
from holons.node import Settings, Submitted, decode_heartbeat
from holons.program import Job
from holons.streams import Cursor, ReadableLog, SharedLog
from holons_bench.chronicle import Chronicle, Deed, Happened, Heard

CHANNEL: Final = "on_window"
_UP_S: Final = 60.0
_END_S: Final = 120.0
_LISTEN_S: Final = 0.02
_OBSERVE_S: Final = 0.125
_CHECK_S: Final = 1.0
_REPLACE_S: Final = 0.5


class WindowedFeed(Feed, Protocol):
    """A feed in windows of event time, which begins at 0."""

    @property
    def windows(self) -> int:
        """How many windows it fills."""
        ...

    @property
    def window_us(self) -> int:
        """How long a window is."""
        ...


@dataclass(frozen=True)
class NodeFault:
    """What is done to a node, and how long after the load began."""

    at_s: float
    node: int | None
    """The n-th one, counted from 0; None: the one that runs the most."""
    what: Literal["kill", "remove", "pause"]
    """`kill`: SIGKILL, and whoever runs nodes brings one back. `remove`: SIGKILL, and nobody does. `pause`: SIGSTOP."""
    back_s: float | None = None
    """When a new node is started after `remove` (None: never), or the paused one goes on."""


@dataclass(frozen=True)
class Setting:
    """Where a job runs: so many nodes, on Spark or in processes, and so many producers."""

    nodes: int
    spark: bool = False
    producers: int = 1
    settings: Settings = Settings()  # noqa: RUF009 - frozen
    poll_s: float = 0.001
    """How often the reader looks for results."""


@dataclass(frozen=True)
class Now:
    """A live run, at one moment."""

    at_s: float
    status: Status
    windows: int
    late_s: float | None
    """The latency of the last window."""
    happened: tuple[Happened, ...]
    first: tuple[str, ...]
    """The nodes that were there when the load began."""


Observer = Callable[[Now], None]


def run(
    job: Job, load: WindowedFeed, setting: Setting, faults: Sequence[NodeFault] = (), observe: Observer = lambda _: None
) -> Chronicle:
    """Runs a job, whose results have a column `window`, over a load in its only input stream; to the load's end."""
    (stream,) = [source.stream for source in job.inputs]
    with tempfile.TemporaryDirectory(prefix="holons-live-") as directory:
        site = DirectorySite(directory)
        site.create(stream, load.partitions)
        with _driven(site, setting) as driver, _producers(site, stream, load, setting) as producers:
            version = driver.submit(job)
            for _ in range(setting.nodes):
                driver.start()
            heartbeats = _Heartbeats(site.shared("heartbeats", "chronicle#1"))
            names = _wait_until_spread(driver, version, heartbeats, load.partitions * setting.settings.replicas)
            start_s = producers.begin()
            script = _Script(driver, names, heartbeats, faults, start_s)
            with _output(site, version, load) as output, script.followed():
                follower = _Follower(load, start_s, output, heartbeats, script)
                return follower.follow(driver, version, producers, setting.poll_s, observe)


def check(case: str, rows: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, int]]) -> None:
    """Raises unless there is a row for each window, in order, with the expected values: a wrong result is not measured."""
    if [row["window"] for row in rows] != [values["window"] for values in expected]:
        raise InvariantBroken(
            f"{case}: {len(rows)} of {len(expected)} windows came out, or not in order",
            hint="if some are missing, the machine cannot keep up: a lower rate",
        )
    pairs = enumerate(zip(rows, expected, strict=True))
    wrong = [number for number, (row, values) in pairs if any(row[name] != value for name, value in values.items())]
    if wrong:
        raise InvariantBroken(f"{case}: {len(wrong)} windows are wrong, the first is number {wrong[0]}")


def start_spark(setting: Setting) -> None:
    """Opens the session in which a run will find room."""
    from holons.engines.spark.session import session

    session(setting.nodes + setting.producers)


@contextmanager
def _driven(site: DirectorySite, setting: Setting) -> Iterator[Driver]:
    if not setting.spark:
        with ProcessNodes(site, setting.settings) as driver:
            yield driver
        return
    from holons.engines.spark.nodes import SparkNodes

    with SparkNodes(site, setting.settings, nodes=setting.nodes + setting.producers) as nodes:
        log = nodes.spark.sparkContext.setLogLevel
        log("OFF")  # Spark has much to say about each process that is killed
        try:
            yield nodes
        finally:
            log("ERROR")


def _producers(site: DirectorySite, stream: str, load: WindowedFeed, setting: Setting) -> Producers:
    if not setting.spark:
        return ProcessProducers(site, stream, load, tasks=setting.producers)
    from holons.engines.spark.producers import SparkProducers

    return SparkProducers(site, stream, load, tasks=setting.producers)


def _output(site: DirectorySite, version: Submitted, load: WindowedFeed) -> AbstractContextManager[ReadableLog]:
    return closing(site.output(version.id, CHANNEL, load.partitions, "reader#1"))


# --- what nodes say ---------------------------------------------------------------------------------------------------


class _Heartbeats:
    """Listens to all heartbeats, and keeps them."""

    def __init__(self, stream: SharedLog) -> None:
        self._stream = stream
        self._cursor: Cursor = {}
        self._clock = SystemClock()
        self._offsets: dict[int, int] = {}
        self.pids: dict[str, int] = {}
        self.heard: list[Heard] = []
        """With times of the machine's clock."""

    def listen(self) -> None:
        now_s = self._clock.now_s()
        for message in self._stream.read(self._cursor, 100_000):
            heartbeat = decode_heartbeat(message.data)
            self.pids[heartbeat.node] = heartbeat.pid
            self.heard.append(
                Heard(now_s, heartbeat.node, heartbeat.pid, tuple(running.partition for running in heartbeat.running))
            )
            for running in heartbeat.running:
                self._offsets[running.partition] = max(self._offsets.get(running.partition, 0), running.offset)

    @property
    def rows(self) -> int:
        """How far the partitions have been read, all together."""
        return sum(self._offsets.values())


def _wait_until_spread(driver: Driver, version: Submitted, heartbeats: _Heartbeats, slots: int) -> list[str]:
    """Waits until every node runs its part, since what is measured is the steady state; returns their names.

    A node that dies meanwhile is replaced, and one that Spark runs again counts by its new name.
    """
    clock = driver.clock
    until_s, replaced_s = clock.now_s() + _UP_S, clock.now_s()
    while (now_s := clock.now_s()) < until_s:
        heartbeats.listen()
        nodes = driver.watcher.look(version.id).nodes
        shares = [len(node.partitions) for node in nodes]
        if len(nodes) == len(driver.running) and sum(shares) == slots and max(shares) - min(shares) <= 1:
            return sorted(node.name for node in nodes)
        if now_s - replaced_s >= _REPLACE_S:
            replaced_s = now_s
            check_stopped(driver.stopped().get(version.id))
            driver.replace_the_dead()
        clock.sleep_s(_LISTEN_S)
    heard = ", ".join(f"{node.label} runs {len(node.partitions)}" for node in nodes)
    raise NodesSilent(
        f"{len(driver.running)} nodes did not share {slots} places within {_UP_S:.0f} s: {heard or 'none is heard'}; "
        f"{driver.deaths} died",
        hint="is the machine too busy?",
    )


# --- what is done to them ---------------------------------------------------------------------------------------------


class _Script:
    """Does to nodes what the script says, at its times, in a thread of its own: nothing that is measured waits for it."""

    def __init__(
        self, driver: Driver, names: Sequence[str], heartbeats: _Heartbeats, faults: Sequence[NodeFault], start_s: float
    ) -> None:
        self._driver = driver
        self.names = tuple(names)
        self._heartbeats = heartbeats
        self._start_s = start_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="holons faults")
        self._left = sorted(
            (step for fault in faults for step in self._steps(fault)), key=lambda step: (step[0], step[1])
        )
        self.happened: list[Happened] = []
        self.error: BaseException | None = None

    @contextmanager
    def followed(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()

    def _steps(self, fault: NodeFault) -> Iterator[tuple[float, int, Callable[[], None]]]:
        """Yields when each step is done, its order among steps of the same time, and the step."""

        @functools.cache
        def victim() -> str:
            return self._busiest() if fault.node is None else self.names[fault.node]

        if fault.what == "pause":
            yield fault.at_s, 0, lambda: self._signal(victim(), signal.SIGSTOP, "paused")
            yield fault.at_s + (fault.back_s or 0.0), 1, lambda: self._signal(victim(), signal.SIGCONT, "resumed")
        elif fault.what == "kill":
            yield fault.at_s, 0, lambda: self._signal(victim(), signal.SIGKILL, "killed")
        else:
            yield fault.at_s, 0, lambda: self._remove(victim())
            if fault.back_s is not None:
                yield fault.at_s + fault.back_s, 1, self._start

    def _run(self) -> None:
        try:
            while not self._over.wait(self._pause_s()):
                while self._left and self._left[0][0] <= self._now_s():
                    self._left.pop(0)[2]()
                self._driver.replace_the_dead()
        except BaseException as error:  # noqa: BLE001 - told to whoever follows the run
            self.error = error

    def _pause_s(self) -> float:
        next_s = self._left[0][0] - self._now_s() if self._left else _REPLACE_S
        return min(max(next_s, 0.0), _REPLACE_S)

    def _now_s(self) -> float:
        return self._driver.clock.now_s() - self._start_s

    def _busiest(self) -> str:
        newest = {heard.node: len(heard.partitions) for heard in list(self._heartbeats.heard)}
        return max(self.names, key=lambda name: newest[name])

    def _remove(self, name: str) -> None:
        """Kills a node that Spark must not bring back."""
        self._driver.running.pop(base_name(name)).kill()
        self._signal(name, signal.SIGKILL, "killed")

    def _signal(self, name: str, number: signal.Signals, what: Deed) -> None:
        pid = self._heartbeats.pids[name]
        self.happened.append(Happened(self._now_s(), what, name, pid))
        os.kill(pid, number)

    def _start(self) -> None:
        self.happened.append(Happened(self._now_s(), "started", self._driver.start()))


# --- what comes out ---------------------------------------------------------------------------------------------------


class _Follower:
    """Reads results as they appear, and listens to nodes meanwhile."""

    def __init__(
        self, load: WindowedFeed, start_s: float, output: ReadableLog, heartbeats: _Heartbeats, script: _Script
    ) -> None:
        self._load = load
        self._start_s = start_s
        self._output = output
        self._heartbeats = heartbeats
        self._script = script
        self._rows: list[dict[str, Any]] = []
        self._readable_s: list[float] = []
        self._read: list[tuple[float, int]] = []

    def follow(
        self, driver: Driver, version: Submitted, producers: Producers, poll_s: float, observe: Observer
    ) -> Chronicle:
        clock, load = driver.clock, self._load
        until_s = self._start_s + load.windows * load.window_us / 1e6 + _END_S
        listened_s = observed_s = checked_s = float("-inf")
        while len(self._rows) < load.windows:
            now_s = self._take()
            if now_s - listened_s >= _LISTEN_S:
                listened_s = now_s
                self._heartbeats.listen()
                self._read.append((now_s - self._start_s, self._heartbeats.rows))
                if self._script.error is not None:
                    raise self._script.error
            if now_s - observed_s >= _OBSERVE_S:
                observed_s = now_s
                observe(self._now(now_s, driver.watcher.look(version.id)))
            if now_s - checked_s >= _CHECK_S:
                checked_s = now_s
                producers.ended()
                check_stopped(driver.stopped().get(version.id))
                if now_s > until_s:
                    raise HolonsError(
                        f"{len(self._rows)} of {load.windows} windows came out in time",
                        hint="the machine cannot keep up: a lower rate, or fewer nodes",
                    )
            clock.sleep_s(poll_s)
        lags_s = [producer.lags_s for producer in producers.wait(_END_S)]
        return self._chronicle(tuple(max(second) for second in zip(*lags_s, strict=True)))

    def _take(self) -> float:
        chunks = self._output.read(0, len(self._rows), self._load.windows - len(self._rows))
        now_s = SystemClock().now_s()
        for chunk in chunks:
            assert chunk.rows is not None
            self._rows += chunk.rows.to_pylist()
            self._readable_s += [now_s - self._start_s] * chunk.rows.num_rows
        return now_s

    def _due_s(self, row: dict[str, Any]) -> float:
        return float(row["window"] + self._load.window_us) / 1e6

    def _now(self, now_s: float, status: Status) -> Now:
        late_s = self._readable_s[-1] - self._due_s(self._rows[-1]) if self._rows else None
        return Now(
            now_s - self._start_s, status, len(self._rows), late_s, tuple(self._script.happened), self._script.names
        )

    def _chronicle(self, producer_lag_s: tuple[float, ...]) -> Chronicle:
        heard = [replace(heard, at_s=heard.at_s - self._start_s) for heard in self._heartbeats.heard]
        due_s = np.array([self._due_s(row) for row in self._rows])
        readable_s = np.array(self._readable_s)
        return Chronicle(due_s, readable_s, self._rows, heard, self._script.happened, self._read, producer_lag_s)
