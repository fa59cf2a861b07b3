"""A live source that stock Spark reads well: small Parquet files that appear in a directory at fixed times.

A file holds the events of all partitions since the one before, up to and including the instant at which it is due. So the
file that brings a window's last event also brings the first event beyond it, which moves the watermark past the window.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_PERIOD_US: Final = 100_000
_HEAD_START_S: Final = 0.5


@dataclass(frozen=True)
class PacedFiles:
    """Events at a steady rate over some partitions, in windows of event time, which begins at 0."""

    rate_per_s: int
    partitions: int
    window_us: int
    windows: int

    @property
    def period_us(self) -> int:
        """How often a file appears: at least ten times a second, and at the end of each window."""
        parts = -(-self.window_us // _PERIOD_US)
        while self.window_us % parts:
            parts += 1
        return self.window_us // parts

    @property
    def files(self) -> int:
        """How many files there are in the end."""
        return self.windows * self.files_per_window

    @property
    def files_per_window(self) -> int:
        """How many files fill a window."""
        return self.window_us // self.period_us

    def events(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns times and prices of a file's events, by (partition, row)."""
        rows = max(1, self.rate_per_s * self.period_us // 1_000_000 // self.partitions)
        ts = number * self.period_us + np.arange(1, rows + 1, dtype=np.int64) * self.period_us // rows
        prices = np.random.default_rng((7, number)).integers(1, 1_000_000_000, (self.partitions, rows))
        return np.broadcast_to(ts, prices.shape), prices

    def expected(self) -> list[int]:
        """Returns the highest price of each window."""
        best = np.zeros(self.windows + 1, dtype=np.int64)
        for number in range(self.files):
            ts, prices = self.events(number)
            np.maximum.at(best, (ts // self.window_us).ravel(), prices.ravel())
        return best[:-1].tolist()

    def write(self, number: int, directory: Path) -> None:
        """Lets a file appear, all at once."""
        ts, prices = self.events(number)
        partition = np.broadcast_to(np.arange(self.partitions)[:, None], prices.shape)
        columns = {
            "ts": pa.array(ts.ravel(), pa.timestamp("us", tz="UTC")),
            "partition": partition.ravel(),
            "price": prices.ravel(),
        }
        aside = directory.parent / f"aside-{number}"
        pq.write_table(pa.table(columns), aside)
        aside.rename(directory / f"{number:08d}.parquet")


def produce(feed: PacedFiles, first: int, directory: Path, driver: Connection) -> None:
    """Runs the producer process: on a signal it says when it begins, then writes every file at its time."""
    driver.recv()
    start_s = time.perf_counter() + _HEAD_START_S
    driver.send(start_s)
    for number in range(first, feed.files):
        due_s = start_s + (number - first + 1) * feed.period_us / 1e6
        time.sleep(max(0.0, due_s - time.perf_counter()))
        feed.write(number, directory)
