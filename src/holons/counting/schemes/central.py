"""central: all rows go up to one root, which sorts them. What every other scheme must equal, cut for cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from holons.algebra import IntArray
from holons.algebra.aggregate import pick
from holons.counting.keys import FIRST
from holons.counting.schemes.assembly import Assembly
from holons.counting.schemes.machines import ROOT, LedgerLocal, PaneResult, Scheme, Transport
from holons.counting.schemes.messages import Frontier, Message, RawRows


@dataclass(frozen=True)
class Central(Scheme):
    """Ships all rows to a root."""

    def local(self, partition: int, transport: Transport) -> CentralLocal:
        return CentralLocal(self, partition, transport)

    def root(self, transport: Transport) -> CentralRoot:
        return CentralRoot(self)


class CentralLocal(LedgerLocal):
    """Sends every row as soon as it has its place in the order."""

    _sent = FIRST

    def work(self, *, caught_up: bool) -> None:
        rows = self.ledger.rows
        if rows.count:
            self.transport.send(ROOT, self.raw(rows.start, rows.end))
            rows.drop(rows.end)
        if self.ledger.frontier > self._sent:
            self._sent = self.ledger.frontier
            self.transport.send(ROOT, self.frontier())

    def receive(self, message: Message) -> None:
        """Nobody asks it anything."""


class CentralRoot:
    """Sorts the rows of all partitions up to the least frontier."""

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme
        self.results: list[PaneResult] = []
        self._parts = [Assembly(partition) for partition in range(scheme.partitions)]

    def receive(self, message: Message) -> None:
        if isinstance(message, RawRows):
            self._parts[message.partition].take(message)
        elif isinstance(message, Frontier):
            self._parts[message.partition].reach(message)
        self._cut()

    def replay(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.receive(message)

    def _cut(self) -> None:
        frontiers = [part.frontier() for part in self._parts]
        safe, window = min(frontiers), self.scheme.window
        floor = np.array([part.rows.start for part in self._parts], dtype=np.int64)
        reached = np.array([part.rows.rank_of(safe) for part in self._parts], dtype=np.int64)
        base, total = int(floor.sum()), int(reached.sum())
        wanted = window.boundaries(base, total)
        if window.partial and all(key.is_end for key in frontiers):
            wanted = np.unique(np.append(wanted, [total] if total > base else []).astype(np.int64))
        if len(wanted):
            self._emit(floor, self._ranks(floor, reached, wanted - base))

    def _ranks(self, floor: IntArray, reached: IntArray, counts: IntArray) -> IntArray:
        """Every partition's rank at each cut: a row for each cut, a column for each partition."""
        times = [
            piece.rows.ts
            for part, start, end in zip(self._parts, floor.tolist(), reached.tolist(), strict=True)
            for piece in part.rows.between(start, end)
        ]
        order = np.argsort(np.concatenate(times), kind="stable")  # equal times keep the order of partition and number
        owners = np.repeat(np.arange(len(floor), dtype=np.int32), reached - floor)[order]
        edges = np.concatenate(([0], counts))
        pieces = [owners[first:last] for first, last in pairwise(edges.tolist())]
        sizes = [np.bincount(piece, minlength=len(floor)) for piece in pieces]
        return floor + np.cumsum(np.array(sizes, dtype=np.int64), axis=0)

    def _emit(self, floor: IntArray, ranks: IntArray) -> None:
        aggregate = self.scheme.aggregate
        state = aggregate.zero(len(ranks))
        for partition, part in enumerate(self._parts):
            bounds = np.concatenate((floor[partition : partition + 1], ranks[:, partition]))
            state = aggregate.merge(state, part.rows.fold(aggregate, bounds))
            part.rows.drop(int(ranks[-1, partition]))
        for index, row in enumerate(ranks.tolist()):
            self.results.append(PaneResult(len(self.results) + 1, tuple(row), pick(state, index)))
