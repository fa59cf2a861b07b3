"""approx: the sizes of the first window are kept for ever. It is fast, and wrong as soon as rates change.

It is here to be compared with: `misplaced_rows` says how wrong it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holons.counting.keys import FIRST
from holons.counting.prediction import Prediction
from holons.counting.schemes.decision import Cutting, Decision
from holons.counting.schemes.machines import ROOT, LedgerLocal, PaneResult, Scheme, Transport
from holons.counting.schemes.messages import Contributed, Message, Predicted
from holons.counting.schemes.roots import DecidingRoot
from holons.counting.schemes.ruler import ContributedPanes


@dataclass(frozen=True)
class Approx(Scheme):
    """Measures each partition's share of the first window, and takes it for its share of every later one."""

    def local(self, partition: int, transport: Transport) -> ApproxLocal:
        return ApproxLocal(self, partition, transport)

    def root(self, transport: Transport) -> ApproxRoot:
        return ApproxRoot(self, transport)


class ApproxLocal(LedgerLocal):
    """Sends rows until the first window is cut, and then one contribution for each pane."""

    _share: Predicted | None = None
    _sent_to = 0
    _sent = FIRST
    _cut = 0
    _boundary = 0

    def receive(self, message: Message) -> None:
        if isinstance(message, Predicted) and self._share is None:
            self._share, self._cut, self._boundary = message, message.cut, self.scheme.window.size
            self._sent_to = message.rank

    def work(self, *, caught_up: bool) -> None:
        ledger = self.ledger
        if self._share is not None:
            self._contribute(self._share)
        elif ledger.frontier > self._sent:
            self.send_up(self.raw(self._sent_to, ledger.settled), self.frontier_at(ledger.settled))
            self._sent_to, self._sent = ledger.settled, ledger.frontier

    def _contribute(self, share: Predicted) -> None:
        ledger, window, aggregate = self.ledger, self.scheme.window, self.scheme.aggregate
        if not share.size or ledger.settled < self._sent_to:
            return
        ledger.rows.drop(self._sent_to)
        reached = ((ledger.settled + 1) * window.size - 1) // share.size
        boundaries = window.boundaries(self._boundary, reached)
        if not len(boundaries):
            return
        ranks = boundaries * share.size // window.size
        bounds = np.concatenate(([self._sent_to], ranks))
        states = ledger.rows.fold(aggregate, bounds)
        partials = [aggregate.encode(tuple(column[at : at + 1] for column in states)) for at in range(len(ranks))]
        sent = Contributed(self._cut + 1, self.partition, tuple(bounds.tolist()), tuple(partials))
        self.transport.send(ROOT, sent)
        self._cut += len(ranks)
        self._boundary, self._sent_to = int(boundaries[-1]), int(ranks[-1])
        ledger.rows.drop(self._sent_to)


class ApproxRoot(DecidingRoot):
    """Cuts the first window from all rows, and merges contributions to the others as they are."""

    def __init__(self, scheme: Scheme, transport: Transport) -> None:
        super().__init__(scheme, transport)
        self._panes: ContributedPanes | None = None
        self._early: list[Contributed] = []

    def take(self, message: Message) -> None:
        if not isinstance(message, Contributed):
            super().take(message)
        elif self._panes is None:
            self._early.append(message)
        else:
            self._panes.take(message)

    def ask(self, decision: Decision) -> None:
        """Nothing is asked for."""

    def predicted(self, seen: Prediction) -> Predicted:
        return Predicted(self.cuts, seen.rank, seen.rank, 0)

    def _step(self) -> bool:
        if self._panes is None:
            return super()._step()
        self.results += self._panes.merged(self.cuts)
        return False

    def _predict(self) -> None:
        if self._panes is not None:
            super()._predict()

    def _emit(self, cutting: Cutting) -> None:
        super()._emit(cutting)
        if int(cutting.ranks.sum()) == self.scheme.window.size:
            shares = [partition for partition, rank in enumerate(cutting.ranks.tolist()) if rank]
            self._panes = ContributedPanes(self.scheme, shares)
            for message in self._early:
                self._panes.take(message)


def misplaced_rows(results: Sequence[PaneResult], exact: Sequence[PaneResult]) -> float:
    """Returns which part of all rows is not in the pane in which it belongs, over the panes that both have.

    >>> exact = [PaneResult(1, (5, 5), ()), PaneResult(2, (8, 12), ())]
    >>> misplaced_rows([PaneResult(1, (5, 5), ()), PaneResult(2, (10, 10), ())], exact)
    0.1
    """
    common = min(len(results), len(exact))
    if not common:
        return 0.0
    ranks, right = (
        np.array([(0,) * len(panes[0].ranks), *(pane.ranks for pane in panes[:common])], dtype=np.int64)
        for panes in (results, exact)
    )
    same = np.minimum(ranks[1:], right[1:]) - np.maximum(ranks[:-1], right[:-1])
    total = int(right[-1].sum())
    return (total - int(np.maximum(same, 0).sum())) / total
