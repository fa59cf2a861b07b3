"""sync: each partition sends a slice and a buffer of predicted sizes, and waits for the next cut."""

from __future__ import annotations

from dataclasses import dataclass

from holons.counting.keys import FIRST
from holons.counting.schemes.decision import Decision
from holons.counting.schemes.machines import ROOT, Scheme, Transport
from holons.counting.schemes.messages import Ask, Message, Segments, Slice
from holons.counting.schemes.requests import AnsweringLocal
from holons.counting.schemes.roots import DecidingRoot


@dataclass(frozen=True)
class Sync(Scheme):
    """Predicts the next pane's size in each partition from the last ones."""

    def local(self, partition: int, transport: Transport) -> SyncLocal:
        return SyncLocal(self, partition, transport)

    def root(self, transport: Transport) -> SyncRoot:
        return SyncRoot(self, transport)


class SyncLocal(AnsweringLocal):
    """Sends one slice for each cut. It is sent short where it cannot be filled: at a mark, and at the end of the log."""

    def __init__(self, scheme: Sync, partition: int, transport: Transport) -> None:
        super().__init__(scheme, partition, transport)
        self._sliced = -1
        self._marked = False

    def mark(self, watermark: int) -> None:
        super().mark(watermark)
        self._marked = True

    def work(self, *, caught_up: bool) -> None:
        self.drop_cut()
        cut, start, size, error = self.predicted.cut, self.predicted.rank, self.predicted.size, self.predicted.error
        slice_end = start + max(size - error, 0)
        end, settled = slice_end + 2 * error, self.ledger.settled
        if cut > self._sliced and (settled >= end or ((caught_up or self._marked) and settled >= start)):
            self._sliced, self._marked = cut, False
            slice_end, end = min(slice_end, settled), min(end, settled)
            parts = (*self.folded(start, slice_end), *self.raw(slice_end, end))
            self.transport.send(ROOT, Slice(cut, Segments(self.partition, parts, self.frontier_at(end))))
        self.answer()


class SyncRoot(DecidingRoot):
    """Decides once all slices are here: asks for more, and for slices in parts that reach beyond the cut."""

    def __init__(self, scheme: Sync, transport: Transport) -> None:
        super().__init__(scheme, transport)
        self._slices: dict[int, set[int]] = {}

    def take(self, message: Message) -> None:
        if isinstance(message, Slice) and message.cut >= self.cuts:
            self._slices.setdefault(message.cut, set()).add(message.segments.partition)
        super().take(message)

    def ask(self, decision: Decision) -> None:
        self._slices = {cut: sliced for cut, sliced in self._slices.items() if cut >= self.cuts}
        if len(self._slices.get(self.cuts, ())) < len(self.covers):
            return
        self.split(decision)
        for partition, cover in enumerate(self.covers):
            if decision.missing:
                self.once(partition, Ask(self.cuts, cover.end, FIRST, cover.end + decision.missing))
            elif partition in decision.late:
                self.once(partition, Ask(self.cuts, cover.end, decision.key, 0))
