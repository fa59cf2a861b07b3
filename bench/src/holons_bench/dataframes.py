"""What it costs to go from Holons to DataFrames, and from files to answers, beside what Spark itself needs for it.

- *Read*: rows of four integers from a stream, through `format("holons")`, and from Parquet.
- *Fold*: a program over Parquet files (`h.fold`), and Spark's own aggregation of the same files.

Same rows, same session, in turns; both have done it before. Results are compared with what NumPy computes.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import Progress

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.engines.spark.frames import SparkSession
from holons.engines.spark.session import session
from holons_bench.bids import Bids, Expected
from holons_bench.node import AveragePerCategory, Highest, check, results_of
from holons_bench.records import Record, by_case, print_table, recorder
from holons_bench.stock import frames
from holons_bench.stock.frames import tuned

SYSTEMS: Final = ("holons", "spark")
_COLUMNS: Final = ("a", "b", "c", "d")
_BATCH: Final = 100_000
_GROUP_ROWS: Final = 1_000_000


@dataclass
class _Case:
    """The same thing done by both."""

    name: str
    rows: int
    work: dict[str, Callable[[], None]]
    wall_s: dict[str, list[float]] = field(default_factory=lambda: {system: [] for system in SYSTEMS})

    def turn(self) -> None:
        for system in SYSTEMS:
            began_s = time.perf_counter()
            self.work[system]()
            self.wall_s[system].append(time.perf_counter() - began_s)

    def forget(self) -> None:
        """Forgets what was measured so far: it was the warm-up."""
        for times in self.wall_s.values():
            times.clear()


def run(
    rows: int = 10_000_000, *, repeat: int = 5, partitions: int = 4, auctions: int = 10_000, progress: bool = False
) -> list[Record]:
    """Measures every case on both systems."""
    rows -= rows % (partitions * _BATCH) if rows > partitions * _BATCH else rows % partitions
    spark = tuned(session(), os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="holons-bench-") as folder, Progress(disable=not progress) as bar:
        task, at = bar.add_task("writing rows", total=None), Path(folder)
        cases = [_reading(spark, at, rows, partitions), *_folding(spark, at, rows, partitions, auctions)]
        bar.update(task, total=len(cases) * (repeat + 1))
        for case in cases:
            for number in range(repeat + 1):
                bar.update(task, description=case.name)
                case.turn()
                if number == 0:
                    case.forget()
                bar.advance(task)
    return [record for case in cases for record in _records(case)]


def _reading(spark: SparkSession, at: Path, rows: int, partitions: int) -> _Case:
    each = rows // partitions
    (at / "rows").mkdir()
    for partition in range(partitions):
        rng = np.random.default_rng(partition)
        table = pa.table({name: rng.integers(0, 1_000_000, each) for name in _COLUMNS})
        pq.write_table(table, at / "rows" / f"{partition}.parquet", row_group_size=_GROUP_ROWS)
        with DirectorySite(at / "site").producer("rows", partitions, f"writer#{partition}") as log:
            for batch in table.to_batches(max_chunksize=_BATCH):
                log.append(partition, batch)
    ours = spark.read.format("holons").option("stream", "rows").load(str(at / "site"))
    theirs = spark.read.parquet(str(at / "rows"))
    return _Case(
        "read rows of four integers",
        rows,
        {"holons": lambda: frames.read_all(ours), "spark": lambda: frames.read_all(theirs)},
    )


def _folding(spark: SparkSession, at: Path, rows: int, partitions: int, auctions: int) -> list[_Case]:
    bids = Bids(rows, partitions, seconds=max(1, rows // 1_000_000), auctions=auctions)
    bids.write_files(at / "bids", _GROUP_ROWS)
    totals = bids.totals()

    def ours(program: h.Program, columns: Sequence[str], expected: Expected, name: str) -> Callable[[], None]:
        def fold() -> None:
            folded = h.fold(h.job(program, "bids"), at / "bids", columns=columns, spark_session=spark)
            check(name, results_of(folded.results().collected), expected)

        return fold

    def theirs(query: Callable[[], Expected], expected: Expected, name: str) -> Callable[[], None]:
        return lambda: check(name, query(), expected)

    highest, average = "fold: highest bid, tumbling 1 s", "fold: average price per category, tumbling 1 s"
    return [
        _Case(
            highest,
            rows,
            {
                "holons": ours(Highest(), ("ts", "price"), totals.highest(), highest),
                "spark": theirs(lambda: frames.highest(spark, at / "bids"), totals.highest(), highest),
            },
        ),
        _Case(
            average,
            rows,
            {
                "holons": ours(AveragePerCategory(), ("ts", "price", "category"), totals.averages(), average),
                "spark": theirs(lambda: frames.averages(spark, at / "bids"), totals.averages(), average),
            },
        ),
    ]


def _records(case: _Case) -> list[Record]:
    record = recorder("dataframes", case.name)
    medians = {system: statistics.median(times) for system, times in case.wall_s.items()}
    records = [record(system, "rows", case.rows, "rows") for system in SYSTEMS]
    for system, times in case.wall_s.items():
        records += [
            record(system, "seconds", medians[system], "s"),
            record(system, "seconds_least", min(times), "s"),
            record(system, "seconds_most", max(times), "s"),
        ]
    cost = medians["holons"] / medians["spark"]
    ours, theirs = (case.wall_s[system] for system in SYSTEMS)
    least, most = min(ours) / max(theirs), max(ours) / min(theirs)
    return [
        *records,
        record("holons", "cost", cost, "x spark"),
        record("holons", "cost_least", least, "x spark"),
        record("holons", "cost_most", most, "x spark"),
    ]


def show(records: Sequence[Record], console: Console | None = None) -> None:
    """Prints a table of records, one line for each case."""
    print_table(
        "DataFrames: seconds, median; what Holons costs beside Spark",
        ["case", "M rows", *SYSTEMS, "cost", "least", "most"],
        [
            [
                case,
                f"{figures['holons', 'rows'] / 1e6:.1f}",
                *(f"{figures[system, 'seconds']:.2f}" for system in SYSTEMS),
                *(f"{figures['holons', name]:.2f}" for name in ("cost", "cost_least", "cost_most")),
            ]
            for case, figures in by_case(records).items()
        ],
        caption="below 1 Holons is faster. least: our best run and their worst; most: our worst and their best",
        console=console,
    )
