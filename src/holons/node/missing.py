"""Sealed values that the sync stream has lost: where its files were restored from a copy older than the checkpoints.

A record is stored once what it has sealed is in the sync stream, so whoever resumes from it does not seal that again. If the
stream is an older copy, every window after that would wait for ever. So a partition whose own node does not find in the
stream what it has sealed, for longer than messages ever take, runs again from the beginning of its input: it seals the same
and emits the same, and nothing changes for those who have everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holons.node.recovery import stream_lost

if TYPE_CHECKING:
    from holons.node.job_on_node import JobOnNode

PATIENCE_S = 15.0
"""A partition runs again if for so long the sync stream has lacked what it had sealed: longer than messages ever take."""
_LOOK_S = 1.0


class MissingSeals:
    """Notices which partitions of a job have sealed what this node cannot find."""

    def __init__(self) -> None:
        self._looked_s = float("-inf")
        self._since: dict[int, tuple[tuple[int, int], float]] = {}
        """By partition: a clock and how far it is known of there, and since when more is missing."""
        self._again: set[int] = set()
        """The partitions that have run again here."""

    def look(self, here: JobOnNode) -> None:
        """Runs partitions again of which something has been missing for too long."""
        now_s = here.ports.clock.now_s()
        if now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        missing = self._missing(here)
        known = {partition: self._since.get(partition) for partition in missing}
        self._since = {
            partition: before if (before := known[partition]) and before[0] == place else (place, now_s)
            for partition, place in missing.items()
        }
        for partition, ((clock, _), since_s) in list(self._since.items()):
            if now_s - since_s >= PATIENCE_S:
                self._run_again(here, partition, clock)

    def _missing(self, here: JobOnNode) -> dict[int, tuple[int, int]]:
        """Returns of which partitions something is missing: for each the clock, and up to where everything is there."""
        progress = here.state.progress
        missing = {
            partition: (0, progress[0][partition])
            for partition, tasklet in here.tasklets.items()
            if progress[0][partition] < tasklet.run.progress.sealed_to and not tasklet.outbox
        }
        for clock, partition, known_to in here.state.gaps():
            if clock and partition in here.tasklets:
                missing[partition] = clock, known_to
        return missing

    def _run_again(self, here: JobOnNode, partition: int, clock: int) -> None:
        if partition in self._again:
            raise stream_lost(
                f"{here.name}: partition {partition}", "it is not there although the partition has run again"
            )
        self._again.add(partition)
        self._since.pop(partition)
        run = here.tasklets[partition].run.progress
        later_stage = 0 < clock < len(run.emitted_to) - len(run.counted_to)
        here.start(partition, forget="everything" if later_stage else "rows")
