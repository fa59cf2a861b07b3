"""What a root knows of one partition's rows beyond the last cut: ranges of ranks, as rows or folded, and how far it is.

All that it is told are facts about the partition's rows, so they may come in any order, any number of times, and from
several runs of the partition, whose ranges begin and end elsewhere. Of all ranges those are read that reach furthest without
a gap, and of these the finest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from holons.algebra import Aggregate, IntArray, State
from holons.counting.counted import decode_rows
from holons.counting.keys import FIRST, Key
from holons.counting.ordered import OrderedRows
from holons.counting.schemes.messages import Aggregated, Frontier, Part, RawRows, Segments


class Piece(NamedTuple):
    """The rows of ranks `(start, end]`: folded, or as part of a run of rows."""

    start: int
    end: int
    folded: Aggregated | None
    run: OrderedRows

    @property
    def first(self) -> Key:
        return self.run.key(self.start + 1) if self.folded is None else self.folded.first

    @property
    def last(self) -> Key:
        return self.run.key(self.end) if self.folded is None else self.folded.last


class AtomColumns(NamedTuple):
    """Rows and folded ranges of one partition, in order: each one's last and first key, and the rank of its last row."""

    times: IntArray
    numbers: IntArray
    first_times: IntArray
    first_numbers: IntArray
    ends: IntArray

    @staticmethod
    def of(pieces: Sequence[Piece]) -> AtomColumns:
        columns = [_NO_ATOMS]
        for folded, group in groupby(pieces, key=lambda piece: piece.folded is not None):
            alike = list(group)
            columns += [AtomColumns.of_folded(alike)] if folded else map(AtomColumns.of_rows, alike)
        return columns[1] if len(columns) == 2 else AtomColumns.joined(columns)

    @staticmethod
    def joined(columns: Sequence[AtomColumns]) -> AtomColumns:
        """Returns several in one."""
        return AtomColumns(*map(np.concatenate, zip(*columns, strict=True)))

    @staticmethod
    def of_folded(pieces: Sequence[Piece]) -> AtomColumns:
        last, first = [piece.last for piece in pieces], [piece.first for piece in pieces]
        keys = [[key.time for key in last], [key.number for key in last]]
        keys += [[key.time for key in first], [key.number for key in first]]
        return AtomColumns(*np.array([*keys, [piece.end for piece in pieces]], dtype=np.int64))

    @staticmethod
    def of_rows(piece: Piece) -> AtomColumns:
        times, numbers = piece.run.times(piece.start, piece.end), piece.run.numbers(piece.start, piece.end)
        return AtomColumns(times, numbers, times, numbers, np.arange(piece.start + 1, piece.end + 1, dtype=np.int64))


_NO_ATOMS: Final = AtomColumns(*(np.zeros(0, dtype=np.int64) for _ in range(5)))


class Frontiers:
    """How far a partition is. A frontier counts once all rows up to its rank are here: else rows below it may be missing."""

    def __init__(self) -> None:
        self._keys: dict[int, Key] = {}

    def report(self, frontier: Frontier) -> None:
        """Takes a frontier."""
        self._keys[frontier.rank] = max(self._keys.get(frontier.rank, FIRST), frontier.key)

    def at(self, rank: int) -> Key:
        """Returns the newest frontier that counts where all rows up to a rank are here."""
        arrived = [reported for reported in self._keys if reported <= rank]
        best = max((self._keys.pop(reported) for reported in arrived), default=FIRST)
        if arrived:
            self._keys[max(arrived)] = best
        return best


class Cover:
    """One partition's rows beyond the last cut."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.floor = 0
        """The partition's rank at the last cut."""
        self._frontiers = Frontiers()
        self._runs: list[OrderedRows] = []  # ascending; they neither overlap nor touch
        self._folded: dict[tuple[int, int], Aggregated] = {}
        self._pieces: list[Piece] | None = None
        self._atoms: list[AtomColumns] = []
        self._known_to = 0
        self._none = OrderedRows(partition)

    # --- facts ------------------------------------------------------------------------------------------------------

    def take(self, segments: Segments) -> None:
        """Takes successive rows, and how far the partition is."""
        for part in segments.parts:
            if part.end > self.floor:
                self._take(part)
        if segments.frontier is not None:
            self._frontiers.report(segments.frontier)

    def _take(self, part: Part) -> None:
        follows = self._pieces is not None and part.start == self._known_to == self.end
        if isinstance(part, Aggregated):
            self._folded.setdefault((part.start, part.end), part)
        elif self._run(max(part.start, self.floor), part.end) is None:
            self._add(part)
        else:
            return
        self._known_to = max(self._known_to, part.end)
        if follows:
            self._append(part)
        else:
            self._pieces, self._atoms = None, []

    def _append(self, part: Part) -> None:
        """Takes what follows right after all that is known."""
        assert self._pieces is not None
        if isinstance(part, Aggregated):
            piece = Piece(part.start, part.end, part, self._none)
        else:
            piece = Piece(part.start, part.end, None, self._runs[-1])
        if self._atoms:
            self._atoms.append(AtomColumns.of([piece]))
        last = self._pieces[-1] if self._pieces else None
        if last is not None and piece.folded is None and last.run is piece.run:
            self._pieces[-1] = last._replace(end=piece.end)
        else:
            self._pieces.append(piece)

    def _add(self, part: RawRows) -> None:
        added = OrderedRows(self.partition, part.start)
        for piece in decode_rows(part.data):
            added.append(piece)
        added.drop(self.floor)
        before = [run for run in self._runs if run.start <= added.start <= run.end]
        if before:
            _extend(before[0], added)
            added = before[0]
        for run in self._runs:
            if added.start <= run.start <= added.end and run is not added:
                _extend(added, run)
        others = [run for run in self._runs if not added.start <= run.start <= added.end]
        self._runs = sorted([*others, added], key=lambda run: run.start)

    # --- what they cover --------------------------------------------------------------------------------------------

    @property
    def pieces(self) -> list[Piece]:
        """The rows from the last cut on, without a gap, as far as possible."""
        if self._pieces is None:
            self._pieces = self._path(None)
        return self._pieces

    @property
    def end(self) -> int:
        """The rank up to which all rows are here."""
        return self.pieces[-1].end if self.pieces else self.floor

    @property
    def atoms(self) -> AtomColumns:
        """The same rows as columns: each row, and each folded range."""
        if len(self._atoms) != 1:
            self._atoms = [AtomColumns.joined(self._atoms) if self._atoms else AtomColumns.of(self.pieces)]
        return self._atoms[0]

    @property
    def run(self) -> OrderedRows:
        """The rows from the last cut on that are here one by one."""
        return self._run(self.floor, self.floor) or OrderedRows(self.partition, self.floor)

    @property
    def frontier(self) -> Key:
        """The key above which all rows are that are not here."""
        reported = self._frontiers.at(self.end)
        return max(reported, self.pieces[-1].last) if self.pieces else reported

    @property
    def overlap(self) -> int:
        """The end of a folded range that begins before the end of all pieces and reaches further; 0 if there is none."""
        end = self.end
        return max((upto for start, upto in self._folded if start < end < upto), default=0)

    def _path(self, upto: int | None) -> list[Piece]:
        """The pieces from the last cut up to a rank, or as far as possible. Nothing if there are none."""
        edges = {self.floor, *(() if upto is None else (upto,))}
        for start, end in [*self._folded, *((run.start, run.end) for run in self._runs)]:
            edges |= {start, end}
        nodes = sorted(edge for edge in edges if edge >= self.floor and (upto is None or edge <= upto))
        ending: dict[int, list[Aggregated]] = {}
        for (_, end), folded in self._folded.items():
            ending.setdefault(end, []).append(folded)
        last: dict[int, Piece | None] = {self.floor: None}
        for start, end in pairwise(nodes):
            if start in last and (run := self._run(start, end)) is not None:
                last[end] = Piece(start, end, None, run)
            elif usable := [folded for folded in ending.get(end, ()) if folded.start in last]:
                finest = max(usable, key=lambda folded: folded.start)
                last[end] = Piece(finest.start, end, finest, self._none)
        return list(_backwards(last, max(last) if upto is None else upto))[::-1]

    def _run(self, start: int, end: int) -> OrderedRows | None:
        return next((run for run in self._runs if run.start <= start and end <= run.end), None)

    # --- cuts -------------------------------------------------------------------------------------------------------

    def has(self, start: int, end: int) -> bool:
        """Whether the rows of ranks `(start, end]` are only known as one folded range."""
        return any(piece.start == start and piece.end == end and piece.folded is not None for piece in self.pieces)

    def covers(self, rank: int) -> bool:
        """Whether the rows from the last cut up to a rank can be told from the others."""
        return rank == self.floor or bool(self._path(rank))

    def cut(self, aggregate: Aggregate[Any], rank: int) -> State:
        """Returns the rows from the last cut up to a rank, folded, and lets go of them."""
        state = aggregate.zero(1)
        for piece in self._before(rank):
            if piece.folded is not None:
                part = aggregate.decode(piece.folded.partial)
            else:
                part = piece.run.fold(aggregate, np.array([piece.start, piece.end], dtype=np.int64))
            state = aggregate.merge(state, part)
        self.drop(rank)
        return state

    def drop(self, rank: int) -> None:
        """Lets go of the rows up to a rank, which is that of the last cut from now on."""
        at = self._at(rank)
        if at is None:
            self._pieces, self._atoms = None, []
        elif self._pieces is not None:
            if self._atoms:
                gone = int(np.searchsorted(self.atoms.ends, rank, side="right"))
                self._atoms = [AtomColumns(*(column[gone:] for column in self.atoms))]
            self._pieces = [piece._replace(start=max(piece.start, rank)) for piece in self._pieces[at:]]
        self.floor, self._known_to = rank, max(self._known_to, rank)
        self._folded = {ends: folded for ends, folded in self._folded.items() if ends[1] > rank}
        self._runs = [run for run in self._runs if run.end > rank]
        for run in self._runs:
            run.drop(rank)

    def _before(self, rank: int) -> list[Piece]:
        """The pieces up to a rank."""
        at = self._at(rank)
        if at is None:
            return self._path(rank)
        pieces = self.pieces[: at + 1]
        if pieces and pieces[-1].end > rank:
            pieces[-1] = pieces[-1]._replace(end=rank)
        return [piece for piece in pieces if piece.start < rank]

    def _at(self, rank: int) -> int | None:
        """The first of the pieces that reaches beyond a rank; None if a range that is folded holds the rank."""
        at = bisect_right(self.pieces, rank, key=lambda piece: piece.end)
        if at == len(self.pieces):
            return at if rank <= self.end else None
        piece = self.pieces[at]
        return None if piece.folded is not None and piece.start < rank else at


def _extend(run: OrderedRows, other: OrderedRows) -> None:
    """Appends what a later run, which begins within or right after this one, has beyond it."""
    if other.end > run.end:
        for piece in other.between(run.end, other.end):
            run.append(piece)


def _backwards(last: dict[int, Piece | None], end: int) -> Iterator[Piece]:
    """Yields the pieces that lead to an end, from there; pieces of one run are one piece."""
    while (piece := last.get(end)) is not None:
        start = piece.start
        while piece.folded is None and (before := last[start]) is not None and before.run is piece.run:
            start = before.start
        yield piece._replace(start=start)
        end = start
