"""`holons sim --swarm`: runs in which everything is drawn, what they have met, and which lines of nodes they have run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from holons.cli.records import write_records
from holons.cli.seeds import block, chunked, progress, run_tasks
from holons.cli.terminal import Terminal
from holons.engines.simulator import Fault, Kind
from holons.engines.simulator.swarm import MET_WITHIN, SwarmOutcome, draw, never_met, simulate_draw
from holons.engines.simulator.swarm.line_coverage import LineCoverage, Lines, lines_text
from holons.engines.simulator.swarm.unreachable import UNREACHABLE

COVERED = "holons.node"
COVERED_MIN_PERCENT = 95
_COVERED_SEEDS = 2_000
"""With fewer seeds coverage is printed, and not judged."""
_TWICE_EVERY = 10
_CHUNK_SEEDS = 5
_SHOWN_MAX = 3
_TRACE_LINES = 25


@dataclass(frozen=True)
class Part:
    """What became of some seeds in one process."""

    outcomes: list[SwarmOutcome]
    busy_s: float
    missing: Lines
    """The lines that this process has not run so far; only with coverage."""


@cache
def _coverage() -> LineCoverage:
    return LineCoverage(COVERED, UNREACHABLE)


def run_seeds(seeds: Sequence[int], *, coverage: bool) -> Part:
    """Runs some seeds; every tenth one twice, which must be the same."""
    began_s = time.perf_counter()
    if coverage:
        with _coverage().tracing():
            outcomes = [run_seed(seed) for seed in seeds]
    else:
        outcomes = [run_seed(seed) for seed in seeds]
    return Part(outcomes, time.perf_counter() - began_s, _coverage().missing if coverage else {})


def run_seed(seed: int) -> SwarmOutcome:
    """Runs a seed; if it is a tenth one, twice."""
    drawn = draw(seed)
    seen = simulate_draw(drawn)
    if seed % _TWICE_EVERY or seen.outcome.problem:
        return seen
    again = simulate_draw(draw(seed))
    if (again.outcome.trace, again.result, again.sightings) == (seen.outcome.trace, seen.result, seen.sightings):
        return seen
    return replace(seen, outcome=replace(seen.outcome, problem="a second run of this seed was another one"))


def shrunk(seed: int, seen: SwarmOutcome) -> tuple[Fault, ...]:
    """Returns as few faults as suffice for a problem."""
    faults = seen.outcome.faults
    for fault in seen.outcome.faults:
        fewer = tuple(other for other in faults if other is not fault)
        if simulate_draw(draw(seed), fewer).outcome.problem:
            faults = fewer
    return faults


@dataclass
class SwarmTally:
    """All that was seen."""

    outcomes: list[SwarmOutcome] = field(default_factory=list)
    busy_s: float = 0.0
    missing: Lines | None = None

    def add(self, part: Part) -> None:
        """Takes in what became of some seeds."""
        self.outcomes += part.outcomes
        self.busy_s += part.busy_s
        if self.missing is None:
            self.missing = part.missing
        else:
            self.missing = {
                file: both for file, lines in self.missing.items() if (both := lines & part.missing.get(file, set()))
            }

    @property
    def problems(self) -> list[SwarmOutcome]:
        return sorted((seen for seen in self.outcomes if seen.outcome.problem), key=lambda seen: seen.outcome.seed)

    @property
    def met(self) -> Counter[str]:
        """In how many seeds each situation was met."""
        return Counter(name for seen in self.outcomes for name, times in seen.sightings.items() if times)

    @property
    def never_met(self) -> list[str]:
        return never_met(self.met, len(self.outcomes))

    @property
    def kinds(self) -> Counter[Kind]:
        """The faults that came before the end of their run."""
        return Counter(
            fault.kind
            for seen in self.outcomes
            for fault in seen.outcome.faults
            if fault.at_s <= seen.outcome.finished_s
        )


def main(
    seeds: Sequence[int], *, workers: int, shrinking: bool, trace: bool, coverage: bool, json_file: Path | None
) -> bool:
    """Runs and reports; True if nothing diverged, and everything was met and reached that so many seeds must."""
    console = Terminal(stderr=str(json_file) == "-")
    tally, finished = SwarmTally(), False
    parts = chunked(seeds, 1 if workers == 1 else _CHUNK_SEEDS)
    workers = min(workers, len(parts))
    tasks = [partial(run_seeds, part, coverage=coverage) for part in parts]
    with (
        progress(console, len(seeds)) as advance,
        suppress(KeyboardInterrupt),
        closing(run_tasks(tasks, workers)) as running,
    ):
        for _, part in running:
            tally.add(part)
            advance(len(part.outcomes), len(tally.problems))
        finished = True
    shown = sorted(tally.outcomes, key=lambda seen: seen.outcome.seed) if trace else tally.problems[:_SHOWN_MAX]
    for seen in shown:
        fewer = shrunk(seen.outcome.seed, seen) if shrinking and finished and seen.outcome.problem else None
        console.print(_story(seen, fewer, whole=trace), soft_wrap=True)
    if not trace and len(tally.problems) > len(shown):
        rest = ", ".join(str(seen.outcome.seed) for seen in tally.problems[len(shown) :])
        console.print(f"also seeds {rest}\n", markup=False, highlight=False, soft_wrap=True)
    if not finished:
        console.print("[yellow]Interrupted: this is what was seen so far.[/]")
    console.print(_summary(tally, workers))
    enough = _tell_coverage(tally, console) if coverage and finished else True
    if json_file is not None:
        _write(tally, json_file)
    return finished and enough and not tally.problems and not tally.never_met


def _story(seen: SwarmOutcome, fewer: Sequence[Fault] | None, *, whole: bool) -> Group:
    """One run for people: what was drawn, what was wrong, with how few faults, what happened, and how to see it again."""
    outcome = seen.outcome
    title = Text.assemble((f"seed {outcome.seed}: ", "bold"))
    title.append(
        outcome.problem or f"all is well after {outcome.finished_s:.1f} virtual seconds",
        "red" if outcome.problem else "green",
    )
    faults = outcome.faults if fewer is None else fewer
    suffice = "" if fewer is None else f" ({len(fewer)} of {len(outcome.faults)} suffice)"
    lines = outcome.trace if whole else outcome.trace[-_TRACE_LINES:]
    parts = [
        title,
        block("drawn", seen.drawn),
        block(f"faults{suffice}", [str(fault) for fault in faults] or ["none"]),
        block("what happened" if whole else "what happened at last", [line.strip() for line in lines]),
    ]
    if outcome.problem:
        parts.append(block("see it again", [f"holons sim --swarm --seeds {outcome.seed} --trace"]))
    return Group(*parts, "")


def _summary(tally: SwarmTally, workers: int) -> Group:
    table = Table(title="Swarm", title_justify="left")
    for column in ("seeds", "diverged", "ended by a fault", "faults", "virtual seconds", "seeds/s"):
        table.add_column(column, justify="right")
    problems, kinds, met = len(tally.problems), tally.kinds, tally.met
    table.add_row(
        f"{len(tally.outcomes):,}",
        f"[red]{problems:,}[/]" if problems else "[green]0[/]",
        f"{sum(seen.outcome.lost for seen in tally.outcomes):,}",
        f"{kinds.total():,}",
        f"{sum(seen.outcome.finished_s for seen in tally.outcomes):,.0f}",
        f"{len(tally.outcomes) * workers / tally.busy_s if tally.busy_s else 0.0:,.1f}",
    )
    faults = ", ".join(f"{kind.value} {kinds[kind]:,}" for kind in Kind if kinds[kind])
    names = [*MET_WITHIN, *sorted(set(met) - set(MET_WITHIN))]
    situations = ", ".join(f"{name} {met[name]:,}" for name in names if met[name])
    parts: list[RenderableType] = [
        table,
        Text.assemble(("Faults: ", "bold"), faults or "none", "."),
        Text.assemble(("Situations met, in so many seeds: ", "bold"), situations or "none", "."),
    ]
    if tally.never_met:
        parts += [
            Text.assemble(("Never met: ", "bold red"), ", ".join(tally.never_met), "."),
            Text("  hint: so many seeds should have met them: what the swarm draws, or what a node does, has changed"),
        ]
    return Group(*parts)


def _tell_coverage(tally: SwarmTally, console: Console) -> bool:
    """Prints which lines of the nodes were never run; returns False if those are too many for so many seeds."""
    missing, lines = tally.missing or {}, _coverage().lines
    total, unreached = (sum(map(len, part.values())) for part in (lines, missing))
    percent = 100.0 * (total - unreached) / total
    console.print(
        Text.assemble(
            ("Coverage: ", "bold"),
            f"{percent:.1f}% of {total:,} lines of functions in {COVERED}, but for {len(UNREACHABLE)} that no simulated run "
            "can reach.",
        )
    )
    for file, numbers in sorted(missing.items()):
        console.print(f"  {Path(file).name}: {lines_text(numbers)}", markup=False, highlight=False, soft_wrap=True)
    return len(tally.outcomes) < _COVERED_SEEDS or percent >= COVERED_MIN_PERCENT


def _write(tally: SwarmTally, file: Path) -> None:
    missing = {Path(name).name: sorted(lines) for name, lines in (tally.missing or {}).items()}
    problems = [
        {"seed": seen.outcome.seed, "problem": seen.outcome.problem, "drawn": seen.drawn, "trace": seen.outcome.trace}
        for seen in tally.problems
    ]
    write_records(
        [
            {
                "seeds": len(tally.outcomes),
                "divergences": problems,
                "faults": {kind.value: tally.kinds[kind] for kind in Kind},
                "situations": dict(sorted(tally.met.items())),
                "never_met": tally.never_met,
                "lines_missing": missing,
            }
        ],
        file,
    )
