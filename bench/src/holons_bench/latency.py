"""How late results are under a steady load: Nexmark's q5 and q7 as pipelines, on Holons and on Flink SQL.

Bids are due at fixed times, whatever the systems do, and a window's latency is from the time at which its last bid is due
until its result is there: nothing is left out because something was late (no coordinated omission). Exactly-once is on
for both. Holons' result is there when a reader of its output log has it, so committed; Flink's when it reaches the
sink, before the commit, which comes with the next checkpoint.

q5 counts bids by auction in windows of 10 s that slide by 10 ms, over 10,000 auctions; q7 is the highest bid of each 100 ms
(of 10 s there would be too few). Quantiles are exact: each is the latency of a window, not the edge of a bucket.
Every result of ours is compared with NumPy's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress

import holons as h
from holons.errors import InvariantBroken, StillRunning
from holons.nexmark import PacedBids
from holons_bench import live
from holons_bench.flink import Flink
from holons_bench.latencies import quantile
from holons_bench.plots import quantiles
from holons_bench.records import Record, by_case, check_known, print_table, recorder
from holons_bench.report import Report

QUERIES: Final = ("q5", "q7")
OTHERS: Final = ("flink",)
AUCTIONS: Final = 10_000
SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}
_STREAM: Final = "bids"
_LENGTH_MS: Final = {"q5": 10_000, "q7": 100}
_EVERY_MS: Final = {"q5": 10, "q7": 100}
_PERIOD_US: Final = 5_000
_WARM_UP_S: Final = 12.0
"""Until q5's windows are full, and everything has been run often."""
_PATIENCE: Final = 4.0
"""So many times as long as the load lasts, Flink may take for it."""
_BEHIND: Final = f"0 windows: it took more than {_PATIENCE:g} times as long as the load lasted, and was ended."

Latencies = dict[str, dict[str, np.ndarray]]
"""By query and system, in milliseconds."""


def job(query: str) -> h.Job:
    """Returns the pipeline. Its results name their window, in microseconds, by its end less a step."""
    bids = h.source(_STREAM, time="date_time")
    every_us = _EVERY_MS[query] * 1_000
    window = (pl.col("window_end").dt.epoch("us") - every_us).alias("window")
    if query == "q7":
        best = bids.window(h.Tumbling(f"{every_us}us")).agg(best=h.top_k(1, by="price", columns=["auction", "price"]))
        row = pl.col("best").list.first().struct
        return best.select(window, row.field("auction"), row.field("price")).to(live.CHANNEL)
    few = bids.select(auction=pl.col("auction") % AUCTIONS)
    windows = few.window(h.Sliding(f"{_LENGTH_MS[query]}ms", every=f"{every_us}us")).group_by("auction")
    return windows.agg(bids=h.count()).top_k(1, by="bids").select(window, "auction", "bids").to(live.CHANNEL)


def run(
    rate_per_s: int = 1_000_000,
    *,
    seconds: float = 30.0,
    queries: Sequence[str] = QUERIES,
    against: Sequence[str] = (),
    nodes: int = 2,
    partitions: int = 2,
    progress: bool = False,
) -> Latencies:
    """Measures each query on each system for so many seconds, after a warm-up."""
    check_known(queries, QUERIES, "a query whose latency is measured")
    check_known(against, OTHERS, "a system to compare with")
    latencies: Latencies = {}
    with Progress(disable=not progress, transient=True) as bar:
        task = bar.add_task("latency", total=len(queries) * (1 + len(against)))
        for name in queries:
            bar.update(task, description=f"{name} on holons")
            latencies[name] = {"holons": _holons(name, rate_per_s, seconds, nodes, partitions)}
            bar.advance(task)
            if "flink" in against:
                bar.update(task, description=f"{name} on flink")
                latencies[name]["flink"] = _flink(name, rate_per_s, seconds)
                bar.advance(task)
    return latencies


def _holons(query: str, rate_per_s: int, seconds: float, nodes: int, partitions: int) -> np.ndarray:
    every_us = _EVERY_MS[query] * 1_000
    load = PacedBids(rate_per_s, partitions, seconds + _WARM_UP_S, every_us, _PERIOD_US)
    run = live.run(job(query), load, live.Setting(nodes))
    live.check(query, run.rows, expected(query, load))
    return 1e3 * run.late_s[run.since(_WARM_UP_S)]


def expected(query: str, load: PacedBids) -> list[dict[str, int]]:
    """Returns what NumPy finds for each window over all bids."""
    name, values = ("bids", _most_bids(load)) if query == "q5" else ("price", _highest(load))
    return [{"window": number * load.window_us, name: value} for number, value in enumerate(values.tolist())]


def _highest(load: PacedBids) -> np.ndarray:
    best = np.zeros(load.windows, dtype=np.int64)
    for step, batch in _steps(load):
        np.maximum.at(best, step, batch["price"].to_numpy()[: len(step)])
    return best


def _most_bids(load: PacedBids) -> np.ndarray:
    """Returns the most bids of an auction in each of q5's windows, by sliding over the bids of each auction in each step."""
    counts = np.zeros((load.windows, AUCTIONS), dtype=np.uint16)
    for step, batch in _steps(load):
        np.add.at(counts, (step, batch["auction"].to_numpy()[: len(step)] % AUCTIONS), 1)
    steps, inside, most = 1_000 * _LENGTH_MS["q5"] // load.window_us, np.zeros(AUCTIONS, dtype=np.int64), []
    for number in range(load.windows):
        inside += counts[number]
        if number >= steps:
            inside -= counts[number - steps]
        most.append(inside.max())
    return np.array(most)


def _steps(load: PacedBids) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """Yields all bids, with the step in which each is; the very last one of a partition is beyond all steps."""
    for partition in range(load.partitions):
        for _, batch in load.batches(partition):
            step = batch["date_time"].cast(pa.int64()).to_numpy() // load.window_us
            yield step[step < load.windows], batch


def _flink(query: str, rate_per_s: int, seconds: float) -> np.ndarray:
    """Measures Flink. Returns no latency at all if it is so far behind that there is no point in waiting for the end."""
    seconds += _WARM_UP_S
    with tempfile.TemporaryDirectory(prefix="holons-bench-") as folder:
        try:
            with Flink(Path(folder), collector="G1", patience_s=_PATIENCE * seconds) as flink:
                lengths = {"length_ms": _LENGTH_MS[query], "every_ms": _EVERY_MS[query]}
                emissions = flink.latencies(query, rate_per_s, seconds, **lengths)
        except StillRunning:
            return np.zeros(0)
    ends, emitted = np.array(emissions, dtype=np.int64).reshape(-1, 2).T
    if not len(ends):
        raise InvariantBroken(f"{query}: Flink emitted nothing in time", hint="a lower rate")
    late_ms: np.ndarray = (emitted - ends)[ends >= ends[0] + round(_WARM_UP_S * 1e6)] / 1e3
    return late_ms


def records(latencies: Latencies) -> list[Record]:
    """Returns all figures as records."""

    records: list[Record] = []
    for query, systems in latencies.items():
        record = recorder("latency", query)
        for system, late_ms in systems.items():
            records.append(record(system, "windows", len(late_ms), "windows"))
            if len(late_ms):
                records += [record(system, name, quantile(late_ms, share), "ms") for name, share in SHARES.items()]
                records.append(record(system, "max", float(late_ms.max()), "ms"))
    return records


def show(records: Sequence[Record], console: Console | None = None) -> None:
    """Prints a table, one line for each query and system."""
    behind = any(record["metric"] == "windows" and not record["value"] for record in records)
    print_table(
        "From the time at which a window's last bid is due to its result: milliseconds",
        *_lines(records),
        left=2,
        caption=_BEHIND if behind else None,
        console=console,
    )


def _lines(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Returns what the columns are called, and a line for each query and system."""
    names = [*SHARES, "max", "windows"]
    lines = [
        [query, system, *(_text(figures[system, name]) if (system, name) in figures else "-" for name in names)]
        for query, figures in by_case(records).items()
        for system in dict.fromkeys(system for system, _ in figures)
    ]
    return ["query", "system", *names], lines


def _text(value: float) -> str:
    return f"{value:,.1f}" if value < 100 and value % 1 else f"{value:,.0f}"


def report(latencies: Latencies, rate_per_s: int) -> Report:
    """Returns a page with the histograms, as curves over the percentiles."""
    page = Report("How late results are")
    page.text(f"{rate_per_s:,} bids a second, exactly once, from the time at which a window's last bid is due.")
    for query, systems in latencies.items():
        page.heading(f"{query}: {_LENGTH_MS[query]:,} ms every {_EVERY_MS[query]:,} ms")
        page.figure(quantiles({system: _curve(late_ms) for system, late_ms in systems.items() if len(late_ms)}))
        for system in (system for system, late_ms in systems.items() if not len(late_ms)):
            page.text(f"{system}: {_BEHIND}")
    page.table(*_lines(records(latencies)), caption="milliseconds")
    return page


def _curve(late_ms: np.ndarray) -> list[tuple[float, float]]:
    return [(number / len(late_ms), late) for number, late in enumerate(np.sort(late_ms).tolist())]
