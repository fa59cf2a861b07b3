"""Where the next cut is, as far as a root can tell from its covers: the lemma of all schemes with a root.

A set of rows is all that precedes a cut exactly when its largest key T is below every other row's key: below that of every
known row, and T is at or below the frontier of every partition. Totals do not tell: 4 + 4 folded rows and 2 + 2 others fill
a window of 10 also where the true split is 3 and 7.

Columns, not rows: an atom is a row or a folded range, and atoms are sorted and counted as arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from holons.algebra import IntArray
from holons.counting.keys import FIRST, Key
from holons.counting.schemes.cover import Cover


class Cutting(NamedTuple):
    """A cut that is certain: every partition's rank there, and a key that separates."""

    ranks: IntArray
    key: Key


class Decision(NamedTuple):
    """What is known of the next cut, and what is missing."""

    cut: Cutting | None = None
    missing: int = 0
    """So many rows more have to arrive."""
    key: Key = FIRST
    """The cut is not beyond this key, once all of the `late` partitions are."""
    late: tuple[int, ...] = ()
    bracket: tuple[Key, Key] | None = None
    """The cut is in `(lo, hi]`, and folded ranges hide where."""


class Keys(NamedTuple):
    """Keys as columns, in the order of keys."""

    times: IntArray
    partitions: IntArray
    numbers: IntArray

    def key(self, at: int) -> Key:
        return Key(int(self.times[at]), int(self.partitions[at]), int(self.numbers[at]))

    def upto(self, key: Key) -> int:
        """Returns how many keys are at or below a key."""
        first, last = (int(np.searchsorted(self.times, key.time, side=side)) for side in ("left", "right"))
        same = slice(first, last)
        return first + int(
            np.count_nonzero(not_above(self.times[same], self.partitions[same], self.numbers[same], key))
        )


class Atoms(NamedTuple):
    """All known rows and folded ranges, in the order of their last keys."""

    last: Keys
    first_times: IntArray
    first_numbers: IntArray
    counts: IntArray

    @staticmethod
    def of(covers: Sequence[Cover]) -> Atoms:
        columns = [cover.atoms for cover in covers]
        partitions = np.repeat(np.arange(len(covers), dtype=np.int64), [len(column.times) for column in columns])
        times, numbers, first_times, first_numbers, counts = (
            np.concatenate(parts) for parts in zip(*columns, strict=True)
        )
        order = np.argsort(
            times, kind="stable"
        )  # equal times keep the order of partitions, and of each partition's rows
        last = Keys(times[order], partitions[order], numbers[order])
        return Atoms(last, first_times[order], first_numbers[order], counts[order])

    def begun(self, key: Key) -> npt.NDArray[np.bool_]:
        """Returns which atoms begin at or below a key."""
        return not_above(self.first_times, self.last.partitions, self.first_numbers, key)

    def below(self, pane: int) -> Key:
        """Returns the greatest known key with certainly at most so many rows at or below it.

        Folded ranges count whole from their first key on.
        """
        order = np.lexsort((self.first_numbers, self.last.partitions, self.first_times))
        fitting = int(np.searchsorted(np.cumsum(self.counts[order]), pane, side="right"))
        if fitting == len(order):
            return self.last.key(len(order) - 1)
        first = Keys(self.first_times[order], self.last.partitions[order], self.first_numbers[order])
        best = first.key(fitting - 1) if fitting else FIRST
        ended = self.last.upto(first.key(fitting))
        if ended and self.last.key(ended - 1) == first.key(fitting):
            ended -= 1
        return max(best, self.last.key(ended - 1)) if ended else best


def decide(covers: Sequence[Cover], pane: int, *, partial: bool) -> Decision:
    """Returns what is known of the cut `pane` rows after the last one.

    With `partial` there is one at the end of all partitions, too.
    """
    floor = np.array([cover.floor for cover in covers], dtype=np.int64)
    ends = np.array([cover.end for cover in covers], dtype=np.int64)
    total = int(ends.sum() - floor.sum())
    if total < pane:
        if partial and total and all(cover.frontier.is_end for cover in covers):
            return Decision(Cutting(ends, max(cover.frontier for cover in covers)))
        return Decision(missing=pane - total)
    atoms, frontiers = Atoms.of(covers), [cover.frontier for cover in covers]
    reached = np.cumsum(atoms.counts)
    at = int(np.searchsorted(reached, pane, side="left"))
    key, safe = atoms.last.key(at), min(frontiers)
    late = tuple(partition for partition, frontier in enumerate(frontiers) if frontier < key)
    if late:
        hidden = int(atoms.counts[atoms.begun(safe)].sum()) > pane
        return Decision(key=key, late=late, bracket=(atoms.below(pane), safe) if hidden else None)
    if reached[at] == pane and not atoms.begun(key)[at + 1 :].any():
        sizes = np.zeros(len(covers), dtype=np.int64)
        np.add.at(sizes, atoms.last.partitions[: at + 1], atoms.counts[: at + 1])
        return Decision(Cutting(floor + sizes, key))
    return Decision(key=key, bracket=(atoms.below(pane), key))


def not_above(times: IntArray, partitions: IntArray, numbers: IntArray, key: Key) -> npt.NDArray[np.bool_]:
    """Returns which keys are at or below a key."""
    same = np.equal(partitions, key.partition) & (numbers <= key.number)
    earlier: npt.NDArray[np.bool_] = (times < key.time) | (
        np.equal(times, key.time) & ((partitions < key.partition) | same)
    )
    return earlier
