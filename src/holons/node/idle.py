"""Idle partitions: which are idle, who knows, and up to where a mark moves them (invariant: logged idleness)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from holons.node.messages import Running
from holons.windows import BEGINNING, ENDING


class Idleness:
    """Whether a partition's log has been read to its end without a row for longer than `idle_s`; None: never idle."""

    def __init__(self, idle_s: float | None) -> None:
        self.idle = False
        self._idle_s = idle_s
        self._quiet_since_s: float | None = None

    def observe(self, now_s: float, *, quiet: bool) -> None:
        """Notes whether there was no row at the end of the log.

        A partition that waits for a window has read a row, and is not quiet; nor does an outage of the log count.
        """
        if not quiet:
            self._quiet_since_s = None
        elif self._quiet_since_s is None:
            self._quiet_since_s = now_s
        since_s = self._quiet_since_s
        self.idle = self._idle_s is not None and since_s is not None and now_s - since_s > self._idle_s


def idle_partitions(reports: Iterable[Running]) -> set[int]:
    """Returns the partitions that are idle: for each, the live owner decides that has read as much of it as anyone.

    An owner that reads late may not know yet, and one that was slow does not know any more.
    """
    newest: dict[int, tuple[int, bool]] = {}
    for running in reports:
        known = newest.get(running.partition, (-1, False))
        newest[running.partition] = max(known, (running.offset, running.idle))
    return {partition for partition, (_, idle) in newest.items() if idle}


def mark_for_idle(progress: Sequence[int], idle: Collection[int]) -> int:
    """Returns the least progress of the partitions that are neither idle nor ended; `BEGINNING` if there are none."""
    active = (at for partition, at in enumerate(progress) if partition not in idle and at < ENDING)
    return min(active, default=BEGINNING)
