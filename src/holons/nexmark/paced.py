"""Bids at a steady rate, in batches that are due at fixed times: what a producer writes, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holons.errors import BadInput
from holons.nexmark.chance import Ids
from holons.nexmark.generator import BIDS, NUMBERS, PERIOD, bid_ids, bids, bids_before

_MICROS = 1_000_000


@dataclass(frozen=True)
class PacedBids:
    """`bids_per_s` over some partitions, in windows of event time, which begins at 0 and passes as fast as real time.

    Partition p of P has every P-th bid. Every `period_us` it gets a batch: all bids since the one before, and the
    first that is not below the instant at which the batch is due. So the batch that is due when a window ends also
    seals it, by a bid that comes at most one bid early.
    """

    bids_per_s: int
    partitions: int
    seconds: float
    window_us: int = _MICROS
    period_us: int = 10_000
    seed: int = 0
    columns: Sequence[str] = NUMBERS

    def __post_init__(self) -> None:
        if self.window_us % self.period_us:
            raise BadInput(
                f"windows of {self.window_us} us, and batches every {self.period_us} us",
                hint="a window must end with a batch: choose a period that divides it",
            )
        if not self.windows:
            raise BadInput(f"{self.seconds} s are less than a window", hint="a longer run, or shorter windows")

    @property
    def windows(self) -> int:
        """How many windows are filled."""
        return int(self.seconds * _MICROS) // self.window_us

    @property
    def rate(self) -> int:
        """Events per second, of all kinds."""
        return max(1, self.bids_per_s * PERIOD // BIDS)

    @property
    def batch_count(self) -> int:
        """How many batches each partition gets: whole windows of them."""
        return self.windows * self.window_us // self.period_us

    def batches(self, partition: int) -> Iterator[tuple[float, pa.RecordBatch]]:
        """A partition's batches, each with the time at which it is due, in seconds since the first event."""
        for number in range(self.batch_count):
            yield (number + 1) * self.period_us / _MICROS, self.batch(self.ids(partition, number))

    def batch(self, ids: Ids) -> pa.RecordBatch:
        """Some of its bids."""
        return bids(ids, rate=self.rate, seed=self.seed, columns=self.columns)

    def ids(self, partition: int, number: int, batches: int = 1) -> Ids:
        """The event ids of a partition's batch, or of several in a row."""
        first = self._sealer(partition, number * self.period_us) + 1 if number else 0
        last = self._sealer(partition, (number + batches) * self.period_us)
        return bid_ids(partition + np.arange(first, last + 1) * self.partitions)

    def _sealer(self, partition: int, instant_us: int) -> int:
        """Which of a partition's bids is the first that is not below an instant."""
        event = -(-instant_us * self.rate // _MICROS)
        return max(0, -(-(bids_before(event) - partition) // self.partitions))
