"""A node: one thread, one loop, any number of jobs and partitions, and no coordinator.

`tick()` gives everybody a bounded slice and never blocks. Nodes meet in logs only. Any partition may be run by any
number of nodes at any time (invariant: overlap is harmless), so every decision here is about speed, never about
correctness: a wrong one costs work, not rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from holons.errors import CheckpointLost, DescribedError, LogUnavailable, StoreUnavailable, UnpicklableProgram
from holons.node.jobs import Jobs
from holons.node.membership import Membership
from holons.node.messages import Claim, Control, Heartbeat, Running, Stopped, decode_control, decode_heartbeat, encode
from holons.node.ownership import Owner, Ownership, Slot, Trail, preference
from holons.node.ports import Ports
from holons.node.settings import Settings
from holons.node.tasklets import JobOnNode, PartitionTasklet
from holons.program import Cut, Job
from holons.streams import Cursor

_HEARTBEATS_KEPT = 16
_HOUSEKEEPING = 0.25  # of a heartbeat
_HOUSEKEEPING_AT_THE_END = 0.04
_AT_ONCE = float("-inf")
_SURELY = 3.0  # so many failure timeouts without a heartbeat: no longer only slow


class Node:
    """One incarnation of a node. `name` must never have been used before."""

    def __init__(self, name: str, ports: Ports, settings: Settings | None = None, *, pid: int = 0) -> None:
        self.name = name
        self._pid = pid
        self.ports = ports
        self.settings = settings or Settings()
        self.membership = Membership(name, self.settings)
        self.ownership = Ownership()
        self.jobs: dict[str, JobOnNode] = {}
        self.failures: dict[str, DescribedError] = {}
        self.leaving = False
        self._handed_over = False
        self._lost_since_s: dict[str, float] = {}
        self.known = Jobs()
        """What the control log says about jobs."""
        self.given: dict[str, Job] = {}
        self._cuts: dict[str, Sequence[Cut]] = {}
        self._trail = Trail()
        self._trimmed_at_s = float("-inf")
        self._untold: list[Stopped] = []
        self._heartbeats_cursor: Cursor = {}
        self._control_cursor: Cursor = {}
        self._began_s = ports.clock.now_s()
        self._sequence = 0
        self._heartbeat_at_s = self._kept_house_at_s = _AT_ONCE
        self._out_at_s = _AT_ONCE
        """When the last of what runs here was out."""
        self._vacant_since_s: dict[Slot, float] = {}
        self._claimed: dict[Slot, int] = {}
        self._held_since_s: dict[Slot, float] = {}
        self._listed: set[tuple[str, int]] = set()
        self._on_trial = ("", -1)
        self._forgotten: set[str] = set()
        self._troubled: set[str] = set()
        """Jobs whose logs did not answer the last time."""
        self._heartbeat_position = 0
        self._told_ends = (False, 0)

    def add_job(self, name: str, job: Job, cuts: Sequence[Cut] = ()) -> None:
        """Takes part in a job from now on; `cuts` say where it takes over from an older version."""
        self.given[name] = job
        self._cuts[name] = cuts
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
    def stopped(self) -> dict[str, Stopped]:
        """Jobs that were stopped, here or elsewhere, and why."""
        return self.known.stopped

    def leave(self) -> None:
        """Tells the others to take over; keep ticking until it has `left`."""
        self.leaving = True
        self._handed_over = False
        self._heartbeat_soon()

    def close(self) -> None:
        """Stores where everything is, so that whoever comes next begins there; and says that it did not die of any of it."""
        for here in self.jobs.values():
            for tasklet in here.tasklets.values():
                with suppress(LogUnavailable, StoreUnavailable):
                    tasklet.checkpoint(now=True)
                tasklet.suspicion, tasklet.quiet = 0, True
        with suppress(OSError):
            self._heartbeat_soon()
            self._heartbeat()

    @property
    def left(self) -> bool:
        """Whether a node that leaves may go: others run its partitions, and hold the records that it held."""
        alone = self.membership.live() == [self.name]
        runs_something = any(here.tasklets for here in self.jobs.values())
        return self.leaving and self._handed_over and (alone or not runs_something)

    @property
    def finished(self) -> bool:
        """Whether every job has ended and all of it that runs here is out."""
        over = {name for name in self.given if name in self.stopped or self.known.outdated(name)}
        return all(name in over or (name in self.jobs and self._finished(self.jobs[name])) for name in self.given)

    def _finished(self, here: JobOnNode) -> bool:
        """Whether each partition of a job is out: here, or as somebody has said, be it dead by now."""
        if not all(tasklet.finished for tasklet in here.tasklets.values()):
            return False
        told = {one.partition for _, one in self.membership.all_running() if one.job == here.name and one.finished}
        return told | set(here.tasklets) >= set(range(len(here.places)))

    # --- the loop --------------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """One slice for everybody; says whether anything happened."""
        happened = False
        now_s = self.ports.clock.now_s()
        if now_s - self._kept_house_at_s >= self._house_s(now_s):
            self._kept_house_at_s = now_s
            happened = self._keep_house()
        for name in list(self.jobs):
            self._troubled.add(name)
            with self._guarded(name):
                happened |= self._tick_job(self.jobs[name])
                self._troubled.discard(name)
        if not happened:
            self._tell_ends()
        return happened or self._kept_house_at_s == _AT_ONCE

    def _house_s(self, now_s: float) -> float:
        """How long it need not look after the house: soon again once all that runs here is out, and others' word is due."""
        waits = now_s - self._out_at_s < self.settings.failure_timeout_s and not self._told_ends[0]
        return (_HOUSEKEEPING_AT_THE_END if waits else _HOUSEKEEPING) * self.settings.heartbeat_s

    def _keep_house(self) -> bool:
        """Everything but the work itself: a few times in a heartbeat, since each look at a stream costs.

        One stream that does not answer keeps nobody from the others: least of all from sending heartbeats.
        """
        heard, deaf = False, True
        with suppress(OSError):
            heard, deaf = self._listen(), False
        begin = (self._open_jobs,) if deaf else (self._open_jobs, self._claim)
        tell = (self._try_next, self._tell_ends, self._heartbeat, self._tell_failures)
        for step in (*begin, *tell, self._tend, self._trim_streams):
            with suppress(OSError):
                step()
        return heard

    def _heartbeat_soon(self) -> None:
        """The others should know at once."""
        self._heartbeat_at_s = _AT_ONCE
        self._look_soon()

    def _look_soon(self) -> None:
        """There is something to be done, or to be read, at once."""
        self._kept_house_at_s = _AT_ONCE

    def _tell_ends(self) -> None:
        """That something is out is told at once: somebody may wait for it."""
        ends = self._ends()
        if ends != self._told_ends:
            if ends[1] == sum(len(here.tasklets) for here in self.jobs.values()):
                self._out_at_s = self.ports.clock.now_s()
            self._heartbeat_soon()

    def _ends(self) -> tuple[bool, int]:
        return self.finished, sum(one.finished for here in self.jobs.values() for one in here.tasklets.values())

    def _tend(self) -> None:
        live = [node for node in self.membership.live() if node != self.name or not self.leaving]
        self._handed_over = self.ports.store.tend(live) and self.leaving

    def _tick_job(self, here: JobOnNode) -> bool:
        happened = here.listen()
        waiting = self._start_and_stop(here)
        for partition, tasklet in list(here.tasklets.items()):
            if (here.name, partition) in self._listed:  # the others know where I am before I touch a row
                happened |= tasklet.tick()
                tasklet.checkpoint()
                if (here.name, partition) == self._on_trial and not tasklet.suspicion:
                    self._heartbeat_soon()  # the next one's turn
                else:
                    self._heartbeat()  # many partitions may take long
        here.snapshot()
        if here.trim_soon and not waiting:  # what is to start may begin further back than what runs
            here.trim_soon = False
            self._trim(here)
        if here.lost is not None:
            raise here.lost
        if here.name in self._lost_since_s and self._all_run(here):
            del self._lost_since_s[here.name]
        return happened

    def _all_run(self, here: JobOnNode) -> bool:
        """Whether somebody runs each partition of a job: then nothing is lost, though it may have looked so."""
        live = self.membership.live()
        told = {one.partition for node in live for one in self.membership.running(node) if one.job == here.name}
        return told | set(here.tasklets) >= set(range(len(here.places)))

    def _open_jobs(self) -> None:
        for name, job in self.given.items():
            over = name in self.stopped or name in self.failures or self.known.outdated(name)
            if name not in self.jobs and not over:
                with self._guarded(name):
                    self.jobs[name] = JobOnNode(name, job, self.ports, self.settings, self._cuts[name])

    @contextmanager
    def _guarded(self, name: str) -> Iterator[None]:
        """What cannot be reached is tried again. A job that cannot go on stops everywhere; no other job is touched."""
        try:
            yield
        except OSError:  # a log, the store or the disk does not answer
            return
        except CheckpointLost as error:
            watched_s = self.membership.watched_s
            if watched_s - self._lost_since_s.setdefault(name, watched_s) >= self.settings.loss_patience_s:
                self._fail(name, error)
        except DescribedError as error:
            self._fail(name, error)

    def _fail(self, name: str, error: DescribedError) -> None:
        self.failures[name] = error
        self.jobs.pop(name, None)
        self._untold.append(Stopped.by(name, error))
        with suppress(LogUnavailable):
            self._tell_failures()

    def _tell_failures(self) -> None:
        while self._untold:
            self.ports.control.append(encode(self._untold[0]))
            self._untold.pop(0)

    # --- hearing and telling ---------------------------------------------------------------------------------------

    def _listen(self) -> bool:
        limit = self.settings.messages_max
        heartbeats = self.ports.heartbeats.read(self._heartbeats_cursor, limit)
        for message in heartbeats:
            self.membership.heard(decode_heartbeat(message.data))
        self.membership.watch(self.ports.clock.now_s(), caught_up=len(heartbeats) < limit)
        starts = self.ports.control.starts()
        control = self.ports.control.read(self._control_cursor, limit)
        for message in control:  # from here on nothing may fail: the cursor has moved
            told = decode_control(message.data)
            claim = told if isinstance(told, Claim) else None
            self._trail.heard(message.writer, message.position, claim, starts.get(message.writer, 0))
            self._take_control(told)
        if self.settings.idle_s is not None:
            for here in self.jobs.values():
                here.idle = self._idle(here)
        return bool(control)

    def _idle(self, here: JobOnNode) -> set[int]:
        """The partitions that are idle: a live owner says so who has read as much of them as anyone.

        An owner that reads late may not know yet, one that was slow does not know any more, and the dead know nothing.
        """
        told = [running for node, running in self.membership.all_running() if self.membership.alive(node)]
        told += [self._told(here, tasklet) for tasklet in here.tasklets.values()]
        newest: dict[int, tuple[int, bool]] = {}
        for running in told:
            if running.job == here.name:
                known = newest.get(running.partition, (-1, False))
                newest[running.partition] = max(known, (running.offset, running.idle))
        return {partition for partition, (_, idle) in newest.items() if idle}

    def _take_control(self, message: Control) -> None:
        self.known.merge(message)
        if not isinstance(message, Claim):
            for name in list(self.jobs):
                if name in self.known.stopped or self.known.outdated(name):
                    del self.jobs[name]
            for name in self.known.over() - self._forgotten:
                self._forget(name)
            return
        self.membership.expect(message.node)
        slot = (message.job, message.partition, message.slot)
        if self.ownership.merge(message):
            self._vacant_since_s.pop(slot, None)
            self._held_since_s[slot] = self.ports.clock.now_s()

    def _forget(self, job: str) -> None:
        """A job is over: who holds what of it no longer matters."""
        self._forgotten.add(job)
        self.ownership.forget(job)
        for slots in (self._vacant_since_s, self._claimed, self._held_since_s):
            for slot in [slot for slot in slots if slot[0] == job]:
                del slots[slot]
        self._lost_since_s.pop(job, None)

    def _heartbeat(self) -> None:
        now_s = self.ports.clock.now_s()
        if now_s - self._heartbeat_at_s < self.settings.heartbeat_s:
            return
        self._sequence += 1
        running = [self._told(here, tasklet) for here in self.jobs.values() for tasklet in here.tasklets.values()]
        ends = self._ends()
        heartbeat = Heartbeat(
            self.name, self._sequence, tuple(running), self.leaving, len(self.given), ends[0], self._pid
        )
        self._heartbeat_position = self.ports.heartbeats.append(encode(heartbeat))
        self._told_ends = ends
        self.membership.sent(self._sequence)
        self._heartbeat_at_s = now_s
        waiting = {
            (here.name, tasklet.partition)
            for here in self.jobs.values()
            for tasklet in here.tasklets.values()
            if tasklet.suspicion and (here.name, tasklet.partition) != self._on_trial
        }
        self._listed = {(one.job, one.partition) for one in running} - waiting

    def _told(self, here: JobOnNode, tasklet: PartitionTasklet) -> Running:
        slot, epoch = self._my_slot(here.name, tasklet.partition) or (-1, -1)
        return Running(
            job=here.name,
            partition=tasklet.partition,
            slot=slot,
            epoch=epoch,
            offset=tasklet.offset,
            calls=tasklet.run.window.calls,
            idle=tasklet.idle,
            parked=tasklet.run.parked is not None,
            stored_to=tasklet.stored_to,
            emitted_to=tasklet.emitted_to,
            lag=tasklet.lag,
            watermark=tasklet.run.process.watermark,
            touched=(here.name, tasklet.partition) == self._on_trial if tasklet.suspicion else not tasklet.quiet,
            finished=tasklet.finished,
            held=tasklet.held,
        )

    def _my_slot(self, job: str, partition: int) -> tuple[int, int] | None:
        for slot in range(self.settings.replicas):
            owner = self.ownership.owner((job, partition, slot))
            if owner is not None and owner.node == self.name:
                return slot, owner.epoch
        return None

    # --- who runs what ---------------------------------------------------------------------------------------------

    def _claim(self) -> None:
        if self.leaving or self.ports.clock.now_s() - self._began_s < 2 * self.settings.heartbeat_s:
            return  # who has just come listens first
        live = self.membership.live()
        for here in self.jobs.values():
            for partition in range(len(here.places)):
                for slot in range(self.settings.replicas):
                    self._claim_if_vacant((here.name, partition, slot), live)
        self._even_out(live)

    def _claim_if_vacant(self, slot: Slot, live: list[str]) -> None:
        owner = self.ownership.owner(slot)
        if owner is not None and not self._vacated(slot, owner.node):
            self._vacant_since_s.pop(slot, None)
            return
        job, partition, _ = slot
        if self._my_slot(job, partition) is not None:
            return  # a slot of it is mine: the copies belong on distinct nodes
        now_s = self.ports.clock.now_s()
        since_s = self._vacant_since_s.setdefault(slot, now_s)
        if now_s - since_s < self._rank(slot, live) * self.settings.stagger_s:
            return
        if not self._poisoned(job, partition):
            self._write_claim(slot, 0 if owner is None else owner.epoch + 1)

    def _rank(self, slot: Slot, live: list[str]) -> int:
        """How many others should claim a slot before me: whoever has less than its share comes first, so all are even.

        A share of everything, and then one of each stream: a stream of few rows does not make up for one of many.
        """
        job, partition, number = slot
        free = [node for node in live if not self._holds_other(job, partition, number, node)]
        everything = {(here.name, place) for here in self.jobs.values() for place in range(len(here.places))}
        first = self._below_their_share(free, everything, live)
        if self.name in first:  # the slots of one partition begin with different nodes
            first = self._below_their_share(first, self._of_one_stream(job, partition), live) or first
        if self.name in first:
            return (preference(slot, first).index(self.name) - number) % len(first)
        return len(first) + 1 + preference(slot, free).index(self.name)

    def _of_one_stream(self, job: str, partition: int) -> set[tuple[str, int]]:
        """The partitions of a job that read the same stream as one of them."""
        places = self.jobs[job].places
        return {(job, other) for other, (stream, _) in enumerate(places) if stream == places[partition][0]}

    def _below_their_share(self, nodes: list[str], partitions: set[tuple[str, int]], live: list[str]) -> list[str]:
        share = -(-self.settings.replicas * len(partitions) // len(live))
        return [node for node in nodes if self._load(node, partitions) < share]

    def _load(self, node: str, partitions: set[tuple[str, int]]) -> int:
        """How many slots of some partitions a node holds; of mine also those whose claim was not read back yet."""
        held = sum(slot[:2] in partitions for job in self.jobs for slot in self.ownership.held_by(node, job))
        if node != self.name:
            return held
        claims = ((self.ownership.owner(slot), at) for slot, at in self._claimed.items() if slot[:2] in partitions)
        return held + sum(owner is None or Owner(epoch, self.name) > owner for owner, epoch in claims)

    def _vacated(self, slot: Slot, owner: str) -> bool:
        """Whether a slot is there to be claimed: its owner is dead, neglects it, or has another one of the partition."""
        job, partition, number = slot
        return (
            not self.membership.alive(owner)
            or self._neglected(slot, owner)
            or any(self._slot_owner(job, partition, lower) == owner for lower in range(number))
        )

    def _write_claim(self, slot: Slot, epoch: int) -> None:
        job, partition, number = slot
        if self._claimed.get(slot, -1) < epoch:
            self.ports.control.append(encode(Claim(job, partition, number, epoch, self.name)))
            self._claimed[slot] = epoch
            self._look_soon()

    def _poisoned(self, job: str, partition: int) -> bool:
        """Stops a job that takes one node after the other down at the same place.

        A node that is only slow must not stop a job: while one of the dead may still show up, nobody claims, and no more.
        """
        deaths, offset = self.membership.suspicion(job, partition)
        if deaths < self.settings.poison_deaths:
            return False
        if self.membership.suspicion(job, partition, _SURELY)[0] >= self.settings.poison_deaths:
            reason = f"{deaths} nodes in a row died at offset {offset} of partition {partition}, or soon after"
            self._untold = self._untold or [Stopped(job, "Poison", reason)]
        return True

    def _try_next(self) -> None:
        """Of the partitions that may have killed their owners, only one is run at a time, the least suspect first.

        So if I die as well, the others know of what; and a program that kills its process takes no other job with it.
        """
        suspects = [
            (tasklet.suspicion, here.name, tasklet.partition)
            for here in self.jobs.values()
            for tasklet in here.tasklets.values()
            if tasklet.suspicion and here.name not in self._troubled
        ]
        trial = min(suspects, default=(0, "", -1))[1:]
        if suspects and trial != self._on_trial:
            self._heartbeat_soon()
        self._on_trial = trial

    def _slot_owner(self, job: str, partition: int, slot: int) -> str | None:
        owner = self.ownership.owner((job, partition, slot))
        return owner.node if owner is not None else None

    def _holds_other(self, job: str, partition: int, slot: int, node: str) -> bool:
        return any(
            self._slot_owner(job, partition, other) == node for other in range(self.settings.replicas) if other != slot
        )

    def _neglected(self, slot: Slot, node: str) -> bool:
        """Whether an owner is alive, but has not listed the partition for too long."""
        job, partition, _ = slot
        if node == self.name:
            return False
        listed = any((told.job, told.partition) == (job, partition) for told in self.membership.running(node))
        held_s = self.ports.clock.now_s() - self._held_since_s.get(slot, self.ports.clock.now_s())
        return not listed and held_s > 2 * self.settings.failure_timeout_s

    def _even_out(self, live: list[str]) -> None:
        """Takes a partition from the busiest node: if it has two more than I, or is far behind while I am not.

        Never one that waits, for a window or for slower partitions: it would wait here as well.
        """
        told = {node: self.membership.running(node) for node in live if node != self.name}
        if not told:
            return
        lags = {node: sum(one.lag for one in told[node] if not (one.held or one.parked)) for node in told}
        counts = {node: sum(len(self.ownership.held_by(node, job)) for job in self.jobs) for node in live}
        mine = counts[self.name]
        fullest = max(told, key=lambda node: (counts[node], node))
        slowest = max(told, key=lambda node: (lags[node], node))
        if counts[fullest] - mine >= 2:
            self._take_one_from(fullest, told[fullest])
        elif mine < counts[slowest] >= 2 and lags[slowest] // self.settings.lag_batches > self.settings.rows_max:
            my_lag = sum(t.lag for here in self.jobs.values() for t in here.tasklets.values() if not t.held)
            if my_lag <= self.settings.rows_max:
                self._take_one_from(slowest, told[slowest])

    def _take_one_from(self, victim: str, told: Sequence[Running]) -> None:
        """The one with the most rows to go, of a stream of which the other has more than I."""
        now_s = self.ports.clock.now_s()
        lags = {(one.job, one.partition): one.lag for one in told if not (one.held or one.parked)}
        slots = sorted(slot for job in self.jobs for slot in self.ownership.held_by(victim, job) if slot[:2] in lags)
        more = {slot: self._has_more(victim, self._of_one_stream(*slot[:2])) for slot in slots}
        for slot in sorted(slots, key=lambda slot: (-more[slot], -lags[slot[:2]])):
            job, partition, number = slot
            resided_s = now_s - self._held_since_s.get(slot, now_s)
            owner = self.ownership.owner(slot)
            movable = resided_s > self.settings.residence_s and not self._holds_other(job, partition, number, self.name)
            if movable and owner is not None:
                self._write_claim(slot, owner.epoch + 1)
                return

    def _has_more(self, node: str, partitions: set[tuple[str, int]]) -> int:
        """By how many slots of some partitions another node has more than I."""
        return self._load(node, partitions) - self._load(self.name, partitions)

    def _start_and_stop(self, here: JobOnNode) -> bool:
        """Runs what is mine; lets go of what is not, once the new owner has caught up (make before break).

        Says whether something is to start as soon as the store answers.
        """
        mine = (
            {partition for _, partition, _ in self.ownership.held_by(self.name, here.name)}
            if not self.leaving
            else set()
        )
        here.lost = None
        for partition in sorted(mine - set(here.tasklets)):
            try:
                tasklet = here.start(partition)
                tasklet.suspicion, tasklet.suspect_to = self.membership.suspicion(here.name, partition)
                self._heartbeat_soon()
            except (LogUnavailable, StoreUnavailable):
                continue
            except CheckpointLost as error:
                here.lost = error
        for partition in sorted(set(here.tasklets) - mine):
            tasklet = here.tasklets[partition]
            if tasklet.handed_over_at is None:
                tasklet.handed_over_at = tasklet.offset, tasklet.run.window.calls
            if self._taken_over(here.name, partition, *tasklet.handed_over_at):
                here.stop(partition)
        for partition in mine & set(here.tasklets):
            here.tasklets[partition].handed_over_at = None
        return not mine <= set(here.tasklets)

    def _taken_over(self, job: str, partition: int, offset: int, calls: int) -> bool:
        """Whether an owner has come as far as we were when it became its own."""
        for slot in range(self.settings.replicas):
            node = self._slot_owner(job, partition, slot)
            if node is None or not self.membership.alive(node):
                continue
            for told in self.membership.running(node):
                same = (told.job, told.partition) == (job, partition)
                if same and told.offset >= offset and told.calls >= calls:
                    return True
        return False

    # --- letting go of what nobody needs ---------------------------------------------------------------------------

    def _trim_streams(self) -> None:
        """Drops old heartbeats, those of the long dead included, and claims that were outbid."""
        now_s = self.ports.clock.now_s()
        if now_s - self._trimmed_at_s < 10 * self.settings.failure_timeout_s:
            return
        self._trimmed_at_s = now_s
        heartbeats = {self.ports.heartbeats.writer: max(0, self._heartbeat_position - _HEARTBEATS_KEPT)}
        heartbeats |= {node: self._heartbeats_cursor.get(node, 0) for node in self.membership.forget()}
        self.ports.heartbeats.trim(heartbeats)
        needless = self._trail.needless(self.ownership)
        self.ports.control.trim(
            {writer: at for writer, at in needless.items() if at > self.ports.control.start(writer)}
        )

    def _trim(self, here: JobOnNode) -> None:
        """Trims the replica below what all durable records have passed, and everything that runs here as well.

        A run that lags behind the records of another owner still needs what those no longer do.
        """
        floors: dict[int, tuple[int, tuple[int, ...]]] = {}
        told = [running for _, running in self.membership.all_running() if running.job == here.name]
        told += [self._told(here, tasklet) for tasklet in here.tasklets.values()]
        for running in told:
            best = floors.get(running.partition)
            if best is None or running.emitted_to > best[1]:
                floors[running.partition] = (running.stored_to, running.emitted_to)
        if len(floors) == len(here.places):
            emitted = [min(stage) for stage in zip(*(emitted for _, emitted in floors.values()), strict=True)]
            stored_to = min(stored for stored, _ in floors.values())
            for tasklet in here.tasklets.values():
                stored_to = min(stored_to, tasklet.run.process.state.sealed_to)
                emitted = [min(pair) for pair in zip(emitted, tasklet.run.window.emitted_to, strict=True)]
            layout = here.job.layout
            here.replica.trim([layout.reach(stage, stored_to) for stage in range(layout.stages)], emitted)
