"""What the roots of Deco's schemes have in common: covers, cuts, and starting again from their log.

A published cut is a fact. A root that starts again reads these first, and asks for nothing before the end of its log:
reading in another order it may want rows that nobody wanted before, and that are gone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence

import numpy as np

from holons.counting.prediction import Prediction
from holons.counting.schemes.cover import Cover
from holons.counting.schemes.decision import Cutting, Decision, decide
from holons.counting.schemes.machines import ROOT, PaneResult, Scheme, Transport
from holons.counting.schemes.messages import Ask, Bracket, Cut, Message, Poll, Predicted, Segments, Slice, Split
from holons.counting.schemes.requests import unpredicted


class DecidingRoot(ABC):
    """Finds the cuts from what locals send, and asks for what is missing. Each scheme asks in its own way."""

    windows_before_predicting = 2

    def __init__(self, scheme: Scheme, transport: Transport) -> None:
        self.scheme = scheme
        self.transport = transport
        self.results: list[PaneResult] = []
        self.covers = [Cover(partition) for partition in range(scheme.partitions)]
        self.second_rounds = 0
        """How many panes needed more than what came unasked."""
        self._published: dict[int, Cut] = {}
        self._predictions = [Prediction()] * scheme.partitions
        self._asked: set[Hashable] = set()
        self._second_round = False
        self._splitting: set[tuple[int, int, int]] = set()  # the answers are on their way

    # --- messages ---------------------------------------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        self.take(message)
        self._decide()

    def replay(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.take(message)
        self._decide()
        self._predict()

    def take(self, message: Message) -> None:
        """Takes what a message says."""
        if isinstance(message, Segments):
            self.covers[message.partition].take(message)
        elif isinstance(message, Slice):
            self.covers[message.segments.partition].take(message.segments)
        elif isinstance(message, Cut) and message.cut > len(self.results):
            self._published[message.cut] = message

    @abstractmethod
    def ask(self, decision: Decision) -> None:
        """Asks for what is missing, if something is."""

    def once(self, to: int, request: Ask | Bracket | Poll | Split) -> None:
        """Sends a request, unless that has been done for this cut."""
        if (to, request) not in self._asked:
            self._asked.add((to, request))
            self._second_round |= not isinstance(request, Poll)
            self.transport.send(to, request)

    def split(self, decision: Decision) -> None:
        """Asks for those folded ranges in parts that hide where the cut is."""
        if decision.bracket is None:
            return
        lo, hi = decision.bracket
        for partition, cover in enumerate(self.covers):
            for start, end, folded, _ in cover.pieces:
                if folded is not None and end - start > 1 and folded.first <= hi and folded.last > lo:
                    self.once(partition, Split(start, end, lo, hi))
                    self._splitting.add((partition, start, end))

    # --- cuts -------------------------------------------------------------------------------------------------------

    @property
    def cuts(self) -> int:
        """How many cuts are known."""
        return len(self.results)

    @property
    def pane(self) -> int:
        """How many rows the next pane has."""
        base = sum(cover.floor for cover in self.covers)
        return self.scheme.window.after(base) - base

    def _decide(self) -> None:
        while (cut := self._published.get(self.cuts + 1)) is not None:
            if not all(cover.covers(rank) for cover, rank in zip(self.covers, cut.ranks, strict=True)):
                return
            del self._published[cut.cut]
            self._emit(Cutting(np.array(cut.ranks, dtype=np.int64), cut.key))
        while self._step():
            pass

    def _step(self) -> bool:
        """Cuts once, or asks for what is missing; returns whether there was a cut."""
        if any(self.covers[partition].has(start, end) for partition, start, end in self._splitting):
            return False
        self._splitting.clear()
        decision = decide(self.covers, self.pane, partial=self.scheme.window.partial)
        if decision.cut is None:
            self.ask(decision)
            return False
        self.second_rounds += self._second_round
        self.transport.send(ROOT, Cut(self.cuts + 1, decision.cut.key, tuple(decision.cut.ranks.tolist())))
        self._emit(decision.cut)
        self._predict()
        return True

    def _emit(self, cutting: Cutting) -> None:
        ranks = tuple(cutting.ranks.tolist())
        aggregate = self.scheme.aggregate
        state = aggregate.zero(1)
        for cover, rank in zip(self.covers, ranks, strict=True):
            state = aggregate.merge(state, cover.cut(aggregate, rank))
        self.results.append(PaneResult(self.cuts + 1, ranks, state))
        self._predictions = [seen.saw(rank) for seen, rank in zip(self._predictions, ranks, strict=True)]
        self._asked.clear()
        self._splitting.clear()
        self._second_round = False

    def _predict(self) -> None:
        for partition, seen in enumerate(self._predictions):
            self.transport.send(partition, self.predicted(seen))

    def predicted(self, seen: Prediction) -> Predicted:
        """Returns what a partition is told after a cut."""
        if self.cuts < self.windows_before_predicting:
            return unpredicted(self.scheme, self.cuts, seen.rank)
        return Predicted(self.cuts, seen.rank, seen.size, seen.error)
