"""`holons sim`: jobs under faults in virtual time, many seeds, compared with the oracle."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from holons.cli.jobs import load_job, named_files, read_inputs
from holons.cli.records import write_records
from holons.cli.seeds import block, chunked, progress, run_tasks
from holons.cli.terminal import Terminal
from holons.engines.simulator import FIRST_KINDS, Kind, Outcome, shrink, simulate
from holons.engines.simulator.scenarios import ROWS, SCENARIOS, VARIANTS, Prepared, judged, prepared
from holons.errors import BadInput, DescribedError

OWN_ROWS = 200
"""How many rows of each file are used for a user's own job."""
_CHUNK_SEEDS = 5
_TRACE_LINES = 25
_TOLD_MAX = 3
"""How many divergences of a scenario are shrunk and told at length; a job that always diverges would take all day."""

_NO_FUNCTION = (
    "It takes no fault at all: the program is not a function of its input.",
    "Look for random numbers, the clock, global variables, set order, or effects that depend on where a batch ends.",
)


@dataclass(frozen=True)
class Setup:
    """What is simulated, but for the seed: plain data that travels to other processes."""

    name: str
    job: str = ""
    """Where a user's own job is; empty for a scenario of ours."""
    inputs: tuple[str, ...] = ()
    rows: int = ROWS
    nodes: int = 3
    replicas: int = 1
    kinds: tuple[Kind, ...] = tuple(Kind)
    """None at all: nothing ever breaks."""

    def options(self) -> dict[str, Any]:
        """What `simulate` is told."""
        faults = {"kinds": self.kinds} if self.kinds else {"faults": ()}
        return {"nodes": self.nodes, "replicas": self.replicas, **faults}

    def prepared(self, seed: int) -> Prepared:
        """Jobs, inputs and what must come out."""
        return _own(self) if self.job else prepared(self.name, seed % VARIANTS, self.rows)

    def command(self, seed: int) -> str:
        """What replays one seed."""
        words = ["holons", "sim", self.job or self.name, "--seeds", str(seed), "--trace"]
        words += [word for given in self.inputs for word in ("--input", given)]
        plain = Setup(self.name, self.job, self.inputs, OWN_ROWS if self.job else ROWS)
        for option in ("rows", "nodes", "replicas"):
            if getattr(self, option) != getattr(plain, option):
                words += [f"--{option}", str(getattr(self, option))]
        if not self.kinds:
            words.append("--no-faults")
        elif self.kinds != plain.kinds:
            words += ["--kinds", "first" if self.kinds == FIRST_KINDS else ",".join(kind.value for kind in self.kinds)]
        return shlex.join(words)


@cache
def _own(setup: Setup) -> Prepared:
    job = load_job(setup.job)
    streams = read_inputs(job, named_files(setup.inputs), setup.rows)
    try:
        return judged({job.name: job}, streams)
    except DescribedError as error:  # it has a hint of its own
        raise BadInput(
            f"{job.name} does not even run in sequence: {type(error).__name__}: {error}"
        ) from error.__cause__
    except Exception as error:
        raise BadInput(
            f"{job.name} does not even run in sequence: {type(error).__name__}: {error}",
            hint="try it with h.run first, and look at its input's columns",
        ) from error


@dataclass(frozen=True)
class SeedOutcome:
    """What became of one seed; `shrunk` is the same problem with fewer faults."""

    outcome: Outcome
    shrunk: Outcome | None = None

    @property
    def struck(self) -> list[Kind]:
        """The faults that came before everything was out."""
        return [fault.kind for fault in self.outcome.faults if fault.at_s <= self.outcome.finished_s]


@dataclass
class Tally:
    """All that was seen of one setup."""

    setup: Setup
    seen: list[SeedOutcome] = field(default_factory=list)
    busy_s: float = 0.0

    @property
    def divergences(self) -> list[SeedOutcome]:
        return sorted((one for one in self.seen if one.outcome.problem), key=lambda one: one.outcome.seed)

    @property
    def faults(self) -> Counter[Kind]:
        return Counter(kind for one in self.seen for kind in one.struck)

    @property
    def virtual_s(self) -> float:
        return sum(one.outcome.finished_s for one in self.seen)

    def shrink(self, most: int) -> None:
        """Shrinks the first divergences."""
        for one in self.divergences[:most]:
            self.seen[self.seen.index(one)] = shrunk(self.setup, one)

    def seeds_per_s(self, workers: int) -> float:
        return len(self.seen) * workers / self.busy_s if self.busy_s else 0.0


# --- what the options say ---------------------------------------------------------------------------------------------


def parse_kinds(text: str) -> tuple[Kind, ...]:
    """`all`, `first`, or kinds with commas."""
    if text in ("all", "first"):
        return tuple(Kind) if text == "all" else FIRST_KINDS
    known = {kind.value: kind for kind in Kind}
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise BadInput(f"there is no fault {name!r}", hint=f"all, first, or some of: {', '.join(known)}")
    return tuple(known[name] for name in names)


def setups(job: str | None, inputs: Sequence[str], rows: int | None, **options: Any) -> list[Setup]:  # noqa: ANN401
    """All scenarios of ours, one of them, or a user's own job."""
    if job is None or job in SCENARIOS:
        if inputs:
            raise BadInput("the scenarios bring their own rows", hint="--input goes with a job of yours: APP.py:JOB")
        return [Setup(name, rows=rows or ROWS, **options) for name in ([job] if job else SCENARIOS)]
    if ":" not in job and not job.endswith(".py"):
        raise BadInput(f"there is no scenario {job!r}", hint=f"APP.py:JOB, or one of: {', '.join(SCENARIOS)}")
    setup = Setup(job, job, tuple(inputs), rows or OWN_ROWS, **options)
    setup.prepared(0)  # whatever is wrong with it is said now, and once
    return [setup]


# --- running ----------------------------------------------------------------------------------------------------------


def run_seeds(setup: Setup, seeds: Sequence[int], *, trace: bool) -> tuple[list[SeedOutcome], float]:
    """Some seeds, one after the other; and how long that took."""
    began_s = time.perf_counter()
    seen = []
    for seed in seeds:
        jobs, streams, expected = setup.prepared(seed)
        outcome = simulate(jobs, streams, expected, seed, **setup.options())
        seen.append(SeedOutcome(outcome if trace or outcome.problem else replace(outcome, trace=())))
    return seen, time.perf_counter() - began_s


def shrunk(setup: Setup, seen: SeedOutcome) -> SeedOutcome:
    """A divergence, with as few faults as it takes."""
    jobs, streams, expected = setup.prepared(seen.outcome.seed)
    return replace(seen, shrunk=shrink(jobs, streams, expected, seen.outcome, **setup.options()))


def run_all(tallies: Sequence[Tally], seeds: Sequence[int], *, workers: int, trace: bool) -> Generator[int, None, None]:
    """Runs everything, filling the tallies; yields how many seeds have been added."""
    size = 1 if workers == 1 else _CHUNK_SEEDS
    chunks = [(tally, part) for tally in tallies for part in chunked(seeds, size)]
    tasks = [partial(run_seeds, tally.setup, part, trace=trace) for tally, part in chunks]
    with closing(run_tasks(tasks, workers)) as running:
        for number, (seen, busy_s) in running:
            tally, _ = chunks[number]
            yield _note(tally, seen, busy_s)


def _note(tally: Tally, seen: list[SeedOutcome], busy_s: float) -> int:
    tally.seen += seen
    tally.busy_s += busy_s
    return len(seen)


def main(
    chosen: Sequence[Setup],
    seeds: Sequence[int],
    *,
    workers: int,
    shrinking: bool,
    trace: bool,
    json_file: Path | None,
) -> bool:
    """Runs and reports; True if nothing diverged and nothing was interrupted."""
    console = Terminal(stderr=str(json_file) == "-")
    tallies = [Tally(setup) for setup in chosen]
    workers = min(workers, -(-len(seeds) // _CHUNK_SEEDS) * len(tallies))
    finished = False
    with (
        progress(console, len(seeds) * len(tallies)) as advance,
        suppress(KeyboardInterrupt),
        closing(run_all(tallies, seeds, workers=workers, trace=trace)) as running,
    ):
        for count in running:
            advance(count, sum(len(tally.divergences) for tally in tallies))
        finished = True
    for tally in tallies:
        if shrinking and finished:
            tally.shrink(_TOLD_MAX)
        _tell(tally, console, trace=trace)
    if not finished:
        console.print("[yellow]Interrupted: this is what was seen so far.[/]")
    console.print(_summary(tallies, workers))
    if json_file is not None:
        _write(tallies, workers, json_file)
    return finished and not any(tally.divergences for tally in tallies)


# --- telling ----------------------------------------------------------------------------------------------------------


def _tell(tally: Tally, console: Console, *, trace: bool) -> None:
    told = sorted(tally.seen, key=lambda one: one.outcome.seed) if trace else tally.divergences[:_TOLD_MAX]
    for one in told:
        console.print(_story(tally.setup, one, whole=trace), soft_wrap=True)
    if not trace and len(tally.divergences) > len(told):
        rest = ", ".join(str(one.outcome.seed) for one in tally.divergences[len(told) :])
        console.print(f"{tally.setup.name}: also seeds {rest}\n", markup=False, highlight=False, soft_wrap=True)


def _story(setup: Setup, seen: SeedOutcome, *, whole: bool) -> Group:
    """One run for people: what was wrong, with how few faults, what happened, and how to see it again."""
    outcome, told = seen.outcome, seen.shrunk or seen.outcome
    title = Text.assemble((f"{setup.name}, seed {outcome.seed}: ", "bold"))
    if outcome.problem:
        title.append(outcome.problem, "red")
    else:
        title.append(f"all is well after {outcome.finished_s:.1f} virtual seconds", "green")
    parts: list[Any] = [title]
    if outcome.faults:
        fewer = f" ({len(told.faults)} of {len(outcome.faults)} suffice)" if seen.shrunk else ""
        parts.append(block(f"faults{fewer}", [str(fault) for fault in told.faults] or ["none"]))
    if told.problem != outcome.problem:
        parts.append(block("with these", [told.problem]))
    if setup.job and told.problem and not told.faults:
        parts.append(block("why", _NO_FUNCTION))
    lines = outcome.trace if whole else told.trace[-_TRACE_LINES:]
    cut = "" if whole or len(told.trace) <= _TRACE_LINES else f", the last {_TRACE_LINES} of {len(told.trace)} lines"
    parts.append(block(f"what happened{cut}", [line.strip() for line in lines]))
    if outcome.problem:
        parts.append(block("see it again", [setup.command(outcome.seed)]))
    return Group(*parts, "")


def _summary(tallies: Sequence[Tally], workers: int) -> Group:
    table = Table(title="Simulated", title_justify="left")
    table.add_column("scenario")
    for column in ("seeds", "diverged", "faults", "virtual seconds", "seeds/s"):
        table.add_column(column, justify="right")
    for tally in tallies:
        diverged = len(tally.divergences)
        table.add_row(
            escape(tally.setup.name),
            f"{len(tally.seen):,}",
            f"[red]{diverged:,}[/]" if diverged else "[green]0[/]",
            f"{tally.faults.total():,}",
            f"{tally.virtual_s:,.0f}",
            f"{tally.seeds_per_s(workers):,.1f}",
        )
    kinds = sum((tally.faults for tally in tallies), Counter[Kind]())
    told = ", ".join(f"{kind.value} {kinds[kind]:,}" for kind in Kind if kinds[kind])
    return Group(table, Text.assemble(("Faults: ", "bold"), told or "none", "."))


def _write(tallies: Sequence[Tally], workers: int, file: Path) -> None:
    records = [
        {
            "scenario": tally.setup.name,
            "seeds": len(tally.seen),
            "divergences": [_divergence(tally.setup, one) for one in tally.divergences],
            "faults": {kind.value: tally.faults[kind] for kind in Kind},
            "virtual_s": round(tally.virtual_s, 3),
            "seeds_per_s": round(tally.seeds_per_s(workers), 3),
        }
        for tally in tallies
    ]
    write_records(records, file)


def _divergence(setup: Setup, seen: SeedOutcome) -> dict[str, object]:
    told = seen.shrunk or seen.outcome
    return {
        "seed": seen.outcome.seed,
        "problem": seen.outcome.problem,
        "faults": [str(fault) for fault in seen.outcome.faults],
        "faults_needed": None if seen.shrunk is None else [str(fault) for fault in seen.shrunk.faults],
        "trace": list(told.trace),
        "command": setup.command(seen.outcome.seed),
    }
