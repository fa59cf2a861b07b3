"""One job on one node: its shared state, and a tasklet for each partition that runs here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holons.errors import CheckpointLost, RowsTrimmed
from holons.node.idle import WhoIsIdle, who_is_idle
from holons.node.messages import Running
from holons.node.missing import MissingSeals
from holons.node.partition import PartitionTasklet
from holons.node.ports import Ports, partitions_of
from holons.node.previews import PreviewExchange
from holons.node.recovery import Forget
from holons.node.settings import Settings
from holons.node.skew import Slowest
from holons.node.state_keeper import StateKeeper
from holons.program import Cut, Job, SharedState
from holons.streams import Cursor, SharedLog
from holons.windows import BEGINNING, Window


class JobOnNode:
    """What a node knows of a job, and what it runs of it."""

    def __init__(self, name: str, job: Job, ports: Ports, settings: Settings, cuts: Sequence[Cut] = ()) -> None:
        self.name = name
        self.job = job
        self.cuts = cuts
        self.ports = ports
        self.settings = settings
        self.places = partitions_of(job, ports.input)
        self._keeper = StateKeeper(name, job, len(self.places), ports, settings)
        self.tasklets: dict[int, PartitionTasklet] = {}
        self.finished_elsewhere: set[int] = set()
        """The partitions that others have reported as finished, and of which the logs have everything."""
        self.idle = WhoIsIdle()
        self.live = False
        """Whether somebody has read live rows."""
        self.previews = PreviewExchange(self)
        self._missing = MissingSeals()
        self.trim_soon = False
        self._slowest: Slowest | None = None
        self.lost: CheckpointLost | None = None
        """Why a partition that belongs here cannot start."""

    @property
    def state(self) -> SharedState:
        """What all partitions have sealed, as far as this node knows."""
        return self._keeper.state

    @property
    def state_lost(self) -> CheckpointLost | None:
        """Why nobody can run anything of this job any more, if so."""
        return self._keeper.lost

    @property
    def slowest(self) -> Slowest:
        """How far the slowest partitions are in event time, as far as this node knows."""
        if self._slowest is None:
            self._slowest = Slowest.of(self.state.reached)
        return self._slowest

    @property
    def sync(self) -> SharedLog:
        """The sync stream of the job."""
        return self._keeper.sync

    @property
    def cursor(self) -> Cursor:
        """How far this node has read the sync stream."""
        return self._keeper.cursor

    @property
    def partitions(self) -> set[int]:
        """All partitions of the job."""
        return set(range(len(self.places)))

    def could_send(self, running: Running) -> bool:
        """Whether a report is of a run of this job: what others say is not believed if no run could be like that."""
        partition, clocks = running.partition, len(self.state.progress)
        return running.job == self.name and 0 <= partition < len(self.places) and len(running.emitted_to) == clocks

    def listen(self) -> bool:
        """Reads what others have sealed; says whether there was anything."""
        self._slowest = None
        received = self._keeper.receive()
        if received is None:
            self.rejoin()
            return True
        self.previews.exchange()
        self._missing.look(self)
        return received > 0

    def rejoin(self) -> None:
        """Starts from a stored state, since the stream no longer has what this node has not read.

        That state may lack what partitions here still need, so they start from their newest records, which do not.
        """
        self._keeper.restore()
        partitions = list(self.tasklets)
        self.tasklets.clear()  # if a log or the store does not answer now, none continues with what it had
        for partition in partitions:
            self.start(partition)

    def look_who_is_idle(self, reports: Callable[[], Sequence[Running]]) -> None:
        """Notes what live owners report, if a partition here is idle, or might be once others have live rows."""
        tasklets = self.tasklets.values()
        if any(tasklet.idle for tasklet in tasklets):
            self.idle = who_is_idle(newest := reports())
        elif not self.live and any(not tasklet.run.progress.appended for tasklet in tasklets):
            newest = reports()
        else:
            self.idle = WhoIsIdle()  # what was so once is not so for ever
            return
        self.live |= any(running.event_time > BEGINNING for running in newest)

    def store_state(self) -> None:
        """Stores the shared state if it is time to."""
        self._keeper.store_if_due()

    def start(self, partition: int, forget: Forget = "nothing") -> PartitionTasklet:
        """Begins to run a partition, from its newest checkpoint, as far as that is not to be forgotten."""
        tasklet = self.tasklets[partition] = PartitionTasklet(self, partition, forget)
        return tasklet

    def tick(self, tasklet: PartitionTasklet) -> bool:
        """Lets a partition do a slice of work. One that comes too late for its rows begins again from its newest records."""
        try:
            return tasklet.tick()
        except RowsTrimmed:
            self.stop(tasklet.partition)
            return True

    def stop(self, partition: int) -> None:
        """No longer runs a partition; somebody else does."""
        self.tasklets.pop(partition, None)

    def peek(self, handle: str, window: Window) -> Any:  # noqa: ANN401 - whatever the aggregate's value is
        """UNSAFE, for people to look at: what this node knows of a window of a shared handle now; None if nothing."""
        return self.job.peek(self.state, handle, window)
