"""Situations that must be met sometimes: a simulator that never meets them proves nothing about them.

They are seen from outside, by comparing what nodes, logs and stores are from step to step, so nodes know nothing of it; the
gates, actors and faults of the simulator count what only they can see (`SimulatedSite.sightings`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from holons import codec
from holons.engines.simulator.swarm.watch import Watch
from holons.node import Node, read_jobs
from holons.node.job_on_node import JobOnNode
from holons.node.messages import Claim, decode_claim
from holons.node.partition import PartitionTasklet
from holons.streams import Cursor, MemoryJournal

if TYPE_CHECKING:
    from holons.engines.simulator.swarm.run import SwarmRun

_JOINS_S = 1.0

MET_WITHIN: Final[Mapping[str, int]] = {
    # who runs what
    "taken over from a live node": 100,
    "taken over while parked": 500,
    "handed over": 100,
    "two live nodes ran one partition": 100,
    "a claim lost to another one of its epoch": 200,
    "a claim outbid by one of a higher epoch": 100,
    "an end on another node believed": 100,
    "a suspect on trial": 200,
    # state
    "a delta waiting for one before it": 100,
    "a gap served by a stored replica": 500,
    "a replica resumed from a stored one": 200,
    "a partition resumed from records": 100,
    "trimmed while a node joined": 500,
    "seals trimmed": 200,
    "a torn or damaged record refused": 300,
    "an older record took the place of a damaged one": 500,
    # waiting
    "parked": 100,
    "held by slower partitions": 100,
    "an idle partition": 100,
    "an entry of an input's journal lost to another reader": 300,
    "a mark of an idle partition": 200,
    # rows
    "late rows": 100,
    "dead rows": 100,
    "rows from the future": 300,
    "rows repeated, at least once": 500,
    "a preview sent": 100,
    "an input trimmed": 200,
    "an output trimmed": 200,
    "a named consumer moved on": 200,
    # actors
    "an actor died": 100,
    "a producer fenced": 100,
    "a version took over": 100,
    "a version took over while a node was down": 300,
    "a decision lost to another one": 200,
    "a driver told that the job is running": 300,
    "a job cancelled": 100,
    "a wrong wish refused": 200,
    "a running job's name refused to others": 500,
    "an upgrade refused, since its input was trimmed": 500,
    "the journal of jobs summarised": 200,
    "a node restarted in good order": 200,
    # faults
    "something lost that was not synced": 500,
    "a write refused by a full disk": 200,
    "a damaged message refused": 1000,
    "a damaged row refused": 1500,
    "a job stopped with Poison": 1000,
    "a job stopped with CheckpointLost": 1500,
    "a job stopped with ProgramFailed": 1000,
    "a job stopped with UnpicklableProgram": 500,
    "a node down for good": 200,
    "a node left": 200,
}
"""By situation, in how many seeds it is met at least once, with much to spare; a run of so many that never does fails."""


def never_met(sightings: Mapping[str, int], seeds: int) -> list[str]:
    """Returns the situations that so many seeds should have met, and have not."""
    return [name for name, within in MET_WITHIN.items() if seeds >= within and not sightings.get(name)]


class NodesSeen(Watch):
    """What happens to the partitions and replicas of nodes."""

    name = "nodes seen"

    def __init__(self) -> None:
        self._tasklets: dict[tuple[str, str, int], PartitionTasklet] = {}
        self._states: dict[tuple[str, str], tuple[JobOnNode, object]] = {}
        self._leaving: set[str] = set()

    def ticked(self, run: SwarmRun, node: Node) -> None:
        sightings = run.world.sightings
        sightings["a node left"] += node.leaving and node.name not in self._leaving
        self._leaving |= {node.name} if node.leaving else set()
        for name, here in node.jobs.items():
            before = self._states.get((node.name, name))
            if before is None or before[1] is not here.state:
                self._states[node.name, name] = here, here.state
                resumed = any(at > 0 for at in here.cursor.values()) and bool(run.whole_records(f"{name}/replica"))
                sightings["a replica resumed from a stored one"] += before is None and resumed
                sightings["a gap served by a stored replica"] += before is not None and before[0] is here
            sightings["a delta waiting for one before it"] += bool(here.state.gaps())
            sightings["an end on another node believed"] += bool(here.finished_elsewhere)
            self._look_at_tasklets(run, node, here)

    def _look_at_tasklets(self, run: SwarmRun, node: Node, here: JobOnNode) -> None:
        sightings = run.world.sightings
        mine = {partition for _, partition, _ in node.ownership.held_by(node.name, here.name)}
        for partition in here.partitions:
            place, tasklet = (node.name, here.name, partition), here.tasklets.get(partition)
            before = self._tasklets.get(place)
            if tasklet is None:
                if before is not None:
                    sightings["handed over"] += before.handed_over_at is not None
                    del self._tasklets[place]
                continue
            progress = tasklet.run.progress
            if before is not tasklet:
                self._tasklets[place] = tasklet
                sightings["a partition resumed from records"] += bool(
                    run.whole_records(f"{here.name}/{partition}/process")
                )
            lost = partition not in mine and not node.leaving
            sightings["taken over from a live node"] += lost
            sightings["taken over while parked"] += lost and progress.parked
            sightings["parked"] += progress.parked
            sightings["held by slower partitions"] += tasklet.held
            sightings["an idle partition"] += tasklet.idle
            sightings["a suspect on trial"] += bool(tasklet.suspicion) and node._trials.current == place[1:]
            sightings["late rows"] += progress.late > 0
            sightings["dead rows"] += progress.dead > 0
            sightings["rows from the future"] += progress.future > 0

    def look(self, run: SwarmRun) -> None:
        running: dict[tuple[str, int], int] = {}
        for member in run.members:
            run.world.sightings["a node down for good"] += member.gone and member.node is None
            for name, here in member.node.jobs.items() if member.node else ():
                for partition in here.tasklets:
                    running[name, partition] = running.get((name, partition), 0) + 1
        twice = run.drawn.settings.replicas == 1 and any(count > 1 for count in running.values())
        run.world.sightings["two live nodes ran one partition"] += twice


class StreamsSeen(Watch):
    """What happens in the streams that nodes share, and in the journals."""

    name = "streams seen"

    def __init__(self) -> None:
        self._cursor: Cursor = {}
        self._claims: dict[tuple[str, int, int], list[Claim]] = {}
        self._starts: dict[str, int] = {}
        self._decisions = 0
        self._marks = 0
        self._born_s: dict[str, float] = {}

    def ticked(self, run: SwarmRun, node: Node) -> None:
        self._born_s.setdefault(node.name, run.world.now_s)

    def stepped(self, run: SwarmRun) -> None:
        hubs, sightings = run.world.hubs, run.world.sightings
        for message in hubs["control"].read(self._cursor, 1_000) if "control" in hubs else ():
            claim = decode_claim(message.data)
            others = self._claims.setdefault((claim.job, claim.partition, claim.slot), [])
            for other in others:
                sightings["a claim lost to another one of its epoch"] += other.epoch == claim.epoch
                sightings["a claim outbid by one of a higher epoch"] += other.epoch != claim.epoch
            others.append(claim)

    def look(self, run: SwarmRun) -> None:
        sightings, world = run.world.sightings, run.world
        for stream, hub in world.hubs.items():
            start = sum(hub.starts().values())
            if stream.startswith("sync-") and start > self._starts.get(stream, 0):
                self._starts[stream] = start
                joining = any(
                    world.now_s - self._born_s.get(member.node.name, world.now_s) < _JOINS_S
                    for member in run.members
                    if member.node is not None
                )
                sightings["trimmed while a node joined"] += joining and world.now_s > _JOINS_S
                sightings["seals trimmed"] += 1
            sightings["a preview sent"] += stream.startswith("previews-") and any(hub.ends().values())
        marks = sum(_marks(journal) for journal in world.journals.values())
        sightings["a mark of an idle partition"] += marks > self._marks
        self._marks = marks
        decided = world.decided.end(0)
        if decided > self._decisions:
            self._decisions = decided
            took_over = any(version.after for version in read_jobs(world.decided).versions.values())
            down = any(member.node is None for member in run.members)
            sightings["a version took over while a node was down"] += took_over and down


def _marks(journal: MemoryJournal) -> int:
    """How many marks the first partition of a journal has: answers, which have the odd numbers, with a time."""
    entries = (journal.get(0, number) for number in range(journal.start(0), journal.end(0)) if number % 2)
    return sum(entry is not None and codec.decode(entry)[2] is not None for entry in entries)


def situations() -> list[Watch]:
    """Returns those who count the situations of one run."""
    return [NodesSeen(), StreamsSeen()]
