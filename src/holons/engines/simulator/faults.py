"""What can go wrong, as data: kinds of faults and their effects, and a list of faults drawn from a seed.

Such a list can be replayed and shortened. A new kind of fault is an entry in `EFFECTS`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from holons.clock import seeded

if TYPE_CHECKING:
    from holons.engines.simulator.simulation import Member, Simulation


class Kind(enum.Enum):
    """Kinds of faults."""

    CRASH = "crash"
    """The node dies at some later operation: before a delta, between two outputs, in the middle of a checkpoint."""
    CRASH_ALL = "crash all"
    STALL = "stall"
    """The node stands still (as after SIGSTOP) and then goes on."""
    SLOW = "slow"
    ISOLATE = "isolate"
    """The node hears nobody, or nobody hears it, or both."""
    LOG_OUTAGE = "log outage"
    STORE_OUTAGE = "store outage"
    JOIN = "join"
    LEAVE = "leave"
    CRASH_OTHERS = "crash others"
    """All nodes but one die at once."""
    SPLIT = "split"
    """Two groups of nodes do not hear each other."""
    CLOCK_JUMP = "clock jump"
    """The node's clock leaps ahead, as after a suspended machine. It never goes back: the port says so."""
    LOST_ANSWER = "lost answer"
    """What is written is there, but every other time its writer is told that it failed, and writes it again."""
    ACTOR_CRASH = "actor crash"
    """An actor dies at some later operation, and starts again. Without actors nothing happens."""
    ACTOR_STALL = "actor stall"
    """An actor stands still between two of its operations, and then goes on."""
    POWER_CUT = "power cut"
    """The machine dies, and everybody with it; each log and store loses by itself what it had not synced."""
    DISK_FULL = "disk full"
    """Nothing can be written for a while; what is there can be read, and deleted."""
    RECORD_ROT = "record rot"
    """The newest record of some name is damaged for good, or is another one that was written to the wrong place."""
    MESSAGE_ROT = "message rot"
    """A message of a shared stream, or a row of an input, is damaged for good: what needs it ends, and says of what."""
    DEAD_FOR_GOOD = "dead for good"
    """The node dies and never comes back; some node always stays."""
    CUT_FOR_GOOD = "cut for good"
    """To this node the logs, or the store, or both, do not answer any more; some node always stays."""
    POISON = "poison"
    """Whoever reads a certain row dies of it: for a while, or for good if the settings let a job be stopped for that."""


FIRST_KINDS: Final = tuple(Kind)[:9]
"""What recorded seeds draw from: up to `LEAVE`. More kinds in the draw would give every seed another meaning."""


FOR_GOOD_S: Final = 1e9
"""Later than any run."""


@dataclass(frozen=True)
class Fault:
    """One fault: what, when, to whom, for how long. `detail` chooses among variants."""

    kind: Kind
    at_s: float
    node: int
    for_s: float
    detail: int

    def __str__(self) -> str:
        return f"{self.at_s:.2f}s {self.kind.value} node {self.node} for {self.for_s:.2f}s ({self.detail})"


def draw_faults(
    seed: int | str, nodes: int, until_s: float, most: int = 8, kinds: Sequence[Kind] = FIRST_KINDS
) -> list[Fault]:
    """Faults of these kinds for one run, in order of time; none begins after `until_s`."""
    rng = seeded(seed)
    drawn = [*kinds, *(kind for kind in kinds for _ in range(EFFECTS[kind].drawn - 1))]
    faults = [
        Fault(
            kind=rng.choice(drawn),
            at_s=rng.uniform(0.0, until_s),
            node=rng.randrange(nodes),
            for_s=rng.choice([0.05, 0.5, 1.5, 4.0]) * rng.uniform(0.5, 1.5),
            detail=rng.randrange(1000),
        )
        for _ in range(rng.randint(0, most))
    ]
    return sorted(faults, key=lambda fault: fault.at_s)


# --- what faults do -----------------------------------------------------------------------------------------------------

Apply: TypeAlias = "Callable[[Simulation, Fault, Member, float], None]"
"""Applies a fault to a member, until a time."""
Choose: TypeAlias = "Callable[[Sequence[Member], Member], Sequence[Member]]"
"""Chooses whom a fault strikes, of all members and the one that it names."""


def _that_one(_: Sequence[Member], member: Member) -> Sequence[Member]:
    return [member]


def _everybody(members: Sequence[Member], _: Member) -> Sequence[Member]:
    return members


def _all_others(members: Sequence[Member], member: Member) -> Sequence[Member]:
    return [other for other in members if other is not member]


@dataclass(frozen=True)
class Effect:
    """What a kind of fault does, and to whom."""

    apply: Apply
    strikes: Choose = _that_one
    silences: bool = False
    """Whether the struck members cannot be reached meanwhile."""
    drawn: int = 1
    """How many times as often as others it is drawn."""


def _crash_within(operations: int) -> Apply:
    def crash(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
        simulation.crash(member, fault.detail % operations, until_s)

    return crash


def _stall(_: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    member.stalled_until_s = until_s


def _slow_down(_: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    member.slow_until_s = until_s


def _isolate(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    if fault.detail % 3 != 0:
        simulation.world.deaf_until_s[member.number] = until_s
    if fault.detail % 3 != 1:
        simulation.world.mute_until_s[member.number] = until_s


def _log_outage(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    simulation.world.log_down_until_s = until_s


def _store_outage(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    simulation.world.store_down_until_s = until_s


def _join(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    simulation.join()


def _others_stay(simulation: Simulation, member: Member) -> bool:
    """Whether some other member is there for good, and can hear and be heard."""
    return any(
        other is not member and not other.gone and not simulation.world.cut_for_good(other.number)
        for other in simulation.members
    )


def _leave(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    if _others_stay(simulation, member):
        member.gone = True
        if member.node is not None:
            member.node.leave()


def _split(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    apart = {other.number for other in simulation.members if fault.detail >> other.number % 10 & 1}
    beside = (member.number + 1) % len(simulation.members)  # both groups have somebody in them
    simulation.world.split_until_s = until_s
    simulation.world.split_from = frozenset(apart | {member.number}) - {beside}


def _clock_jump(_: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    if member.gate is not None:
        member.gate.offset_s += 10.0 * fault.for_s


def _lose_answers(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    simulation.world.answers_lost_until_s = until_s


def _stall_actor(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    if len(simulation.cast):
        simulation.cast.stall(fault.node, until_s)


def _cut_power(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    for other in simulation.members:
        simulation.crash(other, -1, until_s)
    for number in range(len(simulation.cast)):
        simulation.cast.kill(number, 0)
    simulation.lose_unsynced(fault.detail)


def _fill_disk(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    simulation.world.disk_full_until_s = until_s


def _damage_record(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    simulation.world.damage_record(fault.detail)


def _damage_message(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    simulation.world.damage_message(fault.detail)


def _die_for_good(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    if not member.gone and _others_stay(simulation, member):
        member.gone = True
        simulation.crash(member, fault.detail % 60, until_s)


def _cut_for_good(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    if _others_stay(simulation, member):
        if fault.detail % 3 != 0:
            simulation.world.without_logs.add(member.number)
        if fault.detail % 3 != 1:
            simulation.world.without_store.add(member.number)


def _poison(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    simulation.world.poison_row(fault.detail, FOR_GOOD_S if simulation.stops_of_poison else until_s)


def _kill_actor(simulation: Simulation, fault: Fault, member: Member, until_s: float) -> None:
    if len(simulation.cast):
        simulation.cast.kill(fault.node, fault.detail % 30)


EFFECTS: Final[Mapping[Kind, Effect]] = {
    Kind.CRASH: Effect(_crash_within(60), silences=True, drawn=4),  # crashes are what it is about
    Kind.CRASH_ALL: Effect(_crash_within(7), strikes=_everybody, silences=True),
    Kind.STALL: Effect(_stall, silences=True),
    Kind.SLOW: Effect(_slow_down, silences=True),
    Kind.ISOLATE: Effect(_isolate, silences=True),
    Kind.LOG_OUTAGE: Effect(_log_outage),
    Kind.STORE_OUTAGE: Effect(_store_outage),
    Kind.JOIN: Effect(_join),
    Kind.LEAVE: Effect(_leave),
    Kind.CRASH_OTHERS: Effect(_crash_within(7), strikes=_all_others, silences=True),
    Kind.SPLIT: Effect(_split),
    Kind.CLOCK_JUMP: Effect(_clock_jump),
    Kind.LOST_ANSWER: Effect(_lose_answers),
    Kind.ACTOR_CRASH: Effect(_kill_actor),
    Kind.ACTOR_STALL: Effect(_stall_actor),
    Kind.POWER_CUT: Effect(_cut_power),
    Kind.DISK_FULL: Effect(_fill_disk),
    Kind.RECORD_ROT: Effect(_damage_record),
    Kind.MESSAGE_ROT: Effect(_damage_message),
    Kind.DEAD_FOR_GOOD: Effect(_die_for_good, silences=True),
    Kind.CUT_FOR_GOOD: Effect(_cut_for_good, silences=True),
    Kind.POISON: Effect(_poison),
}
