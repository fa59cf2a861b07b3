"""How long it takes from a window's last event to its result, with several node processes and a steady load.

How it is measured is in `live`. A producer process appends to every partition at fixed times. A batch holds the events
since the one before, up to and including the instant at which it is due. So the batch that brings a window's last
event also brings the first event beyond it, which seals the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress

import holons as h
from holons.errors import BadInput
from holons_bench import live
from holons_bench.latencies import QUANTILES, UNITS, figures
from holons_bench.node import STREAM
from holons_bench.records import Record, by_metric, print_table, recorder

_READ_S: Final = 0.000_2
_POOL: Final = 61
"""Batches of prices that take turns: a prime, so that windows differ."""


def highest(window_us: int) -> h.Program:
    """Returns a program that emits the highest bid of each window, once for all partitions."""

    class HighestInWindow(h.Program):
        emit = "once"
        highest = h.WCRDT(h.MaxRegister("int"), h.Tumbling(f"{window_us}us"))

        def process(self, events: h.Events) -> None:
            self.highest.insert(events["price"], events.ts)

        def on_window(self, window: h.Window) -> Iterator[dict[str, Any]]:
            yield {"window": window.start, "value": self.highest[window]}

    return HighestInWindow()


@dataclass(frozen=True)
class SteadyLoad:
    """Events at a steady rate: a batch for each partition every `period_us`. Event time begins at 0."""

    rate_per_s: int
    partitions: int
    seconds: float
    window_us: int
    period_us: int = 2_000

    def __post_init__(self) -> None:
        if self.window_us % self.period_us:
            raise BadInput(
                f"windows of {self.window_us} us, and batches every {self.period_us} us",
                hint="a window must end with a batch: choose a period that divides it",
            )

    @property
    def batch_count(self) -> int:
        """How many batches each partition gets: whole windows of them."""
        per_window = self.window_us // self.period_us
        return round(self.seconds * 1e6) // self.window_us * per_window

    @property
    def windows(self) -> int:
        """How many windows they fill."""
        return self.batch_count * self.period_us // self.window_us

    def prices(self) -> np.ndarray:
        """Returns prices by (place in the pool, partition, row)."""
        rows = max(1, self.rate_per_s * self.period_us // 1_000_000 // self.partitions)
        return np.random.default_rng(1).integers(1, 1_000_000_000, (_POOL, self.partitions, rows))

    def times(self, rows: int) -> np.ndarray:
        """Returns the times of a batch's events within its period; the last one is the instant at which it is written."""
        return np.arange(1, rows + 1, dtype=np.int64) * self.period_us // rows

    def batches(self, partition: int) -> Iterator[tuple[float, pa.RecordBatch]]:
        """Yields a partition's batches, each with the second at which it is due."""
        prices = self.prices()[:, partition]
        times = self.times(prices.shape[1])
        for number in range(self.batch_count):
            columns = {"ts": times + number * self.period_us, "price": prices[number % _POOL]}
            yield (number + 1) * self.period_us / 1e6, pa.record_batch(columns)

    def expected(self) -> list[dict[str, int]]:
        """Returns the rows that must come out: the highest price of each window."""
        prices = self.prices()
        inner, last = prices[:, :, :-1].max(axis=(1, 2), initial=0), prices[:, :, -1].max(axis=1)
        best = np.zeros(self.windows + 1, dtype=np.int64)
        number = np.arange(self.batch_count)
        np.maximum.at(best, number * self.period_us // self.window_us, inner[number % _POOL])
        np.maximum.at(best, (number + 1) * self.period_us // self.window_us, last[number % _POOL])
        return [{"window": at * self.window_us, "value": price} for at, price in enumerate(best[:-1].tolist())]


def run(
    seconds: float = 20.0,
    *,
    rate_per_s: int = 1_000_000,
    nodes: int = 4,
    partitions: int = 4,
    period_us: int = 5_000,
    windows_us: Sequence[int] = (10_000, 100_000),
    warm_up_s: float = 3.0,
    progress: bool = False,
) -> list[Record]:
    """Measures windows of each length for so long, after a warm-up."""
    records: list[Record] = []
    with Progress(disable=not progress, transient=True) as bar:
        task = bar.add_task("latency", total=len(windows_us))
        for window_us in windows_us:
            load = SteadyLoad(rate_per_s, partitions, seconds + warm_up_s, window_us, period_us)
            case = f"windows of {window_us / 1000:g} ms, {nodes} nodes, {rate_per_s / 1e6:g} M events/s"
            record, measured = recorder("node", case), measure(load, nodes, warm_up_s)
            records += [record("holons", name, value, UNITS.get(name, "ms")) for name, value in measured.items()]
            bar.advance(task)
    return records


def show(records: Sequence[Record], console: Console | None = None) -> None:
    """Prints a table of records, one line for each case."""
    names = [*QUANTILES, "max", "windows", "producer_lag"]
    print_table(
        "From a window's last event to its result: milliseconds",
        ["case", *(name.replace("_", "\n") for name in names)],
        [
            [case, *(f"{figures[name]:.{0 if name in UNITS else 1}f}" for name in names)]
            for case, figures in by_metric(records).items()
        ],
        console=console,
    )


def measure(load: SteadyLoad, nodes: int, warm_up_s: float) -> dict[str, float]:
    """Runs the load once: latencies in milliseconds, how many windows, and how late the producer was at worst."""
    run = live.run(h.job(highest(load.window_us), STREAM), load, live.Setting(nodes, poll_s=_READ_S))
    live.check(f"windows of {load.window_us} us", run.rows, load.expected())
    warm = run.since(warm_up_s)
    values = figures(run.due_s[warm], run.readable_s[warm]) | {
        "producer_lag": max(run.producer_lag_s[int(warm_up_s) :])
    }
    return {name: value if name in UNITS else 1e3 * value for name, value in values.items()}
