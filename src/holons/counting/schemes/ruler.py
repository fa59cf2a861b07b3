"""ruler: without a root. Partitions publish samples, everybody finds the same cuts from them, and one contribution for each
partition and pane is all that travels beside. `monlocal` is the same without predictions, and with one reader.

This is what nodes run; here it is put over a transport, beside Deco's own schemes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holons.algebra import Rows
from holons.counting.cuts import Cuts
from holons.counting.partition import CountedPartition
from holons.counting.samples import Samples
from holons.counting.schemes.machines import ALL, ROOT, PaneResult, Scheme, Transport
from holons.counting.schemes.messages import Contributed, Message
from holons.errors import NondeterministicProgram


@dataclass(frozen=True)
class Ruler(Scheme):
    """Samples and contributions go to everybody; every node reads the results by itself."""

    predicts = True
    readers = ALL

    def local(self, partition: int, transport: Transport, cuts: Cuts | None = None) -> RulerLocal:
        """Builds the machine of one partition; partitions of one node share their view of the cuts."""
        cuts = Cuts(self.window, self.partitions) if cuts is None else cuts
        counted = CountedPartition(cuts, partition, self.aggregate, predicts=self.predicts)
        return RulerLocal(self, counted, transport)

    def root(self, transport: Transport) -> Reader:
        """Builds a reader: every node has one."""
        return Reader(self)


@dataclass(frozen=True)
class MonLocal(Ruler):
    """Every local finds the cuts from the keys of all; one root reads."""

    predicts = False
    readers = ROOT


class RulerLocal:
    """One partition over a transport."""

    def __init__(self, scheme: Ruler, counted: CountedPartition, transport: Transport) -> None:
        self.scheme = scheme
        self.counted = counted
        self.transport = transport

    def insert(self, rows: Rows, watermark: int) -> None:
        self.counted.insert(rows, watermark)

    def mark(self, watermark: int) -> None:
        self.counted.mark(watermark)

    def receive(self, message: Message) -> None:
        if isinstance(message, Samples):
            self.counted.cuts.learn(message)

    def work(self, *, caught_up: bool) -> None:
        counted = self.counted
        while (samples := counted.samples()) is not None:
            self.transport.send(ALL, samples)
        before, first = counted.ledger.cut_rank, counted.ledger.cuts + 1
        contributions = {contribution.cut: contribution for contribution in counted.contributions()}
        if counted.ledger.cuts < first:
            return
        ranks, partials = [before], []
        for cut in range(first, counted.ledger.cuts + 1):
            contribution = contributions.get(cut)
            ranks.append(ranks[-1] if contribution is None else contribution.end)
            partials.append(b"" if contribution is None else self.scheme.aggregate.encode(contribution.state))
        message = Contributed(first, counted.partition, tuple(ranks), tuple(partials))
        self.transport.send(self.scheme.readers, message)


class Reader:
    """Merges the contributions of all partitions, in the order of partitions."""

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme
        self.results: list[PaneResult] = []
        self._contributed: list[dict[int, tuple[int, bytes]]] = [{} for _ in range(scheme.partitions)]

    def receive(self, message: Message) -> None:
        if not isinstance(message, Contributed):
            return
        known = self._contributed[message.partition]
        for index, partial in enumerate(message.partials):
            cut = message.cut + index
            contribution = message.ranks[index + 1], partial
            if cut > len(self.results) and known.setdefault(cut, contribution) != contribution:
                raise NondeterministicProgram(
                    "two runs of one partition contributed different values to one pane",
                    hint="make the program a function of its input: no clock, no randomness, no state from outside",
                    partition=message.partition,
                    cut=cut,
                )
        self._merge()

    def replay(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.receive(message)

    def _merge(self) -> None:
        aggregate = self.scheme.aggregate
        while all(len(self.results) + 1 in known for known in self._contributed):
            contributed = [known.pop(len(self.results) + 1) for known in self._contributed]
            state = aggregate.zero(1)
            for _, partial in contributed:
                if partial:
                    state = aggregate.merge(state, aggregate.decode(partial))
            self.results.append(PaneResult(len(self.results) + 1, tuple(rank for rank, _ in contributed), state))
