"""Nodes in processes of their own, on this machine, without a JVM.

The process that starts a node pickles what the node needs, and sends it through a pipe to which nobody else can write.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress

from holons.engines.driver import ENVIRONMENT, Birth, Driver, live
from holons.engines.endings import Ending, ending_text
from holons.visible import show_error

_MAIN = """
import json, sys
sys.path[:] = json.loads(sys.stdin.buffer.readline())
from holons.engines.embedded.processes import main
main(sys.stdin.buffer.read(), int(sys.argv[1]))
"""
_REPORT_BYTES_MAX = 60_000  # a pipe holds a little more, so that who writes it does not wait for a reader


class ProcessNodes(Driver):
    """A process for each node. The processes end when this one has ended."""

    def launch(self, birth: Birth) -> NodeProcess:
        return NodeProcess(birth)


class NodeProcess:
    """A child of this process. It does not import the user's script, which therefore needs no guard for `__main__`.

    It has a process group of its own, so that Ctrl-C reaches its driver only, which ends it with a checkpoint.
    """

    def __init__(self, birth: Birth) -> None:
        self._ending: Ending | None = None
        self._report, report = os.pipe()
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", _MAIN, str(report)],
            stdin=subprocess.PIPE,
            process_group=0,
            env={**ENVIRONMENT, **os.environ},
            pass_fds=[report],
        )
        os.close(report)
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

    def endings(self) -> list[Ending]:
        if self._ending is None and not self.alive():
            self._ending = self._read_ending()
        return [] if self._ending is None else [self._ending]

    def _read_ending(self) -> Ending:
        """Reads what the process has reported of the error that ended it; where it could not, there is its exit code."""
        os.set_blocking(self._report, False)  # children of its own may hold the pipe open
        report = b""
        with suppress(BlockingIOError):
            report = os.read(self._report, _REPORT_BYTES_MAX)
        if report:
            return Ending(report.decode(errors="replace"), raised=True)
        code = self._process.returncode
        how = f"it was killed by {signal.Signals(-code).name}" if code < 0 else f"its exit code was {code}"
        return Ending(how, raised=False)

    def __del__(self) -> None:
        if hasattr(self, "_report"):
            os.close(self._report)

    def join(self, timeout_s: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)

    def kill(self) -> None:
        self._process.kill()


def main(message: bytes, report: int) -> None:
    """Runs a node from its start to its end, in a process of its own; reports the error that ends it to a pipe."""
    sys.excepthook = show_error
    try:
        birth, parent = pickle.loads(message)  # noqa: S301 - from the process that started this one
        live(birth, lambda: bool(os.getppid() == parent))
    except BaseException as error:
        os.write(report, ending_text(error).encode(errors="backslashreplace")[:_REPORT_BYTES_MAX])
        raise
