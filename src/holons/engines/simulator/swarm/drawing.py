"""What one seed of a swarm stands for: nodes, settings, a job, inputs, actors, and which kinds of faults may occur.

Everything is drawn, also what may be drawn: most runs know a few kinds of faults only, and so go further in one direction
than runs in which everything breaks. What a seed draws may change from version to version; the scenarios' seeds may not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import polars as pl

from holons.clock import Random, seeded
from holons.engines.simulator.faults import Fault, Kind, draw_faults
from holons.engines.simulator.random_jobs import job_spec, with_counts, workload
from holons.engines.simulator.random_programs import job_of
from holons.engines.simulator.scenarios import SCENARIOS
from holons.engines.simulator.simulation import FAULTS_UNTIL_S
from holons.engines.simulator.workloads import SECOND, Partition, streams
from holons.node import Settings
from holons.program import Job
from holons.windows import Mark

Fails: TypeAlias = Literal["", "program", "code"]
Durability: TypeAlias = Literal["process", "disk"]

_FUTURE_US: Final = 2 * 3600 * SECOND
_KINDS_MAX: Final = 5
_WITH_GRID: Final = tuple(kind for kind in tuple(Kind)[:14] if kind is not Kind.LEAVE)
"""With checkpoints in memory it is known after which of these faults one may be lost."""
_POWER_CUTS: Final = 0.06
_ACTOR_KINDS: Final = (Kind.ACTOR_CRASH, Kind.ACTOR_STALL)
_ENDING: Final[Sequence[Kind]] = (Kind.POISON, Kind.MESSAGE_ROT)
"""Faults that end a run early; a run in which they may occur knows one of them."""


@dataclass(frozen=True)
class DriverPlan:
    """What one driver wants, and when."""

    at_s: float
    wants: Literal["submit", "upgrade", "cancel"]


@dataclass(frozen=True)
class Others:
    """What others do beside those who submit and produce; None: never, or for ever."""

    outputs_kept_s: float | None = None
    """How long rows of outputs are kept."""
    consumed: bool = False
    """Whether a named consumer reads the inputs and outputs that are not kept for ever."""
    mistaken_s: float | None = None
    """When somebody asks for what cannot be done."""
    short_jobs_s: float | None = None
    """When many other jobs come and go."""
    restarted_s: float | None = None
    """When somebody restarts the nodes in good order, one after the other."""


@dataclass(frozen=True)
class Draw:
    """Everything about one run."""

    seed: int
    source: str
    """Where the jobs come from."""
    jobs: Mapping[str, Job]
    """By label."""
    streams: Mapping[str, Sequence[Partition]]
    nodes: int
    settings: Settings
    per_node: tuple[Settings, ...]
    """Nodes take these in turn: they differ where nodes of one site may differ."""
    kinds: tuple[Kind, ...]
    faults: tuple[Fault, ...]
    grid: int | None
    foreign: bool
    """Whether inputs are read through journals; those that may be idle always are."""
    live: bool
    durability: Durability
    lingers: bool
    """Whether the run goes on after everything is out, until the last fault is over."""
    drivers: tuple[DriverPlan, ...]
    """None: the jobs run from the beginning, without a submission."""
    replaced_s: float | None
    """When a second producer takes the inputs over; None: never."""
    readers: int
    fails: Fails
    """Whether the program raises at some row, or nodes cannot load its code."""
    kept_s: float | None
    """How long rows of inputs are kept once they are needed no more; None: for ever."""
    others: Others = Others()

    @property
    def judged_as_drawn(self) -> bool:
        """Whether the outputs must be what follows from the inputs as they were drawn, since some of them may be gone."""
        return self.kept_s is not None or loses_unsynced(self.durability, self.kinds)

    @property
    def stays(self) -> bool:
        """Whether a job that was submitted runs until the end of the run."""
        ends = self.fails or Kind.POISON in self.kinds or Kind.MESSAGE_ROT in self.kinds
        cancelled = any(plan.wants == "cancel" for plan in self.drivers)
        return bool(self.drivers) and not ends and not cancelled and not loses_unsynced(self.durability, self.kinds)

    def lines(self) -> list[str]:
        """What was drawn, for people."""
        partitions = ", ".join(f"{stream} with {len(parts)}" for stream, parts in self.streams.items())
        plain = Settings()
        changed = {name: value for name, value in vars(self.settings).items() if value != getattr(plain, name)}
        settings = ", ".join(f"{name}={value}" for name, value in changed.items())
        drivers = ", ".join(f"{plan.wants} at {plan.at_s:.2f} s" for plan in self.drivers)
        records = "a store" if self.grid is None else f"the memory of {self.grid} others"
        rows = ("live" if self.live else "history") + (", read through journals" if self.foreign else "")
        replaced = "" if self.replaced_s is None else f"; producers replaced at {self.replaced_s:.2f} s"
        kept = "" if self.kept_s is None else f"; inputs kept for {self.kept_s:.1f} s"
        kept += "" if self.others.outputs_kept_s is None else f"; outputs kept for {self.others.outputs_kept_s:.1f} s"
        kept += ", and for a consumer" if self.others.consumed else ""
        others = {
            "somebody mistaken": self.others.mistaken_s,
            "short jobs": self.others.short_jobs_s,
            "nodes restarted": self.others.restarted_s,
        }
        came = "; ".join(f"{who} at {at_s:.2f} s" for who, at_s in others.items() if at_s is not None)
        return [
            f"{self.source}, of partitions {partitions}; {rows}",
            f"{self.nodes} nodes; durability {self.durability}; records in {records}",
            f"settings: {settings}{'' if len(self.per_node) == 1 else '; others on each node'}",
            *([f"the {self.fails} fails"] if self.fails else []),
            *([came] if came else []),
            f"drivers: {drivers or 'none'}; {self.readers} readers{replaced}{kept}",
            f"kinds of faults: {', '.join(kind.value for kind in self.kinds) or 'none'}",
        ]


def draw(seed: int) -> Draw:
    """Returns what a seed stands for."""
    rng = seeded(f"swarm {seed}")
    source, jobs, given = _jobs(rng, seed)
    grid = rng.choice([None, None, None, None, None, 1, 2])
    nodes = max(rng.choice([1, 2, 3, 3, 4, 5]), 1 if grid is None else grid + 2)
    drivers = _drivers(rng, upgrades=grid is None) if rng.random() < 0.5 else ()
    kinds = _kinds(rng, grid)
    durability: Durability = rng.choice(["process", "disk"])
    kinds, durability = _with_power_cuts(seeded(f"swarm, power {seed}"), grid, kinds, durability)
    settings = _settings(rng, nodes, grid, kinds, durability)
    replaced_s = rng.choice([None, None, rng.uniform(0.5, 4.0)])
    live = rng.random() < 0.5
    kept_s, fails = _keeping_and_failing(seeded(f"swarm, kept and failing {seed}"), grid)
    if kept_s is not None:
        drivers = (DriverPlan(0.1, "submit"),) * (1 + seed % 2)
    elif fails and not drivers:
        drivers = (DriverPlan(0.1, "submit"),)
    loses = loses_unsynced(durability, kinds)
    if loses or kept_s is not None:  # the inputs as they were drawn say what must come out
        settings, replaced_s, live = replace(settings, idle_s=None), None, False
        kept_s = None if loses else kept_s
    else:
        jobs = _with_max_future(rng, jobs)
    faults = draw_faults(f"swarm faults {seed}", nodes, FAULTS_UNTIL_S, rng.choice([2, 8, 16]), kinds) if kinds else []
    drawn = Draw(
        seed=seed,
        source=source,
        jobs=jobs,
        streams=_with_odd_times(rng, given),
        nodes=nodes,
        settings=settings,
        per_node=_per_node(rng, settings),
        kinds=kinds,
        faults=tuple(faults),
        grid=grid,
        foreign=(rng.random() < 0.3 and kept_s is None) or settings.idle_s is not None,
        live=live,
        durability=durability,
        lingers=rng.random() < 0.3,
        drivers=drivers,
        replaced_s=replaced_s,
        readers=rng.choice([0, 0, 1]),
        fails=fails,
        kept_s=kept_s,
    )
    return _with_others(seeded(f"swarm, others {seed}"), drawn)


def _with_others(rng: Random, drawn: Draw) -> Draw:
    """The same run, in which others come by, and which knows some settings more."""
    kept_for_ever = rng.random() < 0.7
    loses = loses_unsynced(drawn.durability, drawn.kinds)
    outputs_kept_s = rng.choice([0.0, 0.5, 1.5])
    keeps = not drawn.drivers or drawn.settings.appends or loses or kept_for_ever
    upgraded_s = rng.uniform(0.5, 4.5)
    mistaken_s, short_jobs_s, restarted_s = (rng.uniform(0.3, 4.0) for _ in range(3))
    drivers = drawn.drivers
    if drawn.kept_s is not None and rng.random() < 0.5:
        drivers = (*drivers, DriverPlan(upgraded_s, "upgrade"))
    settings = replace(drawn.settings, ledger_rows=rng.choice([2_000_000, 2_000_000, 2, 12]))
    if settings.idle_s is not None and rng.random() < 0.15:
        settings = replace(settings, idle_s="auto")
    if drawn.grid is None and rng.random() < 0.1:
        settings = replace(settings, heartbeat_s=0.05, failure_timeout_s=0.1)
    same = {name: getattr(settings, name) for name in ("ledger_rows", "idle_s", "heartbeat_s", "failure_timeout_s")}
    return replace(
        drawn,
        drivers=drivers,
        settings=settings,
        per_node=tuple(replace(own, **same) for own in drawn.per_node),
        others=Others(
            outputs_kept_s=None if keeps else outputs_kept_s,
            consumed=rng.random() < 0.5 and (drawn.kept_s is not None or not keeps),
            mistaken_s=mistaken_s if rng.random() < 0.15 else None,
            short_jobs_s=short_jobs_s if drivers and not loses and rng.random() < 0.1 else None,
            restarted_s=restarted_s if drawn.grid is None and rng.random() < 0.1 else None,
        ),
    )


def loses_unsynced(durability: Durability, kinds: Sequence[Kind]) -> bool:
    """Returns whether what was acknowledged may be lost. At least once, rows would be gone without a word then."""
    return durability == "process" and Kind.POWER_CUT in kinds


def _jobs(rng: Random, seed: int) -> tuple[str, dict[str, Job], dict[str, list[Partition]]]:
    if rng.random() < 0.5:
        counts = seeded(f"swarm, by rank {seed}").random() < 0.25  # a stream of its own: old seeds go on
        spec = with_counts(job_spec(seed), seed) if counts else job_spec(seed)
        return (
            f"random job {seed}{' that counts' if counts else ''}",
            {"random": replace(job_of(spec), name="random")},
            workload(spec, seed),
        )
    name = rng.choice(list(SCENARIOS))
    given: dict[str, list[Partition]] = {}
    for simulated in SCENARIOS[name].values():
        rows = rng.choice([3, 24, 60])
        given |= streams(simulated.job, simulated.make, simulated.span_s, seed=rng.randrange(1 << 30), rows=rows)
    if rng.random() < 0.4:  # more partitions than nodes
        given = {stream: (parts * 4)[: rng.randint(len(parts), 6)] for stream, parts in given.items()}
    jobs = {label: replace(simulated.job, name=label) for label, simulated in SCENARIOS[name].items()}
    return f"scenario {name!r}", jobs, given


def _with_max_future(rng: Random, jobs: Mapping[str, Job]) -> dict[str, Job]:
    """The same jobs, which trust times up to some limit."""
    limit = rng.choice(["auto", "auto", "3s", None])
    return {
        label: replace(job, inputs=tuple(replace(source, max_future=limit) for source in job.inputs))
        for label, job in jobs.items()
    }


def _with_odd_times(rng: Random, given: Mapping[str, Sequence[Partition]]) -> dict[str, list[Partition]]:
    """The same rows; in some inputs many have one time, or are dated hours ahead."""
    tied, future = rng.random() < 0.2, rng.random() < 0.2
    return {
        stream: [[_odd(rng, piece, tied, future) for piece in partition] for partition in partitions]
        for stream, partitions in given.items()
    }


def _odd(rng: Random, piece: pl.DataFrame | Mark, tied: bool, future: bool) -> pl.DataFrame | Mark:
    if isinstance(piece, Mark) or not len(piece):
        return piece
    times = piece["ts"].to_list()
    if tied and times[0] is not None:
        times = [times[0] if rng.random() < 0.5 else ts for ts in times]
    if future:
        times = [ts + _FUTURE_US if ts is not None and rng.random() < 0.1 else ts for ts in times]
    return piece.with_columns(pl.Series("ts", times, dtype=pl.Int64))


def _kinds(rng: Random, grid: int | None) -> tuple[Kind, ...]:
    if rng.random() < 0.05:
        return ()
    usual: list[Kind] = [kind for kind in (_WITH_GRID if grid is not None else Kind) if kind not in _ENDING]
    kinds = rng.sample(usual, rng.randint(1, min(_KINDS_MAX, len(usual))))
    if grid is None and rng.random() < 0.12:
        kinds.append(rng.choice(_ENDING))
    return tuple(kind for kind in Kind if kind in kinds)


def _with_power_cuts(
    rng: Random, grid: int | None, kinds: tuple[Kind, ...], durability: Durability
) -> tuple[tuple[Kind, ...], Durability]:
    """In some runs little goes wrong but that the machine dies and loses what it had not synced: that takes long to mend."""
    if grid is not None or rng.random() >= _POWER_CUTS:
        return kinds, durability
    other = rng.choice([kind for kind in Kind if kind not in (*_ENDING, Kind.POWER_CUT)])
    return tuple(kind for kind in Kind if kind in (Kind.POWER_CUT, other)), "process"


def _settings(rng: Random, nodes: int, grid: int | None, kinds: Sequence[Kind], durability: Durability) -> Settings:
    at_least_once = rng.random() < 0.12 and not loses_unsynced(durability, kinds) and grid is None
    poisonous = Kind.POISON in kinds and rng.random() < 0.7
    return Settings(
        heartbeat_s=0.1 if grid is not None else rng.choice([0.05, 0.1, 0.2]),
        failure_timeout_s=1.0 if grid is not None else rng.choice([0.5, 1.0, 2.0]),
        stagger_s=rng.choice([0.02, 0.15]),
        residence_s=rng.choice([0.3, 1.0, 2.0]),
        lag_batches=rng.choice([1, 8]),
        checkpoint_s=rng.choice([0.1, 0.2, 0.5, 1.5]),
        snapshot_deltas=rng.choice([2, 4, 16, 64]),
        idle_s=rng.choice([None, None, None, 0.05, 0.2, 0.6]),
        max_ahead_s=rng.choice([None, 1.0, 5.0, 60.0]),
        preview_s=rng.choice([None, None, 0.1]),
        replicas=rng.choice([1, 1, 1, 2, 3]) if nodes > 1 else 1,
        guarantee="at-least-once" if at_least_once else "exactly-once",
        rows_max=rng.choice([1, 3, 7, 17, 1000]),
        calls_max=rng.choice([1, 3, 256]),
        poison_deaths=3 if poisonous else 100,
    )


def _per_node(rng: Random, settings: Settings) -> tuple[Settings, ...]:
    if rng.random() < 0.6:
        return (settings,)
    return tuple(
        replace(
            settings,
            rows_max=rng.choice([2, 5, 50]),
            calls_max=rng.choice([1, 10]),
            checkpoint_s=rng.choice([0.1, 0.7]),
            snapshot_deltas=rng.choice([2, 8]),
        )
        for _ in range(3)
    )


def _keeping_and_failing(rng: Random, grid: int | None) -> tuple[float | None, Fails]:
    """How long inputs are kept, and what is wrong with the job."""
    if grid is None and rng.random() < 0.15:
        return rng.choice([0.3, 1.0, 2.0]), ""
    return None, rng.choice(["program", "code"]) if rng.random() < 0.06 else ""


def _drivers(rng: Random, *, upgrades: bool) -> tuple[DriverPlan, ...]:
    """Somebody submits; perhaps two upgrade at one moment, somebody cancels, and somebody submits again.

    Records in the memory of nodes are not for drivers, so these cannot upgrade then.
    """
    plans = [DriverPlan(rng.uniform(0.0, 0.5), "submit")]
    if upgrades and rng.random() < 0.5:
        at_s = rng.uniform(0.5, 4.5)
        plans += [DriverPlan(at_s + rng.choice([0.0, 0.05]), "upgrade") for _ in range(rng.choice([1, 2]))]
    if rng.random() < 0.25:
        at_s = rng.uniform(0.5, 4.5)
        plans.append(DriverPlan(at_s, "cancel"))
        plans += [DriverPlan(at_s + rng.choice([0.0, 0.3]), "submit")] * rng.choice([0, 1])
    if rng.random() < 0.2:
        plans.append(DriverPlan(plans[0].at_s, "submit"))
    return tuple(plans)
