"""Selection: which cuts follow from the samples of all partitions, and which ranks are missing for the next one.

At each sampled key every partition has a least rank, that of its sample at or below, and a greatest rank, up to that of its
next sample. A boundary b is found at the least key where the least ranks add up to b, if the greatest ranks do so too: that
key separates the first b rows from the others. Only keys up to the least frontier count, since below a frontier nothing is
still to come.

Columns, not samples: the work is a few NumPy operations for each partition, whatever the number of boundaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from holons.algebra import IntArray
from holons.counting.boundaries import CountWindow
from holons.counting.keys import FIRST, Key
from holons.counting.samples import KnownRanks

FURTHER_MAX: Final = 1024  # windows


class Gap(NamedTuple):
    """What is missing for the next cut, which lies in `(lo, hi]`: each partition's ranks in `(least, greatest]`."""

    lo: Key
    hi: Key
    least: IntArray
    greatest: IntArray


class Gaps(NamedTuple):
    """What is missing for the cuts after the next one: for each, of each partition the ranks in `(least, greatest]`."""

    least: IntArray
    greatest: IntArray


class Selection(NamedTuple):
    """Cuts that are found, as one row of ranks and one key each; and what is known of the next ones."""

    ranks: IntArray
    keys: list[Key]
    certain: IntArray
    """Of each partition so many rows belong before the next cut, whichever it will be."""
    gap: Gap | None
    further: Gaps | None = None


class _Bounds(NamedTuple):
    """Sampled keys up to the least frontier, ascending, and every partition's least and greatest rank at each."""

    times: IntArray
    partitions: IntArray
    numbers: IntArray
    least: IntArray
    greatest: IntArray

    def key(self, at: int) -> Key:
        return Key(int(self.times[at]), int(self.partitions[at]), int(self.numbers[at]))

    def since(self, key: Key) -> _Bounds:
        """Returns what is known from a key on."""
        first, last = (int(np.searchsorted(self.times, key.time, side=side)) for side in ("left", "right"))
        own, numbers = self.partitions[first:last], self.numbers[first:last]
        below = (own < key.partition) | (np.equal(own, key.partition) & (numbers < key.number))
        first += int(np.count_nonzero(below))
        least, greatest = self.least[:, first:], self.greatest[:, first:]
        return _Bounds(self.times[first:], self.partitions[first:], self.numbers[first:], least, greatest)


def select(known: Sequence[KnownRanks], floor: IntArray, window: CountWindow, before: Gap | None = None) -> Selection:
    """Returns the cuts after `floor`, the ranks of the last one, as far as they are known.

    `before` is the gap that was found with fewer samples: of those below it none is looked at again.
    """
    frontiers = [samples.frontier(partition) for partition, samples in enumerate(known)]
    safe, base = min(frontiers), int(floor.sum())
    ended = window.partial and all(key.is_end for key in frontiers)
    if before is None:
        least, greatest = _at(known, floor, safe)
        if not ended and int(greatest.sum()) < window.after(base):
            return Selection(np.zeros((0, len(known)), dtype=np.int64), [], least, None)
        before = Gap(FIRST, safe, floor, floor)
    return _searched(known, floor, window, safe, before, ended=ended)


def _searched(
    known: Sequence[KnownRanks], floor: IntArray, window: CountWindow, safe: Key, before: Gap, *, ended: bool
) -> Selection:
    bounds = _bounds(known, before.least, safe).since(before.lo)
    least, greatest = bounds.least.sum(axis=0), bounds.greatest.sum(axis=0)
    wanted = window.boundaries(int(floor.sum()), int(least[-1]) if len(least) else 0)
    at = np.searchsorted(least, wanted, side="left")
    exact = np.equal(least[at], wanted) & np.equal(greatest[at], wanted)
    found = len(wanted) if exact.all() else int(np.argmin(exact))
    ranks = bounds.least[:, at[:found]].T.copy()
    keys = [bounds.key(index) for index in at[:found].tolist()]
    if found:
        floor = ranks[-1]
        before = Gap(FIRST, safe, floor, floor)
    boundary = window.after(int(floor.sum()))
    if ended and (rest := _rest(known, floor, boundary)) is not None:
        ranks, keys, floor = np.vstack((ranks, rest)), [*keys, max(s.frontier(a) for a, s in enumerate(known))], rest
        return Selection(ranks, keys, floor, None)
    below = int(np.searchsorted(greatest, boundary, side="right")) - 1
    certain = np.maximum(before.least, bounds.least[:, below]) if below >= 0 else before.least
    above = int(np.searchsorted(least, boundary, side="left"))
    if above == len(least):
        above -= 1  # the least frontier itself
        if above < 0 or greatest[above] < boundary:
            return Selection(ranks, keys, certain, None)
    lo = bounds.key(below) if below >= 0 else before.lo
    gap = Gap(lo, bounds.key(above), certain, bounds.greatest[:, above])
    return Selection(ranks, keys, certain, gap, _further(bounds, before.least, window, boundary))


def _further(bounds: _Bounds, floor: IntArray, window: CountWindow, boundary: int) -> Gaps | None:
    """What is missing for the boundaries after one: so that many windows that are open need not wait for each other."""
    least, greatest = bounds.least.sum(axis=0), bounds.greatest.sum(axis=0)
    wanted = window.boundaries(boundary, min(int(greatest[-1]), boundary + FURTHER_MAX * window.every))
    if not len(wanted):
        return None
    below = np.searchsorted(greatest, wanted, side="right") - 1
    above = np.minimum(np.searchsorted(least, wanted, side="left"), len(least) - 1)
    known = np.where(below >= 0, bounds.least[:, np.maximum(below, 0)], floor[:, None])
    return Gaps(np.maximum(known, floor[:, None]).T, bounds.greatest[:, above].T)


def _rest(known: Sequence[KnownRanks], floor: IntArray, boundary: int) -> IntArray | None:
    """All rows of all partitions, which have ended, if they end before the next boundary."""
    totals = np.array([int(samples.ranks[-1]) for samples in known], dtype=np.int64)
    return totals if int(floor.sum()) < int(totals.sum()) < boundary else None


def _at(known: Sequence[KnownRanks], floor: IntArray, key: Key) -> tuple[IntArray, IntArray]:
    """Every partition's least and greatest rank at a key, which is not above any frontier."""
    least, greatest = floor.copy(), floor.copy()
    for partition, samples in enumerate(known):
        upto = samples.upto(partition, key)
        if upto:
            least[partition] = max(int(samples.ranks[upto - 1]), int(floor[partition]))
        own = upto > 0 and key == (int(samples.times[upto - 1]), partition, int(samples.numbers[upto - 1]))
        if own or upto == len(samples):
            greatest[partition] = least[partition]
        else:
            greatest[partition] = int(samples.ranks[upto]) - int(samples.rows[upto])
    return least, greatest


def _bounds(known: Sequence[KnownRanks], floor: IntArray, safe: Key) -> _Bounds:
    """What is known at each sampled key above the floor, up to the least frontier."""
    relevant = []
    for partition, samples in enumerate(known):
        first = int(np.searchsorted(samples.ranks, floor[partition], side="left"))
        relevant.append((samples.between(first, len(samples)), samples.upto(partition, safe) - first))
    parts = [samples.between(0, max(upto, 0)) for samples, upto in relevant]
    partitions = np.repeat(np.arange(len(known), dtype=np.int64), [len(part) for part in parts])
    times, numbers = np.concatenate([p.times for p in parts]), np.concatenate([p.numbers for p in parts])
    order = np.lexsort((numbers, partitions, times))
    partitions = partitions[order]
    least, greatest = (
        np.empty((len(known), len(order)), dtype=np.int64),
        np.empty((len(known), len(order)), dtype=np.int64),
    )
    for partition, (samples, _) in enumerate(relevant):
        own = np.equal(partitions, partition)
        upto = np.cumsum(own)
        ranks = np.maximum(samples.ranks, floor[partition])
        least[partition] = np.concatenate(([floor[partition]], ranks))[upto]
        following = np.concatenate((samples.ranks - samples.rows, ranks[-1:], [0]))
        greatest[partition] = np.where(own, least[partition], np.maximum(following[upto], floor[partition]))
    return _Bounds(times[order], partitions, numbers[order], least, greatest)
