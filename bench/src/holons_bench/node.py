"""How fast one node is, from a log on disk to results in a log on disk, with exactly-once on.

Bids lie in a log of several partitions. One node with the ports that node processes have (inputs, outputs, sync,
heartbeat and control streams in files, checkpoints in a directory) and default settings runs one job at a time, from its
first tick until everything is emitted. Every run starts from nothing, and its results are compared with what NumPy
computes from the same bids. What is not timed: writing the bids. Each job names the columns that it reads (two or three
of five, the time included), so that the others are not touched.

A rate is given per second of wall time and per second of CPU time, over all threads: the second is what a core does,
also on a machine that is busy with other things.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
from rich.console import Console
from rich.progress import Progress

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.errors import InvariantBroken
from holons.node import Node, submit
from holons.program import Collected
from holons_bench.bids import CATEGORIES, SECOND_US, Bids, Expected, Totals
from holons_bench.records import Record, by_metric, print_table, recorder

STREAM: Final = "bids"
CHANNEL: Final = "on_window"
_IDLE_S: Final = 0.001


class Highest(h.Program):
    """The highest bid of each second."""

    emit = "once"
    highest = h.WCRDT(h.MaxRegister("int"), h.Tumbling("1s"))

    def process(self, events: h.Events) -> None:
        self.highest.insert(events["price"], events.ts)

    def on_window(self, window: h.Window) -> Iterator[dict[str, Any]]:
        yield {"window": window.start, "value": self.highest[window]}


class AveragePerCategory(h.Program):
    """The average price of each category, per second."""

    emit = "once"
    average = h.WCRDT(h.MergeMap(h.Average("int")), h.Tumbling("1s"))

    def process(self, events: h.Events) -> None:
        self.average.insert((events["category"], events["price"]), events.ts)

    def on_window(self, window: h.Window) -> Iterator[pl.DataFrame]:
        yield _in_window(self.average[window], window)


class CountPerAuction(h.Program):
    """How many bids each auction got, per second; every partition emits its share of the auctions."""

    count = h.WCRDT(h.MergeMap(h.GCounter()), h.Tumbling("1s"))

    def process(self, events: h.Events) -> None:
        self.count.insert((events["auction"], 1), events.ts)

    def on_window(self, window: h.Window) -> Iterator[pl.DataFrame]:
        yield _in_window(self.count[window].share(), window)


def _in_window(values: h.Keyed, window: h.Window) -> pl.DataFrame:
    return values.to_frame().select(pl.lit(window.start, pl.Int64).alias("window"), "key", "value")


@dataclass(frozen=True)
class NodeCase:
    """A program, and what it must emit."""

    name: str
    program: h.Program
    columns: tuple[str, ...]
    """What it reads besides the time."""
    expected: Callable[[Totals], Expected]


def run(
    events: int = 20_000_000,
    *,
    repeat: int = 5,
    partitions: int = 4,
    seconds: int = 20,
    auctions: int = 10_000,
    progress: bool = False,
) -> list[Record]:
    """Measures every case over the same log."""
    bids = Bids(events - events % partitions, partitions, seconds, auctions)
    records: list[Record] = []
    with tempfile.TemporaryDirectory(prefix="holons-bench-") as folder, Progress(disable=not progress) as bar:
        task = bar.add_task("writing bids", total=None)
        bids.write(DirectorySite(folder), STREAM)
        cases, totals = _cases(auctions), bids.totals()
        for case in cases:
            expected = case.expected(totals)
            bar.update(task, description=case.name, total=len(cases) * repeat)
            measured = []
            for number in range(repeat):
                site = DirectorySite(Path(folder) / f"{type(case.program).__name__}-{number}")
                site.share_inputs(DirectorySite(folder))
                measured.append(measure(case, site, expected))
                bar.advance(task)
            records += _records(case, bids.events, measured)
    return records


def measure(case: NodeCase, site: DirectorySite, expected: Expected) -> tuple[float, float]:
    """Runs a case once on a fresh node and checks what it emits: (wall seconds, CPU seconds)."""
    job = h.job(case.program, STREAM, columns=case.columns)
    ports = site.ports("node-1#1")
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    node = Node("node-1#1", ports)
    node.add_job(submit(job, ports).id, job)
    while not node.finished:
        if not node.tick():
            ports.clock.sleep_s(_IDLE_S)
        for failure in node.failures.values():
            raise failure
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    check(case.name, results_of(site.collected(job.name)), expected)
    return wall_s, cpu_s


def results_of(collected: Collected) -> Expected:
    """Returns what a run has emitted, by (second, key)."""
    rows = (row for partition in collected.get(CHANNEL, {}).values() for row in partition)
    return {(row["window"] // SECOND_US, row.get("key", 0)): row["value"] for row in rows}


def check(case: str, results: Expected, expected: Expected) -> None:
    """Raises if a result is wrong: what is wrong is not timed."""
    if results != expected:
        different = sorted(key for key in {*results, *expected} if results.get(key) != expected.get(key))
        raise InvariantBroken(
            f"{case}: {len(different)} of {len(expected)} results are wrong, the first at (window, key) "
            f"{different[0]}: {results.get(different[0])} instead of {expected.get(different[0])}"
        )


def show(records: Sequence[Record], console: Console | None = None) -> None:
    """Prints a table of records, one line for each case."""
    names = ("rate_core", "rate_core_median", "rate", "rate_median", "rate_worst")
    print_table(
        "One node, log to log, exactly once: million events a second",
        ("case", "core", "median", "wall", "median", "worst"),
        [[case, *(f"{figures[name] / 1e6:.1f}" for name in names)] for case, figures in by_metric(records).items()],
        console=console,
    )


# --- the cases ------------------------------------------------------------------------------------------------------


def _cases(auctions: int) -> list[NodeCase]:
    return [
        NodeCase("maximum, tumbling 1 s", Highest(), ("price",), Totals.highest),
        NodeCase(
            f"average of {CATEGORIES} categories, tumbling 1 s",
            AveragePerCategory(),
            ("category", "price"),
            Totals.averages,
        ),
        NodeCase(f"count of {auctions:,} keys, tumbling 1 s", CountPerAuction(), ("auction",), Totals.counts),
    ]


# --- records --------------------------------------------------------------------------------------------------------


def _records(case: NodeCase, events: int, measured: list[tuple[float, float]]) -> list[Record]:
    walls, cpus = zip(*measured, strict=True)
    record = recorder("node", case.name)
    return [
        record("holons", "rate", events / min(walls), "events/s"),
        record("holons", "rate_median", events / statistics.median(walls), "events/s"),
        record("holons", "rate_worst", events / max(walls), "events/s"),
        record("holons", "rate_core", events / min(cpus), "events/s/core"),
        record("holons", "rate_core_median", events / statistics.median(cpus), "events/s/core"),
    ]
