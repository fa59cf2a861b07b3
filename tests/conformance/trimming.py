"""A rig that also forgets: old checkpoints, WLocal values and seals that nobody needs any more.

What a checkpoint relies on is noted beside it. Once every partition has a newer one, the older ones are gone, and
replicas are trimmed as far as the invariant allows (trim only what nobody needs). None of it may show.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.rig import Rig

from holons.program import Job
from holons.windows import BEGINNING


class Reach(NamedTuple):
    """How far a stored checkpoint goes, by clock: what its process record sealed, what its window record emitted."""

    processed: list[int]
    emitted: list[int]


class TrimmingRig(Rig):
    """A rig whose replicas and runs drop as much as they may, as early as they may."""

    def __init__(self, job: Job, streams, seed: int, replicas: int = 2) -> None:
        super().__init__(job, streams, seed, replicas)
        clocks = job.layout.clocks
        self.reaches = [Reach([BEGINNING] * clocks, [BEGINNING] * clocks) for _ in self.logs]
        self.dropped = 0

    def store(self, number: int) -> None:
        """Stores a checkpoint; sometimes it replaces all earlier ones, and then others may forget."""
        super().store(number)
        if self.random.random() < 0.5:
            return
        run = self.runs[number]
        self.records[number] = self.records[number][-1:]
        sealed = self.job.sealed_by_clock(run.progress.sealed_to, run.progress.counted_to)
        self.reaches[number] = Reach(sealed, list(run.progress.emitted_to))
        run.forget(run.progress.emitted_to)
        processed, emitted = (
            [min(steps) for steps in zip(*(reach[part] for reach in self.reaches), strict=True)] for part in (0, 1)
        )
        for replica in self.replicas:
            self.dropped += replica.trim(processed, emitted)
