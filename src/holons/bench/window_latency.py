"""How long it takes from a window's last event to its result, with several node processes and a steady load.

A producer process appends to every partition at fixed times, whatever the nodes do. A batch holds the events since the
one before, up to and including the instant at which it is written. So the batch that brings a window's last event also
brings the first event beyond it, which seals the window. Latency is measured from the time at which that batch was
*due* to the moment at which a reader of the output log has the result. If the producer, a node or the reader falls
behind, all windows that wait for it count in full: nothing is left out because something was late (no coordinated
omission). All clocks are the machine's monotonic one.

Latencies go into `Quantiles`, whose buckets are those of an HDR histogram: a power of two cut into equal parts, here so
fine that a reported latency is within 0.1 % of a true one. The maximum is exact.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import holons as h
from holons.algebra import Groups, Quantiles, rows_of
from holons.bench.kernels import Record
from holons.bench.node import CHANNEL, STREAM, record
from holons.engines.embedded.processes import ProcessNodes
from holons.engines.site import Site
from holons.errors import BadInput, HolonsError, InvariantBroken
from holons.node.messages import Running, decode_beat
from holons.streams import LmdbLog, LmdbSharedLog
from holons.windows import END

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
_UNITS: Final = {"windows": "windows"}
_START_S: Final = 60.0
_END_S: Final = 60.0
_HEAD_START_S: Final = 0.5
_READ_S: Final = 0.000_2
_POOL: Final = 61
"""Batches of prices that take turns: a prime, so that windows differ."""


def highest(window_us: int) -> h.Program:
    """A program: the highest bid of each window, put out once for all partitions."""

    class Highest(h.Program):
        emit = "once"
        highest = h.WCRDT(h.MaxRegister("int"), h.Tumbling(f"{window_us}us"))

        def process(self, events: h.Events) -> None:
            self.highest.insert(events["price"], events.ts)

        def on_window(self, window: h.Window) -> Iterator[dict[str, Any]]:
            yield {"window": window.start, "value": self.highest[window]}

    return Highest()


@dataclass(frozen=True)
class Load:
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
    def batches(self) -> int:
        """How many batches each partition gets: whole windows of them."""
        per_window = self.window_us // self.period_us
        return round(self.seconds * 1e6) // self.window_us * per_window

    @property
    def windows(self) -> int:
        """How many windows they fill."""
        return self.batches * self.period_us // self.window_us

    def prices(self) -> np.ndarray:
        """Prices by (place in the pool, partition, row)."""
        rows = max(1, self.rate_per_s * self.period_us // 1_000_000 // self.partitions)
        return np.random.default_rng(1).integers(1, 1_000_000_000, (_POOL, self.partitions, rows))

    def times(self, rows: int) -> np.ndarray:
        """The times of a batch's events within its period; the last one is the instant at which it is written."""
        return np.arange(1, rows + 1, dtype=np.int64) * self.period_us // rows

    def expected(self) -> list[int]:
        """The highest price of each window."""
        prices = self.prices()
        inner, last = prices[:, :, :-1].max(axis=(1, 2), initial=0), prices[:, :, -1].max(axis=1)
        best = np.zeros(self.windows + 1, dtype=np.int64)
        number = np.arange(self.batches)
        np.maximum.at(best, number * self.period_us // self.window_us, inner[number % _POOL])
        np.maximum.at(best, (number + 1) * self.period_us // self.window_us, last[number % _POOL])
        return best[:-1].tolist()


def produce(directory: Path, load: Load, started: Connection, warm_up_s: float = 0.0) -> None:
    """The whole life of the producer process: every batch at its time, then the end of the stream.

    It says when it starts, once it is ready to: that a process takes long to come up is not latency. In the end it
    says how late a batch was at worst, once warm.
    """
    prices = load.prices()
    times = load.times(prices.shape[2])
    worst_s = 0.0
    start_s = time.perf_counter() + _HEAD_START_S
    started.send(start_s)
    with LmdbLog(directory, STREAM, load.partitions, "producer#1") as log:
        for number in range(load.batches):
            due_s = start_s + (number + 1) * load.period_us / 1e6
            time.sleep(max(0.0, due_s - time.perf_counter()))
            for partition in range(load.partitions):
                columns = {"ts": times + number * load.period_us, "price": prices[number % _POOL, partition]}
                log.append(partition, pa.record_batch(columns))
            if due_s >= start_s + warm_up_s:
                worst_s = max(worst_s, time.perf_counter() - due_s)
        for partition in range(load.partitions):
            log.mark(partition, END.ts)
    started.send(worst_s)


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
            load = Load(rate_per_s, partitions, seconds + warm_up_s, window_us, period_us)
            figures = measure(load, nodes, warm_up_s)
            case = f"windows of {window_us / 1000:g} ms, {nodes} nodes, {rate_per_s / 1e6:g} M events/s"
            records += [record(case, name, value, _UNITS.get(name, "ms")) for name, value in figures.items()]
            bar.advance(task)
    return records


def show(records: Sequence[Record], console: Console | None = None) -> None:
    """Prints a table of records, one line for each case."""
    table = Table(title="From a window's last event to its result: milliseconds", title_justify="left")
    table.add_column("case")
    names = [*QUANTILES, "max", "windows", "producer_lag"]
    for heading in names:
        table.add_column(heading.replace("_", "\n"), justify="right", no_wrap=True)
    by_case: dict[str, dict[str, float]] = {}
    for one in records:
        by_case.setdefault(one["case"], {})[one["metric"]] = one["value"]
    for case, figures in by_case.items():
        table.add_row(case, *(f"{figures[name]:.{0 if name in _UNITS else 1}f}" for name in names))
    (console or Console()).print(table)


def measure(load: Load, nodes: int, warm_up_s: float) -> dict[str, float]:
    """Runs the load once: latencies in milliseconds, how many windows, and how late the producer was at worst."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="holons-bench-") as folder:
        site = Site(folder)
        site.create(STREAM, load.partitions)
        job = h.job(highest(load.window_us), STREAM)
        told, started = spawn.Pipe(duplex=False)
        with ProcessNodes(site) as running:
            version = running.submit(job)
            for _ in range(nodes):
                running.start()
            _wait_until_spread(Path(folder), nodes, load.partitions)
            producer = spawn.Process(
                target=produce, args=(Path(folder) / "input", load, started, warm_up_s), daemon=True
            )
            producer.start()
            start_s = _received(told, _START_S)
            found = _tail(site.directory / "output", f"{version.id}/{CHANNEL}", load, start_s)
            lag_s = _received(told, _END_S)
            producer.join()
    _check(found, load)
    due_s = start_s + (np.array([window for window, _, _ in found]) + load.window_us) / 1e6
    late_s = np.array([at_s for _, _, at_s in found]) - due_s
    return _figures(late_s[due_s >= start_s + warm_up_s]) | {"producer_lag": 1e3 * lag_s}


def _received(told: Connection, timeout_s: float) -> float:
    if not told.poll(timeout_s):
        raise HolonsError(f"nothing from the producer in {timeout_s:.0f} s", hint="is the machine too busy?")
    number: float = told.recv()
    return number


def _wait_until_spread(directory: Path, nodes: int, partitions: int) -> None:
    """Waits until every node runs its part: what is measured is the steady state."""
    until_s = time.perf_counter() + _START_S
    told: dict[str, tuple[Running, ...]] = {}
    with LmdbSharedLog(directory / "shared", "beats", "reader#1") as beats:
        cursor: dict[str, int] = {}
        while time.perf_counter() < until_s:
            for message in beats.read(cursor, 10_000):
                beat = decode_beat(message.data)
                told[beat.node] = beat.running
            loads = [len(running) for running in told.values()]
            if len(loads) == nodes and sum(loads) == partitions and max(loads) - min(loads) <= 1:
                return
            time.sleep(0.05)
    raise HolonsError(f"{len(told)} of {nodes} nodes came up in {_START_S:.0f} s", hint="is the machine too busy?")


def _tail(directory: Path, stream: str, load: Load, start_s: float) -> list[tuple[int, int, float]]:
    """Reads results as they appear: (window, value, when it was there)."""
    found: list[tuple[int, int, float]] = []
    until_s = start_s + load.seconds + _END_S
    with LmdbLog(directory, stream, load.partitions, "reader#1") as log:
        while len(found) < load.windows and time.perf_counter() < until_s:
            chunks = log.read(0, len(found), load.windows - len(found))
            now_s = time.perf_counter()
            for chunk in chunks:
                assert chunk.rows is not None
                found += [(row["window"], row["value"], now_s) for row in chunk.rows.to_pylist()]
            time.sleep(_READ_S)
    return found


def _check(found: list[tuple[int, int, float]], load: Load) -> None:
    values = [(window // load.window_us, value) for window, value, _ in found]
    if values != list(enumerate(load.expected())):
        raise InvariantBroken(
            f"{len(found)} of {load.windows} windows came out, or some are wrong",
            hint="if some are missing, the machine cannot keep up: a lower rate",
        )


def _figures(late_s: np.ndarray) -> dict[str, float]:
    histogram = Quantiles(0.001)
    told = histogram.value(histogram.fold(Groups.single(len(late_s)), rows_of(late_s)))
    figures = {name: 1e3 * (told.quantile(q) or 0.0) for name, q in QUANTILES.items()}
    return figures | {"max": 1e3 * float(late_s.max()), "windows": float(told.count)}
