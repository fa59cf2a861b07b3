"""Drivers that die, or stand still, at every moment of a decision, one after the other: processes that a test starts.

`python -m tests.unit.node.interrupted_driver HOW WHAT DIRECTORY` prints, for each moment, the number of the moment, and what
the driver and the one that decided meanwhile got. Each moment has a site of its own, `DIRECTORY/NUMBER`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Final

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.errors import JobRunning
from holons.node import cancel, submit
from holons.program import Job

NAME: Final = "count"
SIGNALS: Final = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}


class Count(h.Program):
    """Rows per second."""

    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def __init__(self, variant: int) -> None:
        self.variant = variant

    def process(self, events):
        self.n.insert(1, events.ts)

    def on_window(self, window):
        yield {"window": window.start, "n": self.n[window]}


def variant(number: int) -> Job:
    return h.job(Count(number), "visits", name=NAME)


def ports(directory: Path, writer: str):
    return DirectorySite(directory).ports(writer)


def decide(what: str, directory: Path) -> None:
    """Does what a driver of variant 1 does."""
    if what == "cancel":
        cancel(NAME, ports(directory, "driver-1"))
    else:
        submit(variant(1), ports(directory, "driver-1"), upgrade=what == "upgrade")


def submitted(number: int, directory: Path, writer: str) -> str:
    """Submits a variant; returns its digest, or that another one is running."""
    try:
        return submit(variant(number), ports(directory, writer)).digest
    except JobRunning:
        return "JobRunning"


def interrupt(moment: int, number: int) -> None:
    """Sends this process a signal right before the journal of decisions calls the operating system for the n-th time."""
    left = [moment]

    def profile(frame: FrameType, event: str, function: object) -> None:
        while frame.f_globals["__name__"] == "pathlib" and frame.f_back is not None:
            frame = frame.f_back
        ours = frame.f_globals["__name__"] == "holons.streams.journal"
        if ours and event == "c_call" and getattr(function, "__module__", "") in ("posix", "io", "_io"):
            if left[0] == 0:
                os.kill(os.getpid(), number)
            left[0] -= 1

    sys.setprofile(profile)


def forked(act: Callable[[], object]) -> int:
    """Runs something in a child, whose outcome is in the file `outcome`; returns its process id."""
    pid = os.fork()
    if pid == 0:
        act()
        os._exit(0)
    return pid


def main(how: str, what: str, directory: Path) -> None:
    for moment in count():
        site = directory / str(moment)
        DirectorySite(site).create("visits", 1)
        if what != "submit":
            submit(variant(0), ports(site, "driver-0"))

        def driver(site: Path = site, moment: int = moment) -> None:
            interrupt(moment, SIGNALS[how])
            outcome = submitted(1, site, "driver-1") if what == "submit" else str(decide(what, site))
            sys.setprofile(None)
            (site / "outcome").write_text(outcome)

        pid = forked(driver)
        _, status = os.waitpid(pid, os.WUNTRACED)
        meanwhile = "-"
        if os.WIFSTOPPED(status):
            meanwhile = submitted(2, site, "driver-2")
            os.kill(pid, signal.SIGCONT)
            _, status = os.waitpid(pid, 0)
        elif not os.WIFSIGNALED(status):
            break  # it has fewer moments than that
        print(moment, meanwhile, (site / "outcome").read_text() if (site / "outcome").exists() else "-", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
