"""Processes as the kernel tells of them: what a tree of them costs, and who is in a group."""

from __future__ import annotations

import os
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class ProcessTimes:
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
            return " ".join(psutil.Process(self.pid).cmdline())
        except psutil.Error:
            return ""


Tree = dict[int, ProcessTimes]
"""A process and all that descend from it, by id, at one moment."""


def living() -> list[ProcessTimes]:
    """Returns all processes that have not ended."""
    return [process for process in _listed() if not process.ended]


def tree(root: int | None = None) -> Tree:
    """Returns `root` (this process) and all that descend from it; nothing where no times of ended children are kept."""
    if not psutil.LINUX:
        return {}
    processes = {process.pid: process for process in _listed()}
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    members: Tree = {}
    waiting = [os.getpid() if root is None else root]
    while waiting:
        pid = waiting.pop()
        if pid in processes:
            members[pid] = processes[pid]
        waiting += children.get(pid, [])
    return members


def spent_s(before: Tree, after: Tree) -> float:
    """Returns the processor seconds that a tree has used between two looks at it.

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


def in_group(group: int) -> list[ProcessTimes]:
    """Returns the living processes of a process group."""
    return [process for process in living() if process.group == group]


def _listed() -> list[ProcessTimes]:
    """Returns all processes: whoever has ended keeps its times to itself until its parent has waited for it."""
    listed = []
    for process in psutil.process_iter():
        try:
            with process.oneshot():
                times, ended = process.cpu_times(), process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
                own_s, children_s = times.user + times.system, times.children_user + times.children_system
                group = os.getpgid(process.pid)
                listed.append(ProcessTimes(process.pid, ended, process.ppid(), group, own_s, children_s))
        except (psutil.Error, ProcessLookupError):
            continue  # it is gone
    return listed
