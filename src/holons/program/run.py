"""One partition of a job, running: its process part and its window part, over a replica that belongs to the node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import polars as pl
import pyarrow as pa

from holons.algebra import State
from holons.counting import Samples
from holons.errors import InvariantBroken
from holons.program.calls import written_twice
from holons.program.emission import WindowPart
from holons.program.job import Job
from holons.program.lanes import Lanes
from holons.program.outputs import DEAD, LATE, Cut, Emitted, Output, number
from holons.program.ports import AppendedRows, RunProgress, SharedState
from holons.program.process import ProcessPart, ProcessState
from holons.program.records import Records
from holons.wcrdt import Contributions, Delta, Preview, Replica, Seal, known_state
from holons.windows import Window


class ProgramRun:
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
        self._layout = job.layout
        self._process = ProcessPart(
            job,
            partition,
            input_index,
            resume.process,
            partitions=partitions,
            cut=cut,
        )
        self._window = WindowPart(job, partition, partitions, resume.window, cut=cut)
        self._process.scope.known_here = self._window.scope.known_here = self._known_here
        self._forgotten: Sequence[int] = ()
        self._progress: RunProgress | None = None
        """As it was when somebody asked last, if nothing has happened since."""

    @property
    def progress(self) -> RunProgress:
        """How far it is now."""
        if self._progress is None:
            process, window = self._process, self._window
            self._progress = RunProgress(
                offset=process.state.offset,
                read_to=process.read_to,
                watermark=process.watermark,
                sealed_to=process.state.sealed_to,
                emitted_to=tuple(window.emitted_to),
                calls=window.calls,
                forgotten_to=tuple(process.forgotten_to),
                parked=process.parked is not None,
                busy=process.busy,
                appended=process.state.appended,
                delays=process.state.delays,
                late=process.state.ordinals.get(LATE, 0),
                dead=process.state.ordinals.get(DEAD, 0),
                future=process.state.future,
                counted_to=process.lanes.sealed_to,
                rows_held=process.lanes.rows_held,
            )
        return self._progress

    @property
    def reads(self) -> frozenset[str] | None:
        """The columns that the program sees; None: all."""
        return self._process.reads

    @property
    def ordinals(self) -> dict[str, int]:
        """By output channel, how many rows it has emitted, before it resumed and since."""
        return self._process.state.ordinals | self._window.ordinals

    # --- what comes in ---------------------------------------------------------------------------------------------

    def feed(
        self,
        batch: pa.RecordBatch | pa.Table | pl.DataFrame,
        offset: int,
        whole: Callable[[], pa.Table] | None = None,
        appended: Sequence[AppendedRows] = (),
    ) -> None:
        """Takes rows of the log; see `ProcessPart.feed`."""
        self._progress = None
        self._process.feed(batch, offset, whole, appended)

    def mark(self, ts: int, offset: int) -> None:
        """Takes a mark of the log."""
        self._progress = None
        self._process.mark(ts, offset)

    def absorb(
        self, contributions: Iterable[bytes], state: ProcessState, diverted: Mapping[str, list[pa.Table]]
    ) -> None:
        """Takes in rows that were folded elsewhere (`program.folding`), what they did to the state, and their outputs."""
        self._progress = None
        for channel, tables in diverted.items():
            self._process.outputs += number(channel, self.partition, state.ordinals, tables)
        self._process.absorb(contributions, state)

    # --- work ------------------------------------------------------------------------------------------------------

    def work(self, state: SharedState) -> bool:
        """One call of `process`, and what follows for the rows that are counted; says whether anything happened."""
        process, happened = self._process, False
        if process.busy:
            self._progress = None
            happened = process.work(replica_of(state))
        if process.lanes and (news := process.count(replica_of(state))) is not None:
            self._progress = None
            happened |= news
        self._check_channels(happened)
        return happened

    def emit(self, state: SharedState, calls_max: int) -> bool:
        """Calls `on_window` for up to so many windows that are complete; says whether anything happened."""
        process = self._process
        sealed = [process.state.sealed_to, *self._window.sealed_to[1:], *process.lanes.sealed_to]
        happened = self._window.work(replica_of(state), process.local_panes, sealed, calls_max)
        if happened:
            self._progress = None
        self._check_channels(happened)
        return happened

    def _check_channels(self, happened: bool) -> None:
        """Raises if `process` and `on_window` have written to one channel: their rows have no common order."""
        writers = self._window.writers
        if happened and not writers.keys().isdisjoint(self._process.state.ordinals):
            channel = min(writers.keys() & self._process.state.ordinals.keys())
            raise written_twice(channel, "process", self._layout.callbacks[writers[channel]].method)

    def step(self, state: SharedState, calls_max: int = 1024) -> bool:
        """One call of `process`, then the windows that are complete; says whether anything happened."""
        processed = self.work(state)
        return self.emit(state, calls_max) or processed

    def drain(self) -> tuple[list[Output], list[Delta | Samples]]:
        """What is to be written, in this order: outputs, then messages."""
        process, window = self._process, self._window
        outputs, messages = process.outputs + window.outputs, process.messages + window.deltas
        process.outputs, window.outputs, process.messages, window.deltas = [], [], [], []
        return outputs, messages

    def owes_windows(self, watermark: int) -> bool:
        """Whether windows are not emitted yet that are complete once all partitions have reached a watermark of stage 0."""
        layout = self._layout
        emitted_to = self._window.emitted_to[: layout.stages]
        if watermark <= min(emitted_to):
            return False
        return any(
            emitted < layout.emission_limit(stage, layout.reach(stage, watermark))
            for stage, emitted in enumerate(emitted_to)
        )

    def closes_windows(self, state: SharedState, watermark: int) -> bool:
        """Whether a window that is known to hold something is over once all have reached a watermark of stage 0."""
        sealed_to = self._layout.reach(0, watermark)
        return self._process.contributions.ends_by(sealed_to) or self._window.closes(replica_of(state), watermark)

    # --- what is known here ----------------------------------------------------------------------------------------

    @property
    def state(self) -> ProcessState:
        """Everything that the process part resumes from, beside contributions."""
        return self._process.state

    @property
    def emitted(self) -> Sequence[Emitted]:
        """By stage, the window that was emitted last."""
        return self._window.cursors

    def previews(self) -> list[Preview]:
        """What is open now in the shared handles of each stage. Sessions have no windows until they close."""
        previews = []
        for stage in range(self._layout.stages):
            panes = [
                Seal(index, pane, payload)
                for index in self._layout.stage_handles(stage)
                if self._layout.handles[index].shared and self._layout.handles[index].window.known_ahead
                for pane, payload in sorted(self._contributions(stage).unsealed(index).items())
            ]
            position = self._window.calls if stage else self._process.state.offset
            previews.append(Preview(stage, self.partition, position, tuple(panes)))
        return previews

    def _contributions(self, stage: int) -> Contributions:
        return self._window.contributions[stage] if stage else self._process.contributions

    def replace_contributions(self, made: Callable[[int], Contributions], lanes: Lanes) -> None:
        """Takes other contributions for each stage, and other lanes, before the first row: such as note what is inserted."""
        self._process.contributions, self._process.lanes = made(0), lanes
        for stage in self._window.contributions:
            self._window.contributions[stage] = made(stage)

    def _known_here(self, index: int, window: Window) -> State | None:
        """What this partition has in a window of a WLocal, sealed or not."""
        panes = (self._process.local_panes | self._window.local_panes)[index]
        opened = {} if panes.handle.window.counted else self._contributions(panes.handle.stage).unsealed(index)
        return known_state(panes, window, [opened])

    # --- checkpoints -----------------------------------------------------------------------------------------------

    def forget(self, emitted_to: Sequence[int]) -> None:
        """Drops WLocal values that a stored window record is past, less what their handles keep."""
        if self._process.local_panes and emitted_to != self._forgotten:
            self._progress, self._forgotten = None, emitted_to
            self._process.forget(emitted_to)

    def process_record(self) -> bytes:
        """The record that goes by input offset, once everything is drained."""
        return self._process.snapshot()

    def window_record(self) -> bytes:
        """The record that goes by emitted windows, once everything is drained."""
        return self._window.snapshot()

    def snapshot(self) -> Records:
        """The resume state, between any two calls, once everything is drained."""
        return Records(self.process_record(), self.window_record())


def replica_of(state: SharedState) -> Replica:
    """The replica that a program's runs read: the state that its own job has opened."""
    if not isinstance(state, Replica):
        raise InvariantBroken(f"a program runs over a Replica, not over a {type(state).__name__}")
    return state
