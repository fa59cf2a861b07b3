"""How much Holons takes in, compared with stock Structured Streaming: the same queries over the same bids.

Both run on one machine, in one Spark session, exactly once, each from what it reads best: Holons as nodes in Spark
tasks, from an LMDB log; stock from Parquet files, tuned (`holons_bench.stock.queries`). Both read only the columns that
a query needs: Spark finds them by itself, a job of ours names them. Both are warm: the session has run the query
before, the nodes are up and have run the program. A run is measured from submitting it until its last result is out.
Runs of the two take turns, so that a machine that is busy with other things is so for both, and the nodes are gone
while stock runs. Rates are compared: Holons gets `times` as many seconds of the same bids, since otherwise most of its
run would be the start. Every result is compared with what NumPy computes from the bids; a wrong one is an error.

A rate is given per second of wall time and per second of processor time, over all processes (the JVM, the driver and the
Python workers): the second says what the work costs, also on a busy machine.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.engines.driver import Driver, check_stopped
from holons.engines.spark.nodes import SparkNodes
from holons.engines.spark.session import session
from holons.errors import HolonsError
from holons.node import Submitted
from holons_bench import processes
from holons_bench.bids import Bids, Expected, Totals
from holons_bench.kernels import Record
from holons_bench.node import CHANNEL, STREAM, AveragePerCategory, Highest, check, found_by
from holons_bench.stock.queries import Query, Stock, tuned

HOT_SECONDS: Final = 10
SYSTEMS: Final = ("holons", "spark")
_WARM_UP: Final = "warm-up"
_WARM_UP_S: Final = 2
_PATIENCE_S: Final = 600.0
_LOOK_S: Final = 0.005
_DRIVER_MEMORY: Final = "4g"


class HotItems(h.Program):
    """The auction with most bids in the last ten seconds, every second."""

    emit = "once"
    bids = h.WCRDT(h.MergeMap(h.GCounter()), h.Sliding(f"{HOT_SECONDS}s", every="1s"))

    def process(self, events: h.Events) -> None:
        self.bids.insert((events["auction"], 1), events.ts)

    def on_window(self, window: h.Window) -> Iterator[dict[str, Any]]:
        for auction, bids in self.bids[window].top(1):
            yield {"window": window.start, "key": auction, "value": bids}


@dataclass(frozen=True)
class Case:
    """A query, once as a program and once in stock Spark, and what it must give."""

    name: str
    program: h.Program
    columns: tuple[str, ...]
    """What the program reads besides the time; Spark finds out by itself."""
    query: Query
    expected: Callable[[Totals], Expected]


CASES: Final = (
    Case("highest bid, tumbling 1 s", Highest(), ("price",), "highest", Totals.highest),
    Case(
        "average price per category, tumbling 1 s",
        AveragePerCategory(),
        ("category", "price"),
        "average",
        Totals.averages,
    ),
    Case(
        "hot items, sliding 10 s by 1 s",
        HotItems(),
        ("auction",),
        "hot items",
        lambda totals: totals.hottest(HOT_SECONDS),
    ),
)


@dataclass
class Stopwatch:
    """Wall and processor seconds of each run, and how many events each took in."""

    events: int
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def time(self, work: Callable[[], None]) -> None:
        """Does the work, and writes down how long it took."""
        before, began_s = processes.tree(), time.perf_counter()
        work()
        self.wall_s.append(time.perf_counter() - began_s)
        if before:
            self.cpu_s.append(processes.spent_s(before, processes.tree()))


def run(
    events: int = 20_000_000,
    *,
    seconds: int = 20,
    times: int = 8,
    repeat: int = 5,
    nodes: int = 2,
    partitions: int = 8,
    auctions: int = 10_000,
    progress: bool = False,
) -> list[Record]:
    """Measures every case on both systems: stock over `events` in `seconds` of event time, Holons over `times` as many."""
    few = Bids(events - events % partitions, partitions, seconds, auctions)
    many = Bids(few.events * times, partitions, seconds * times, auctions)
    os.environ.setdefault("SPARK_DRIVER_MEMORY", _DRIVER_MEMORY)  # for a JVM that is still to come
    records: list[Record] = []
    with tempfile.TemporaryDirectory(prefix="holons-bench-") as folder, Progress(disable=not progress) as bar:
        task, at = bar.add_task("writing bids", total=None), Path(folder)
        first = Bids(few.events // seconds * min(_WARM_UP_S, seconds), partitions, min(_WARM_UP_S, seconds), auctions)
        few.write_parquet(at / "parquet")
        many.write(DirectorySite(at), STREAM)
        first.write(DirectorySite(at), _WARM_UP)
        totals = few.totals(), many.totals()
        spark = session(nodes)
        stock = Stock(tuned(spark, os.cpu_count() or 1), at / "parquet")
        bar.update(task, total=len(CASES) * (repeat + 1))
        for case in CASES:
            bar.update(task, description=case.name)
            watches = {"spark": Stopwatch(few.events), "holons": Stopwatch(many.events)}
            check(case.name, stock.run(case.query, lambda work: work()), case.expected(totals[0]))
            bar.advance(task)
            for number in range(repeat):
                check(case.name, stock.run(case.query, watches["spark"].time), case.expected(totals[0]))
                site = _site(at, f"{type(case.program).__name__}-{number}")
                with SparkNodes(site, nodes=nodes, spark_session=spark) as running:
                    found = measure(running, case, nodes, len(case.expected(totals[1])), watches["holons"])
                check(case.name, found, case.expected(totals[1]))
                bar.advance(task)
            records += _records(case, watches)
    return records


def _site(directory: Path, name: str) -> DirectorySite:
    """A site of its own over the same inputs."""
    site = DirectorySite(directory / name)
    site.share_inputs(DirectorySite(directory))
    return site


def measure(running: Driver, case: Case, nodes: int, rows: int, watch: Stopwatch) -> Expected:
    """Starts nodes, warms them up, and times a job from its submission until all its rows are out."""
    warm_up = running.submit(h.job(case.program, _WARM_UP, columns=case.columns, name=_WARM_UP))
    for _ in range(nodes):
        running.start()
    until_s = time.perf_counter() + _PATIENCE_S
    while len(running.watcher.finished(1)) < nodes:
        check_stopped(running.stopped().get(warm_up.id))
        if time.perf_counter() > until_s:
            raise HolonsError(f"no end of the warm-up in {_PATIENCE_S:.0f} s", hint="is the machine too busy?")
        time.sleep(_LOOK_S)
    running.cancel(_WARM_UP)
    job = h.job(case.program, STREAM, columns=case.columns)
    watch.time(lambda: _wait_for_rows(running, running.submit(job), rows))
    return found_by(running.collected(job.name))


def _wait_for_rows(running: Driver, version: Submitted, rows: int) -> None:
    """Waits until so many result rows can be read."""
    until_s = time.perf_counter() + _PATIENCE_S
    with closing(running.site.output(version.id, CHANNEL, version.partitions, "reader")) as log:
        ended = False
        while sum(map(log.end, range(log.partitions))) < rows:
            if ended or time.perf_counter() > until_s:
                check_stopped(running.stopped().get(version.id))
                raise HolonsError(f"{version.id} ended, or took {_PATIENCE_S:.0f} s, without all of its rows")
            ended = running.wait(_LOOK_S)


def show(records: Sequence[Record], console: Console | None = None) -> None:
    """Prints a table of records, one line for each case."""
    table = Table(
        title="Holons on Spark and stock Structured Streaming: million events a second, median; how many times as fast",
        title_justify="left",
        caption="Holons reads its own log, Spark reads Parquet; both have run the query before, every result is right.\n"
        "least: our worst run and their best; most: our best and their worst; core: per second of processor time",
        caption_justify="left",
    )
    table.add_column("case")
    for heading in (*SYSTEMS, "ratio", "least", "most", "core"):
        table.add_column(heading, justify="right", no_wrap=True)
    by_case: dict[str, dict[tuple[str, str], float]] = {}
    for one in records:
        by_case.setdefault(one["case"], {})[one["system"], one["metric"]] = one["value"]
    for case, figures in by_case.items():
        rates = [f"{figures[system, 'rate_median'] / 1e6:.1f}" for system in SYSTEMS]
        ratios = [figures.get(("holons", name)) for name in ("ratio", "ratio_least", "ratio_most", "ratio_core")]
        table.add_row(case, *rates, *("" if ratio is None else f"{ratio:.1f}" for ratio in ratios))
    (console or Console()).print(table)


def _records(case: Case, watches: dict[str, Stopwatch]) -> list[Record]:
    def record(system: str, metric: str, value: float, unit: str) -> Record:
        return Record(bench="throughput", case=case.name, system=system, metric=metric, value=value, unit=unit)

    told: dict[str, dict[str, float]] = {}
    records: list[Record] = []
    for system, watch in watches.items():
        told[system] = rates = {
            "rate": watch.events / min(watch.wall_s),
            "rate_median": watch.events / statistics.median(watch.wall_s),
            "rate_worst": watch.events / max(watch.wall_s),
        }
        records += [record(system, metric, rate, "events/s") for metric, rate in rates.items()]
        records.append(record(system, "events", watch.events, "events"))
        if watch.cpu_s:
            rates["rate_core"] = watch.events / statistics.median(watch.cpu_s)
            records.append(record(system, "rate_core", rates["rate_core"], "events/s/core"))
    ours, theirs = told["holons"], told["spark"]
    ratios = {
        "ratio": ours["rate_median"] / theirs["rate_median"],
        "ratio_least": ours["rate_worst"] / theirs["rate"],
        "ratio_most": ours["rate"] / theirs["rate_worst"],
    }
    if "rate_core" in ours and "rate_core" in theirs:
        ratios["ratio_core"] = ours["rate_core"] / theirs["rate_core"]
    return records + [record("holons", metric, ratio, "x spark") for metric, ratio in ratios.items()]
