"""async: partitions never wait. They send rows around each predicted cut, and what lies between folded."""

from __future__ import annotations

from dataclasses import dataclass

from holons.counting.keys import FIRST
from holons.counting.schemes.decision import Decision
from holons.counting.schemes.machines import Scheme, Transport
from holons.counting.schemes.messages import Message, Part, Poll, Split
from holons.counting.schemes.requests import AnsweringLocal
from holons.counting.schemes.roots import DecidingRoot


@dataclass(frozen=True)
class Async(Scheme):
    """Predicts all later cuts, each a little less surely than the one before."""

    def local(self, partition: int, transport: Transport) -> AsyncLocal:
        return AsyncLocal(self, partition, transport)

    def root(self, transport: Transport) -> AsyncRoot:
        return AsyncRoot(self, transport)


class AsyncLocal(AnsweringLocal):
    """Sends segments without a gap. A mark, a poll and the end of the log close what is open before the frontier moves."""

    def __init__(self, scheme: Async, partition: int, transport: Transport) -> None:
        super().__init__(scheme, partition, transport)
        self._sent = 0
        self._reported = FIRST
        self._polled = FIRST
        self._marked = False

    def mark(self, watermark: int) -> None:
        super().mark(watermark)
        self._marked = True

    def receive(self, message: Message) -> None:
        if isinstance(message, Poll):
            self._polled = max(self._polled, message.key)
        super().receive(message)

    def work(self, *, caught_up: bool) -> None:
        self.drop_cut()
        self._sent = max(self._sent, self.ledger.rows.start)  # what another run has sent before the last cut
        self._send(closing=caught_up or self._marked or self._reported < self._polled)
        self._marked = False
        self.answer()

    # --- segments ---------------------------------------------------------------------------------------------------

    def _send(self, *, closing: bool) -> None:
        ledger, parts = self.ledger, list[Part]()
        while self._sent < ledger.settled:
            folds, end = self._segment(self._sent)
            if folds and end > ledger.settled and not closing:
                break
            end = min(end, ledger.settled)
            parts += self.folded(self._sent, end) if folds else self.raw(self._sent, end)
            self._sent = end
        if parts:
            self._reported = max(self._reported, ledger.rows.key(self._sent))
        frontier = None
        if self._sent == ledger.settled and ledger.frontier > self._reported:
            frontier = self.frontier_at(self._sent)
            self._reported = frontier.key
        self.send_up(parts, frontier)

    def _segment(self, rank: int) -> tuple[bool, int]:
        """Whether the rows beyond a rank are folded, and up to where: the next cuts are predicted in ever wider zones."""
        size, error = self.predicted.size, self.predicted.error
        if size <= 2 * error:
            return False, self.ledger.settled
        step = max((rank - self.predicted.rank) // (size + error), 0) + 1
        center = self.predicted.rank + step * size
        start, end = center - step * error, center + step * error
        return (True, start) if rank < start else (False, end)


class AsyncRoot(DecidingRoot):
    """Polls partitions that are late, and has folded ranges split that may hide a cut."""

    windows_before_predicting = 3

    def ask(self, decision: Decision) -> None:
        for partition in decision.late:
            self.once(partition, Poll(decision.key))
        for partition, cover in enumerate(self.covers):
            if end := cover.overlap:  # of a run of this partition that is no more
                self.once(partition, Split(cover.end, end, FIRST, FIRST))
        self.split(decision)
