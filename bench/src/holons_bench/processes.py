"""Processes as the kernel tells of them: what a tree of them costs, and who is in a group."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_STATE, _PARENT, _GROUP = 0, 1, 2
_OWN, _CHILDREN = slice(11, 13), slice(13, 15)
"""Times in user code and in the kernel."""


@dataclass(frozen=True)
class Process:
    """A process: living, or ended and not yet waited for."""

    pid: int
    ended: bool
    parent: int
    group: int
    own_s: float
    """How much processor time it has used itself."""
    children_s: float
    """What its children had used that have ended, and that it has waited for."""

    @property
    def command(self) -> str:
        """What it was started with; empty if it is gone."""
        try:
            return (_PROC / str(self.pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""


Tree = dict[int, Process]
"""A process and all that descend from it, by id, at one moment."""


def living() -> list[Process]:
    """All processes that have not ended; none where the kernel does not tell."""
    return [process for process in _listed() if not process.ended]


def tree(root: int | None = None) -> Tree:
    """`root` (this process) and all that descend from it; empty where the kernel does not tell."""
    processes = {process.pid: process for process in _listed()}
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: Tree = {}
    waiting = [os.getpid() if root is None else root]
    while waiting:
        pid = waiting.pop()
        if pid in processes:
            found[pid] = processes[pid]
        waiting += children.get(pid, [])
    return found


def spent_s(before: Tree, after: Tree) -> float:
    """Processor seconds that a tree has used between two looks at it.

    Totals cannot be subtracted. Whoever ends leaves its times to a parent that waits for it, and to nobody if its parent
    ignores its children, as Spark's daemon does with Python workers: a worker that was idle and ends would take along what
    it has used since its start. So processes are compared one by one. What one of them used after the first look, before
    it ended without being waited for, is not known, and not counted.
    """
    left_s: dict[int, float] = {}
    for process in before.values():
        if process.pid not in after:
            heir = process.parent
            while heir in before and heir not in after:
                heir = before[heir].parent
            left_s[heir] = left_s.get(heir, 0.0) + process.own_s + process.children_s
    total_s = 0.0
    for pid, now in after.items():
        then = before.get(pid)
        own_s, children_s = (0.0, 0.0) if then is None else (then.own_s, then.children_s)
        total_s += max(0.0, now.own_s - own_s) + max(0.0, now.children_s - children_s - left_s.get(pid, 0.0))
    return total_s


def in_group(group: int) -> list[Process]:
    """The living processes of a process group."""
    return [process for process in living() if process.group == group]


def _listed() -> list[Process]:
    """All that the kernel lists: whoever has ended keeps its times to itself until its parent has waited for it."""
    found = []
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if entry.name.isdigit() and (told := _stat(entry)) is not None:
            own_s, children_s = (sum(map(int, told[times])) / _TICKS_PER_S for times in (_OWN, _CHILDREN))
            ended, parent, group = told[_STATE] in "ZX", int(told[_PARENT]), int(told[_GROUP])
            found.append(Process(int(entry.name), ended, parent, group, own_s, children_s))
    return found


def _stat(entry: Path) -> list[str] | None:
    """The fields of a process after its name; None if it is gone."""
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
