"""The cuts of one lane, as they follow from the samples of all its partitions.

Every node keeps this view, and finds every cut by itself. Which samples it has seen decides when it finds a cut, and by
which key, but never the ranks: these are a function of the input. So nobody needs to agree with anybody.

Samples are kept until every durable record is past the cut that they lead to, frontiers included: they are ranks that others
may have decided by, and whoever runs a partition again has to find the same cuts from them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from holons import codec
from holons.algebra import IntArray
from holons.counting.boundaries import CountWindow
from holons.counting.keys import FIRST, Key
from holons.counting.samples import NOTHING_KNOWN, KnownRanks, RankLattice, Samples
from holons.counting.selection import Gap, Gaps, select
from holons.errors import CheckpointLost, CodecError
from holons.windows import ENDING


class CutRanks(NamedTuple):
    """A cut that is known: its number, from 1, every partition's rank there, and a key that separates."""

    number: int
    ranks: IntArray
    key: Key


class Cuts:
    """What is known of all partitions' ranks, and of the cuts of one lane.

    >>> cuts = Cuts(CountWindow(2), partitions=1)
    >>> sampled = KnownRanks(np.array([10, 20, 20]), np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([True] * 3))
    >>> cuts.learn(Samples.of(0, 0, sampled))
    True
    >>> [(cut.number, cut.ranks.tolist()) for cut in cuts.after(0)]
    [(1, [2])]
    """

    def __init__(self, window: CountWindow, partitions: int, lane: int = 0, resume: bytes | None = None) -> None:
        self.window = window
        self.lane = lane
        self.known: list[KnownRanks] = [NOTHING_KNOWN] * partitions
        self._lattices = [RankLattice(partition) for partition in range(partitions)]
        self.trimmed_to = 0
        """The number of the cut up to which nothing is kept."""
        self._trimmed: IntArray = np.zeros(partitions, dtype=np.int64)
        self._found: list[CutRanks] = []
        self._selected: tuple[IntArray, Gap | None, Gaps | None] | None = None
        self._gap: Gap | None = None  # the newest one for the next cut
        self._selected_at = FIRST  # the least frontier then
        self._frontiers = [FIRST] * partitions
        self.changes = 0
        """Grows whenever anything is learned or dropped: who has seen this state has nothing new to see."""
        if resume is not None:
            self._restore(resume)

    @property
    def partitions(self) -> int:
        return len(self.known)

    # --- learning --------------------------------------------------------------------------------------------------

    def learn(self, samples: Samples) -> bool:
        """Takes samples of a partition; returns whether they told anything new."""
        if samples.lane != self.lane or not 0 <= samples.partition < self.partitions:
            raise CodecError(
                f"samples of lane {samples.lane}, partition {samples.partition}, "
                f"in lane {self.lane} with {self.partitions} partitions",
                hint="they belong to another job, or to another version of this one",
            )
        return self.unite(samples.partition, samples.known())

    def unite(self, partition: int, known: KnownRanks) -> bool:
        """Takes samples of a partition as columns; returns whether they told anything new."""
        joined = self._lattices[partition].join(self.known[partition], known.beyond(int(self._trimmed[partition])))
        if joined.changed:
            self.known[partition] = joined.state
            self._frontiers[partition] = joined.state.frontier(partition)
            self._selected = self._still_selected()
            self.changes += 1
        return joined.changed

    # --- reading ---------------------------------------------------------------------------------------------------

    @property
    def found_to(self) -> int:
        """The number of the newest cut that is known."""
        self._select()
        return self.trimmed_to + len(self._found)

    def after(self, number: int) -> list[CutRanks]:
        """Returns the known cuts after the one of that number."""
        if number < self.trimmed_to:
            raise CheckpointLost(
                f"cut {number + 1} of lane {self.lane} is needed, and those up to cut {self.trimmed_to} are trimmed",
                hint="start from a newer record",
            )
        self._select()
        return self._found[number - self.trimmed_to :]

    @property
    def total(self) -> int | None:
        """How many rows there are in all partitions; None while not all of them are known to have ended."""
        if not all(known.frontier(partition).is_end for partition, known in enumerate(self.known)):
            return None
        return sum(int(known.ranks[-1]) for known in self.known)

    @property
    def complete(self) -> bool:
        """Whether no cut will follow on those that are found: all partitions have ended, and what is left is no window.

        To know all ends is not enough: samples come in any order, and those of the cuts between may still be missing.
        """
        total = self.total
        if total is None:
            return False
        self._select()
        reached = int(self.floor.sum())
        return reached == total or (not self.window.partial and self.window.after(reached) > total)

    @property
    def full_to(self) -> int:
        """The end of the last window there is, once all partitions have sealed everything; as far as it is known here.

        Others may know already how many rows there are.
        """
        total = self.total
        if total is None:
            return self.window.pane_start(self.found_to)
        if self.window.partial and total:
            return self.window.end_of(self.window.number_at(total - 1))
        return total

    @property
    def oldest(self) -> int:
        """The time of the oldest sample that is kept; `ENDING` if there is none."""
        return min((int(known.times[0]) for known in self.known if len(known)), default=ENDING)

    @property
    def certain(self) -> IntArray:
        """Of each partition so many rows certainly belong before the next cut."""
        return self._select()[0]

    @property
    def gap(self) -> Gap | None:
        """The ranks that are missing for the next cut, as soon as their rows can be asked for."""
        return self._select()[1]

    @property
    def further(self) -> Gaps | None:
        """The ranks that are missing for the cuts after the next one, as far as their rows can be asked for."""
        return self._select()[2]

    @property
    def floor(self) -> IntArray:
        """Every partition's rank at the newest cut that is known."""
        return self._found[-1].ranks if self._found else self._trimmed

    def _still_selected(self) -> tuple[IntArray, Gap | None, Gaps | None] | None:
        """What was selected, if new samples change nothing: the next cut is still beyond the least frontier."""
        if self._selected is None or self._selected[1] is not None or min(self._frontiers) != self._selected_at:
            return None
        return self._selected

    def _select(self) -> tuple[IntArray, Gap | None, Gaps | None]:
        if self._selected is None:
            selection = select(self.known, self.floor, self.window, self._gap)
            number = self.trimmed_to + len(self._found)
            for index, key in enumerate(selection.keys):
                self._found.append(CutRanks(number + 1 + index, selection.ranks[index], key))
            self._gap = selection.gap
            self._selected, self._selected_at = (
                (selection.certain, selection.gap, selection.further),
                min(self._frontiers),
            )
        return self._selected

    def unpublished(self, partition: int, ranks: IntArray) -> IntArray:
        """Returns those of some ranks, which ascend, whose rows' keys are not known, and that somebody may still need."""
        ranks = ranks[np.searchsorted(ranks, self._trimmed[partition], side="right") :]
        known = self.known[partition].row_ranks()
        if not len(known):
            return ranks
        at = np.minimum(np.searchsorted(known, ranks), len(known) - 1)
        return ranks[known[at] != ranks]

    # --- keeping ---------------------------------------------------------------------------------------------------

    def trim(self, number: int) -> None:
        """Drops what nobody needs any more who is past the cut of that number."""
        passed = min(number - self.trimmed_to, len(self._found))
        if passed <= 0:
            return
        self._trimmed = self._found[passed - 1].ranks
        del self._found[:passed]
        self.trimmed_to += passed
        self.changes += 1
        for partition, known in enumerate(self.known):
            self.known[partition] = known.beyond(int(self._trimmed[partition]))

    def bytes_held(self) -> int:
        """Returns the size of all samples that are kept."""
        return sum(known.bytes_held() for known in self.known)

    def snapshot(self) -> bytes:
        """Returns the state to resume from as bytes: samples and the last trimmed cut; cuts follow from them."""
        known = [lattice.encode(known) for lattice, known in zip(self._lattices, self.known, strict=True)]
        return codec.encode([self.trimmed_to, self._trimmed, known])

    def _restore(self, snapshot: bytes) -> None:
        self.trimmed_to, self._trimmed, known = codec.decode(snapshot)
        self.known = [lattice.decode(data) for lattice, data in zip(self._lattices, known, strict=True)]
        self._frontiers = [known.frontier(partition) for partition, known in enumerate(self.known)]
