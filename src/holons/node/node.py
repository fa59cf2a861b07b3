"""A node: one thread, one loop, any number of jobs and partitions, and no coordinator.

`tick()` gives everybody a bounded slice and never blocks. Nodes meet in logs only. Any partition may be run by any
number of nodes at any time (invariant: overlap is harmless), so every decision here is about speed, never about
correctness: a wrong one costs work, not rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

from holons.errors import (
    CheckpointLost,
    DescribedError,
    LogUnavailable,
    StoreUnavailable,
    UnpicklableProgram,
    WriterForgotten,
)
from holons.node.claiming import Claims
from holons.node.control import ControlReader
from holons.node.failures import Failures
from holons.node.finishing import all_finished, needs_no_state, verify_reports
from holons.node.handover import runs_everywhere, stop_taken_over
from holons.node.heartbeats import HeartbeatStream
from holons.node.job_on_node import JobOnNode
from holons.node.jobs import Decisions
from holons.node.membership import Membership
from holons.node.messages import Heartbeat, Running, Stopped
from holons.node.ownership import Ownership
from holons.node.partition import PartitionTasklet
from holons.node.ports import Ports
from holons.node.settings import MESSAGES_MAX, Settings
from holons.node.trials import Trials
from holons.node.trimming import StreamTrimmer, trim_state
from holons.program import Cut, Job

_HOUSEKEEPING_RATIO = 0.25  # the streams are looked at so many heartbeats apart,
_HOUSEKEEPING_RATIO_AT_THE_END = 0.04  # and so many while somebody may wait for the end
_AT_ONCE = float("-inf")


class Assignment(NamedTuple):
    """A job that a node takes part in, and where it takes over from an older version."""

    job: Job
    cuts: Sequence[Cut]


class Ends(NamedTuple):
    """What a node has announced as finished."""

    everything: bool
    partitions: int


class Node:
    """One incarnation of a node. `name` must never have been used before."""

    def __init__(self, name: str, ports: Ports, settings: Settings | None = None, *, pid: int = 0) -> None:
        self.name = name
        self.ports = ports
        self.settings = settings = settings or Settings()
        self.membership = Membership(name, settings)
        self.ownership = Ownership()
        self.jobs: dict[str, JobOnNode] = {}
        self.leaving = False
        self._handed_over = False
        self._assigned: dict[str, Assignment] = {}
        self._decisions = Decisions(ports.decisions)
        self._jobs_ended = 0
        self._failures = Failures(self._decisions)
        self._control = ControlReader(ports.control, MESSAGES_MAX)
        self._heartbeats = HeartbeatStream(ports, settings, self.membership, pid)
        self._claims = Claims(ports, settings, self.membership, self.ownership)
        self._trials = Trials(self.membership, settings, self._failures.stop)
        self._trimmer = StreamTrimmer(ports, settings)
        self._announced = Ends(False, 0)
        self._housekept_at_s = _AT_ONCE
        self._finished_at_s = _AT_ONCE
        """When the last of what runs here was finished."""

    def add_job(self, name: str, job: Job, cuts: Sequence[Cut] = ()) -> None:
        """Takes part in a job from now on; `cuts` say where it takes over from an older version."""
        self._assigned[name] = Assignment(job, cuts)
        self._look_soon()

    def refuse(self, name: str, error: Exception) -> None:
        """A job's code cannot be loaded here, so it can run nowhere."""
        self._fail(
            name,
            UnpicklableProgram(
                f"{name} cannot be loaded by a node: {type(error).__name__}: {error}",
                hint="are all modules that it imports installed where nodes run?",
            ),
        )

    @property
    def failures(self) -> dict[str, DescribedError]:
        """Jobs that have failed on this node, and why."""
        return self._failures.errors

    @property
    def stopped(self) -> dict[str, Stopped]:
        """Jobs that were stopped, here or elsewhere, and why."""
        return self._decisions.jobs.stopped

    def leave(self) -> None:
        """Asks the others to take over; keep ticking until it has `left`."""
        self.leaving = True
        self._handed_over = False
        self._announce_soon()

    def close(self) -> None:
        """Stores where everything is, so that whoever comes next begins there; and says that it did not die of any of it."""
        for _, tasklet in self._tasklets():
            with suppress(LogUnavailable, StoreUnavailable):
                tasklet.checkpoint(now=True)
            tasklet.suspicion, tasklet.quiet = 0, True
        with suppress(OSError):
            self._announce_soon()
            self._announce()

    @property
    def left(self) -> bool:
        """Whether a node that leaves may go: others run its partitions, and hold the records that it held."""
        alone = self.membership.live() == [self.name]
        runs_something = any(here.tasklets for here in self.jobs.values())
        return self.leaving and self._handed_over and (alone or not runs_something)

    @property
    def finished(self) -> bool:
        """Whether every job has ended, and everything of it is written."""
        return all(
            name in self.stopped or (name in self.jobs and all_finished(self.jobs[name])) for name in self._assigned
        )

    def _tasklets(self) -> Iterator[tuple[JobOnNode, PartitionTasklet]]:
        """All partitions that run here."""
        return ((here, tasklet) for here in self.jobs.values() for tasklet in here.tasklets.values())

    # --- the loop --------------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """One slice for everybody; says whether anything happened."""
        happened = False
        now_s = self.ports.clock.now_s()
        if now_s - self._housekept_at_s >= self._housekeeping_s(now_s):
            self._housekept_at_s = now_s
            happened = self._keep_house()
        for name in list(self.jobs):
            self._trials.unreachable.add(name)
            with self._guarded(name):
                happened |= self._tick_job(self.jobs[name])
                self._trials.unreachable.discard(name)
        if not happened:
            self._announce_ends()
        return happened or self._housekept_at_s == _AT_ONCE

    def _housekeeping_s(self, now_s: float) -> float:
        """How long housekeeping can wait: not long once all that runs here is finished, and others may be about to."""
        expecting = now_s - self._finished_at_s < self.settings.failure_timeout_s and not self._announced.everything
        return (_HOUSEKEEPING_RATIO_AT_THE_END if expecting else _HOUSEKEEPING_RATIO) * self.settings.heartbeat_s

    def _keep_house(self) -> bool:
        """Everything but the work itself: a few times in a heartbeat, since each look at a stream costs.

        A stream that does not answer delays none of the other steps: least of all the heartbeats.
        """
        heard, reachable = False, False
        with suppress(OSError):
            heard, reachable = self._listen(), True
        steps = [self._open_jobs, self._claim] if reachable else [self._open_jobs]
        steps += [self._choose_trial, self._verify_ends, self._announce_ends, self._announce, self._failures.report]
        for step in (*steps, self._tend_store, self._trim_streams):
            with suppress(OSError):
                step()
        return heard

    def _look_soon(self) -> None:
        """There is something to be done, or to be read, at once."""
        self._housekept_at_s = _AT_ONCE

    def _tend_store(self) -> None:
        live = [node for node in self.membership.live() if node != self.name or not self.leaving]
        self._handed_over = self.ports.store.tend(live) and self.leaving

    def _open_jobs(self) -> None:
        for name, (job, cuts) in self._assigned.items():
            known = name in self.jobs and self.jobs[name].state_lost is None
            if not known and name not in self.stopped and name not in self.failures:
                with self._guarded(name):
                    self.jobs[name] = JobOnNode(name, job, self.ports, self.settings, cuts)

    def _tick_job(self, here: JobOnNode) -> bool:
        if needs_no_state(here):
            return False
        happened = here.listen()
        waiting = self._start_and_stop(here)
        for partition, tasklet in list(here.tasklets.items()):
            if (here.name, partition) in self._heartbeats.listed:  # the others know where I am before I touch a row
                happened |= here.tick(tasklet)
                tasklet.checkpoint()
                if (here.name, partition) == self._trials.current and not tasklet.suspicion:
                    self._announce_soon()  # the next suspect's turn
                else:
                    self._announce()  # many partitions may take long
        here.store_state()
        if here.trim_soon and not waiting:  # what is to start may begin further back than what runs
            here.trim_soon = False
            trim_state(here, self._reports(here))
        if here.lost is not None:
            raise here.lost
        if here.name in self._failures.missing and runs_everywhere(here, self.membership):
            self._failures.missing.pop(here.name)
        return happened

    @contextmanager
    def _guarded(self, name: str) -> Iterator[None]:
        """What cannot be reached is tried again. A job that cannot continue stops everywhere; no other job is touched."""
        try:
            yield
        except OSError:  # a log, the store or the disk does not answer
            return
        except WriterForgotten:  # no job can help it: the node ends
            raise
        except CheckpointLost as error:
            if self._failures.missing_s(name, self.membership.watched_s) >= self.settings.loss_patience_s:
                self._fail(name, error)
        except DescribedError as error:
            self._fail(name, error)

    def _fail(self, name: str, error: DescribedError) -> None:
        self.jobs.pop(name, None)
        self._failures.add(name, error)
        with suppress(LogUnavailable):
            self._failures.report()

    # --- listening -------------------------------------------------------------------------------------------------

    def _listen(self) -> bool:
        """Reads heartbeats, decisions and claims; says whether anything was decided or claimed."""
        self._heartbeats.read()
        heard = self._decisions.read()
        self._end_jobs()
        for claim in self._control.read():
            heard = True
            self._claims.merge(claim)
        if self.settings.idle_s is not None:
            for here in self.jobs.values():
                here.look_who_is_idle(partial(self._reports, here, of_the_dead=False))
        return heard

    def _end_jobs(self) -> None:
        """Drops what was kept of jobs that have stopped since."""
        for name in [*self.stopped][self._jobs_ended :]:
            self.jobs.pop(name, None)
            self._claims.forget(name)
            self._failures.missing.pop(name, None)
        self._jobs_ended = len(self.stopped)

    def _reports(self, here: JobOnNode, *, of_the_dead: bool = True) -> list[Running]:
        """What all nodes have reported last about a job, and this one would report now."""
        everybody = self.membership.all_running()
        reports = [running for node, running in everybody if of_the_dead or self.membership.alive(node)]
        own = [self._report(here, tasklet) for tasklet in here.tasklets.values()]
        return [running for running in reports if here.could_send(running)] + own

    # --- announcing ------------------------------------------------------------------------------------------------

    def _verify_ends(self) -> None:
        """Compares with the logs what others have reported as finished."""
        for name, here in list(self.jobs.items()):
            with self._guarded(name):
                verify_reports(here, self.membership)

    def _announce_soon(self) -> None:
        """The others should know at once."""
        self._heartbeats.hurry()
        self._look_soon()

    def _announce_ends(self) -> None:
        """Announces at once that something is finished: somebody may wait for it."""
        ends = self._ends()
        if ends != self._announced:
            if ends.partitions == sum(len(here.tasklets) for here in self.jobs.values()):
                self._finished_at_s = self.ports.clock.now_s()
            self._announce_soon()

    def _ends(self) -> Ends:
        return Ends(self.finished, sum(tasklet.finished for _, tasklet in self._tasklets()))

    def _announce(self) -> None:
        """Sends a heartbeat if one is due. From then on this node may touch what it lists, but for suspects."""
        now_s = self.ports.clock.now_s()
        if not self._heartbeats.due(now_s):
            return
        sequence = self._heartbeats.next_sequence()
        running = tuple(self._report(here, tasklet) for here, tasklet in self._tasklets())
        ends, jobs, trouble = self._ends(), len(self._assigned), self.ports.trouble()
        pid, done = self._heartbeats.pid, ends.everything
        heartbeat = Heartbeat(self.name, sequence, running, self.leaving, jobs, done, pid, trouble)
        self._heartbeats.send(heartbeat, now_s)
        self._announced = ends
        self._heartbeats.listed = {(run.job, run.partition) for run in running} - self._trials.waiting(self._tasklets())

    def _report(self, here: JobOnNode, tasklet: PartitionTasklet) -> Running:
        slot, epoch = self.ownership.slot_held(self.name, here.name, tasklet.partition, self.settings.replicas)
        return tasklet.report(slot, epoch, touched=self._trials.touches(here.name, tasklet))

    def _choose_trial(self) -> None:
        if self._trials.choose(self._tasklets()):
            self._announce_soon()

    # --- who runs what ---------------------------------------------------------------------------------------------

    def _claim(self) -> None:
        if self.leaving:
            return
        written = self._claims.written
        try:
            jobs = {name: here for name, here in self.jobs.items() if here.state_lost is None}
            self._claims.claim(jobs, self._trials)
        finally:
            if self._claims.written > written:
                self._look_soon()

    def _start_and_stop(self, here: JobOnNode) -> bool:
        """Runs what this node owns; stops what it does not own once the new owner has caught up (make before break).

        Says whether something is still to start: since the store does not answer, or since what starts now has taken so long
        that a heartbeat is due. One partition starts at any rate.
        """
        slots = set() if self.leaving else self.ownership.held_by(self.name, here.name)
        mine = {partition for _, partition, _ in slots}
        here.lost = None
        until_s = self.ports.clock.now_s() + self.settings.heartbeat_s
        for place, partition in enumerate(sorted(mine - set(here.tasklets))):
            if place and self.ports.clock.now_s() > until_s:
                break
            try:
                tasklet = here.start(partition)
                tasklet.suspicion, tasklet.suspect_to = self.membership.suspicion(here.name, partition)
                self._announce_soon()
            except (LogUnavailable, StoreUnavailable):
                continue
            except CheckpointLost as error:
                here.lost = error
        stop_taken_over(here, mine, self.membership, self.ownership)
        return not mine <= set(here.tasklets)

    def _trim_streams(self) -> None:
        if self._trimmer.due():
            self._trimmer.trim_heartbeats(self._heartbeats.position, self._heartbeats.long_dead())
            self._trimmer.trim_control(self._control.trail, self.ownership)
            self._trimmer.trim_inputs_and_outputs(self._decisions)
