"""Nodes in processes of their own, on this machine. No JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress

import msgspec

from holons.engines.directory_site import DirectorySite
from holons.engines.driver import ENVIRONMENT, Birth, Driver, live
from holons.node import Settings

_MAIN = """
import json, sys
sys.path[:] = json.loads(sys.stdin.buffer.readline())
from holons.engines.embedded.processes import main
main(sys.stdin.buffer.read())
"""


class ProcessNodes(Driver):
    """A process for each node. They end themselves when this one is gone."""

    def launch(self, birth: Birth) -> NodeProcess:
        return NodeProcess(birth)


class NodeProcess:
    """A child of this process, which does not import the script that started it: that needs no guard for `__main__`.

    It has a process group of its own, so Ctrl-C reaches its driver only, which ends it with a checkpoint.
    """

    def __init__(self, birth: Birth) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", _MAIN], stdin=subprocess.PIPE, process_group=0, env={**ENVIRONMENT, **os.environ}
        )
        site = str(birth.site.directory.resolve()), birth.site.store
        told = _Told(*site, birth.name, birth.settings, birth.secret, birth.log_level, os.getpid())
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as pipe:  # who dies at once is replaced like all others
            pipe.write(json.dumps(sys.path).encode() + b"\n" + msgspec.msgpack.encode(told))

    @property
    def pid(self) -> int:
        """For those who want to send it a signal."""
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def deaths(self) -> int:
        return int(not self.alive())

    def join(self, timeout_s: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)

    def kill(self) -> None:
        self._process.kill()


class _Told(msgspec.Struct, frozen=True):
    directory: str
    store: str
    name: str
    settings: Settings
    secret: bytes
    log_level: int
    parent: int


def main(message: bytes) -> None:
    """The whole life of a node's process."""
    told = msgspec.msgpack.decode(message, type=_Told)
    birth = Birth(DirectorySite(told.directory, told.store), told.name, told.settings, told.secret, told.log_level)
    live(birth, lambda: os.getppid() == told.parent)
