"""One partition of a job, running: its process part and its window part, over a replica that belongs to the node."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pyarrow as pa

from holons.algebra import State
from holons.program.calls import Wanted
from holons.program.emission import WindowPart
from holons.program.job import Job
from holons.program.outputs import Cut, Output
from holons.program.process import ProcessPart
from holons.program.records import Records
from holons.wcrdt import Contributions, Delta, Preview, Replica, Seal, known_state
from holons.windows import Window


class PartitionRun:
    """Feeds one partition's log through a program. All of its state comes from `Records`."""

    def __init__(
        self,
        job: Job,
        partition: int,
        partitions: int,
        *,
        input_index: int = 0,
        resume: Records | None = None,
        cut: Cut | None = None,
    ) -> None:
        resume, cut = resume or Records(), cut or Cut()
        self.partition = partition
        self.process = ProcessPart(job, partition, input_index, resume.process, silent_below=cut.offset)
        self.window = WindowPart(job, partition, partitions, resume.window, cut=cut)
        self.process.scope.known_here = self.window.scope.known_here = self._known_here

    def feed(
        self,
        batch: pa.RecordBatch | pa.Table | pl.DataFrame,
        offset: int,
        whole: Callable[[], pa.Table] | None = None,
    ) -> None:
        """Takes rows of the log; see `ProcessPart.feed`."""
        self.process.feed(batch, offset, whole)

    def mark(self, ts: int, offset: int) -> None:
        """Takes a mark of the log."""
        self.process.mark(ts, offset)

    @property
    def parked(self) -> Wanted | None:
        """The window that a parked call waits for."""
        return self.process.parked

    def work(self, replica: Replica, calls: int = 1024) -> bool:
        """One call of `process`, then up to so many windows that are complete; says whether anything happened."""
        processed = self.process.work(replica)
        return self.emit(replica, calls) or processed

    def emit(self, replica: Replica, calls: int) -> bool:
        """Up to so many windows that are complete; says whether anything happened."""
        return self.window.work(replica, self.process.local_panes, self.process.state.sealed_to, calls)

    def drain(self) -> tuple[list[Output], list[Delta]]:
        """What is to be written, in this order: outputs, then deltas."""
        outputs = self.process.outputs + self.window.outputs
        deltas = self.process.deltas + self.window.deltas
        self.process.outputs, self.window.outputs = [], []
        self.process.deltas, self.window.deltas = [], []
        return outputs, deltas

    def previews(self) -> list[Preview]:
        """What is open now in the shared handles of each stage. Sessions have no windows until they close."""
        layout, previews = self.window.layout, []
        for stage in range(layout.stages):
            panes = [
                Seal(index, pane, payload)
                for index in layout.stage_handles(stage)
                if layout.handles[index].shared and layout.handles[index].window.known_ahead
                for pane, payload in sorted(self._contributions(stage).unsealed(index).items())
            ]
            position = self.window.calls if stage else self.process.state.offset
            previews.append(Preview(stage, self.partition, position, tuple(panes)))
        return previews

    def _contributions(self, stage: int) -> Contributions:
        return self.window.contributions[stage] if stage else self.process.contributions

    def _known_here(self, index: int, window: Window) -> State | None:
        """What this partition has in a window of a WLocal, sealed or not."""
        panes = (self.process.local_panes | self.window.local_panes)[index]
        return known_state(panes, window, [self._contributions(panes.handle.stage).unsealed(index)])

    def snapshot(self) -> Records:
        """The resume state, between any two calls, once everything is drained."""
        return Records(self.process.snapshot(), self.window.snapshot())
