"""central: all rows go up to one root, which sorts them. What every other scheme must equal, cut for cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from holons.algebra import IntArray
from holons.algebra.aggregate import pick
from holons.counting.keys import FIRST
from holons.counting.ordered import OrderedRows
from holons.counting.schemes.cover import Cover
from holons.counting.schemes.machines import LedgerLocal, PaneResult, Scheme, Transport
from holons.counting.schemes.messages import Message, Segments


@dataclass(frozen=True)
class Central(Scheme):
    """Ships all rows to a root."""

    selects: bool = False
    """Whether the root selects the keys of cuts, which is faster than to sort all rows."""

    def local(self, partition: int, transport: Transport) -> CentralLocal:
        return CentralLocal(self, partition, transport)

    def root(self, transport: Transport) -> CentralRoot:
        return CentralRoot(self)


class CentralLocal(LedgerLocal):
    """Sends every row as soon as it has its place in the order."""

    _sent = FIRST

    def work(self, *, caught_up: bool) -> None:
        rows, frontier = self.ledger.rows, self.ledger.frontier
        if frontier > self._sent:
            self._sent = frontier
            self.send_up(self.raw(rows.start, rows.end), self.frontier_at(rows.end))
            rows.drop(rows.end)

    def receive(self, message: Message) -> None:
        """Nobody asks it anything."""


class CentralRoot:
    """Sorts the rows of all partitions up to the least frontier."""

    def __init__(self, scheme: Central) -> None:
        self.scheme = scheme
        self.results: list[PaneResult] = []
        self._covers = [Cover(partition) for partition in range(scheme.partitions)]

    def receive(self, message: Message) -> None:
        if isinstance(message, Segments):
            self._covers[message.partition].take(message)
            self._cut()

    def replay(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.receive(message)

    def _cut(self) -> None:
        frontiers, runs = [cover.frontier for cover in self._covers], [cover.run for cover in self._covers]
        safe, window = min(frontiers), self.scheme.window
        floor = np.array([cover.floor for cover in self._covers], dtype=np.int64)
        reached = np.array([run.rank_of(safe) for run in runs], dtype=np.int64)
        base, total = int(floor.sum()), int(reached.sum())
        wanted = window.boundaries(base, total)
        if window.partial and all(key.is_end for key in frontiers):
            wanted = np.unique(np.append(wanted, [total] if total > base else []).astype(np.int64))
        if len(wanted):
            times = [
                run.times(start, end) for run, start, end in zip(runs, floor.tolist(), reached.tolist(), strict=True)
            ]
            ranks = _selected if self.scheme.selects else _sorted
            self._emit(runs, floor, floor + ranks(times, wanted - base))

    def _emit(self, runs: Sequence[OrderedRows], floor: IntArray, ranks: IntArray) -> None:
        aggregate = self.scheme.aggregate
        state = aggregate.zero(len(ranks))
        for partition, (cover, run) in enumerate(zip(self._covers, runs, strict=True)):
            bounds = np.concatenate((floor[partition : partition + 1], ranks[:, partition]))
            state = aggregate.merge(state, run.fold(aggregate, bounds))
            cover.drop(int(ranks[-1, partition]))
        for index, row in enumerate(ranks.tolist()):
            self.results.append(PaneResult(len(self.results) + 1, tuple(row), pick(state, index)))


def _sorted(times: Sequence[IntArray], counts: IntArray) -> IntArray:
    """How many rows each partition has among the first of all rows, a line for each count: by sorting all of them."""
    order = np.argsort(np.concatenate(times), kind="stable")  # equal times keep the order of partition and number
    owners = np.repeat(np.arange(len(times), dtype=np.int32), [len(column) for column in times])[order]
    edges = np.concatenate(([0], counts))
    pieces = [owners[first:last] for first, last in pairwise(edges.tolist())]
    sizes = [np.bincount(piece, minlength=len(times)) for piece in pieces]
    return np.cumsum(np.array(sizes, dtype=np.int64), axis=0)


def _selected(times: Sequence[IntArray], counts: IntArray) -> IntArray:
    """The same by selecting the times at the cuts. Of rows at these times the lowest partitions come first."""
    selected = np.partition(np.concatenate(times), counts - 1)[counts - 1]
    below, upto = (
        np.array([np.searchsorted(column, selected, side=side) for column in times], dtype=np.int64).T
        for side in ("left", "right")
    )
    ties = np.cumsum(upto - below, axis=1)
    missing = (counts - below.sum(axis=1))[:, None]
    before = ties - (upto - below)
    return below + np.clip(missing - before, 0, upto - below)
