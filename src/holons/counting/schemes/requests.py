"""How a partition answers what a root asks of it: each request by itself, and on as the log goes on."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from holons.counting.keys import FIRST, Key
from holons.counting.schemes.machines import LedgerLocal, Scheme, Transport
from holons.counting.schemes.messages import Ask, Bracket, Message, Part, Predicted, Split

ROWS_SPLIT_MAX: Final = 1024  # more rows than that are split into shorter ranges first
ROWS_SPLIT_MIN: Final = 256


def unpredicted(scheme: Scheme, cut: int, rank: int) -> Predicted:
    """Returns what a partition goes by where nothing is predicted: rows only, at first an equal share of a pane."""
    return Predicted(cut, rank, 0, -(-scheme.window.every // (2 * scheme.partitions)))


class AnsweringLocal(LedgerLocal):
    """Answers requests, which name ranks. So it need not know what it sent before, nor in which order they came."""

    def __init__(self, scheme: Scheme, partition: int, transport: Transport) -> None:
        super().__init__(scheme, partition, transport)
        self.predicted = unpredicted(scheme, 0, 0)
        """The newest prediction: that for the highest cut counts."""
        self._splits: list[Split] = []
        self._answered: dict[Ask | Bracket, tuple[int, Key] | None] = {}

    def receive(self, message: Message) -> None:
        if isinstance(message, Split):
            self._splits.append(message)
        elif isinstance(message, Ask | Bracket):
            if message.cut >= self.predicted.cut:
                self._answered.setdefault(message, None)
        elif isinstance(message, Predicted) and message.cut > self.predicted.cut:
            self.predicted = message
            self._answered = {asked: answer for asked, answer in self._answered.items() if asked.cut >= message.cut}

    def drop_cut(self) -> None:
        """Lets go of the rows before the last cut."""
        self.ledger.rows.drop(min(self.predicted.rank, self.ledger.settled))

    def answer(self) -> None:
        """Answers what is asked as far as the log has been read. What is before the last cut nobody needs any more."""
        start, settled = self.ledger.rows.start, self.ledger.settled
        for split in self._splits:
            if start <= split.start and split.end <= settled:
                self.send_up(self._split(split), None)
        self._splits = [split for split in self._splits if split.end > settled]
        for request, answered in list(self._answered.items()):
            if start <= request.start <= settled:
                answer = self._ask(request, answered) if isinstance(request, Ask) else self._bracket(request, answered)
                self._answered[request] = answer

    def _ask(self, asked: Ask, answered: tuple[int, Key] | None) -> tuple[int, Key]:
        sent, known = answered or (asked.start, FIRST)
        rank = min(max(sent, asked.rank, self.ledger.rows.rank_of(asked.key)), self.ledger.settled)
        frontier = self.frontier_at(rank, asked.key)
        if rank > sent or frontier.key > known:
            self.send_up(self.raw(sent, rank), frontier)
        return rank, max(frontier.key, known)

    def _bracket(self, bracket: Bracket, answered: tuple[int, Key] | None) -> tuple[int, Key] | None:
        reach = min(bracket.hi, self.ledger.frontier)
        if reach < bracket.lo or (answered is not None and reach <= answered[1]):
            return answered
        rank = max(bracket.start, self.ledger.rows.rank_of(reach))
        if answered is None:
            folded_to = max(bracket.start, self.ledger.rows.rank_of(bracket.lo))
            parts = self.folded(bracket.start, folded_to) + self.raw(folded_to, rank)
        else:
            parts = self.raw(answered[0], rank)
        self.send_up(parts, self.frontier_at(rank, reach))
        return rank, reach

    def _split(self, split: Split) -> list[Part]:
        rows, start, end = self.ledger.rows, split.start, split.end
        lo, hi = (min(max(rows.rank_of(key), start), end) for key in (split.lo, split.hi))
        if hi - lo <= ROWS_SPLIT_MAX:
            middle = self.raw(lo, hi)
        else:
            edges = _towards_ends(lo, hi)
            middle = [part for first, last in pairwise(edges) for part in self.folded(first, last)]
        return self.folded(start, lo) + middle + self.folded(hi, end)


def _towards_ends(lo: int, hi: int) -> list[int]:
    """The edges of ranges that are short at both ends, and longer in between: cuts are near where they were predicted."""
    steps = [ROWS_SPLIT_MIN * (2**step - 1) for step in range(((hi - lo) // (2 * ROWS_SPLIT_MIN) + 1).bit_length())]
    return [lo + step for step in steps] + [hi - step for step in reversed(steps)]
