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


class ContributedPanes:
    """The contributions of partitions to panes, put together as soon as all are there."""

    def __init__(self, scheme: Scheme, partitions: Sequence[int]) -> None:
        self.scheme = scheme
        self._contributed: dict[int, dict[int, tuple[int, bytes]]] = {partition: {} for partition in partitions}
        self._merged = 0

    def take(self, message: Contributed) -> None:
        """Takes one partition's contributions."""
        known = self._contributed[message.partition]
        for index, partial in enumerate(message.partials):
            cut = message.cut + index
            contribution = message.ranks[index + 1], partial
            if cut > self._merged and known.setdefault(cut, contribution) != contribution:
                raise NondeterministicProgram(
                    "two runs of one partition contributed different values to one pane",
                    hint="make the program a function of its input: no clock, no randomness, no state from outside",
                    partition=message.partition,
                    cut=cut,
                )

    def merged(self, cut: int) -> list[PaneResult]:
        """Returns the panes after a cut that are complete, in the order of partitions."""
        aggregate, results = self.scheme.aggregate, list[PaneResult]()
        while all(cut + 1 in known for known in self._contributed.values()):
            cut += 1
            ranks, state = [0] * self.scheme.partitions, aggregate.zero(1)
            for partition, known in self._contributed.items():
                ranks[partition], partial = known.pop(cut)
                if partial:
                    state = aggregate.merge(state, aggregate.decode(partial))
            results.append(PaneResult(cut, tuple(ranks), state))
        self._merged = cut
        return results


class Reader:
    """Reads the results: every node has one."""

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme
        self.results: list[PaneResult] = []
        self._panes = ContributedPanes(scheme, range(scheme.partitions))

    def receive(self, message: Message) -> None:
        if isinstance(message, Contributed):
            self._panes.take(message)
            self.results += self._panes.merged(len(self.results))

    def replay(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.receive(message)
