"""Where the next cut is, as far as a root can tell from its covers: the lemma of all schemes with a root.

A set of rows is all that precedes a cut exactly when its largest key T is below every other row's key: below that of every
known row, and T is at or below the frontier of every partition. Totals do not tell: 4 + 4 folded rows and 2 + 2 others fill
a window of 10 also where the true split is 3 and 7.

Columns, not rows: an atom is a row or a folded range. Each partition's atoms are in order, so nothing is sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from holons.algebra import IntArray
from holons.counting.keys import FIRST, Key, rank_in
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


def decide(covers: Sequence[Cover], pane: int, *, partial: bool) -> Decision:
    """Returns what is known of the cut `pane` rows after the last one.

    With `partial` there is one at the end of all partitions, too.
    """
    total = sum(cover.end - cover.floor for cover in covers)
    if total < pane:
        if partial and total and all(cover.frontier.is_end for cover in covers):
            ends = np.array([cover.end for cover in covers], dtype=np.int64)
            return Decision(Cutting(ends, max(cover.frontier for cover in covers)))
        return Decision(missing=pane - total)
    floors, frontiers = [cover.floor for cover in covers], [cover.frontier for cover in covers]
    last = [Atoms(cover.floor, cover.atoms.times, cover.atoms.numbers, cover.atoms.ends) for cover in covers]
    first = [
        Atoms(cover.floor, cover.atoms.first_times, cover.atoms.first_numbers, cover.atoms.ends) for cover in covers
    ]
    key, safe = _reaching(last, sum(floors) + pane), min(frontiers)
    assert key is not None, "there are as many rows"
    late = tuple(partition for partition, frontier in enumerate(frontiers) if frontier < key)
    if late:
        hidden = sum(_ranks(first, safe)) > sum(floors) + pane
        return Decision(key=key, late=late, bracket=(_below(first, last, pane), safe) if hidden else None)
    ranks = _ranks(last, key)
    if sum(ranks) == sum(floors) + pane and _separates(key, ranks, first):
        return Decision(Cutting(np.array(ranks, dtype=np.int64), key))
    return Decision(key=key, bracket=(_below(first, last, pane), key))


class Atoms(NamedTuple):
    """Rows and folded ranges of one partition, each by its first or by its last key, and the rank of its last row."""

    floor: int
    times: IntArray
    numbers: IntArray
    ends: IntArray

    def rank(self, atoms: int) -> int:
        """Returns the rank at the end of the first ones."""
        return int(self.ends[atoms - 1]) if atoms else self.floor

    def key(self, atom: int, partition: int) -> Key:
        return Key(int(self.times[atom]), partition, int(self.numbers[atom]))


def _ranks(atoms: Sequence[Atoms], key: Key) -> list[int]:
    """Every partition's rank at a key."""
    return [part.rank(rank_in(part.times, part.numbers, partition, key)) for partition, part in enumerate(atoms)]


def _separates(key: Key, ranks: list[int], first: Sequence[Atoms]) -> bool:
    """Whether all ranges that do not end at or below a key begin above it."""
    return ranks == _ranks(first, key)


def _below(first: Sequence[Atoms], last: Sequence[Atoms], pane: int) -> Key:
    """The greatest known key with certainly at most so many rows at or below it.

    Folded ranges count whole from their first key on.
    """
    beyond = _reaching(first, sum(part.floor for part in first) + pane + 1)
    best = FIRST
    for partition, part in [*enumerate(first), *enumerate(last)]:
        upto = len(part.times)
        if beyond is not None:
            upto = rank_in(part.times, part.numbers, partition, beyond._replace(number=beyond.number - 1))
        if upto:
            best = max(best, part.key(upto - 1, partition))
    return best


def _reaching(atoms: Sequence[Atoms], rank: int) -> Key | None:
    """The least key whose global rank is at least so high: by bisection over time, not by sorting."""
    if sum(part.rank(len(part.times)) for part in atoms) < rank:
        return None
    low = min(int(part.times[0]) for part in atoms if len(part.times))
    high = max(int(part.times[-1]) for part in atoms if len(part.times))
    while low < high:
        middle = (low + high) // 2
        if sum(part.rank(int(part.times.searchsorted(middle, "right"))) for part in atoms) < rank:
            low = middle + 1
        else:
            high = middle
    edges = [tuple(int(part.times.searchsorted(low, side)) for side in ("left", "right")) for part in atoms]
    missing = rank - sum(part.rank(before) for part, (before, _) in zip(atoms, edges, strict=True))
    for partition, (part, (before, upto)) in enumerate(zip(atoms, edges, strict=True)):
        wanted = part.rank(before) + missing
        if part.rank(upto) >= wanted:
            return part.key(before + int(part.ends[before:upto].searchsorted(wanted)), partition)
        missing -= part.rank(upto) - part.rank(before)
    return None
