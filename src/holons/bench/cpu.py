"""How much processor time a process and all its descendants have used: a JVM and its Python workers included."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")
_USER, _SYSTEM, _PARENT = 11, 12, 1


def tree_s(root: int | None = None) -> float | None:
    """Seconds of all living processes that descend from `root`, itself included; None where nobody tells."""
    if not _PROC.is_dir():
        return None
    used: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (told := _stat(entry)) is not None:
            pid = int(entry.name)
            used[pid] = int(told[_USER]) + int(told[_SYSTEM])
            children.setdefault(int(told[_PARENT]), []).append(pid)
    total, waiting = 0, [os.getpid() if root is None else root]
    while waiting:
        pid = waiting.pop()
        total += used.get(pid, 0)
        waiting += children.get(pid, [])
    return total / os.sysconf("SC_CLK_TCK")


def _stat(entry: Path) -> list[str] | None:
    """The fields of a process after its name; None if it is gone."""
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
