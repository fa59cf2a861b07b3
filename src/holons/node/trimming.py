"""What may be trimmed: heartbeats of the past, claims that were outbid, and windows that nobody will read again."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from holons.errors import LogDamaged
from holons.node.job_on_node import JobOnNode
from holons.node.jobs import Decisions
from holons.node.messages import Running
from holons.node.ownership import Ownership, Trail
from holons.node.ports import Ports
from holons.node.recovery import Reached
from holons.node.retention import retain
from holons.node.settings import Settings
from holons.streams import Cursor

_HEARTBEATS_KEPT = 16
_EVERY_TIMEOUTS = 10  # streams are trimmed once in this many failure timeouts


class StreamTrimmer:
    """Trims the heartbeat stream and the control log once in a while."""

    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._interval_s = _EVERY_TIMEOUTS * settings.failure_timeout_s
        self._trimmed_at_s = float("-inf")

    def due(self) -> bool:
        """Returns whether it is time to trim; the next time is an interval later."""
        now_s = self._ports.clock.now_s()
        if now_s - self._trimmed_at_s < self._interval_s:
            return False
        self._trimmed_at_s = now_s
        return True

    def trim_heartbeats(self, newest: int, long_dead: Cursor) -> None:
        """Drops old heartbeats of this node, and those that were read of nodes that died long ago."""
        heartbeats = self._ports.heartbeats
        heartbeats.trim({heartbeats.writer: max(0, newest - _HEARTBEATS_KEPT)} | long_dead)

    def trim_control(self, trail: Trail, ownership: Ownership) -> None:
        """Drops claims that were outbid."""
        control = self._ports.control
        needless = trail.needless(ownership)
        control.trim({writer: at for writer, at in needless.items() if at > control.start(writer)})

    def trim_inputs_and_outputs(self, decisions: Decisions) -> None:
        """Drops what nobody needs of inputs and outputs that are not kept for ever."""
        with suppress(LogDamaged):  # whoever reads it says so
            retain(self._ports, decisions)


def trim_state(here: JobOnNode, reports: Iterable[Running]) -> None:
    """Trims a job's shared state below what all durable records have passed, and everything that runs here as well.

    A run that lags behind the records of another owner still needs what those no longer do.
    """
    durable = durable_floors(reports, len(here.places))
    if durable is None:
        return
    running = (tasklet.run.progress for tasklet in here.tasklets.values())
    least = Reached.least([durable, *(Reached(run.sealed_to, run.counted_to, run.emitted_to) for run in running)])
    here.state.trim(here.job.sealed_by_clock(least.sealed_to, least.counted_to), least.emitted_to)


def durable_floors(reports: Iterable[Running], partitions: int) -> Reached | None:
    """Returns what the durable records of all partitions have passed; None while some partition has reported nothing.

    Of several owners of a partition the one counts that has emitted most: records never go back.
    """
    newest: dict[int, Reached] = {}
    for running in reports:
        best = newest.get(running.partition)
        if best is None or running.emitted_to > best.emitted_to:
            newest[running.partition] = Reached(running.stored_to, running.counted_to, running.emitted_to)
    return None if len(newest) < partitions else Reached.least(list(newest.values()))
