"""Bounded skew: how far a partition may read ahead of the others, and of its own windows.

A partition does not read on while its watermark is more than `max_ahead` beyond the global watermark of stage 0, or
beyond what it has emitted: so one stalled partition cannot fill every replica. Both of them lag by nature: windows may
be longer than `max_ahead`, sessions are known in whole panes, and a later stage follows the windows of the one before.
The bound must not wait for what only reading on can bring. It does not:

- Let m be the least that any run of any partition has sealed. The run that is at m is never `ahead`, by definition.
- What it may owe are windows that end at or before m, in terms of stage 0. All runs have sealed so far, so everybody can
  emit these, stage after stage, without reading a row. Then it owes nothing, and reads on until it seals.

A call that is parked waits for others to seal what this partition has sealed: they are slower, so they are not held by it.
"""

from __future__ import annotations

from holons.program import PartitionRun
from holons.wcrdt import Replica
from holons.windows import BEGINNING, ENDING


def ahead(run: PartitionRun, replica: Replica, max_ahead_us: int) -> bool:
    """Whether a partition is so far ahead that it waits for slower ones. The slowest never is.

    While somebody has sealed nothing at all, the others count from the oldest pane that anybody has sealed. It is in
    every replica until the last one has come along, so they wait at the same place after a restart.
    """
    slowest = _slowest(run, replica)
    if run.process.state.sealed_to <= slowest or run.process.watermark >= ENDING:
        return False
    if slowest == BEGINNING:
        stage = [panes for panes in replica.panes if panes.handle.stage == 0 and panes.present]
        slowest = min((panes.handle.window.pane_end(panes.present[0]) for panes in stage), default=ENDING)
    return run.process.watermark - max_ahead_us > slowest


def owes_windows(run: PartitionRun, replica: Replica, max_ahead_us: int) -> bool:
    """Whether a partition has windows to emit that all have sealed, before it reads on."""
    layout, emitted_to = run.window.layout, run.window.emitted_to
    upto = min(_slowest(run, replica), run.process.watermark - max_ahead_us)
    if upto <= min(emitted_to):
        return False
    return any(
        emitted < layout.emission_limit(stage, layout.reach(stage, upto)) for stage, emitted in enumerate(emitted_to)
    )


def _slowest(run: PartitionRun, replica: Replica) -> int:
    """The global watermark of stage 0; of itself a run knows best, be it ahead of its deltas or running again."""
    others = (at for partition, at in enumerate(replica.progress[0]) if partition != run.partition)
    return min((run.process.state.sealed_to, *others))
