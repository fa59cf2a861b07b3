"""When a node may stop running a partition that came to belong to another node (make before break)."""

from __future__ import annotations

from collections.abc import Set

from holons.node.job_on_node import JobOnNode
from holons.node.membership import Membership
from holons.node.ownership import Ownership


def stop_taken_over(here: JobOnNode, mine: Set[int], membership: Membership, ownership: Ownership) -> None:
    """Stops the partitions that are not `mine`, as soon as an owner has come as far as this node was when it lost them."""
    for partition in sorted(set(here.tasklets) - mine):
        tasklet = here.tasklets[partition]
        if tasklet.handed_over_at is None:
            tasklet.handed_over_at = tasklet.offset, tasklet.run.progress.calls
        if _taken_over(here, partition, *tasklet.handed_over_at, membership, ownership):
            here.stop(partition)
    for partition in mine & set(here.tasklets):
        here.tasklets[partition].handed_over_at = None


def _taken_over(
    here: JobOnNode, partition: int, offset: int, calls: int, membership: Membership, ownership: Ownership
) -> bool:
    """Whether a live owner has read and emitted that much."""
    owners = (ownership.owner((here.name, partition, slot)) for slot in range(here.settings.replicas))
    return any(
        (running.job, running.partition) == (here.name, partition)
        and running.offset >= offset
        and running.calls >= calls
        for owner in owners
        if owner is not None and membership.alive(owner.node)
        for running in membership.running(owner.node)
    )


def runs_everywhere(here: JobOnNode, membership: Membership) -> bool:
    """Whether some live node runs each partition of a job: then nothing is lost, though it may have looked so."""
    live = membership.live()
    running = {run.partition for node in live for run in membership.running(node) if run.job == here.name}
    return running | set(here.tasklets) >= here.partitions
