"""Idle partitions: which are idle, who knows, and up to where a mark moves them (invariant: logged idleness)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from holons.node.messages import Running
from holons.windows import BEGINNING, ENDING

LIVE_IDLE_S: Final = 10.0
"""After so long without a row a partition is idle if its settings do not say: longer than producers pause now and then."""
_LATELY_US: Final = 600_000_000
"""A partition says nothing about event time if its newest row is older by so much than that of another one."""


class Idleness:
    """For how long a partition's log has been read to its end without a row."""

    def __init__(self) -> None:
        self.idle = False
        """Whether that is so long that the others should not wait for it."""
        self.quiet_s = 0.0
        self._quiet_since_s: float | None = None
        self._rested_at_s = float("-inf")

    def rested(self, now_s: float, rest_s: float) -> bool:
        """Whether it is as long as that since this was so the last time."""
        rested = now_s - self._rested_at_s >= rest_s
        if rested:
            self._rested_at_s = now_s
        return rested

    def observe(self, now_s: float, idle_s: float | None, *, quiet: bool) -> None:
        """Notes whether there was no row at the end of the log; it is idle after `idle_s`, and never for None.

        A partition that waits for a window has read a row, and is not quiet; nor does an outage of the log count.
        """
        if not quiet:
            self._quiet_since_s = None
        elif self._quiet_since_s is None:
            self._quiet_since_s = now_s
        self.quiet_s = 0.0 if self._quiet_since_s is None else now_s - self._quiet_since_s
        self.idle = quiet and idle_s is not None and self.quiet_s > idle_s


class WhoIsIdle(NamedTuple):
    """What the live owners say of all partitions of a job."""

    partitions: frozenset[int] = frozenset()
    """Those that are idle."""
    event_time: int = BEGINNING
    """What event time is by now if all that have not ended are idle; `BEGINNING` if no row was live."""


def who_is_idle(reports: Iterable[Running]) -> WhoIsIdle:
    """Returns which partitions are idle: for each, the live owner decides that has read as much of it as anyone.

    An owner that reads late may not know yet, and one that was slow does not know any more. Event time is where the last of
    the partitions is that had live rows lately.
    """
    newest: dict[int, tuple[int, bool, int, int]] = {}
    for running in reports:
        known = (running.offset, running.idle, running.event_time, running.appended)
        newest[running.partition] = max(newest.get(running.partition, (-1, False, BEGINNING, 0)), known)
    latest = max((appended for *_, appended in newest.values()), default=0)
    times = (
        event_time
        for _, _, event_time, appended in newest.values()
        if event_time > BEGINNING and appended >= latest - _LATELY_US
    )
    idle = frozenset(partition for partition, (_, is_idle, _, _) in newest.items() if is_idle)
    return WhoIsIdle(idle, min(times, default=BEGINNING))


def mark_beside_active(progress: Sequence[int], idle: Collection[int]) -> int | None:
    """Returns the least progress of the partitions that are neither idle nor ended; None if there are none."""
    active = (at for partition, at in enumerate(progress) if partition not in idle and at < ENDING)
    return min(active, default=None)


def furthest(progress: Sequence[int]) -> int:
    """Returns the progress of the partition that is furthest, of those that have not ended."""
    return max((at for at in progress if at < ENDING), default=BEGINNING)
