"""Another process in a role, as a test sees it: everything it is waited for has a limit."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[3]
LIMIT_S = 600.0

Start: TypeAlias = "Callable[..., OtherProcess]"


class OtherProcess:
    """It runs one role of a module of roles, and talks in lines."""

    def __init__(self, module: str, role: str, *arguments: object) -> None:
        command = [sys.executable, "-m", module, role, *map(str, arguments)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self._process.pid
        self._pending = b""

    def line(self) -> str:
        """The next line that it prints."""
        deadline = time.monotonic() + LIMIT_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                assert selector.select(deadline - time.monotonic()), "the other process says nothing"
                more = os.read(self._process.stdout.fileno(), 65_536)
                assert more, f"the other process ended with {self._process.wait(LIMIT_S)}"
                self._pending += more
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode()

    def tell(self, text: str = "") -> None:
        """Sends a line."""
        self._process.stdin.write(text.encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, text: str = "") -> str:
        """Sends a line, and returns the answer."""
        self.tell(text)
        return self.line()

    def rest(self) -> list[str]:
        """The whole lines that it still prints until it ends."""
        rest, _ = self._process.communicate(timeout=LIMIT_S)
        return (self._pending + rest).decode().split("\n")[:-1]

    def kill(self) -> list[str]:
        """Kills it, and returns the whole lines that it had still printed."""
        self._process.kill()
        return self.rest()

    def stop(self) -> None:
        """Stops it, and waits until it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)


@contextmanager
def processes(module: str) -> Iterator[Start]:
    """Starts roles of a module; in the end none of them is left."""
    started: list[OtherProcess] = []

    def start(role: str, *arguments: object) -> OtherProcess:
        started.append(OtherProcess(module, role, *arguments))
        return started[-1]

    yield start
    for process in started:
        if process._process.returncode is None:
            process.kill()
        assert not Path(f"/proc/{process.pid}").exists() or sys.platform != "linux"
