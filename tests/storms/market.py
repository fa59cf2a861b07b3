"""What a storm computes: a program that reads in several ways, and rows that anybody can make again from a few numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

import holons as h
from holons.program import Job

STREAM, JOB = "bids", "market"
SECOND, DAY = 1_000_000, 86_400_000_000
DISORDER, EVERY, SPAN = SECOND // 2, SECOND // 2, 2 * SECOND
"""In event time: what is allowed, how often windows begin, and how long sliding ones are."""
DEAR = 900
BATCH_ROWS_MAX = 1_000


class Market(h.Program):
    """Counts, sums, maxima and maps of all partitions, counts of each, and rows that are passed on."""

    bids = h.WCRDT(h.GCounter(), h.Tumbling("500ms"))
    volume = h.WCRDT(h.PNCounter(), h.Tumbling("500ms"))
    highest = h.WCRDT(h.MaxRegister("int"), h.Tumbling("500ms"))
    mine = h.WLocal(h.GCounter(), h.Tumbling("500ms"))
    auctions = h.WCRDT(h.MergeMap(h.GCounter()), h.Sliding("2s", every="500ms"))

    def __init__(self, variant: int = 0) -> None:
        self.variant = variant
        """Programs of different variants differ for Holons, and give the same rows."""

    def process(self, events):
        price = events["price"]
        self.bids.insert(1, events.ts)
        self.volume.insert(price, events.ts)
        self.highest.insert(price, events.ts)
        self.mine.insert(1, events.ts)
        self.auctions.insert((events["auction"], 1), events.ts)
        self.output(events.where(price > DEAR).select("row", "price"), channel="dear")

    @h.on_window(bids)
    def tumbling(self, window):
        yield {
            "start": window.start,
            "bids": self.bids[window],
            "volume": self.volume[window],
            "highest": self.highest[window],
            "mine": self.mine[window],
        }

    @h.on_window(auctions)
    def sliding(self, window):
        yield {
            "start": window.start,
            "auctions": ",".join(f"{auction}:{count}" for auction, count in sorted(self.auctions[window].items())),
        }


def job(variant: int) -> Job:
    """The job of a storm; of a rival if the variant is negative."""
    return h.job(Market(variant), h.Input(STREAM, disorder="500ms"), name=JOB)


class Batch(NamedTuple):
    """What determines the rows of a batch."""

    seed: int
    producer: int
    """The number of the producer's incarnation."""
    number: int
    partition: int
    at: int
    """About when it was made."""
    rows: int

    def record_batch(self) -> pa.RecordBatch:
        return self.frame().to_arrow().to_batches()[0]

    def frame(self) -> pl.DataFrame:
        """Its rows: a few of them late, some without a time, or from tomorrow."""
        rng = np.random.default_rng(self[:4])
        ts = self.at + np.sort(rng.integers(-SECOND // 5, SECOND // 5, self.rows))
        kind = rng.random(self.rows)
        ts = np.where(kind < 0.02, ts - rng.integers(SECOND, 3 * SECOND, self.rows), ts)
        ts = np.where(kind > 0.998, ts + DAY, ts)
        return pl.DataFrame(
            {
                "row": self.first_row + np.arange(self.rows),
                "ts": pl.Series(ts).set(pl.Series((kind > 0.996) & (kind <= 0.998)), None),
                "price": rng.integers(1, 1_000, self.rows),
                "auction": rng.integers(1, 12, self.rows),
            }
        )

    @property
    def first_row(self) -> int:
        """The number of its first row, by which each row is known."""
        return row_number(self.producer, self.number)


def row_number(producer: int, batch: int) -> int:
    return (producer * 1_000_000 + batch) * BATCH_ROWS_MAX
