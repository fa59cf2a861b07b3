"""mon: every g-th key goes up, and how far each partition is; a bracket comes down; what is in it goes up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holons.counting.keys import FIRST
from holons.counting.partition import spacing
from holons.counting.samples import NOTHING_KNOWN, KnownRanks, RankLattice, Samples, known_ranks
from holons.counting.schemes.decision import Decision
from holons.counting.schemes.machines import ROOT, Scheme, Transport
from holons.counting.schemes.messages import Bracket, Message
from holons.counting.schemes.requests import AnsweringLocal
from holons.counting.schemes.roots import DecidingRoot
from holons.counting.selection import select


@dataclass(frozen=True)
class Mon(Scheme):
    """Sends keys first, and then only what the keys leave open. Predicts nothing."""

    def local(self, partition: int, transport: Transport) -> MonSampler:
        return MonSampler(self, partition, transport)

    def root(self, transport: Transport) -> MonRoot:
        return MonRoot(self, transport)


class MonSampler(AnsweringLocal):
    """Sends every g-th key, and its rank at its frontier: with the keys alone some windows would never be complete."""

    def __init__(self, scheme: Mon, partition: int, transport: Transport) -> None:
        super().__init__(scheme, partition, transport)
        self._spacing = spacing(scheme.window, scheme.partitions)
        self._sampled_to = 0
        self._reported = FIRST

    def work(self, *, caught_up: bool) -> None:
        known = self._new_samples()
        if len(known):
            self.transport.send(ROOT, Samples.of(0, self.partition, known))
        self.drop_cut()
        self.answer()

    def _new_samples(self) -> KnownRanks:
        ledger, frontier = self.ledger, self.ledger.frontier
        first = max(self._sampled_to, ledger.rows.start) // self._spacing + 1
        ranks = np.arange(first * self._spacing, ledger.settled + 1, self._spacing, dtype=np.int64)
        self._sampled_to = ledger.settled
        known = known_ranks(*ledger.rows.keys(ranks), ranks, rows=True)
        if frontier <= max(self._reported, known.frontier(self.partition)):
            return known
        self._reported = frontier
        return known.and_frontier(frontier, ledger.settled)


class MonRoot(DecidingRoot):
    """Brackets the next cut by what is known of ranks."""

    def __init__(self, scheme: Mon, transport: Transport) -> None:
        super().__init__(scheme, transport)
        self._known = [NOTHING_KNOWN] * scheme.partitions
        self._bracketed = (-1, FIRST)

    def take(self, message: Message) -> None:
        if isinstance(message, Samples):
            partition = message.partition
            self._known[partition] = RankLattice(partition).join(self._known[partition], message.known()).state
        super().take(message)

    def ask(self, decision: Decision) -> None:
        cut, hi = self._bracketed
        if cut == self.cuts and min(cover.frontier for cover in self.covers) < hi:
            return  # the answers are on their way
        floor = np.array([cover.floor for cover in self.covers], dtype=np.int64)
        self._known = [known.beyond(rank) for known, rank in zip(self._known, floor.tolist(), strict=True)]
        selection = select(self._known, floor, self.scheme.window)
        if selection.keys:
            frontiers = [known.frontier(partition) for partition, known in enumerate(self._known)]
            lo = hi = min(selection.keys[0], *frontiers)  # never beyond the least frontier
        elif selection.gap is not None:
            lo, hi = selection.gap.lo, selection.gap.hi
        else:
            return
        if (self.cuts, hi) > self._bracketed:
            self._bracketed = self.cuts, hi
            for partition, cover in enumerate(self.covers):
                self.once(partition, Bracket(self.cuts, cover.end, lo, hi))
