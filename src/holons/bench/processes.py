"""Processes as the kernel tells of them: what a tree of them has cost, and who is in a group."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_STATE, _PARENT, _GROUP = 0, 1, 2
_TIMES = slice(11, 15)
"""In user code and in the kernel: its own, and that of children that have ended."""


@dataclass(frozen=True)
class Process:
    """A process: living, or ended and not yet waited for."""

    pid: int
    ended: bool
    parent: int
    group: int
    cpu_s: float
    """How much processor time it has used, with that of its children that have ended."""

    @property
    def command(self) -> str:
        """What it was started with; empty if it is gone."""
        try:
            return (_PROC / str(self.pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""


def living() -> list[Process]:
    """All processes that have not ended; none where the kernel does not tell."""
    return [process for process in _listed() if not process.ended]


def tree_cpu_s(root: int | None = None) -> float | None:
    """Processor seconds of `root` (this process) and of all that descend from it; None where the kernel does not tell."""
    processes = {process.pid: process for process in _listed()}
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    total_s, waiting = 0.0, [os.getpid() if root is None else root]
    while waiting:
        pid = waiting.pop()
        total_s += processes[pid].cpu_s if pid in processes else 0.0
        waiting += children.get(pid, [])
    return total_s if processes else None


def in_group(group: int) -> list[Process]:
    """The living processes of a process group."""
    return [process for process in living() if process.group == group]


def _listed() -> list[Process]:
    """All that the kernel lists: whoever has ended keeps its times to itself until its parent has waited for it."""
    found = []
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if entry.name.isdigit() and (told := _stat(entry)) is not None:
            used_s = sum(map(int, told[_TIMES])) / os.sysconf("SC_CLK_TCK")
            found.append(Process(int(entry.name), told[_STATE] in "ZX", int(told[_PARENT]), int(told[_GROUP]), used_s))
    return found


def _stat(entry: Path) -> list[str] | None:
    """The fields of a process after its name; None if it is gone."""
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
