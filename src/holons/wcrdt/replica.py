"""A replica: a node's copy of all contributions and of everybody's progress.

Replicas converge whatever happens to the deltas on the way: a repeated delta changes nothing, one that comes too
early waits, and two runs of one partition must say the same (invariants: contiguous, one-value, complete-before-read,
fixed fold, trim only what nobody needs).
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from holons import wire
from holons.algebra import State
from holons.counting import CountWindow, Cuts, Samples
from holons.errors import CodecError, InvariantBroken, NondeterministicProgram, WindowNotCompleted, WindowTrimmed
from holons.wcrdt.delta import Delta
from holons.wcrdt.handle import Handle
from holons.wcrdt.panes import SealedPanes
from holons.wcrdt.preview import Preview, Previews, known_state
from holons.wcrdt.records import ReplicaState, check_fits, restoring
from holons.windows import BEGINNING, ENDING, Window, instant_text


def _start(delta: Delta) -> int:
    return delta.start


class Applied(enum.Enum):
    """What became of a delta."""

    NEW = "new"
    REPEATED = "repeated"
    WAITING = "waiting"


class Gap(NamedTuple):
    """Deltas wait beyond this progress for one that is missing; the stream will bring it."""

    stage: int
    partition: int
    progress: int


class Replica:
    """All partitions' seals and progress, for the handles of one program."""

    def __init__(self, handles: Sequence[Handle], partitions: int, resume: ReplicaState | None = None) -> None:
        self.handles = tuple(handles)
        self.partitions = partitions
        self.stages = 1 + max((handle.stage for handle in handles if not handle.window.counted), default=0)
        self.lanes = [
            Cuts(handle.window, partitions, lane, None if resume is None else resume.lanes[lane])
            for lane, handle in enumerate(handle for handle in handles if handle.window.counted)
            if isinstance(handle.window, CountWindow)
        ]
        """What is known of the ranks of all partitions, and of the cuts, by lane."""
        self.panes = [SealedPanes(handle.replicated) for handle in handles]
        self.progress = [[BEGINNING] * partitions for _ in range(self.stages + len(self.lanes))]
        self.previews = Previews(self.handles)
        self._waiting: dict[tuple[int, int], list[Delta]] = {}
        if resume is not None:
            check_fits([len(stage) for stage in resume.progress] == [partitions] * len(self.progress))
            self.progress = [list(stage) for stage in resume.progress]
            check_fits(len(self.panes) == len(resume.panes) == len(resume.payloads))
            for panes, record, payloads in zip(self.panes, resume.panes, resume.payloads, strict=True):
                check_fits(all(0 <= partition < partitions for _, partition in record.seals))
                panes.restore(record, payloads)

    # --- messages --------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> bool:
        """Takes in a message of the sync stream; says whether it brought anything new."""
        return self.take_in(decode_message(data))

    def take_in(self, message: Delta | Samples) -> bool:
        """Takes in a message that is decoded already; says whether it brought anything new."""
        if isinstance(message, Delta):
            return self.apply(message) is Applied.NEW
        if not 0 <= message.lane < len(self.lanes):
            raise CodecError(
                f"samples of lane {message.lane}, and there are {len(self.lanes)}",
                hint="the sync stream belongs to another program",
                partition=message.partition,
            )
        return self.lanes[message.lane].learn(message)

    def receive_preview(self, data: bytes) -> None:
        """Takes in a message of the preview stream."""
        self.previews.take(Preview.decode(data), self.progress)

    # --- writing ---------------------------------------------------------------------------------------------------

    def apply(self, delta: Delta) -> Applied:
        """Takes a delta, in any order, any number of times."""
        self._check(delta)
        progress = self.progress[delta.stage]
        if delta.start > progress[delta.partition]:
            self._keep(delta)
            return Applied.WAITING
        if not self._take(delta):
            return Applied.REPEATED
        waiting = self._waiting.get((delta.stage, delta.partition), [])
        while waiting and waiting[0].start <= progress[delta.partition]:
            self._take(waiting.pop(0))
        if not waiting:
            self._waiting.pop((delta.stage, delta.partition), None)
        return Applied.NEW

    def _keep(self, delta: Delta) -> None:
        """Keeps a delta that came too early, ordered by where it starts; however often it comes, only once."""
        waiting = self._waiting.setdefault((delta.stage, delta.partition), [])
        first = bisect_left(waiting, delta.start, key=_start)
        last = bisect_right(waiting, delta.start, lo=first, key=_start)
        if delta not in waiting[first:last]:
            waiting.insert(last, delta)

    def _take(self, delta: Delta) -> bool:
        """Takes in a delta that starts at or before the progress; says whether it brought anything new."""
        progress = self.progress[delta.stage][delta.partition]
        self._compare(delta, delta.start, min(delta.end, progress))
        if delta.end <= progress:
            return False
        for seal in delta.seals:
            if self.handles[seal.handle].window.pane_end(seal.pane) > progress:
                self.panes[seal.handle].add(seal.pane, delta.partition, seal.payload)
        self.progress[delta.stage][delta.partition] = delta.end
        return True

    def _check(self, delta: Delta) -> None:
        known = 0 <= delta.stage < len(self.progress) and 0 <= delta.partition < self.partitions
        if not known or delta.start >= delta.end:
            raise InvariantBroken(
                f"contiguous: a delta for stage {delta.stage}, partition {delta.partition}, ({delta.start}, {delta.end}]",
                hint="the sync stream belongs to another program, or the job's partitions changed",
            )
        for seal in delta.seals:
            handle = self.handles[seal.handle] if 0 <= seal.handle < len(self.handles) else None
            inside = handle is not None and delta.start < handle.window.pane_end(seal.pane) <= delta.end
            if handle is None or handle.stage != delta.stage or not inside:
                raise InvariantBroken(f"contiguous: a seal outside of its delta's interval: {seal.handle}, {seal.pane}")
        if len({(seal.handle, seal.pane) for seal in delta.seals}) < len(delta.seals):
            raise InvariantBroken("one-value: a delta that seals a pane twice")

    def _compare(self, delta: Delta, start: int, end: int) -> None:
        """One-value: where a delta says again what is known, it must say the same, presence and absence alike."""
        if start >= end:
            return
        sealed: dict[int, dict[int, bytes]] = {}
        for seal in delta.seals:
            sealed.setdefault(seal.handle, {})[seal.pane] = seal.payload
        for index, panes in enumerate(self.panes):
            if panes.handle.stage != delta.stage:
                continue
            low, pane_end = max(start, panes.trimmed_to), panes.handle.window.pane_end
            theirs = {pane: payload for pane, payload in sealed.get(index, {}).items() if low < pane_end(pane) <= end}
            known = panes.between(low, end)
            different = [pane for pane in {*known, *theirs} if panes.get(pane, delta.partition) != theirs.get(pane)]
            if different:
                raise self._different(index, min(different), delta.partition)

    def _different(self, index: int, pane: int, partition: int) -> NondeterministicProgram:
        spec = self.handles[index].window
        window = Window(spec.pane_start(pane), spec.pane_end(pane))
        return NondeterministicProgram(
            "one-value: two runs of one partition sealed different contributions",
            hint="look for wall-clock time, randomness, peek(), set order, or effects that depend on where a batch ends",
            handle=self.handles[index].name,
            partition=partition,
            window=spec.text(window) if spec.counted else window,
        )

    def gaps(self) -> list[Gap]:
        """Where deltas wait for one that is missing."""
        return [Gap(stage, partition, self.progress[stage][partition]) for stage, partition in sorted(self._waiting)]

    # --- reading ---------------------------------------------------------------------------------------------------

    def watermark(self, stage: int) -> int:
        """The global watermark of a stage: the least progress of its partitions."""
        return min(self.progress[stage], default=BEGINNING)

    @property
    def reached(self) -> Sequence[int]:
        """By partition, up to where in event time everything is known of it that stage 0 and lanes need."""
        if not self.lanes:
            return self.progress[0]
        frontiers = ([cuts.known[p].frontier(p).time for cuts in self.lanes] for p in range(self.partitions))
        return [max(sealed, *times) for sealed, times in zip(self.progress[0], frontiers, strict=True)]

    def oldest(self, stage: int) -> int:
        """The end of the oldest pane of a stage that is still here; `ENDING` if there is none.

        Rows that are counted belong to stage 0: of them the oldest sample counts.
        """
        present = (panes for panes in self.panes if panes.handle.stage == stage and panes.present)
        ends = [panes.handle.window.pane_end(panes.present[0]) for panes in present]
        return min([*ends, *(cuts.oldest for cuts in self.lanes if stage == 0)], default=ENDING)

    def completed(self, index: int, window: Window) -> bool:
        """Whether every partition has sealed the window. At the end of all of them, what is not full is no count window."""
        clock = self.handles[index].stage
        reached = self.watermark(clock)
        return (
            self.lanes[clock - self.stages].full_to if reached >= ENDING and clock >= self.stages else reached
        ) >= window.end

    def state(self, index: int, window: Window) -> State:
        """The folded state of a completed window."""
        self._check_readable(index, window)
        return self.panes[index].state(window)

    def last_time(self, index: int, window: Window) -> int:
        """When the last row of a completed count window was, the same on every replica."""
        self._check_readable(index, window)
        return self.panes[index].last_time(window)

    def value(self, index: int, window: Window) -> Any:  # noqa: ANN401 - whatever the aggregate's value is
        """The value of a completed window, the same on every replica."""
        self._check_readable(index, window)
        return self.panes[index].value(window)

    def _check_readable(self, index: int, window: Window) -> None:
        handle = self.handles[index]
        handle.window.aligned.check(window)
        if not self.completed(index, window):
            behind = [p for p, progress in enumerate(self.progress[handle.stage]) if progress < window.end]
            raise WindowNotCompleted(
                f"complete-before-read: {handle.name} {handle.window.text(window)} is not sealed by partitions {behind}",
                hint="read it in on_window, or `await handle.completed(window)`; `peek` returns None instead",
            )
        if window.end <= self.panes[index].trimmed_to:
            raise WindowTrimmed(
                f"{handle.name} {handle.window.text(window)} was trimmed",
                hint="read it in the on_window of a window that ends within one size after it"
                if handle.window.counted
                else 'keep more: h.WCRDT(..., keep="1h")',
                trimmed_to=self.panes[index].trimmed_to
                if handle.window.counted
                else instant_text(self.panes[index].trimmed_to),
            )

    def peek(self, index: int, window: Window, *, preview: bool) -> Any:  # noqa: ANN401
        """UNSAFE: the value of a completed window; else None, or with `preview` what is known of it, if anything.

        It depends on timing. Of WLocal handles replicas know no values.
        """
        handle = self.handles[index]
        handle.window.aligned.check(window)
        if self.completed(index, window):
            return self.value(index, window)
        if not preview:
            return None
        with restoring("a preview"):
            state = known_state(self.panes[index], window, self.previews.unsealed(index, self.progress[handle.stage]))
            return None if state is None else handle.aggregate.value(state)

    # --- trimming and resuming -------------------------------------------------------------------------------------

    def trim(self, processed: Sequence[int], emitted: Sequence[int]) -> int:
        """Drops what nobody needs; says how many panes. Both arguments are by stage.

        `processed` is how far all durable process records reach: a call that resumes there may still await the window
        that ends just there, less what the handle keeps. `emitted` is up to where all durable window records have
        emitted: whatever is emitted next ends later. A later stage may still read an earlier one. Samples are kept until
        all process records are past the cut that follows from them: whoever resumes there has to find it again.
        """
        for lane, cuts in enumerate(self.lanes):
            cuts.trim(_cuts_passed(cuts, processed[self.stages + lane]))
        return sum(panes.trim(self._needless(panes.handle, processed, emitted)) for panes in self.panes)

    def serves(self, processed: Sequence[int], emitted: Sequence[int]) -> bool:
        """Whether everything is still here that a run needs which has come so far, and no further."""
        ranks_served = all(
            cuts.trimmed_to <= _cuts_passed(cuts, processed[self.stages + lane]) for lane, cuts in enumerate(self.lanes)
        )
        return ranks_served and all(
            panes.trimmed_to <= self._needless(panes.handle, processed, emitted) for panes in self.panes
        )

    def _needless(self, handle: Handle, processed: Sequence[int], emitted: Sequence[int]) -> int:
        """Up to where nobody asks for a handle's windows any more; see `trim`."""
        clock = handle.stage
        again = handle.window.awaitable  # else a window is read in on_window only
        limit = handle.read_to(emitted, self.stages) if handle.window.known_ahead else emitted[clock]
        limit = min(processed[clock] - 1, limit) if again else limit
        return limit - handle.keep_us if limit > BEGINNING else BEGINNING

    def snapshot(self) -> ReplicaState:
        """Returns the state to resume from. Deltas that wait are not part of it: they will be read again."""
        records = [panes.record() for panes in self.panes]
        payloads = [panes.encoded(seals) for panes, (_, seals) in zip(self.panes, records, strict=True)]
        progress, lanes = [list(stage) for stage in self.progress], [cuts.snapshot() for cuts in self.lanes]
        return ReplicaState(progress, [record for record, _ in records], payloads, lanes)

    def snapshot_bytes(self) -> bytes:
        """Returns the state to resume from, in MessagePack."""
        return wire.encode(self.snapshot())

    @staticmethod
    def resumed(handles: Sequence[Handle], partitions: int, snapshot: bytes | memoryview | None) -> Replica:
        """Returns a replica that resumes from the bytes of a snapshot, or from the beginning."""
        with restoring("a snapshot of a replica"):
            return Replica(handles, partitions, None if snapshot is None else _decode(snapshot))

    def bytes_held(self) -> int:
        """The size of all seals and samples."""
        return sum(panes.bytes_held() for panes in self.panes) + sum(cuts.bytes_held() for cuts in self.lanes)


_decode: Callable[[bytes | memoryview], ReplicaState] = wire.decoder(
    ReplicaState, "a snapshot of a replica", "the record"
)


decode_message: Callable[[bytes], Delta | Samples] = wire.decoder(
    Delta | Samples, "a delta or samples", "the sync stream"
)


def _cuts_passed(cuts: Cuts, rank: int) -> int:
    """How many cuts lie up to a rank."""
    return cuts.window.pane_at(rank) if rank > 0 else 0
