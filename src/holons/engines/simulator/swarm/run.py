"""One run of a swarm: nodes, actors, faults, and those who watch; and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from holons.clock import seeded
from holons.engines.inputs import partitions_in
from holons.engines.simulator.actors import Actor
from holons.engines.simulator.faults import Fault
from holons.engines.simulator.simulation import FAULTS_UNTIL_S, RECOVER_WITHIN_S, Expected, Member, Outcome, Simulation
from holons.engines.simulator.swarm.actors import Driver, Ledger, Producer, Reader, failing, newer, producers
from holons.engines.simulator.swarm.drawing import Draw
from holons.engines.simulator.swarm.invariants import invariants
from holons.engines.simulator.swarm.judging import Kept, repetitions, wrong_rows
from holons.engines.simulator.swarm.keepers import Consumer, Keeper
from holons.engines.simulator.swarm.power import UnsyncedSuffixes
from holons.engines.simulator.swarm.situations import situations
from holons.engines.simulator.swarm.visitors import Mistaken, Operator, ShortJobs
from holons.engines.simulator.swarm.watch import Violation, Watch
from holons.engines.watching import Watcher
from holons.errors import DescribedError, PromiseBroken
from holons.program import Collected, Job
from holons.semantics import run as run_oracle
from holons.store import Position
from holons.windows import Mark

_PRODUCED_BY_S = 5.0
_LOOK_S = 0.25
_ALIKE_MAX = 3
"""So many nodes may end with one and the same error; then the run ends with it, as it does with a driver."""


@dataclass(frozen=True)
class SwarmOutcome:
    """What became of one seed of a swarm."""

    outcome: Outcome
    drawn: tuple[str, ...]
    sightings: Mapping[str, int] = field(repr=False)
    """How often each situation was met."""
    result: str = field(repr=False)
    """All that was emitted, as text: to compare two runs of one seed."""


class SwarmRun(Simulation):
    """A run as it was drawn."""

    def __init__(self, drawn: Draw, faults: Sequence[Fault] | None = None) -> None:
        self.drawn = drawn
        self.ledger = Ledger()
        self._chances = seeded(f"swarm run {drawn.seed}")
        direct = {} if drawn.drivers else drawn.jobs
        super().__init__(
            direct,
            {stream: [[]] * len(partitions) for stream, partitions in drawn.streams.items()},
            drawn.seed,
            nodes=drawn.nodes,
            faults=drawn.faults if faults is None else faults,
            settings=drawn.settings,
            foreign=drawn.foreign,
            live=drawn.live,
            grid=drawn.grid,
            actors=list(self._actors()),
        )
        self._watcher = Watcher(self.world.shared("heartbeats", "watcher"), self.world.clock)
        self._unsynced = UnsyncedSuffixes(self.world)
        self._errors: Counter[str] = Counter()
        self.watching: tuple[Watch, ...] = (*invariants(), *situations())
        self.lost_unsynced = False

    # --- who takes part ----------------------------------------------------------------------------------------------

    def _actors(self) -> list[Actor]:
        drawn = self.drawn
        due_s = partial(self._chances.uniform, 0.0, _PRODUCED_BY_S)
        made: list[Actor] = [
            *producers(drawn.streams, self.ledger, due_s, live=drawn.live, replaced_s=drawn.replaced_s)
        ]
        columns: dict[str, set[str]] = {}
        for actor in made:
            if isinstance(actor, Producer):
                for piece in actor.pieces:
                    columns.setdefault(actor.stream, set()).update(
                        () if isinstance(piece.rows, Mark) else piece.rows.schema.names
                    )
        whole = drawn.kept_s is not None and drawn.seed % 2 > 0
        for job in drawn.jobs.values():
            job = failing(job) if drawn.fails == "program" else job
            made += [
                Driver(
                    plan,
                    newer(job, columns, whole=whole) if plan.wants == "upgrade" else job,
                    loads=drawn.fails != "code",
                )
                for plan in drawn.drivers
            ]
            made += [Reader(job.name, self.ledger)] * drawn.readers
            made += self._keepers(job)
            made += self._visitors(job)
        made += [] if drawn.others.restarted_s is None else [Operator(drawn.others.restarted_s)]
        return made

    def _keepers(self, job: Job) -> list[Actor]:
        drawn = self.drawn
        if drawn.kept_s is None and drawn.others.outputs_kept_s is None:
            return []
        return [
            *([Consumer(job)] if drawn.others.consumed else []),
            Keeper(job, drawn.kept_s, drawn.others.outputs_kept_s),
        ]

    def _visitors(self, job: Job) -> list[Actor]:
        drawn = self.drawn
        mistaken = [] if drawn.others.mistaken_s is None else [Mistaken(drawn.others.mistaken_s, job, drawn.stays)]
        return [*mistaken, *([] if drawn.others.short_jobs_s is None else [ShortJobs(job, drawn.others.short_jobs_s)])]

    def _schedule_production(self, streams: object) -> list[tuple[str, int, list[object]]]:
        return []  # producers are actors here

    def _settings_of(self, member: Member) -> None:
        own = self.drawn.per_node[member.number % len(self.drawn.per_node)]
        self._settings = replace(own, loss_patience_s=self._settings.loss_patience_s)

    def _boot(self, member: Member) -> None:
        self._settings_of(member)
        super()._boot(member)

    def versions(self) -> list[str]:
        """Returns the names under which the versions of jobs keep what is durable, those that were stopped included."""
        return list(self.world.jobs().versions) if self.drawn.drivers else list(self.drawn.jobs)

    def assigned(self) -> list[str]:
        """Returns the names under which nodes were given code."""
        return list(self._jobs)

    def job_of(self, version: str) -> Job:
        """Returns the job of a version; all versions of a job do the same."""
        return next(job for name, job in self.drawn.jobs.items() if version == name or version.startswith(f"{name}-"))

    def whole_records(self, name: str) -> list[tuple[Position, bytes]]:
        """Returns the records of a name that are whole, oldest first."""
        whole = ((position, self.world.whole_record(name, position)) for position in self.world.records.positions(name))
        return [(position, data) for position, data in whole if data is not None]

    # --- what goes wrong ---------------------------------------------------------------------------------------------

    def lose_unsynced(self, choice: int) -> None:
        if self.drawn.durability == "disk":
            return
        lost = self._unsynced.lose(choice)
        self.note(f"{lost} logs, streams and records have lost what was not synced")
        self.lost_unsynced |= lost > 0
        self.world.sightings["something lost that was not synced"] += lost > 0
        for number, pause_s in self.cast.begin_again(Producer).items():  # what was written to the end may be gone
            self._schedule(self.world.now_s + pause_s, number, "actor")
        if self.drawn.drivers:
            self._jobs.clear()  # who starts nodes again knows of the jobs that drivers submit again

    def accounts_for(self, kind: str) -> bool:
        lost = self.lost_unsynced and kind in ("CheckpointLost", "LogDamaged")
        fails = {"program": "ProgramFailed", "code": "UnpicklableProgram"}.get(self.drawn.fails) == kind
        return lost or fails or super().accounts_for(kind)

    def _tick(self, member: Member) -> None:
        try:
            super()._tick(member)
            if member.node is not None and member.node.left:
                member.node.close()
                self._down(member, f"{member.node.name} has left")
        except (DescribedError, PromiseBroken) as error:
            text = f"{type(error).__name__}: {error}"
            self._errors[text] += 1
            if self._errors[text] > _ALIKE_MAX or not self.accounts_for(type(error).__name__):
                raise
            self._down(member, f"node-{member.number} ends: {text}")
            self._schedule(self.world.now_s + 1.0, member.number, "restart")

    # --- running -----------------------------------------------------------------------------------------------------

    def run(self, expected: Expected) -> Outcome:
        """Runs until nodes report that everything is out, and judges; `expected` is of no use: the oracle is asked here."""
        deadline_s = FAULTS_UNTIL_S + RECOVER_WITHIN_S
        looked_s = 0.0
        while self.world.now_s < deadline_s:
            self._watch(*self._step())
            failed = self._failure()
            if failed is not None:
                return failed
            if self.world.now_s >= looked_s:
                looked_s = self.world.now_s + _LOOK_S
                self._watcher.heard()
                self._unsynced.remember()
                for watch in self.watching:
                    watch.look(self)
                if self._finished():
                    return self._verdict()
        return self.outcome(f"it hangs: {self._waits_for()}")

    def _watch(self, what: str, number: int) -> None:
        node = self.members[number].node if what == "tick" else None
        for watch in self.watching:
            watch.stepped(self)
            if node is not None:
                watch.ticked(self, node)

    def _failure(self) -> Outcome | None:
        for member in self.members:
            for stopped in member.node.stopped.values() if member.node else ():
                if stopped.failed:
                    self.world.sightings[f"a job stopped with {stopped.kind}"] += 1
                    return self.ended_by(stopped.kind, f"job {stopped.job} was stopped: {stopped.reason}", {})
        return None

    def _standing(self) -> list[str]:
        """The versions that run and have not been stopped."""
        if not self.drawn.drivers:
            return list(self.drawn.jobs)
        jobs = self.world.jobs()
        running = [jobs.running(name) for name in self.drawn.jobs]
        return [version.id for version in running if version is not None]

    def _finished(self) -> bool:
        """Whether a node reports that all that stands is finished."""
        actors_s = FAULTS_UNTIL_S if self.drawn.lingers else _PRODUCED_BY_S
        if self.world.now_s < actors_s or not self.cast.ended:
            return False
        standing = self._standing()
        return any(
            member.node.finished and all(name in member.node.jobs for name in standing)
            for member in self.members
            if member.node is not None
        )

    def _expected(self, expected: Expected) -> Mapping[str, Collected]:
        """What the oracle says of the inputs as they were read; as they should be, if some were lost on the way."""
        if self.drawn.judged_as_drawn:
            return {name: run_oracle(job, self.drawn.streams) for name, job in self.drawn.jobs.items()}
        streams = {name: partitions_in(self.world.executed(name)) for name in self.world.inputs}
        return {name: run_oracle(job, streams) for name, job in self.drawn.jobs.items()}

    def _difference(self, expected: Mapping[str, Collected], missing_allowed: bool = False) -> str:
        jobs, repeated = self.world.jobs(), self.drawn.settings.appends
        for name, rows in expected.items():
            stands = not self.drawn.drivers or jobs.running(name) is not None
            collected = Kept.of(self.world.emitted(name))
            wrong = wrong_rows(rows, collected, complete=stands and not missing_allowed, repeated=repeated)
            if wrong:
                return f"job {name}, {wrong}"
            if repeated and repetitions(rows, collected.rows) > 0:
                self.world.sightings["rows repeated, at least once"] += 1
            for job, read in self.ledger.read:
                if job == name and (wrong := wrong_rows(rows, read, complete=False, repeated=repeated)):
                    return f"a reader of job {name} has read something else: {wrong}"
        return ""

    def _verdict(self) -> Outcome:
        wrong = self._difference(self._expected({}))
        if wrong:
            return self.outcome(f"nodes report the end, but {wrong}")
        for watch in self.watching:
            watch.at_the_end(self)
        return self.outcome("")

    def _waits_for(self) -> str:
        statuses = {name: self._watcher.look(name) for name in self._standing()}
        waits = [
            f"{name} waits for {status.waiting_for or 'the end to be reported'}" for name, status in statuses.items()
        ]
        return "; ".join(waits or ["no job runs"]) + ("" if self.cast.ended else "; an actor has not ended")


def simulate_draw(drawn: Draw, faults: Sequence[Fault] | None = None) -> SwarmOutcome:
    """Runs what was drawn, perhaps with other faults. The same arguments give the same outcome, always."""
    run = SwarmRun(drawn, faults)
    try:
        outcome = run.run({})
    except Violation as violation:
        outcome = run.outcome(str(violation))
    except (Exception, PromiseBroken) as error:  # noqa: BLE001 - whatever a node raises is a finding
        outcome = run.ended_by(type(error).__name__, f"{type(error).__name__}: {error}", {})
    finally:
        run.cast.close()
    emitted = "".join(f"{name} {run.world.collected(name)}\n" for name in drawn.jobs)
    return SwarmOutcome(outcome, tuple(drawn.lines()), dict(run.world.sightings), emitted)
