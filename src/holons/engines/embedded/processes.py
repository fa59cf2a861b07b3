"""Nodes in processes of their own, over a site. No JVM.

The parent starts, kills and replaces nodes, and hands them the code of jobs; it coordinates nothing. Each start is a new
incarnation with a new name. A node whose parent is gone ends itself.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import uuid
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import NamedTuple

import cloudpickle

from holons.clock import SystemClock
from holons.engines.site import Site
from holons.errors import BadInput
from holons.node import Node, Settings, Stopped, Submitted, cancel, submit
from holons.program import Collected, Job

_IDLE_S = 0.0005
_ASK_EVERY = 64  # ticks, between two looks at the parent
_spawn = multiprocessing.get_context("spawn")


class _Given(NamedTuple):
    """A job on its way from the parent to a node."""

    version: Submitted
    code: bytes


class _State(NamedTuple):
    """What a node tells its parent: how many jobs it was given, and whether all of them are out."""

    given: int = 0
    settled: bool = False


_NOTHING = _State()


@dataclass
class _Child:
    process: SpawnProcess
    pipe: Connection
    state: _State = _NOTHING

    def tell(self, message: _Given | str) -> None:
        with contextlib.suppress(OSError):  # it is dead: somebody will notice
            self.pipe.send(message)

    def listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while self.pipe.poll():
                self.state = self.pipe.recv()

    def end(self, timeout_s: float) -> None:
        self.process.join(timeout_s)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


class ProcessNodes:
    """Node processes over one site. Use it as a context manager: at its end no process is left."""

    def __init__(self, site: Site, settings: Settings | None = None) -> None:
        self.site = site
        self.running: dict[str, _Child] = {}
        self._settings = settings or Settings()
        if self._settings.guarantee != "exactly-once":
            raise BadInput(
                "LMDB logs take appends of one writer only", hint='they check positions: keep guarantee="exactly-once"'
            )
        self._token = uuid.uuid4().hex[:8]
        self._started = 0
        self._ports = site.ports(f"driver-{self._token}")
        self._given: dict[str, _Given] = {}

    def __enter__(self) -> ProcessNodes:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- jobs --------------------------------------------------------------------------------------------------------

    def submit(self, job: Job, *, upgrade: bool = False) -> Submitted:
        """Runs a job on all nodes, those that come later included; see `node.submit`."""
        version = submit(job, self._ports, upgrade=upgrade)
        given = self._given[version.id] = _Given(version, cloudpickle.dumps(job))
        for child in self.running.values():
            child.tell(given)
        return version

    def cancel(self, name: str) -> None:
        """Stops a job everywhere; what it put out stays."""
        cancel(name, self._ports)

    def stopped(self) -> dict[str, Stopped]:
        """The jobs that were stopped, by id, and why."""
        return self.site.jobs().stopped

    def collected(self, name: str) -> Collected:
        """All rows that a job has put out so far."""
        return self.site.collected(name)

    # --- nodes -------------------------------------------------------------------------------------------------------

    def start(self) -> str:
        """Starts one more node; returns its name."""
        self._started += 1
        name = f"node-{self._started}#{self._token}"
        here, there = _spawn.Pipe()
        arguments = (self.site, name, self._settings, there, os.getpid())
        process = _spawn.Process(target=run_node, args=arguments, daemon=True, name=name)
        process.start()
        there.close()
        self.running[name] = _Child(process, here)
        for given in self._given.values():
            self.running[name].tell(given)
        return name

    def kill(self, name: str) -> None:
        """SIGKILL: no goodbye."""
        child = self.running.pop(name)
        child.process.kill()
        child.end(0.0)

    def replace_the_dead(self) -> list[str]:
        """Starts a new node for each that has died; returns who had died."""
        dead = [name for name, child in self.running.items() if not child.process.is_alive()]
        for name in dead:
            self.running.pop(name).end(0.0)
            self.start()
        return dead

    def drain(self, name: str, timeout_s: float = 30.0) -> None:
        """Lets a node hand everything over, and go."""
        child = self.running.pop(name)
        child.tell("leave")
        child.end(timeout_s)

    def settled(self) -> bool:
        """Whether every node says that all inputs have ended and everything is out."""
        for child in self.running.values():
            child.listen()
        told = _State(len(self._given), settled=True)
        return bool(self.running) and all(child.state == told for child in self.running.values())

    def wait(self, timeout_s: float) -> bool:
        """Waits until everything is out; False if that takes too long."""
        clock = SystemClock()
        until_s = clock.now_s() + timeout_s
        while not self.settled():
            if clock.now_s() > until_s:
                return False
            clock.sleep_s(0.01)
        return True

    def stop(self) -> None:
        """Asks all nodes to end, and ends those that do not."""
        for child in self.running.values():
            child.tell("stop")
        for child in self.running.values():
            child.end(5.0)
        self.running.clear()


def run_node(site: Site, name: str, settings: Settings, pipe: Connection, parent: int) -> None:
    """The whole life of a node process. Jobs come from the parent process, never from a log."""
    ports = site.ports(name, idle_marks=settings.idle_s is not None)
    node, state, ticks, stop = Node(name, ports, settings), _State(), 0, False
    while not stop and not node.left:
        ticks += 1
        happened = node.tick()
        if not happened or ticks % _ASK_EVERY == 0:
            stop = os.getppid() != parent or _hear(pipe, node)
            now = _State(len(node.given), node.settled)
            if now != state:
                state = now
                pipe.send(now)
        if not happened:
            ports.clock.sleep_s(_IDLE_S)
    node.close()


def _hear(pipe: Connection, node: Node) -> bool:
    """Takes what the parent says; True if it says to stop, or is gone."""
    try:
        while pipe.poll():
            message = pipe.recv()
            if isinstance(message, _Given):
                node.add_job(message.version.id, cloudpickle.loads(message.code), message.version.cuts)
            elif message == "leave":
                node.leave()
            else:
                return True
    except (EOFError, OSError):
        return True
    return False
