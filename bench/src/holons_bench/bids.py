"""The bids that nodes and DataFrames are measured with, and what every query over them must give.

Every row is drawn anew, and differently in each partition: a generator that repeats itself makes maxima collapse, and
wrong results look right. The first so many seconds are the same however many follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holons.node import Site
from holons.windows import END

SECOND_US: Final = 1_000_000
CATEGORIES: Final = 5
BATCH: Final = 200_000

Expected: TypeAlias = dict[tuple[int, int], float]
"""Values by (second in which the window starts, key)."""


@dataclass(frozen=True)
class Bids:
    """Bids that can be made again: `events` of them over some partitions and some seconds of event time."""

    events: int
    partitions: int
    seconds: int
    auctions: int

    def batches(self, partition: int) -> Iterator[dict[str, np.ndarray]]:
        """Yields a partition's bids, in order of time."""
        count = self.events // self.partitions
        for number, first in enumerate(range(0, count, BATCH)):
            rng, size = np.random.default_rng((partition, number)), min(BATCH, count - first)
            index = np.arange(first, first + size, dtype=np.int64)
            yield {
                "ts": index * (self.seconds * SECOND_US) // count,
                "auction": rng.integers(0, self.auctions, size),
                "bidder": rng.integers(0, 1_000_000, size),
                "price": rng.integers(1, 1_000_000_000, size),
                "category": rng.integers(0, CATEGORIES, size),
            }

    def write(self, site: Site, stream: str) -> None:
        """Writes the bids to an input stream of a site."""
        with closing(site.producer(stream, self.partitions, "producer#1")) as log:
            for partition in range(self.partitions):
                for columns in self.batches(partition):
                    log.append(partition, pa.record_batch(columns))
                log.mark(partition, END.ts)

    def write_files(self, directory: Path, group_rows: int) -> None:
        """Writes them to a Parquet file for each partition."""
        directory.mkdir(parents=True)
        for partition in range(self.partitions):
            table = pa.Table.from_batches([_timed(columns) for columns in self.batches(partition)])
            pq.write_table(table, directory / f"{partition:03d}.parquet", row_group_size=group_rows)

    def totals(self) -> Totals:
        """Returns what is known of each second, over all partitions."""
        highest = np.zeros(self.seconds, dtype=np.int64)
        sums, counts = np.zeros((2, self.seconds, CATEGORIES), dtype=np.int64)
        bids = np.zeros((self.seconds, self.auctions), dtype=np.int64)
        for partition in range(self.partitions):
            for columns in self.batches(partition):
                second, price = columns["ts"] // SECOND_US, columns["price"]
                first, last = int(second[0]), int(second[-1]) + 1
                edges = np.searchsorted(second, np.arange(first, last))
                highest[first:last] = np.maximum(highest[first:last], np.maximum.reduceat(price, edges))
                counts[first:last] += _histogram(second - first, columns["category"], last - first, CATEGORIES)
                sums[first:last] += _histogram(second - first, columns["category"], last - first, CATEGORIES, price)
                bids[first:last] += _histogram(second - first, columns["auction"], last - first, self.auctions)
        return Totals(highest, sums, counts, bids)


@dataclass(frozen=True)
class Totals:
    """What every query over some bids must give, by second: computed by NumPy, and by nothing of ours."""

    highest_price: np.ndarray
    price_sums: np.ndarray
    price_counts: np.ndarray
    bid_counts: np.ndarray

    def highest(self) -> Expected:
        """Returns the highest price of each second."""
        return {(second, 0): price for second, price in enumerate(self.highest_price.tolist())}

    def averages(self) -> Expected:
        """Returns the average price of each category and second."""
        sums, counts = self.price_sums, self.price_counts
        return {place: int(sums[place]) / int(counts[place]) for place in _filled(counts)}

    def counts(self) -> Expected:
        """Returns the number of bids for each auction and second."""
        return {place: int(self.bid_counts[place]) for place in _filled(self.bid_counts)}


def _timed(columns: dict[str, np.ndarray]) -> pa.RecordBatch:
    return pa.record_batch({**columns, "ts": pa.array(columns["ts"], pa.timestamp("us", tz="UTC"))})


def _histogram(
    rows: np.ndarray, keys: np.ndarray, height: int, width: int, weights: np.ndarray | None = None
) -> np.ndarray:
    """Returns counts, or sums of weights, by (row, key). Sums of a batch fit into a float exactly."""
    counts = np.bincount(rows * width + keys, weights, minlength=height * width)
    return counts.astype(np.int64).reshape(height, width)


def _filled(counts: np.ndarray) -> Iterator[tuple[int, int]]:
    return zip(*map(np.ndarray.tolist, np.nonzero(counts)), strict=True)
