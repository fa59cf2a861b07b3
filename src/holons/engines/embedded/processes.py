"""Nodes in processes of their own, on this machine, without a JVM.

The process that starts a node pickles what the node needs, and sends it through a pipe to which nobody else can write.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from contextlib import suppress

from holons.engines.driver import ENVIRONMENT, Birth, Driver, live

_MAIN = """
import json, sys
sys.path[:] = json.loads(sys.stdin.buffer.readline())
from holons.engines.embedded.processes import main
main(sys.stdin.buffer.read())
"""


class ProcessNodes(Driver):
    """A process for each node. The processes end when this one has ended."""

    def launch(self, birth: Birth) -> NodeProcess:
        return NodeProcess(birth)


class NodeProcess:
    """A child of this process. It does not import the user's script, which therefore needs no guard for `__main__`.

    It has a process group of its own, so that Ctrl-C reaches its driver only, which ends it with a checkpoint.
    """

    def __init__(self, birth: Birth) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", _MAIN], stdin=subprocess.PIPE, process_group=0, env={**ENVIRONMENT, **os.environ}
        )
        assert self._process.stdin is not None
        with (
            suppress(BrokenPipeError),
            self._process.stdin as pipe,
        ):  # a node that dies at once is replaced like any other
            pipe.write(json.dumps(sys.path).encode() + b"\n" + pickle.dumps((birth, os.getpid())))

    @property
    def pid(self) -> int:
        """The process id, to send it a signal."""
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


def main(message: bytes) -> None:
    """Runs a node from its start to its end, in a process of its own."""
    birth, parent = pickle.loads(message)  # noqa: S301 - from the process that started this one
    live(birth, lambda: bool(os.getppid() == parent))
