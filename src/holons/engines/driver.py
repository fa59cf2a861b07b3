"""A driver starts, watches and stops nodes over a site. Its subclasses say where a node runs.

A driver coordinates nothing. It writes jobs into the control log, hands out their code, and reads heartbeats; if it dies,
its nodes end themselves, and another driver goes on with the same site.
"""

from __future__ import annotations

import gc
import logging
import os
import secrets
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, Self

import pyarrow as pa

from holons.clock import SystemClock
from holons.engines.collecting import check_kept, emitted, emitted_by
from holons.engines.endings import Ending, Endings
from holons.engines.node_logs import (
    Diary,
    LogRelay,
    driver_token,
    forwarding,
    level_wanted,
    with_logged_failures,
)
from holons.engines.orders import JobOrder, NodeOrder, Orders, OwnOrders, job_order, orders_stream
from holons.engines.watching import Watcher
from holons.errors import BadInput, JobFailed, LogUnavailable, NodesSilent, StoreUnavailable
from holons.node import Beginning, Decisions, Node, Settings, Site, Stopped, Submitted, cancel, late_beginnings, submit
from holons.program import Collected, Job

_IDLE_S, _IDLE_MAX_S, _IDLE_GROWTH = 0.0005, 0.005, 1.25
"""How long a node sleeps that has nothing to do, at first and at most; each sleep is longer than the one before, since every
look costs processor time."""
ENVIRONMENT: Final = {
    "POLARS_MAX_THREADS": "1",
    "NUMPY_MADVISE_HUGEPAGE": "0",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(512 << 20),
}
"""Environment variables of node processes, unless they are set already.

A node is one thread: a second one of polars would take its core from other nodes, and to hand small columns back and forth
costs more than it gains. And it keeps the memory that it frees (up to half a gigabyte, with glibc): columns of a megabyte
come and go all the time, and to get fresh pages for each took up to half of a node's time, most of all on virtual machines.
"""
_LOOK_S = 0.005
_STOP_S = 5.0
_TEND_S = 0.5


@dataclass(frozen=True)
class Birth:
    """Everything that a node process needs when it starts."""

    site: Site
    name: str
    settings: Settings
    secret: bytes
    log_level: int = logging.WARNING
    """What it logs at this level or above reaches the driver."""


class ProcessHandle(Protocol):
    """A process, as its starter sees it."""

    def alive(self) -> bool:
        """Returns whether it still runs, or is being started again."""
        ...

    def join(self, timeout_s: float) -> None:
        """Waits for it to end."""
        ...

    def kill(self) -> None:
        """Ends it at once, as SIGKILL does."""
        ...


class NodeRun(ProcessHandle, Protocol):
    """The process of a node, or all those that it had one after the other."""

    def endings(self) -> Sequence[Ending]:
        """Returns how it has died, each time so far."""
        ...


class Driver(ABC):
    """Runs nodes over one site. Use it as a context manager: at its end no node is left running."""

    silent_s = 60.0
    """For how long the driver waits for a heartbeat of any node before it gives up."""
    store_patience_s = 30.0
    """For how long an upgrade asks for the checkpoints of the version that runs."""

    def __init__(self, site: Site, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.site = site = site.at_least(self.settings.durability)
        self.running: dict[str, NodeRun] = {}
        self.clock = SystemClock()
        self._secret = secrets.token_bytes(32)
        self._token = uuid.uuid4().hex[:8]
        self._ports = site.ports(f"driver-{self._token}", self.settings)
        self._orders = OwnOrders(site, self._token, self._secret)
        self._decisions = Decisions(self._ports.decisions)
        self._versions: dict[str, Submitted] = {}
        self._started = self._deaths = 0
        self._tended_s = float("-inf")
        self._heard_s = self.clock.now_s()
        self.watcher = Watcher(self._ports.heartbeats, self.clock)
        self._relay = LogRelay(site.shared("logs", f"driver-{self._token}"), self._token)
        self._retired: list[NodeRun] = []
        self._endings = Endings()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def launch(self, birth: Birth) -> NodeRun:
        """Starts a node's process, which calls `live`."""

    # --- jobs --------------------------------------------------------------------------------------------------------

    def submit(self, job: Job, *, upgrade: bool = False) -> Submitted:
        """Runs a job on all nodes, those that come later included; see `node.submit`."""
        version = submit(job, self._ports, upgrade=upgrade, wait=self._store_waiter(job))
        self._check_guarantee(version)
        self._orders.send(job_order(version, job))
        self._versions[version.id] = version
        return version

    def late_beginnings(self, version: Submitted) -> list[Beginning]:
        """Returns where a version begins behind what is kept of its inputs; nothing if another driver has begun it."""
        self._decisions.read()
        return late_beginnings(version, self._decisions.jobs) if version.writer == self._ports.control.writer else []

    def _store_waiter(self, job: Job) -> Callable[[StoreUnavailable], None]:
        """Returns what is to be done while a store does not answer: nodes may hold the records in their memory."""
        until_s = self.clock.now_s() + self.store_patience_s

        def wait(error: StoreUnavailable) -> None:
            if self.clock.now_s() > until_s:
                error.hint = (
                    f"run {job.name} as it is, so that its checkpoints can be read; or cancel it and submit it anew"
                )
                raise error
            self.clock.sleep_s(_LOOK_S)
            with suppress(LogUnavailable):
                if live := sorted(self.watcher.pids()):
                    self._ports.store.tend(live)

        return wait

    def _check_guarantee(self, version: Submitted) -> None:
        """Raises `BadInput` if a version that goes on has outputs of another guarantee."""
        if self.site.channels(version.id) and self.site.appends(version.id) != self.settings.appends:
            written = "at-least-once" if self.site.appends(version.id) else "exactly-once"
            raise BadInput(
                f"{version.name} has been running {written}, and goes on",
                hint=f"keep Settings(guarantee={written!r}), or cancel it (holons cancel) to begin anew",
            )

    def cancel(self, name: str) -> None:
        """Stops a job everywhere; what it has emitted stays."""
        cancel(name, self._ports)

    def stopped(self) -> dict[str, Stopped]:
        """Returns the jobs that were stopped, by id, each with the reason."""
        self._decisions.read()
        return self._decisions.jobs.stopped

    def collected(self, name: str) -> Collected:
        """Returns all rows that a job has emitted so far."""
        return emitted(self.site, name).collected()

    # --- nodes -------------------------------------------------------------------------------------------------------

    def start(self) -> str:
        """Starts one more node; returns its name."""
        self._started += 1
        name = f"node-{self._started}#{self._token}"
        self.running[name] = self.launch(Birth(self.site, name, self.settings, self._secret, level_wanted()))
        return name

    def kill(self, name: str) -> None:
        """Ends a node at once, so that it hands nothing over."""
        process = self.running.pop(name)
        process.kill()
        process.join(_STOP_S)

    def replace_the_dead(self) -> list[str]:
        """Starts a new node for each one that has died; returns the names of the dead.

        If those that are replaced die of the same again and again, that is raised instead.
        """
        self._check_endings()
        dead = [name for name, process in self.running.items() if not process.alive()]
        for name in dead:
            process = self.running.pop(name)
            process.join(0.0)
            self._deaths += len(process.endings())
            self.start()
        return dead

    def _check_endings(self) -> None:
        now_s, heard = self.clock.now_s(), {base_name(name) for name in self.watcher.heard()}
        for name, process in self.running.items():
            self._endings.note(name, process.endings(), now_s, heard=name in heard)
        self._endings.check(len(self.running), now_s)

    @property
    def deaths(self) -> int:
        """How many nodes have died: those that were replaced here, and those that Spark started again."""
        return self._deaths + sum(len(process.endings()) for process in self.running.values())

    def not_started(self) -> str:
        """Returns what its nodes wait for that have not started, as far as that is known; for people."""
        return ""

    def drain(self, name: str, timeout_s: float = 30.0) -> None:
        """Lets a node hand everything over and leave, and waits for that."""
        process = self.running.pop(name)
        self._orders.send(NodeOrder(name, "leave"))
        process.join(timeout_s)
        if process.alive():
            process.kill()
            process.join(_STOP_S)

    def retire(self, name: str) -> str:
        """Starts another node in the place of one that hands everything over and leaves by itself; returns the new name."""
        self._retired.append(self.running.pop(name))
        self._orders.send(NodeOrder(name, "leave"))
        return self.start()

    def finished(self) -> bool:
        """Returns whether a node reports that all inputs have ended and everything is emitted.

        One report is enough, since a node waits for the reports of all owners of partitions before it sends its own; so a
        node that hangs does not hold the run up.
        """
        self._relay.relay()
        return any(base_name(name) in self.running for name in self.watcher.finished(len(self._versions)))

    def wait(self, timeout_s: float) -> bool:
        """Waits until everything is emitted; returns False if that takes longer than `timeout_s`."""
        until_s = self.clock.now_s() + timeout_s
        while not self.finished():
            if self.clock.now_s() > until_s:
                return False
            self.clock.sleep_s(_LOOK_S)
        return True

    def tend(self, version: Submitted) -> bool:
        """Looks after a job; to be called again and again until it returns True, once everything is emitted.

        Nodes that have died are replaced; if the job was stopped, the reason is raised. Nodes that report a version as
        finished, because others have run it to its end or have stopped it, do not decide: the outputs do, and whether it
        still stands.
        """
        finished, now_s = self.finished(), self.clock.now_s()
        if finished or now_s - self._tended_s >= _TEND_S:
            self._tended_s = now_s
            check_stopped(self.stopped().get(version.id))
            if finished:
                check_kept(self.site, self._decisions.jobs.history(version.id))
            else:
                self.replace_the_dead()
                self._check_silence(now_s)
                self._orders.tidy_site(now_s)
        return finished

    def run_to_end(self, job: Job, nodes: int) -> Collected:
        """Runs a job on so many nodes until everything is emitted, and returns all rows."""
        version = self.submit(job)
        for _ in range(nodes):
            self.start()
        while not self.tend(version):
            self.clock.sleep_s(_LOOK_S)
        return emitted_by(self.site, job, version.id).collected()

    def _check_silence(self, now_s: float) -> None:
        if self.watcher.pids():
            self._heard_s = now_s
        elif now_s - self._heard_s > self.silent_s:
            raise NodesSilent(
                f"no node has come up in {self.silent_s:.0f} s, or all have gone silent",
                hint="look at what their processes, or Spark's workers, print; is the machine too busy?",
            )

    def stop(self) -> None:
        """Asks all nodes to end, and kills those that do not."""
        for name in self.running:
            self._orders.send(NodeOrder(name, "stop"))
        until_s = self.clock.now_s() + _STOP_S
        processes = [*self.running.values(), *self._retired]
        for process in processes:
            process.join(max(0.0, until_s - self.clock.now_s()))
        for process in processes:
            if process.alive():
                process.kill()
                process.join(_STOP_S)
        self.running.clear()
        self._retired.clear()
        self._relay.relay()
        self._orders.close()


def check_stopped(stopped: Stopped | None) -> None:
    """Raises `JobFailed` if a job was stopped: because it failed, or because somebody else cancelled or upgraded it."""
    if stopped is not None:
        story, _, hint = stopped.reason.partition("\n  hint: ")
        raise JobFailed(
            f"{stopped.job} was stopped everywhere: {stopped.kind}: {story}",
            hint=hint or "the rows that it emitted before are kept; other jobs were not touched",
        )


def live(birth: Birth, wanted: Callable[[], bool]) -> None:
    """Runs a node in this process until it is told to leave or to stop, or until `wanted` returns False."""
    with forwarding(birth.site.shared("logs", birth.name), birth.log_level):
        _run_node(birth, wanted)


def _run_node(birth: Birth, wanted: Callable[[], bool]) -> None:
    pa.array([0])  # lets Arrow look for pandas now: with the first row put out, that stops the loop for up to a second
    ports = with_logged_failures(birth.site.ports(birth.name, birth.settings))
    orders = Orders(birth.site.shared(orders_stream(driver_token(birth.name)), birth.name), birth.secret)
    node, looked_s, stop = Node(birth.name, ports, birth.settings, pid=os.getpid()), float("-inf"), False
    diary, written_s, idle_s, jobs = Diary(node), float("-inf"), _IDLE_S, 0
    gc.freeze()  # what is there by now stays: to look through all modules again and again would stop the loop
    while not stop and not node.left:
        happened = node.tick()
        now_s = ports.clock.now_s()
        if now_s - looked_s >= _LOOK_S:
            looked_s, stop = now_s, not wanted()
            with suppress(LogUnavailable):
                stop |= _obey(orders, node)
        if now_s - written_s >= birth.settings.heartbeat_s:
            written_s = now_s
            diary.look()
            if len(node.jobs) < jobs:
                gc.collect()  # all that a job held refers to itself, and columns weigh nothing with the collector
            jobs = len(node.jobs)
        if happened:
            idle_s = _IDLE_S
        else:
            ports.clock.sleep_s(idle_s)
            idle_s = min(idle_s * _IDLE_GROWTH, _IDLE_MAX_S)
    diary.look()
    node.close()


def _obey(orders: Orders, node: Node) -> bool:
    """Follows the orders of the driver; returns True if the node is to stop."""
    for order in orders.received():
        if isinstance(order, JobOrder):
            try:
                node.add_job(order.version.id, order.job(), order.version.cuts)
            except Exception as error:  # noqa: BLE001 - importing a user's module may raise anything
                node.refuse(order.version.id, error)
        elif order.node == base_name(node.name) and order.what == "leave":
            node.leave()
        elif order.node == base_name(node.name):
            return True
    return False


def base_name(name: str) -> str:
    """Returns the name under which a driver knows a node: without the number that is added when it is started again."""
    return name.partition(".")[0]
