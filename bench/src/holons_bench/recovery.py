"""What failures cost: window latencies of one job at a fixed rate, with nodes killed or stopped while it runs.

The job is Nexmark's query 7, the highest bid of each window over all partitions. Each scenario is a run of its own; how
it is measured is in `live`, what the figures mean in `latencies`. All results are checked. The run without failures is
what the others are compared with that ran in the same way (with so many replicas).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table

import holons as h
from holons.nexmark import PacedBids, highest_bid, highest_bids
from holons.node import Settings
from holons_bench import live, plots
from holons_bench.chronicle import Chronicle, Happened
from holons_bench.latencies import UNITS, figures
from holons_bench.live import NodeFault
from holons_bench.records import Record, by_case, recorder
from holons_bench.report import Report

WARM_S: Final = 5.0
"""So much at the beginning of each run is not counted."""
BACK_S: Final = 10.0
"""A killed node is back after so long, a stopped one goes on."""
APART_S: Final = 5.0
FAILURE_TIMEOUT_S: Final = 0.4
STOCK: Final = "stock Structured Streaming"
"""The way in which the others do it."""
_CALM: Final = "no failure"
_ABOUT_STOCK: Final = (
    "Beside it, the same query in stock Structured Streaming, warm and tuned: as many executors, each in a process of its "
    "own, which read small Parquet files that appear at the same rate, in micro-batches without a pause. Spark replaces "
    "executors that are killed at once (it is not held back for 10 s as ours are); a query that fails is started again "
    "from its checkpoint. Its windows were checked as well."
)
_SHOWN: Final = ("average", "p50", "p99", "p99.9", "max", "recovery", "for_good", "sensitivity")
_SHORT: Final = {
    "average": "avg",
    "p50": "p50",
    "p99": "p99",
    "p99.9": "p99.9",
    "max": "max",
    "recovery": "back",
    "sensitivity": "area",
}


def scenarios(at_s: float) -> dict[str, list[NodeFault]]:
    """Returns what is done to nodes in each scenario; `at_s` is when it begins."""
    return {
        _CALM: [],
        "two killed together": [NodeFault(at_s, node, "remove", BACK_S) for node in (1, 2)],
        "two killed 5 s apart": [NodeFault(at_s + APART_S * number, number + 1, "remove", BACK_S) for number in (0, 1)],
        "two killed for good": [NodeFault(at_s, node, "remove") for node in (1, 2)],
        "one stopped for 10 s": [NodeFault(at_s, 1, "pause", BACK_S)],
    }


@dataclass(frozen=True)
class RecoveryPlan:
    """What is measured."""

    seconds: int = 60
    nodes: int = 5
    partitions: int = 10
    rate: int = 50_000
    window_ms: int = 100
    spark: bool = True
    replicas: Sequence[int] = (1, 2)
    failure_timeout_s: float = FAILURE_TIMEOUT_S

    @property
    def load(self) -> PacedBids:
        window_us = 1_000 * self.window_ms
        return PacedBids(self.rate, self.partitions, WARM_S + self.seconds, window_us, min(window_us, 50_000))

    def setting(self, replicas: int) -> live.Setting:
        settings = Settings(replicas=replicas, failure_timeout_s=self.failure_timeout_s)
        return live.Setting(self.nodes, self.spark, producers=1, settings=settings)

    def way(self, replicas: int) -> str:
        """Returns in words how partitions are run."""
        return "one owner" if replicas == 1 else f"replicas={replicas}"


Runs = dict[str, dict[str, Chronicle]]
"""By scenario and way."""


def run(plan: RecoveryPlan, progress: Callable[[str], None] = lambda _: None) -> Runs:
    """Runs every scenario in every way."""
    load = plan.load
    expected = highest_bids(load)[: load.windows]
    runs: Runs = {}
    for scenario, faults in scenarios(WARM_S + plan.seconds / 4).items():
        for replicas in plan.replicas:
            progress(f"{scenario}, {plan.way(replicas)}")
            job = h.job(highest_bid(load.window_us), "bids", time="date_time")
            chronicle = live.run(job, load, plan.setting(replicas), faults)
            live.check(scenario, chronicle.rows, expected)
            runs.setdefault(scenario, {})[plan.way(replicas)] = chronicle
    return runs


def run_stock(plan: RecoveryPlan, progress: Callable[[str], None] = lambda _: None) -> Runs:
    """Runs every scenario on stock Structured Streaming: as many executors, the same rate, windows and times."""
    from holons_bench.stock.recovery import run_stock as run_one

    runs: Runs = {}
    for scenario in scenarios(0.0):
        progress(f"{scenario}, {STOCK}")
        recorded = run_one(
            scenario,
            rate_per_s=plan.rate,
            partitions=plan.partitions,
            window_us=1_000 * plan.window_ms,
            seconds=plan.seconds,
            executors=plan.nodes,
            warm_up_s=WARM_S,
        )
        faults = [Happened(WARM_S + float(at_s), "killed", "executor") for at_s in recorded.faults_s]
        runs[scenario] = {STOCK: Chronicle(WARM_S + recorded.due_s, WARM_S + recorded.readable_s, [], happened=faults)}
    return runs


def beside(runs: Runs, others: Runs) -> Runs:
    """Runs of the same scenarios, side by side."""
    return {scenario: {**ways, **others.get(scenario, {})} for scenario, ways in runs.items()}


def records(runs: Mapping[str, Mapping[str, Chronicle]]) -> list[Record]:
    """Returns the figures of all runs as records; a run with faults is compared with the calm one in the same way."""
    records = []
    for scenario, ways in runs.items():
        for way, chronicle in ways.items():
            calm = runs[_CALM][way]
            warm, calm_warm = chronicle.since(WARM_S), calm.since(WARM_S)
            measured = figures(
                chronicle.due_s[warm], chronicle.readable_s[warm], chronicle.faults_s, calm.late_s[calm_warm]
            )
            system, case = ("spark", scenario) if way == STOCK else ("holons", f"{scenario}, {way}")
            record = recorder("recovery", case)
            records += [record(system, name, value, UNITS.get(name, "s")) for name, value in measured.items()]
    return records


def show(records: Sequence[Record], console: Console | None = None) -> None:
    """Prints a table of records: the scenarios, and a line for each way to run them."""
    table = Table(
        title="What failures cost: window latency in seconds",
        title_justify="left",
        caption="back: until the last window that was disturbed could be read. area: between the curve and the average "
        "without failures, in s². --html shows the curves.",
        caption_justify="left",
    )
    table.add_column("")
    for heading in _SHORT.values():
        table.add_column(heading, justify="right", no_wrap=True)
    before = ""
    for system, case, values in _cases(records):
        scenario, _, way = case.partition(", ")
        if scenario != before:
            table.add_section()
            table.add_row(scenario, style="bold")
        before = scenario
        cells = (f"{values[name]:.2f}" if name in values else "" for name in _SHORT)
        table.add_row(f"  {way if system == 'holons' else system}", *cells)
    (console or Console()).print(table)


def _cases(records: Sequence[Record]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yields the system, the name and the figures of each case; no two systems share the name of a case."""
    for case, values in by_case(records).items():
        (system,) = {system for system, _ in values}
        yield system, case, {name: value for (_, name), value in values.items()}


def _lines(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [system, case, *(f"{values[name]:.3f}" if name in values else "" for name in _SHOWN)]
        for system, case, values in _cases(records)
    ]
    heads = [f"{name} s²" if name == "sensitivity" else name.replace("_", " ") for name in _SHOWN]
    return ["system", "case", *heads], rows


def report(plan: RecoveryPlan, runs: Runs, records: Sequence[Record]) -> Report:
    """Returns the page: all latency curves side by side, and the figures."""
    where = "in Spark tasks" if plan.spark else "in processes of their own"
    page = Report("What failures cost")
    page.text(
        f"{plan.nodes} nodes {where} compute the highest bid of every {plan.window_ms} ms over {plan.partitions} "
        f"partitions, at {plan.rate:,} bids a second, for {plan.seconds} s in each scenario (after {WARM_S:g} s to warm "
        "up). Killed means SIGKILL, stopped SIGSTOP. A node counts as dead after "
        f"{plan.failure_timeout_s:g} s without a sign of life.",
        "Latency is from a window's end to the moment at which a reader has its result; every window counts in full. "
        "Recovery is from a fault until the last window that it disturbed was readable: before two seconds without such "
        "windows, and for good, that is, until the next fault or the end. Sensitivity is the area between the latency "
        "curve and the average without failures. Every window was compared with a sequential "
        "computation.",
        "With replicas=2 each partition runs on two nodes. If two nodes are killed together that are the two of one "
        "partition, that partition is taken over as it would be without.",
        *([_ABOUT_STOCK] if any(STOCK in ways for ways in runs.values()) else []),
    )
    page.figure(plots.latency_grid(runs))
    page.heading("Figures")
    page.table(*_lines(records), caption="seconds")
    page.heading("Who ran which partition: two killed 5 s apart")
    for way, chronicle in runs["two killed 5 s apart"].items():
        page.text(way)
        page.figure(plots.owners(chronicle))
    return page
