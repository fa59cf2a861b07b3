"""Nexmark's queries on Holons, on stock Structured Streaming and on Flink SQL: the same events, each system by itself.

Holons runs as nodes in Spark tasks, exactly once, from a log; the others read the same events from Parquet files,
which they read best. Each is warm: it has run the very query before. The systems take turns, and while one is measured
the others have nothing to do. Rates are compared: Holons gets `times` as many of the events.

What is measured: Holons and Spark from submitting the query until everything is emitted; Flink by its own clock, from the
moment at which all its tasks run until the job has ended, so without planning and deploying. q0 to q2 make their rows and
throw them away, as Flink's and Spark's own sinks for that purpose do; the others emit theirs. Before anything is
measured, Holons' answers over the smaller load are compared with DuckDB's. A query counts the rows of the streams it reads.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import Progress

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.engines.driver import Driver
from holons.engines.spark.nodes import SparkNodes
from holons.engines.spark.session import session
from holons.errors import HolonsError, InvariantBroken
from holons.nexmark import Load, answer
from holons.nexmark.queries import query as pipeline
from holons.windows import END
from holons_bench import processes
from holons_bench.flink import Flink
from holons_bench.flink.files import write_nexmark
from holons_bench.plots import bars
from holons_bench.records import Figures, Record, by_case, check_known, print_table, recorder
from holons_bench.report import Report
from holons_bench.stock.frames import tuned
from holons_bench.stock.nexmark import StockNexmark

QUERIES: Final = ("q0", "q1", "q2", "q4", "q5", "q7")
OTHERS: Final = ("spark", "flink")
RATE: Final = 1_000_000
EVENTS: Final = 4_000_000
TIMES: Final = 6
_PARAMETERS: Final[Mapping[str, Mapping[str, int]]] = {"q5": {"size_us": 10_000_000, "every_us": 1_000_000}}
_DISCARDED: Final = ("q0", "q1", "q2")
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "q0": ("auction", "bidder", "price", "date_time", "extra"),
    "q1": ("auction", "bidder", "price", "date_time", "extra"),
}
_PATIENCE_S: Final = 600.0
_LOOK_S: Final = 0.002
_DRIVER_MEMORY: Final = "4g"


@dataclass
class Stopwatch:
    """Wall and processor seconds of each run, and how many events each run read."""

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


@dataclass
class _Bench:
    """Everything that is needed for a run, in one directory."""

    at: Path
    few: Load
    many: Load
    nodes: int
    repeat: int
    records: list[Record] = field(default_factory=list)

    def write(self) -> None:
        """Lays the events out for each system."""
        for load, name in ((self.few, "few"), (self.many, "many")):
            for stream in ("auctions", "bids"):
                with DirectorySite(self.at / name).producer(stream, load.partitions, "producer#1") as log:
                    for partition in range(load.partitions):
                        for batch in load.batches(stream, partition, 100_000):
                            log.append(partition, batch)
                        log.mark(partition, END.ts)
        cores, few = os.cpu_count() or 1, self.few
        write_nexmark(self.at / "parquet", few.events, rate=few.rate, readers=cores, seed=few.seed)
        self._beyond()

    def _beyond(self) -> None:
        """Writes the same files for Spark, and a row far beyond them, which moves its watermark past the last window."""
        for table in ("bid", "auction"):
            folder = self.at / "spark" / table
            folder.mkdir(parents=True)
            files = sorted((self.at / "parquet" / table).glob("*.parquet"))
            for file in files:
                (folder / file.name).symlink_to(file)
            beyond = pq.read_table(files[0]).slice(0, 1)
            ahead = pa.array([3_600_000_000 + 10 * self.few.events * 1_000_000 // self.few.rate])
            for time_column in ("date_time", "expires"):
                if time_column in beyond.column_names:
                    beyond = beyond.set_column(beyond.column_names.index(time_column), time_column, ahead)
            pq.write_table(beyond, folder / "zz-beyond.parquet")

    def rows(self, load: Load, name: str) -> int:
        """Returns how many rows a query reads."""
        return sum(load.count(source.stream) for source in _job(name).inputs)


def check(load: Load, name: str) -> None:
    """Compares what Holons gives for a load with DuckDB's answer."""
    tables = {stream: load.table(stream) for stream in ("auctions", "bids")}
    expected = pl.DataFrame(answer(name, tables, **_PARAMETERS.get(name, {})))
    job = pipeline(name, rate=RATE, **_PARAMETERS.get(name, {}))
    streams = {
        source.stream: [list(load.batches(source.stream, number)) for number in range(load.partitions)]
        for source in job.inputs
    }
    rows = h.run(job, streams, engine="embedded").wait().results().to_polars(name).drop("partition")
    if not rows.sort(rows.columns).equals(expected.select(rows.columns).sort(rows.columns)):
        raise InvariantBroken(f"{name}: Holons and DuckDB disagree on {load.events:,} events")


def _check_elsewhere(load: Load, name: str) -> None:
    """Checks in a process of its own: the memory that this takes would be missing when time is measured."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        executor.submit(check, load, name).result()


def run(
    events: int = EVENTS,
    *,
    queries: Sequence[str] = QUERIES,
    against: Sequence[str] = OTHERS,
    times: int = TIMES,
    repeat: int = 5,
    nodes: int = 2,
    partitions: int = 4,
    progress: bool = False,
) -> list[Record]:
    """Measures queries on Holons and on others: those over `events`, Holons over `times` as many."""
    check_known(queries, QUERIES, "a query that is measured")
    check_known(against, OTHERS, "a system to compare with")
    os.environ.setdefault("SPARK_DRIVER_MEMORY", _DRIVER_MEMORY)  # for a JVM that is still to come
    few = Load(events, partitions=partitions, rate=RATE)
    many = Load(events * times, partitions=partitions, rate=RATE)
    with tempfile.TemporaryDirectory(prefix="holons-bench-") as folder, Progress(disable=not progress) as bar:
        bench = _Bench(Path(folder), few, many, nodes, repeat)
        task = bar.add_task("writing events", total=None)
        bench.write()
        spark = session(nodes)
        stock = StockNexmark(tuned(spark, os.cpu_count() or 1), bench.at / "spark")
        bar.update(task, total=len(queries) * repeat)
        for name in queries:
            bar.update(task, description=name)
            _check_elsewhere(few, name)
            watches = {"holons": Stopwatch(bench.rows(many, name))}
            watches |= {system: Stopwatch(bench.rows(few, name)) for system in against}
            _ = "spark" in against and stock.run(name, lambda work: work())
            with Flink(bench.at / f"flink-{name}") if "flink" in against else nullcontext() as flink:
                for number in range(repeat):
                    if "spark" in against:
                        stock.run(name, watches["spark"].time)
                    if flink is not None:
                        _flink(flink, bench, name, watches["flink"])
                    _holons(bench, name, number, spark, watches["holons"])
                    bar.advance(task)
            bench.records += _records(name, watches)
    return bench.records


def _flink(flink: Flink, bench: _Bench, name: str, watch: Stopwatch) -> None:
    """Runs a query once on Flink, warm."""
    (measured,) = flink.run("q7 ranked" if name == "q7" else name, bench.at / "parquet")
    watch.wall_s.append(measured.wall_s)
    if measured.cpu_s is not None:
        watch.cpu_s.append(measured.cpu_s)


def _holons(bench: _Bench, name: str, number: int, spark: object, watch: Stopwatch) -> None:
    """Runs a query once on fresh nodes, which have run the same query over the same log before."""
    site = DirectorySite(bench.at / f"{name}-{number}")
    site.share_inputs(DirectorySite(bench.at / "many"))
    with SparkNodes(site, nodes=bench.nodes, spark_session=spark) as running:  # type: ignore[arg-type]
        job = _job(name)
        _to_end(running, h.job(job, name="warm-up"), start=bench.nodes)
        running.cancel("warm-up")
        watch.time(lambda: _to_end(running, job))
    shutil.rmtree(site.directory)


def _job(name: str) -> h.Job:
    flow = pipeline(name, rate=RATE, **_PARAMETERS.get(name, {}))
    return flow.discarding(_COLUMNS.get(name)) if name in _DISCARDED else flow


def _to_end(running: Driver, job: h.Job, start: int = 0) -> None:
    """Submits a job, and waits until everything is emitted."""
    version = running.submit(job)
    for _ in range(start):
        running.start()
    until_s = time.perf_counter() + _PATIENCE_S
    while not running.tend(version):
        time.sleep(_LOOK_S)
        if time.perf_counter() > until_s:
            raise HolonsError(f"{job.name}: no end in {_PATIENCE_S:.0f} s", hint="is the machine too busy?")


def show(records: Sequence[Record], console: Console | None = None) -> None:
    """Prints a table, one line for each query."""
    systems, others = _systems(records)
    print_table(
        "Nexmark: million events a second, and how many times as fast",
        ["query", *systems, *(f"x {system}" for system in others)],
        _lines(records),
        caption="Medians; in brackets our worst run with their best, and our best with their worst.\n"
        "All on this machine, one at a time, warm, exactly once. Holons reads its own log, the others Parquet.",
        console=console,
    )


def report(records: Sequence[Record]) -> Report:
    """Returns a page with all figures, and the rates side by side."""
    page = Report("Nexmark: how many events each system reads")
    page.text(
        "The same events on one machine, one system at a time, warm, exactly once. Holons reads its own log, the others "
        "Parquet files. Flink's time is its own, from the moment at which all tasks run; the others' begins with the query."
    )
    systems, others = _systems(records)
    cases = by_case(records)
    medians = {system: [figures[system, "rate_median"] for figures in cases.values()] for system in systems}
    page.figure(bars(list(cases), medians))
    heads = [*(f"{system}, M/s" for system in systems), *(f"times {system}" for system in others)]
    page.table(
        ["query", *heads],
        _lines(records),
        "medians; in brackets our worst run with their best, and our best with their worst",
    )
    return page


def _systems(records: Sequence[Record]) -> tuple[list[str], list[str]]:
    """Returns all systems, and those that Holons is compared with."""
    systems = list(dict.fromkeys(record["system"] for record in records))
    return systems, [system for system in systems if system != "holons"]


def _lines(records: Sequence[Record]) -> list[list[str]]:
    """Returns a line for each query: rates, then ratios."""
    systems, others = _systems(records)
    return [
        [
            case,
            *(f"{figures[system, 'rate_median'] / 1e6:.2f}" for system in systems),
            *(_ratio(figures, system) for system in others),
        ]
        for case, figures in by_case(records).items()
    ]


def _ratio(figures: Figures, system: str) -> str:
    ratio, least, most = (figures["holons", f"{what}_{system}"] for what in ("ratio", "ratio_least", "ratio_most"))
    return f"{ratio:.1f} ({least:.1f}-{most:.1f})"


def _records(case: str, watches: Mapping[str, Stopwatch]) -> list[Record]:
    record = recorder("nexmark", case)

    def rates(watch: Stopwatch, pick: Callable[[Sequence[float]], float]) -> float:
        return watch.events / pick(watch.wall_s)

    records: list[Record] = []
    ours = watches["holons"]
    for system, watch in watches.items():
        picks: dict[str, Callable[[Sequence[float]], float]] = {
            "rate": min,
            "rate_median": statistics.median,
            "rate_worst": max,
        }
        records += [record(system, metric, rates(watch, pick), "events/s") for metric, pick in picks.items()]
        records.append(record(system, "events", watch.events, "events"))
        if system == "holons":
            continue
        ratios = {
            "ratio": rates(ours, statistics.median) / rates(watch, statistics.median),
            "ratio_least": rates(ours, max) / rates(watch, min),
            "ratio_most": rates(ours, min) / rates(watch, max),
        }
        if ours.cpu_s and watch.cpu_s:
            each = [watched.events / statistics.median(watched.cpu_s) for watched in (ours, watch)]
            ratios["ratio_core"] = each[0] / each[1]
        records += [record("holons", f"{metric}_{system}", ratio, f"x {system}") for metric, ratio in ratios.items()]
    return records
