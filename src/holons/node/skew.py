"""Bounded skew: how far a partition may read ahead of the others, and of its own windows.

A partition does not read on while its watermark is more than `max_ahead` beyond the global watermark of stage 0, or
beyond what it has emitted: so one stalled partition cannot fill every replica. Both of them lag by nature: windows may
be longer than `max_ahead`, sessions are known in whole panes, and a later stage follows the windows of the one before.
The bound must not wait for what only reading on can bring. It does not:

- Let m be the least that any run of any partition has sealed. The run that is at m is never `ahead`, by definition.
- What it may owe are windows that end at or before m, in terms of stage 0. All runs have sealed so far, so everybody can
  emit these, stage after stage, without reading a row. Then it owes nothing, and reads on until it seals.

Where rows are counted, everybody knows how far each partition's clock is, and that counts instead of what it has sealed.

A call that is parked waits for others to seal what this partition has sealed: they are slower, so they are not held by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holons.program import PartitionRun, RunProgress, SharedState
from holons.windows import BEGINNING, ENDING


class Slowest(NamedTuple):
    """The least and the second least progress of all partitions, as of one moment."""

    least: int
    partition: int
    """Whose the least is."""
    second: int

    @classmethod
    def of(cls, progress: Sequence[int]) -> Slowest:
        """Returns it for the progress of each partition."""
        least = min(progress)
        partition = progress.index(least)
        return cls(least, partition, min((*progress[:partition], *progress[partition + 1 :]), default=ENDING))

    def beside(self, partition: int) -> int:
        """Returns the least progress of the other partitions."""
        return self.second if partition == self.partition else self.least


def ahead(run: RunProgress, others: int, state: SharedState, max_ahead_us: int) -> bool:
    """Whether a partition is so far ahead that it waits for slower ones. The slowest never is.

    `others` is the least progress of the other partitions. Of itself a run knows best, be it ahead of its messages or
    running again.

    While some partition has sealed nothing at all, the others count from the oldest contribution that anybody has sealed. It
    is in every node's state until the last one has come along, so they wait at the same place after a restart.
    """
    slowest = min(run.reached, others)
    if run.reached <= slowest or run.watermark >= ENDING:
        return False
    if slowest == BEGINNING:
        slowest = state.oldest(0)
    return run.watermark - max_ahead_us > slowest


def owes_windows(run: PartitionRun, others: int, max_ahead_us: int) -> bool:
    """Whether a partition has windows to emit that all have sealed, before it reads on."""
    progress = run.progress
    return run.owes_windows(min(progress.reached, others, progress.watermark - max_ahead_us))
