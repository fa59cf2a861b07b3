"""Partitions that may kill whoever runs them: they are tried one at a time, and a job that kills again and again is stopped.

Every heartbeat says what its node is about to touch. If the node dies, these partitions are suspect. Whoever takes them
over runs only one suspect at a time until it is past the place. So of a program that kills its process, the first death
blames all partitions of its node, the second and third only the right one; and it takes no other job down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holons.node.job_on_node import JobOnNode
from holons.node.membership import Membership
from holons.node.messages import Stopped
from holons.node.partition import PartitionTasklet
from holons.node.settings import Settings

_SURELY_DEAD_RATIO = 3.0  # after this many failure timeouts of silence a node is dead, not only slow
_NONE = ("", -1)


class Trials:
    """Which suspect runs now on this node, and which jobs have killed too many nodes."""

    def __init__(self, membership: Membership, settings: Settings, stop: Callable[[Stopped], None]) -> None:
        self._membership = membership
        self._settings = settings
        self._stop = stop
        self.current: tuple[str, int] = _NONE
        """The suspect that runs now: job and partition."""
        self.unreachable: set[str] = set()
        """Jobs whose logs did not answer the last time: nothing of them is tried now."""

    def choose(self, tasklets: Iterable[tuple[JobOnNode, PartitionTasklet]]) -> bool:
        """Chooses the least suspect partition to run next; says whether that is another one than before."""
        suspects = [
            (tasklet.suspicion, here.name, tasklet.partition)
            for here, tasklet in tasklets
            if tasklet.suspicion and here.name not in self.unreachable
        ]
        before, self.current = self.current, min(suspects, default=(0, *_NONE))[1:]
        return bool(suspects) and self.current != before

    def waiting(self, tasklets: Iterable[tuple[JobOnNode, PartitionTasklet]]) -> set[tuple[str, int]]:
        """Returns the suspects that are not to be touched yet."""
        return {
            (here.name, tasklet.partition)
            for here, tasklet in tasklets
            if tasklet.suspicion and (here.name, tasklet.partition) != self.current
        }

    def touches(self, job: str, tasklet: PartitionTasklet) -> bool:
        """Returns whether this node is about to work on a partition: if it dies now, that may be why."""
        return (job, tasklet.partition) == self.current if tasklet.suspicion else not tasklet.quiet

    def poisoned(self, job: str, partition: int) -> bool:
        """Returns whether a partition has killed too many nodes at one place, and stops its job if that is certain.

        A node that is only slow must not stop a job: while one of the dead may still show up, nobody claims the partition,
        and that is all.
        """
        deaths_max = self._settings.poison_deaths
        deaths, offset = self._membership.suspicion(job, partition)
        if deaths < deaths_max:
            return False
        if self._membership.suspicion(job, partition, _SURELY_DEAD_RATIO)[0] >= deaths_max:
            reason = f"{deaths} nodes in a row died at offset {offset} of partition {partition}, or soon after"
            self._stop(Stopped(job, "Poison", reason))
        return True
