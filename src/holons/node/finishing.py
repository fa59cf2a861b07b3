"""When a job has finished: a fact about logs, not about heartbeats.

A run of a partition on this node has resumed from records that the logs bear out, and has written everything since. What
another node has reported as finished is believed once the logs have all that it reports, and then it does not matter
whether that node still lives. So old heartbeats say nothing about logs that were restored from an older copy.
"""

from __future__ import annotations

from holons.node.job_on_node import JobOnNode
from holons.node.membership import Membership
from holons.node.messages import Running


def all_finished(here: JobOnNode) -> bool:
    """Returns whether each partition of a job is finished: here, or on another node, as the logs bear out."""
    runs_finished = all(tasklet.finished for tasklet in here.tasklets.values())
    return runs_finished and here.finished_elsewhere | set(here.tasklets) >= here.partitions


def needs_no_state(here: JobOnNode) -> bool:
    """Returns whether a job has lost its state, and nothing is left to be run; raises that it is lost if something is."""
    if here.state_lost is not None and not all_finished(here):
        raise here.state_lost
    return here.state_lost is not None


def verify_reports(here: JobOnNode, membership: Membership) -> None:
    """Compares reports of others with the logs, once everything here is finished: each partition once, when it matters."""
    if not all(tasklet.finished for tasklet in here.tasklets.values()):
        return
    unknown = here.partitions - here.finished_elsewhere - set(here.tasklets)
    for _, running in membership.all_running() if unknown else ():
        if running.job == here.name and running.finished and running.partition in unknown and borne_out(here, running):
            here.finished_elsewhere.add(running.partition)


def borne_out(here: JobOnNode, running: Running) -> bool:
    """Returns whether the logs have all rows that a run has read and emitted."""
    index, place = here.places[running.partition]
    if here.ports.input(here.job.inputs[index].stream).end(place) < running.offset:
        return False
    outputs = {channel: here.ports.output(here.name, channel, len(here.places)) for channel in running.ordinals}
    return all(outputs[channel].end(running.partition) >= ordinal for channel, ordinal in running.ordinals.items())
