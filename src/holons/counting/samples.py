"""Samples: what is known of how many counted rows of a partition are at or below which key.

A sample is a key, the partition's rank there, and whether it is the key of a row. The greatest one is the frontier. A sample
is true whoever publishes it and whenever, so what is known of a partition is a lattice: samples are united, and may come in
any order, any number of times. Two that contradict each other mean that two runs of the partition do not read the same rows.

On the wire samples are columns of differences, in as few bytes as these need: every g-th row of a steady stream costs the
two or three bytes by which its time differs from the one before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from holons import codec
from holons.algebra import IntArray, Joined
from holons.counting.keys import FIRST, Key, rank_in
from holons.errors import CodecError, NondeterministicProgram

_WIDTHS: Final = {0: 0, 1: 1, 2: 2, 4: 4, 8: 8}
_COUNT_MAX: Final = 1 << 24
"""No message has more samples: a partition holds fewer rows."""


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """Integers as the first one, the least difference, and what each difference has above that, in `width` bytes."""

    first: int
    least: int
    width: int
    data: bytes


class Samples(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Some samples of one partition in one lane, sorted by key."""

    lane: int
    partition: int
    count: int
    times: Packed
    numbers: Packed
    """Less the ranks: without disorder they are all -1."""
    ranks: Packed
    rows: Packed

    @staticmethod
    def of(lane: int, partition: int, known: KnownRanks) -> Samples:
        """Returns samples to be published."""
        columns = (known.times, known.numbers - known.ranks, known.ranks, known.rows.astype(np.int64))
        return Samples(lane, partition, len(known), *map(_packed, columns))

    def encode(self) -> bytes:
        """Returns the message as bytes."""
        return msgspec.msgpack.encode(self)

    def known(self) -> KnownRanks:
        """Returns the samples as columns, after making sure that they are whole and sorted."""
        packed = (self.times, self.numbers, self.ranks, self.rows)
        times, numbers, ranks, rows = (_unpacked(column, self.count) for column in packed)
        known = KnownRanks(times, numbers + ranks, ranks, rows != 0)
        if not known.is_sorted() or (
            self.count and (int(ranks.min()) < 0 or int(rows.min()) < 0 or int(rows.max()) > 1)
        ):
            raise CodecError(
                "samples that are not sorted by key", hint="the sync stream is damaged", partition=self.partition
            )
        return known


def _packed(values: IntArray) -> Packed:
    if not len(values):
        return Packed(0, 0, 0, b"")
    steps = np.diff(values)
    least = int(steps.min()) if len(steps) else 0
    above = (steps - least).view(np.uint64)
    highest = int(above.max()) if len(above) else 0
    width = next(width for width in _WIDTHS if highest < 1 << 8 * width)
    return Packed(int(values[0]), least, width, above.astype(f"<u{width}").tobytes() if width else b"")


def _unpacked(packed: Packed, count: int) -> IntArray:
    steps = max(count - 1, 0)
    whole = 0 <= count <= _COUNT_MAX and packed.width in _WIDTHS and len(packed.data) == steps * packed.width
    if not whole or not all(-(1 << 63) <= number < 1 << 63 for number in (packed.first, packed.least)):
        raise CodecError(
            f"{len(packed.data)} bytes for {count} samples of {packed.width} bytes each",
            hint="the sync stream is damaged, or was written by another version of Holons",
        )
    values = np.zeros(count, dtype=np.int64)
    if count:
        above = np.frombuffer(packed.data, dtype=f"<u{packed.width}").astype(np.int64) if packed.width else 0
        values[0] = packed.first
        values[1:] = packed.first + np.cumsum(above + np.full(steps, packed.least, dtype=np.int64))
    return values


@dataclass(frozen=True, eq=False)
class KnownRanks:
    """Samples of one partition as columns, sorted by key. Never changed in place."""

    times: IntArray
    numbers: IntArray
    ranks: IntArray
    rows: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.times)

    def take(self, chosen: slice | npt.NDArray[np.generic]) -> KnownRanks:
        """Returns some of the samples, by position or by mask."""
        return KnownRanks(self.times[chosen], self.numbers[chosen], self.ranks[chosen], self.rows[chosen])

    def between(self, first: int, last: int) -> KnownRanks:
        """Returns the samples from `first` up to `last`, by position."""
        return self.take(slice(first, last))

    def upto(self, partition: int, key: Key) -> int:
        """Returns how many samples are at or below a key."""
        return rank_in(self.times, self.numbers, partition, key)

    def frontier(self, partition: int) -> Key:
        """Returns the greatest key that is known."""
        return Key(int(self.times[-1]), partition, int(self.numbers[-1])) if len(self) else FIRST

    def and_frontier(self, frontier: Key, rank: int) -> KnownRanks:
        """Returns the samples, and a frontier above all of them."""
        return KnownRanks(
            np.append(self.times, frontier.time),
            np.append(self.numbers, frontier.number),
            np.append(self.ranks, rank),
            np.append(self.rows, False),
        )

    def beyond(self, rank: int) -> KnownRanks:
        """Returns what still tells anything once the first rows, up to a rank, are cut.

        Of several samples of that rank the last one tells what the others do: a partition that is only marked has the same
        rank for ever.
        """
        first = int(np.searchsorted(self.ranks, rank, side="left"))
        above = int(np.searchsorted(self.ranks, rank, side="right"))
        return self.between(max(first, above - 1), len(self))

    def row_ranks(self) -> IntArray:
        """Returns the ranks whose rows' keys are known."""
        return self.ranks[self.rows]

    def bytes_held(self) -> int:
        """Returns the size of the columns."""
        return self.times.nbytes + self.numbers.nbytes + self.ranks.nbytes + self.rows.nbytes

    def is_sorted(self) -> bool:
        """Whether keys ascend, and none is there twice."""
        same = np.equal(self.times[1:], self.times[:-1])
        ascending = (self.times[1:] > self.times[:-1]) | (same & (self.numbers[1:] > self.numbers[:-1]))
        return bool(ascending.all())


_NO_RANKS: Final = np.zeros(0, dtype=np.int64)
NOTHING_KNOWN: Final = KnownRanks(_NO_RANKS, _NO_RANKS, _NO_RANKS, np.zeros(0, dtype=np.bool_))


def known_ranks(times: IntArray, numbers: IntArray, ranks: IntArray, *, rows: bool) -> KnownRanks:
    """Returns samples that are all keys of rows, or none of them is."""
    return KnownRanks(times, numbers, ranks, np.full(len(ranks), rows))


@dataclass(frozen=True)
class RankLattice:
    """The lattice of what is known of one partition's ranks: the join unites samples.

    >>> lattice = RankLattice(partition=0)
    >>> some = known_ranks(np.array([10]), np.array([4]), np.array([5]), rows=True)
    >>> other = known_ranks(np.array([10]), np.array([4]), np.array([6]), rows=True)
    >>> lattice.join(some, other)
    Traceback (most recent call last):
    holons.errors.NondeterministicProgram: two runs of one partition disagree on ... up to a key: 5 and 6 ...
    """

    partition: int

    def bottom(self) -> KnownRanks:
        return NOTHING_KNOWN

    def join(self, a: KnownRanks, b: KnownRanks) -> Joined[KnownRanks]:
        if not len(b):
            return Joined(a, False)
        if not len(a):
            return Joined(b, True)
        united = KnownRanks(
            np.concatenate((a.times, b.times)),
            np.concatenate((a.numbers, b.numbers)),
            np.concatenate((a.ranks, b.ranks)),
            np.concatenate((a.rows, b.rows)),
        )
        if a.frontier(self.partition) < Key(int(b.times[0]), self.partition, int(b.numbers[0])):
            self._check(united.between(len(a) - 1, len(a) + 1))
            return Joined(united, True)
        order = np.lexsort((~united.rows, united.ranks, united.numbers, united.times))
        united = united.take(order)
        repeated = np.equal(united.times[1:], united.times[:-1]) & np.equal(united.numbers[1:], united.numbers[:-1])
        self._check(united, repeated)
        kept = np.concatenate(([True], ~repeated))  # of two with one key the row comes first
        united = united.take(kept)
        changed = len(united) != len(a) or not np.array_equal(united.rows, a.rows)
        return Joined(united if changed else a, changed)

    def leq(self, a: KnownRanks, b: KnownRanks) -> bool:
        return not self.join(b, a).changed

    def encode(self, state: KnownRanks) -> bytes:
        return codec.encode([state.times, state.numbers, state.ranks, state.rows])

    def decode(self, data: bytes) -> KnownRanks:
        return KnownRanks(*codec.decode(data))

    def describe(self) -> str:
        return f"RankLattice({self.partition})"

    def _check(self, known: KnownRanks, repeated: npt.NDArray[np.bool_] | None = None) -> None:
        """Ranks ascend with keys, a row's key adds at least one, and one key has one rank."""
        steps = np.diff(known.ranks)
        wrong = steps < known.rows[1:]
        if repeated is not None:
            wrong = np.where(repeated, steps != 0, wrong)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            key = Key(int(known.times[at + 1]), self.partition, int(known.numbers[at + 1]))
            raise NondeterministicProgram(
                "two runs of one partition disagree on how many rows it has up to a key: "
                f"{known.ranks[at]} and {known.ranks[at + 1]}",
                hint="make the program a function of its input: no clock, no randomness, no state from outside",
                partition=self.partition,
                key=tuple(key),
            )
