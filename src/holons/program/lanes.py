"""Lanes: one partition's part in the windows of a handle that counts rows.

A lane is a clock of its own beside the stages, on the axis of ranks. What is inserted waits in the partition's ledger. Every
slice of work publishes samples of ranks, looks for cuts in the replica's view, and seals what lies before them: a delta as
of any other window. A cut depends on the input of all partitions and on nothing else, so no invariant changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holons import codec
from holons.algebra import Rows
from holons.counting import CountedPartition, CountWindow, Cuts, Samples
from holons.counting.counted import as_they_came, present_rows
from holons.errors import InvariantBroken
from holons.program.layout import Layout
from holons.wcrdt import Delta, Handle, Seal, SealedPanes
from holons.windows import BEGINNING, ENDING


class Lane:
    """Counts the rows that a partition inserts into one handle, and seals them once cuts are known."""

    def __init__(self, handle: Handle, index: int, lane: int, partition: int, partitions: int) -> None:
        if not isinstance(handle.window, CountWindow):
            raise InvariantBroken(f"{handle.name} counts no rows")
        self._handle = handle
        self._window = handle.window
        self._index = index
        self._lane = lane
        self._partition = partition
        self.sealed_to = BEGINNING
        """Up to which rank all panes are sealed."""
        self._counted = self._open(partitions, None)
        self._arrived: list[Rows] = []
        self._seen: tuple[Cuts, int, int, int] | None = None
        """The view, and what was known of it and had been read, when there was nothing left to do."""

    def _open(self, partitions: int, resume: bytes | None) -> CountedPartition:
        unknown = Cuts(self._window, partitions, self._lane)  # until somebody shows what is known
        return CountedPartition(unknown, self._partition, self._handle.aggregate, resume)

    @property
    def rows_held(self) -> int:
        """How many rows wait for their cut."""
        return self._counted.ledger.rows_held

    def take(self, rows: Rows) -> None:
        """Takes rows that a call has inserted; they count once the clock has moved on."""
        self._arrived.append(present_rows(rows))

    def move(self, watermark: int) -> None:
        """Moves the clock of stage 0: what was inserted until then is counted, in the order of its offsets."""
        arrived, self._arrived = [rows for rows in self._arrived if rows.count], []
        for rows in as_they_came(arrived) if arrived else ():
            self._counted.insert(rows, self._counted.ledger.watermark)
        self._counted.mark(watermark)

    def work(self, cuts: Cuts, local: SealedPanes | None) -> list[Samples | Delta] | None:
        """Publishes samples and seals what is cut; returns what is to be sent, or None if nothing is new.

        Values of a WLocal stay in `local`.
        """
        counted, ledger = self._counted, self._counted.ledger
        if self._seen == (cuts, cuts.changes, ledger.arrived, ledger.watermark):
            return None
        counted.cuts = cuts
        messages: list[Samples | Delta] = []
        while (samples := counted.samples()) is not None:
            messages.append(samples)
        seals = []
        for contribution in counted.contributions():
            pane, state = contribution.cut - 1, self._handle.counted_state(contribution.last_time, contribution.state)
            if local is not None:
                local.add(pane, 0, state)
            seals.append(Seal(self._index, pane, self._handle.seal(state)))
        end = self._end(cuts)
        if end > self.sealed_to:
            messages.append(Delta(self._handle.stage, self._partition, self.sealed_to, end, tuple(seals)))
            self.sealed_to = end
        self._seen = cuts, cuts.changes, ledger.arrived, ledger.watermark
        return messages

    def _end(self, cuts: Cuts) -> int:
        """Up to where this partition has nothing more to add."""
        ledger = self._counted.ledger
        if ledger.watermark >= ENDING and cuts.complete and ledger.cuts == cuts.found_to:
            return ENDING
        return self._window.pane_start(ledger.cuts) if ledger.cuts else BEGINNING

    def snapshot(self) -> bytes:
        """Returns the state to resume from as bytes."""
        return codec.encode([self.sealed_to, self._counted.snapshot()])

    def restore(self, snapshot: bytes) -> None:
        """Resumes from what `snapshot` returned."""
        self.sealed_to, counted = codec.decode(snapshot)
        self._counted = self._open(self._counted.cuts.partitions, counted)


class Lanes:
    """All lanes of one partition, by the handles that count."""

    def __init__(self, layout: Layout, partition: int, partitions: int) -> None:
        self._lanes = {
            index: Lane(layout.handles[index], index, lane, partition, partitions)
            for lane, index in enumerate(layout.lanes)
        }

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def take(self, index: int, rows: Rows) -> bool:
        """Takes rows if the handle counts; returns whether it does."""
        if index not in self._lanes:
            return False
        self._lanes[index].take(rows)
        return True

    def move(self, watermark: int) -> None:
        """Moves the clock of stage 0."""
        for lane in self._lanes.values():
            lane.move(watermark)

    def work(self, views: Sequence[Cuts], local: Mapping[int, SealedPanes]) -> list[Samples | Delta] | None:
        """Publishes samples and seals what is cut; returns what is to be sent, or None if nothing is new in any lane."""
        news: list[Samples | Delta] | None = None
        for cuts, (index, lane) in zip(views, self._lanes.items(), strict=True):
            messages = lane.work(cuts, local.get(index))
            if messages is not None:
                news = [*(news or ()), *messages]
        return news

    @property
    def sealed_to(self) -> tuple[int, ...]:
        """By lane, up to which rank all panes are sealed."""
        return tuple(lane.sealed_to for lane in self._lanes.values())

    @property
    def rows_held(self) -> int:
        """How many rows wait for their cut."""
        return sum(lane.rows_held for lane in self._lanes.values())

    def snapshot(self) -> list[bytes]:
        """Returns the states to resume from."""
        return [lane.snapshot() for lane in self._lanes.values()]

    def restore(self, snapshots: Sequence[bytes]) -> None:
        """Resumes from what `snapshot` returned."""
        for lane, snapshot in zip(self._lanes.values(), snapshots, strict=True):
            lane.restore(snapshot)
