"""Runs nodes in virtual time under faults, and judges what they emit.

Safety: at the end the outputs are the oracle's, byte for byte; on the way no position ever held two rows. Liveness:
after the last fault everything is emitted within a bounded virtual time. A failing run prints its seed and what happened.

A run may also end with an error for which its faults account: with records in nodes' memory (`grid`), `CheckpointLost` if
more nodes than copies were away at one time; `LogDamaged` if a message or a row was damaged. The rows that are emitted must
be the oracle's first ones then.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from holons.clock import seeded
from holons.engines.inputs import PartitionRows, partitions_in, pieces
from holons.engines.simulator.actors import Actor, Cast
from holons.engines.simulator.damage import PoisonedRow, SimulatedCrash
from holons.engines.simulator.faults import EFFECTS, FIRST_KINDS, Fault, Kind, draw_faults
from holons.engines.simulator.world import Gate, SimulatedSite
from holons.errors import PromiseBroken
from holons.node import Node, Settings, Stopped
from holons.program import Collected, Cut, Job, canonical
from holons.windows import Mark

FAULTS_UNTIL_S = 6.0
RECOVER_WITHIN_S = 60.0
_PRODUCED_BY_S = 5.0
_PATIENCE_S = 12.0
"""Longer than anybody is cut off."""
_REPLICATED_WITHIN_S = 5.0
"""From when a node is back, or dead for good, until everything it held is elsewhere again: timeouts, letters, retries."""

_REPLACED_WITHIN_S = 1.0

Streams: TypeAlias = Mapping[str, Sequence[PartitionRows]]
Expected: TypeAlias = Mapping[str, Collected] | Callable[[Streams], Mapping[str, Collected]]
"""What must come out of each job; or, where the run itself adds marks, what must come out of the inputs as it read them."""


@dataclass(frozen=True)
class Outcome:
    """What became of one run."""

    seed: int
    problem: str
    """Empty if all is well."""
    finished_s: float
    faults: tuple[Fault, ...]
    trace: tuple[str, ...] = field(repr=False)
    lost: bool = False
    """Whether the job ended with an error, as it may: too many nodes were away at one time, or what it needs is damaged."""

    def __str__(self) -> str:
        verdict = self.problem or f"all is well after {self.finished_s:.1f}s"
        faults = "".join(f"\n  fault {fault}" for fault in self.faults)
        trace = "".join(f"\n  {line}" for line in self.trace[-40:]) if self.problem else ""
        return f"seed {self.seed}: {verdict}{faults}{trace}"


@dataclass
class Member:
    """A node's place in the world, whichever incarnation of it is up."""

    number: int
    incarnation: int = 0
    node: Node | None = None
    gate: Gate | None = None
    period_s: float = 0.02
    stalled_until_s: float = 0.0
    slow_until_s: float = 0.0
    gone: bool = False


class Simulation:
    """One run: jobs, their inputs, some nodes and a list of faults."""

    def __init__(
        self,
        jobs: Mapping[str, Job],
        streams: Streams,
        seed: int,
        *,
        nodes: int = 3,
        faults: Sequence[Fault] | None = None,
        kinds: Sequence[Kind] = FIRST_KINDS,
        replicas: int = 1,
        settings: Settings | None = None,
        foreign: bool = False,
        live: bool = False,
        grid: int | None = None,
        actors: Sequence[Actor] = (),
    ) -> None:
        """`jobs` run from the beginning, without a submission; `foreign` inputs are not ours to write to: they are read
        through a journal. Inputs are `live` if their rows come into being as they are appended; else they are history.
        """
        self._live = live
        self._random = seeded(seed)
        self._jobs: dict[str, tuple[Job, Sequence[Cut]]] = {name: (job, ()) for name, job in jobs.items()}
        self._settings = settings or Settings(
            rows_max=self._random.choice([3, 17, 1000]),
            residence_s=1.0,
            snapshot_deltas=self._random.choice([4, 64]),
            poison_deaths=100,  # nodes die for other reasons here
            idle_s=None,  # what comes out would depend on where marks are
            replicas=replicas,
        )
        if grid is not None:
            self._settings = replace(self._settings, loss_patience_s=_PATIENCE_S)
        self.world = SimulatedSite(seed, grid=grid)
        for name, partitions in streams.items():
            self.world.producer(name, len(partitions), "producer#1")
            self.world.journal(name, create=foreign)
        self.faults = tuple(draw_faults(seed, nodes, FAULTS_UNTIL_S, kinds=kinds) if faults is None else faults)
        self.trace: list[str] = []
        self._judged: tuple[dict[str, list[int]], Mapping[str, Collected]] | None = None
        self._away: list[tuple[int, float, float]] = []
        """Which members were away, from when, until when."""
        self._queue: list[tuple[float, int, int, str]] = []
        self._ticket = 0
        self.members = [self._member(number) for number in range(nodes)]
        self._production = self._schedule_production(streams)
        for number, fault in enumerate(self.faults):
            self._schedule(fault.at_s, number, "fault")
        self.cast = Cast(actors, self)
        for number in range(len(actors)):
            self._schedule(0.0, number, "actor")

    def _schedule(self, at_s: float, number: int, what: str) -> None:
        self._ticket += 1
        heapq.heappush(self._queue, (at_s, self._ticket, number, what))

    def _schedule_production(self, streams: Streams) -> list[tuple[str, int, list[object]]]:
        """Every partition has a producer that appends its pieces over a while."""
        producers = []
        for name, partitions in streams.items():
            for partition, rows in enumerate(partitions):
                parts: list[object] = []
                for piece in pieces(rows):
                    step = 1 if isinstance(piece, Mark) else max(1, piece.num_rows // 3)
                    length = 1 if isinstance(piece, Mark) else piece.num_rows
                    parts += [
                        piece if isinstance(piece, Mark) else piece.slice(at, step) for at in range(0, length, step)
                    ]
                producers.append((name, partition, parts))
                for place in range(len(parts)):
                    self._schedule(
                        (place + self._random.random()) / len(parts) * _PRODUCED_BY_S, len(producers) - 1, "produce"
                    )
        return producers

    # --- nodes -----------------------------------------------------------------------------------------------------

    def _member(self, number: int) -> Member:
        member = Member(number, period_s=self._random.uniform(0.01, 0.05))
        self._boot(member)
        return member

    def _boot(self, member: Member) -> None:
        member.incarnation += 1
        name = f"node-{member.number}#{member.incarnation}"
        rate, offset_s = self._random.uniform(0.9, 1.1), self._random.uniform(0.0, 1000.0)
        member.gate = Gate(self.world, member.number, name, rate=rate, offset_s=offset_s)
        member.node = Node(name, member.gate.ports(self._settings), self._settings)
        for job_name, (job, cuts) in self._jobs.items():
            member.node.add_job(job_name, job, cuts)
        self.note(f"{name} starts")
        self._schedule(self.world.now_s + self._random.uniform(0.0, member.period_s), member.number, "tick")

    def assign(self, name: str, job: Job, cuts: Sequence[Cut] = ()) -> None:
        """Gives the code of a job to all members that are up, and to all that start later."""
        self._jobs[name] = job, cuts
        for member in self.members:
            if member.node is not None:
                member.node.add_job(name, job, cuts)

    def _tick(self, member: Member) -> None:
        if member.node is None:
            return
        world = self.world
        if member.stalled_until_s > world.now_s:
            self._schedule(member.stalled_until_s, member.number, "tick")
            return
        try:
            member.node.tick()
        except SimulatedCrash as crash:
            self._down(member, str(crash))
            if isinstance(crash, PoisonedRow):
                self._schedule(world.now_s + _REPLACED_WITHIN_S, member.number, "restart")
            return
        if self.world.grid is not None and member.node.left:
            self._down(member, f"{member.node.name} has left")
            return
        slow = 10.0 if member.slow_until_s > world.now_s else 1.0
        self._schedule(world.now_s + member.period_s * slow * self._random.uniform(0.5, 1.5), member.number, "tick")

    def _down(self, member: Member, why: str) -> None:
        self.note(why)
        member.node = member.gate = None

    def note(self, what: str) -> None:
        """Adds a line to the trace."""
        self.trace.append(f"{self.world.now_s:7.3f}s {what}")

    # --- faults ----------------------------------------------------------------------------------------------------

    def strike(self, fault: Fault) -> None:
        """Lets a fault begin."""
        effect, named = EFFECTS[fault.kind], self.members[fault.node % len(self.members)]
        until_s = self.world.now_s + fault.for_s
        self.note(f"fault: {fault}")
        struck = list(effect.strikes(self.members, named))
        if effect.silences:
            self._away += [(member.number, self.world.now_s, until_s) for member in struck]
        for member in struck:
            effect.apply(self, fault, member, until_s)

    def crash(self, member: Member, operations: int, restart_s: float) -> None:
        """Lets a member die after so many more operations; it starts again at a time."""
        if member.gate is not None:
            member.gate.operations_left = operations
            self._schedule(restart_s, member.number, "restart")

    def stop_in_order(self, member: Member, restart_s: float) -> None:
        """Lets a member end as people end it: it stores where it is, and says so; it starts again so much later."""
        if member.node is not None:
            try:
                member.node.close()
                why = f"{member.node.name} was stopped"
            except SimulatedCrash as crash:
                why = str(crash)
            self._down(member, why)
            self._schedule(self.world.now_s + restart_s, member.number, "restart")

    @property
    def stops_of_poison(self) -> bool:
        """Whether a row that kills its readers stops its job at some time."""
        return self._settings.poison_deaths < 100

    def lose_unsynced(self, choice: int) -> None:
        """The machine has died. What was acknowledged stays here, as with `durability="disk"`."""

    def join(self) -> None:
        """Starts another member."""
        self.members.append(self._member(len(self.members)))

    def _restart(self, member: Member) -> None:
        if member.node is not None and member.gate is not None and member.gate.operations_left is not None:
            self._down(member, f"{member.gate.name} dies late")
        if member.node is None and not member.gone:
            self._boot(member)

    # --- running ---------------------------------------------------------------------------------------------------

    def run(self, expected: Expected) -> Outcome:
        """Runs until the outputs are what they must be, or something is wrong, or it takes too long."""
        deadline_s = FAULTS_UNTIL_S + RECOVER_WITHIN_S
        checked_s = 0.0
        while self.world.now_s < deadline_s:
            self._step()
            failed = [member.node.stopped for member in self.members if member.node and member.node.stopped]
            if failed:
                return self._stopped(next(iter(failed[0].values())), self._expected(expected))
            if self.world.now_s > checked_s:
                checked_s = self.world.now_s + 0.5
                if self.world.now_s > _PRODUCED_BY_S and self.cast.ended and self._all_out(self._expected(expected)):
                    return self.outcome("")
        return self.outcome(self._difference(self._expected(expected)))

    def _expected(self, expected: Expected) -> Mapping[str, Collected]:
        """What must come out, as far as it can be told now: asked again only if the inputs have changed since."""
        if not callable(expected):
            return expected
        logs = {name: self.world.executed(name) for name in self.world.inputs}
        ends = {name: [log.end(partition) for partition in range(log.partitions)] for name, log in logs.items()}
        if self._judged is None or self._judged[0] != ends:
            self._judged = ends, expected({name: partitions_in(log) for name, log in logs.items()})
        return self._judged[1]

    def _step(self) -> tuple[str, int]:
        """Lets happen what comes next, and returns what that was."""
        at_s, _, number, what = heapq.heappop(self._queue)
        self.world.now_s = max(self.world.now_s, at_s)
        self._do(what, number)
        return what, number

    def _do(self, what: str, number: int) -> None:
        if what == "tick":
            self._tick(self.members[number])
        elif what == "fault":
            self.strike(self.faults[number])
        elif what == "restart":
            self._restart(self.members[number])
        elif what == "actor":
            pause_s = self.cast.go_on(number)
            if pause_s is not None:
                self._schedule(self.world.now_s + pause_s, number, "actor")
        else:
            stream, partition, parts = self._production[number]
            piece, log = parts.pop(0), self.world.inputs[stream]
            if isinstance(piece, Mark):
                log.mark(partition, piece.ts)
            else:
                log.append(partition, piece, live=self._live)

    def _stopped(self, why: Stopped, expected: Mapping[str, Collected]) -> Outcome:
        return self.ended_by(why.kind, f"job {why.job} was stopped: {why.kind}: {why.reason}", expected)

    def ended_by(self, kind: str, what: str, expected: Expected) -> Outcome:
        """Judges a run that an error has ended: there must be a reason for it, and no row may be wrong."""
        if not self.accounts_for(kind):
            return self.outcome(what)
        self.note(what)
        wrong = self._difference(self._expected(expected), missing_allowed=True)
        return replace(self.outcome(wrong), lost=True)

    def accounts_for(self, kind: str) -> bool:
        """Whether the faults so far are reason enough for a job to end with such an error."""
        damage = self.world.damage
        return {
            "CheckpointLost": self._too_many_away(),
            "LogDamaged": bool(damage.messages or damage.rows),
            "Poison": self.stops_of_poison and bool(damage.poison),
        }.get(kind, False)

    def _too_many_away(self) -> bool:
        """Whether at some time more nodes were away, or had just been, than there are copies of a record."""
        if self.world.grid is None:
            return False
        silent_s = sum(fault.for_s for fault in self.faults if fault.kind is Kind.LOG_OUTAGE)
        counted_s = _REPLICATED_WITHIN_S + silent_s
        return any(
            len({member for member, since_s, until_s in self._away if since_s <= at_s <= until_s + counted_s})
            > self.world.grid
            for _, at_s, _ in self._away
        )

    def _all_out(self, wanted: Mapping[str, Collected]) -> bool:
        return all(canonical(self.world.collected(name)) == canonical(rows) for name, rows in wanted.items())

    def _difference(self, expected: Mapping[str, Collected], missing_allowed: bool = False) -> str:
        """The first row that is wrong or missing."""
        for name, channels in expected.items():
            got = self.world.collected(name)
            for channel in sorted(set(channels) | set(got)):
                for partition in sorted(set(channels.get(channel, {})) | set(got.get(channel, {}))):
                    want_rows = channels.get(channel, {}).get(partition, [])
                    got_rows = got.get(channel, {}).get(partition, [])
                    for place in range(max(len(want_rows), len(got_rows))):
                        want = want_rows[place] if place < len(want_rows) else "nothing"
                        have = got_rows[place] if place < len(got_rows) else "nothing"
                        if want != have and not (missing_allowed and place >= len(got_rows)):
                            where = f"job {name}, channel {channel}, partition {partition}, row {place}"
                            return f"{where}: {have}, not {want}"
        return "" if missing_allowed else "the outputs differ in their bytes"

    def outcome(self, problem: str) -> Outcome:
        """What became of it so far."""
        return Outcome(self.world.seed, problem, self.world.now_s, self.faults, tuple(self.trace))


def simulate(
    jobs: Mapping[str, Job],
    streams: Streams,
    expected: Expected,
    seed: int,
    **options: object,
) -> Outcome:
    """One run from a seed. The same arguments give the same run, always."""
    simulation = Simulation(jobs, streams, seed, **options)  # type: ignore[arg-type]
    try:
        return simulation.run(expected)
    except (Exception, PromiseBroken) as error:  # noqa: BLE001 - whatever a node raises is a finding
        return simulation.ended_by(type(error).__name__, f"{type(error).__name__}: {error}", expected)
    finally:
        simulation.cast.close()


def shrink(
    jobs: Mapping[str, Job],
    streams: Streams,
    expected: Expected,
    outcome: Outcome,
    **options: object,
) -> Outcome:
    """A problem again with as few faults as possible; the options are those of the run."""
    best = outcome
    for fault in outcome.faults:
        fewer = tuple(other for other in best.faults if other is not fault)
        tried = simulate(jobs, streams, expected, outcome.seed, **{**options, "faults": fewer})
        if tried.problem:
            best = tried
    return best
