"""One partition of a lane: it counts its rows, publishes samples, and seals contributions. Without a root.

What it publishes depends on what it knows and on when it is asked; what it contributes depends on its rows and on the cuts
only. So several owners of a partition, reading in different cuts, publish different samples and contribute the same.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from holons import codec
from holons.algebra import Aggregate, IntArray, Rows
from holons.counting.boundaries import CountWindow
from holons.counting.cuts import Cuts
from holons.counting.keys import Key
from holons.counting.ledger import Contribution, Ledger
from holons.counting.prediction import ERROR_MIN, CutTimes
from holons.counting.samples import KnownRanks, Samples, known_ranks

RANKS_PUBLISHED_MAX: Final = 1024  # of a gap at once; of a larger one as many, evenly spaced
PREDICTED_MAX: Final = 1 / 48  # of a window's rows, whose keys are published since the cut is expected there
BYTES_MAX: Final = 0.028  # for each row of a window that samples may take, if that leaves room for more keys
AHEAD: Final = 3  # how many cuts are predicted at once
RUN_MIN: Final = 64  # so many successive ranks are a message of their own: as differences they take a byte each


def spacing(window: CountWindow, partitions: int) -> int:
    """Returns g such that publishing every g-th key, and what is then missing for a cut, costs the fewest keys.

    >>> spacing(CountWindow(1_000_000), 8)
    288
    """
    return max(1, math.isqrt(2 * window.every // (3 * partitions)))


class CountedPartition:
    """One partition's part in a lane. `cuts` is its node's view, which the partitions of a node share."""

    def __init__(
        self,
        cuts: Cuts,
        partition: int,
        aggregate: Aggregate[Any],
        resume: bytes | None = None,
        *,
        predicts: bool = True,
    ) -> None:
        self.cuts = cuts
        self.partition = partition
        every, self._spacing = cuts.window.every, spacing(cuts.window, cuts.partitions)
        spaced_bytes = 2 / self._spacing  # for each row
        self._predicted_max = max(self._spacing, every * PREDICTED_MAX, every * (BYTES_MAX - spaced_bytes))
        self._predicts = predicts
        self._times = CutTimes()
        self._spaced_to = 0
        self._zones_to = 0
        self._introduced = False
        self._published: Key | None = None  # the frontier when samples were published last
        self._unsent: list[KnownRanks] = []
        snapshot = None
        if resume is not None:
            snapshot, self._spaced_to, self._zones_to, (rank, time, paces) = codec.decode(resume)
            self._times = CutTimes(rank, time, tuple(paces))
        self.ledger = Ledger(partition, aggregate, snapshot)

    # --- rows and marks ---------------------------------------------------------------------------------------------

    def insert(self, rows: Rows, watermark: int) -> None:
        """Takes the next counted rows in the order of the log, and the watermark after them."""
        self.ledger.insert(rows, watermark)

    def mark(self, watermark: int) -> None:
        """Moves the watermark; `ENDING` ends the partition."""
        self.ledger.mark(watermark)

    # --- samples ----------------------------------------------------------------------------------------------------

    def samples(self) -> Samples | None:
        """Returns what others should know and do not know yet, as far as this node can tell. The view learns it at once.

        So the view may know what the run before this one on the same node has learned and never sent. Whoever takes over
        from it says once what is known of this partition.
        """
        if self._unsent:
            return Samples.of(self.cuts.lane, self.partition, self._unsent.pop(0))
        if self._published == self.ledger.frontier and self.cuts.gap is None:
            return None
        self._published = self.ledger.frontier
        ranks = self.cuts.unpublished(self.partition, self._ranks_to_publish())
        times, numbers = self.ledger.rows.keys(ranks)
        known = self._with_frontier(known_ranks(times, numbers, ranks, rows=True))
        before, first = self.cuts.known[self.partition], not self._introduced
        self._introduced = True
        if not len(known) and not (first and len(before)):
            return None
        self.cuts.unite(self.partition, known)
        if first and len(before):
            known = self.cuts.known[self.partition]
        self._unsent = _messages(known)
        return Samples.of(self.cuts.lane, self.partition, self._unsent.pop(0))

    def _ranks_to_publish(self) -> IntArray:
        settled, held = self.ledger.settled, self.ledger.rows.start
        first = max(self._spaced_to, held) // self._spacing + 1
        ranks = [np.arange(first * self._spacing, settled + 1, self._spacing, dtype=np.int64)]
        self._spaced_to = settled
        if self._predicts and self._times.ready:
            ranks += self._predicted(held, settled)
        gap = self.cuts.gap
        if gap is not None:
            start, end = max(int(gap.least[self.partition]), held), min(int(gap.greatest[self.partition]), settled)
            ranks.append(_spread(start, end))
        further = self.cuts.further
        if further is not None:
            starts = np.maximum(further.least[:, self.partition], held)
            ranks.append(_runs(starts, np.minimum(further.greatest[:, self.partition], settled)))
        return ranks[0] if len(ranks) == 1 else np.unique(np.concatenate(ranks))

    def _predicted(self, held: int, settled: int) -> list[IntArray]:
        """The ranks around the times at which the next cuts are expected, unless these are too many to be worth it.

        All partitions expect a cut at the same time, so they are right together, and then no second round is needed.
        """
        after, self._zones_to = max(self._zones_to, held), settled
        zones, boundary = list[IntArray](), self._times.rank
        for _ in range(AHEAD):
            boundary = self.cuts.window.after(boundary)
            first, last = self._times.around(boundary)
            if first > self.ledger.watermark:
                break
            if self._times.rows_around(boundary) <= self._predicted_max:
                start = self.ledger.rows.rank_of(Key(int(first), self.partition, -1)) - ERROR_MIN
                end = self.ledger.rows.rank_of(Key(int(last), self.partition, settled)) + ERROR_MIN
                zones.append(np.arange(max(start, after) + 1, min(end, settled) + 1, dtype=np.int64))
        return zones

    def _with_frontier(self, known: KnownRanks) -> KnownRanks:
        frontier, partition = self.ledger.frontier, self.partition
        if frontier <= max(known.frontier(partition), self.cuts.known[partition].frontier(partition)):
            return known
        return known.and_frontier(frontier, self.ledger.settled)

    # --- contributions ----------------------------------------------------------------------------------------------

    def contributions(self) -> list[Contribution]:
        """Returns this partition's contributions to the panes before the cuts that are known by now.

        A cut may be known before this run has read as far: others have read on, or this partition is run again.
        """
        ledger, known = self.ledger, self.cuts.after(self.ledger.cuts)
        if not known:
            ledger.fold_to(int(self.cuts.certain[self.partition]))
            return []
        ranks = np.array([cut.ranks[self.partition] for cut in known], dtype=np.int64)
        reached = ledger.reached(ranks)
        contributions = ledger.cut(ranks[:reached]) if reached else []
        for cut in known[:reached]:
            self._times = self._times.saw(int(cut.ranks.sum()), cut.key.time)
            self._zones_to, self._published = int(cut.ranks[self.partition]), None
        ledger.fold_to(int(ranks[reached] if reached < len(ranks) else self.cuts.certain[self.partition]))
        return contributions

    # --- snapshots --------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Returns the state to resume from as bytes."""
        times = [self._times.rank, self._times.time, list(self._times.paces)]
        return codec.encode([self.ledger.snapshot(), self._spaced_to, self._zones_to, times])


def _messages(known: KnownRanks) -> list[KnownRanks]:
    """Samples as they are sent: long runs of successive ranks each by themselves, then the others, with the frontier."""
    edges = np.flatnonzero(np.diff(known.ranks, prepend=-1, append=-1) != 1)
    long = np.flatnonzero(np.diff(edges) >= RUN_MIN)
    if not len(long):
        return [known]
    runs = [slice(int(edges[at]), int(edges[at + 1])) for at in long]
    others = np.ones(len(known), dtype=np.bool_)
    for run in runs:
        others[run] = False
    return [*(known.take(run) for run in runs), *([known.take(others)] if others.any() else [])]


def _runs(starts: IntArray, ends: IntArray) -> IntArray:
    """The ranks in each `(start, end]`, of the first ones as many as may be published at once."""
    counts = np.maximum(ends - starts, 0)
    counts = counts[: np.searchsorted(np.cumsum(counts), RANKS_PUBLISHED_MAX, side="right")]
    before = np.cumsum(counts) - counts
    return np.repeat(starts[: len(counts)] + 1 - before, counts) + np.arange(int(counts.sum()), dtype=np.int64)


def _spread(start: int, end: int) -> IntArray:
    """The ranks in `(start, end]`: all of them, or as many as may be published at once, evenly spaced."""
    if end - start <= RANKS_PUBLISHED_MAX:
        return np.arange(start + 1, max(start, end) + 1, dtype=np.int64)
    return start + np.arange(1, RANKS_PUBLISHED_MAX + 1, dtype=np.int64) * (end - start) // RANKS_PUBLISHED_MAX
