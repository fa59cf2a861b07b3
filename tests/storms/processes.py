"""The processes of a storm, as it sees them: each one is started, looked at, and ended by its own id."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def spawn(module: str, order: Mapping[str, Any], printed: Path) -> subprocess.Popen[bytes]:
    """Starts a module of this folder with an order; what it prints goes to a file."""
    with printed.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", f"tests.storms.{module}", json.dumps(order)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=file, stderr=file,
        )  # fmt: skip


class Producer:
    """A producer, and the partitions that it fills."""

    def __init__(self, number: int, own: list[int], order: Mapping[str, Any], directory: Path) -> None:
        self.number, self.own, self.wanted = number, own, True
        self._printed = directory / "errors" / f"producer-{number}"
        self.process = spawn("producing", order, self._printed)

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()

    def printed(self) -> str:
        return self._printed.read_text()[-3_000:].strip()


class Driver:
    """A driver, and the nodes of which it has told."""

    def __init__(self, number: int, order: Mapping[str, Any], directory: Path) -> None:
        self.number, self.variant, self.killed, self.finished = number, order["variant"], False, False
        self._status, self._error = (directory / kind / f"driver-{number}" for kind in ("status", "errors"))
        self._printed = directory / "errors" / f"driver-{number}.printed"
        self.process = spawn(
            "driving", {**order, "status": str(self._status), "error": str(self._error)}, self._printed
        )

    def tell(self, order: str) -> bool:
        with suppress(BrokenPipeError):
            self.process.stdin.write(order.encode() + b"\n")
            self.process.stdin.flush()
        return True

    def status(self) -> dict[str, Any] | None:
        return json.loads(self._status.read_text()) if self._status.exists() else None

    def nodes(self) -> dict[str, int]:
        """Returns the processes of its nodes, by name."""
        status = self.status()
        return status["pids"] if status else {}

    def error(self) -> str:
        """Returns the error that ended it, if any."""
        return self._error.read_text() if self._error.exists() else ""

    def printed(self) -> str:
        return self._printed.read_text()[-3_000:].strip()


class Pids:
    """Processes that others have started. Each is held by a descriptor, so that no signal reaches one that came later."""

    def __init__(self) -> None:
        self._held: dict[int, int] = {}

    def note(self, nodes: Mapping[str, int]) -> None:
        for pid in nodes.values():
            if pid not in self._held:
                with suppress(ProcessLookupError):
                    self._held[pid] = os.pidfd_open(pid)

    def signal(self, pid: int, number: int) -> int | None:
        """Sends a signal; returns None if the process is gone."""
        self.note({"": pid})
        try:
            signal.pidfd_send_signal(self._held[pid], number)
        except (ProcessLookupError, KeyError):
            return None
        return pid

    def go_on(self, pids: Iterable[int | None]) -> None:
        for pid in pids:
            if pid is not None:
                self.signal(pid, signal.SIGCONT)

    def wait_until_gone(self, limit_s: float) -> None:
        """Waits until all of them have ended, as nodes do without their driver; kills those that do not."""
        until = time.monotonic() + limit_s
        self.go_on(list(self._held))
        while self._held:
            pid, held = self._held.popitem()
            gone = select.select([held], [], [], max(0.0, until - time.monotonic()))[0]
            if not gone:
                signal.pidfd_send_signal(held, signal.SIGKILL)
            os.close(held)
            assert gone, f"node {pid} outlives its driver"
