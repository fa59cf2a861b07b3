"""One partition's counted rows in the order of their keys, by rank."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from holons.algebra import Aggregate, Groups, IntArray, Rows, State
from holons.algebra.aggregate import place, take
from holons.counting.counted import Numbered
from holons.counting.keys import Key, rank_in
from holons.errors import CheckpointLost, InvariantBroken


class OrderedRows:
    """Rows by rank: the first has rank 1. Appended in the order of their keys, and dropped from below."""

    def __init__(self, partition: int, start: int = 0) -> None:
        self.partition = partition
        self.start = start
        """The rank up to which rows are dropped."""
        self.end = start
        """The rank of the newest row."""
        self._pieces: list[Numbered] = []
        self._ends: list[int] = []  # the rank of each piece's last row

    @property
    def count(self) -> int:
        """How many rows are held."""
        return self.end - self.start

    def append(self, piece: Numbered) -> None:
        """Appends rows, which are in order and above all others."""
        if piece.rows.count:
            self.end += piece.rows.count
            self._pieces.append(piece)
            self._ends.append(self.end)

    def between(self, start: int, end: int) -> Iterator[Numbered]:
        """Yields the rows of ranks `(start, end]`, piece by piece, without copying."""
        self._check(start, end)
        at = bisect_right(self._ends, start)
        while start < end:
            piece, first = self._pieces[at], self._ends[at] - self._pieces[at].rows.count
            upto = min(end, self._ends[at])
            yield piece if (first, self._ends[at]) == (start, upto) else piece.between(start - first, upto - first)
            start, at = upto, at + 1

    def keys(self, ranks: IntArray) -> tuple[IntArray, IntArray]:
        """Returns the times and the numbers of the rows of some ranks, which ascend."""
        times, numbers = np.empty(len(ranks), dtype=np.int64), np.empty(len(ranks), dtype=np.int64)
        if not len(ranks):
            return times, numbers
        self._check(int(ranks[0]) - 1, int(ranks[-1]))
        at = bisect_left(self._ends, int(ranks[0]))
        done = 0
        while done < len(ranks):
            piece, end = self._pieces[at], self._ends[at]
            upto = int(np.searchsorted(ranks, end, side="right"))
            index = ranks[done:upto] - (end - piece.rows.count + 1)
            times[done:upto] = piece.rows.ts[index]
            numbers[done:upto] = piece.numbers + index if isinstance(piece.numbers, int) else piece.numbers[index]
            done, at = upto, at + 1
        return times, numbers

    def times(self, start: int, end: int) -> IntArray:
        """Returns the times of the rows of ranks `(start, end]`, without copying them if they lie in one piece."""
        return _column([piece.rows.ts for piece in self.between(start, end)])

    def numbers(self, start: int, end: int) -> IntArray:
        """Returns the numbers of the rows of ranks `(start, end]`."""
        return _column([piece.number_column() for piece in self.between(start, end)])

    def key(self, rank: int) -> Key:
        """Returns the key of the row of one rank."""
        times, numbers = self.keys(np.array([rank], dtype=np.int64))
        return Key(int(times[0]), self.partition, int(numbers[0]))

    def rank_of(self, key: Key) -> int:
        """Returns how many rows are at or below a key: at least those that are dropped."""
        if not self.count:
            return self.start
        at = bisect_right(self._pieces, key, key=self._first_key) - 1
        if at < 0:
            return self.start
        rows, numbers = self._pieces[at]
        return self._ends[at] - rows.count + rank_in(rows.ts, numbers, self.partition, key)

    def _first_key(self, piece: Numbered) -> Key:
        number = piece.numbers if isinstance(piece.numbers, int) else int(piece.numbers[0])
        return Key(int(piece.rows.ts[0]), self.partition, number)

    def fold(self, aggregate: Aggregate[object], bounds: IntArray) -> State:
        """Folds runs of rows, as one state each: run i has the ranks `(bounds[i], bounds[i + 1]]`, and may be empty."""
        state, done = aggregate.zero(len(bounds) - 1), int(bounds[0])
        for piece in self.between(done, int(bounds[-1])):
            edges = np.clip(bounds - done, 0, piece.rows.count)
            runs = np.flatnonzero(edges[1:] > edges[:-1])
            grouped = np.append(edges[runs], piece.rows.count)
            folded = aggregate.fold(Groups(len(runs), piece.rows.count, bounds=grouped), piece.rows)
            if done > bounds[runs[0]]:  # the first run goes on from the piece before
                folded = aggregate.merge(take(state, runs), folded)
            state = place(state, runs, folded)
            done += piece.rows.count
        return state

    def drop(self, rank: int) -> None:
        """Drops the rows up to a rank."""
        if rank <= self.start:
            return
        self._check(self.start, rank)
        gone = bisect_right(self._ends, rank)
        del self._pieces[:gone], self._ends[:gone]
        if self._pieces:
            first = self._ends[0] - self._pieces[0].rows.count
            self._pieces[0] = self._pieces[0].between(rank - first, self._pieces[0].rows.count)
        self.start = rank

    def pieces(self) -> list[Numbered]:
        """Returns all rows that are held."""
        return list(self._pieces)

    def _check(self, start: int, end: int) -> None:
        if start < self.start:
            raise CheckpointLost(
                f"rows from rank {start + 1} on are needed, and those up to rank {self.start} are gone",
                partition=self.partition,
                hint="read the partition's log again from an older record",
            )
        if end > self.end:
            raise InvariantBroken(
                f"rank {end} is asked for, and only {self.end} rows are certain", partition=self.partition
            )


def _column(parts: Sequence[IntArray]) -> IntArray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def run_of(rows: Rows, partition: int, numbers: IntArray | int) -> OrderedRows:
    """Returns rows that are in order already, as those of a whole partition."""
    ordered = OrderedRows(partition)
    ordered.append(Numbered(rows, numbers))
    return ordered
