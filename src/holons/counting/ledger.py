"""The ledger: a partition's counted rows until they are cut into contributions.

Rows arrive in the order of the log. Those at or below the frontier are **settled**: no row below them can follow, so each
has its rank for good. The others wait, sorted, within the allowed disorder. Of the settled rows those that certainly belong
to the next pane are folded at once, and the rest is held until a cut is known.

A contribution depends on the partition's own rows and on the ranks of the cut only (invariant: own-input), not on how the
log was read (invariant: batch-blind), nor on when a cut was heard of.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from holons import codec
from holons.algebra import Aggregate, IntArray, Rows, State
from holons.algebra.aggregate import pick, place
from holons.counting.counted import Numbered, arranged, decode_rows, encode_rows
from holons.counting.keys import Key
from holons.counting.ordered import OrderedRows
from holons.errors import InsertBelowWatermark
from holons.windows import BEGINNING, instant_text, is_ascending


class Contribution(NamedTuple):
    """What one partition adds to the pane before a cut: its rows of ranks `(start, end]`, of which there is at least one."""

    cut: int
    start: int
    end: int
    last_time: int
    state: State


class Ledger:
    """The counted rows of one partition in one lane."""

    def __init__(self, partition: int, aggregate: Aggregate[Any], resume: bytes | None = None) -> None:
        self.partition = partition
        self.aggregate = aggregate
        self.rows = OrderedRows(partition)
        """The settled rows, by rank."""
        self.watermark = BEGINNING
        self.arrived = 0
        """How many rows have arrived, so also the number of the next one."""
        self.cuts = 0
        """How many cuts the contributions of this partition have passed."""
        self.cut_rank = 0
        """The partition's rank at the last of them."""
        self._waiting: list[Numbered] = []
        self._folded_to = 0
        self._folded: State = aggregate.zero(1)
        self._folded_time = BEGINNING
        if resume is not None:
            self._restore(resume)

    @property
    def frontier(self) -> Key:
        """The key above which all rows still to come are."""
        return Key(self.watermark, self.partition, self.arrived - 1)

    @property
    def settled(self) -> int:
        """The partition's rank at its frontier."""
        return self.rows.end

    @property
    def rows_held(self) -> int:
        """How many rows are in memory."""
        return self.rows.count + sum(piece.rows.count for piece in self._waiting)

    # --- rows and marks ---------------------------------------------------------------------------------------------

    def insert(self, rows: Rows, watermark: int) -> None:
        """Takes the next counted rows in the order of the log, and the watermark after them."""
        if rows.count:
            ascending = rows.ascending or is_ascending(rows.ts)
            self._check_punctual(int(rows.ts[0]) if ascending else int(rows.ts.min()))
            piece = Numbered(rows, self.arrived)
            self.arrived += rows.count
            if ascending and not self._waiting and rows.ts[-1] <= watermark:
                self.rows.append(piece)
            else:
                self._waiting.append(piece)
        self.mark(watermark)

    def mark(self, watermark: int) -> None:
        """Moves the watermark: no row below it will follow. `ENDING` says that no row will follow at all."""
        self.watermark = max(self.watermark, watermark)
        if self._waiting:
            self._settle()

    def _check_punctual(self, earliest: int) -> None:
        if earliest < self.watermark:
            raise InsertBelowWatermark(
                f"a counted row at {instant_text(earliest)}, below the watermark {instant_text(self.watermark)}",
                hint="rows that are late by their own partition's clock are not counted",
                partition=self.partition,
            )

    def _settle(self) -> None:
        """Sorts what waits, and settles what is at or below the watermark. Equal times keep the order of arrival."""
        times = np.concatenate([piece.rows.ts for piece in self._waiting])
        numbers = np.concatenate([piece.number_column() for piece in self._waiting])
        order = np.argsort(times, kind="stable")
        if not is_ascending(numbers):  # what waited before is sorted by time already
            order = np.lexsort((numbers, times))
        certain = int(np.searchsorted(times[order], self.watermark, side="right"))
        if not certain:
            return
        waiting = _in_order(self._waiting, numbers, order)
        self._waiting = []
        for piece in waiting:
            settled = min(certain, piece.rows.count)
            certain -= settled
            self.rows.append(piece.between(0, settled))
            if settled < piece.rows.count:
                self._waiting.append(piece.between(settled, piece.rows.count))

    # --- panes -----------------------------------------------------------------------------------------------------

    def fold_to(self, rank: int) -> None:
        """Folds the rows up to a rank, which certainly belong to the next pane, and lets go of them."""
        rank = min(rank, self.settled)
        if rank > self._folded_to:
            bounds = np.array([self._folded_to, rank], dtype=np.int64)
            self._folded = self.aggregate.merge(self._folded, self.rows.fold(self.aggregate, bounds))
            self._folded_time = self.rows.key(rank).time
            self._folded_to = rank
            self.rows.drop(rank)

    def reached(self, ranks: IntArray) -> int:
        """Returns how many of the next cuts this run has read as far as: others may be ahead of it."""
        return int(np.searchsorted(ranks, self.settled, side="right"))

    def cut(self, ranks: IntArray) -> list[Contribution]:
        """Takes this partition's ranks at the next cuts, and returns its contributions to the panes before them."""
        bounds = np.concatenate(([self._folded_to], ranks)).astype(np.int64, copy=False)
        state = self.rows.fold(self.aggregate, bounds)
        state = place(state, slice(1), self.aggregate.merge(self._folded, pick(state, 0)))
        starts = np.concatenate(([self.cut_rank], ranks[:-1]))
        contributions = []
        for index in np.flatnonzero(ranks > starts).tolist():
            start, end = int(starts[index]), int(ranks[index])
            last_time = self.rows.key(end).time if end > self._folded_to else self._folded_time
            contributions.append(Contribution(self.cuts + 1 + index, start, end, last_time, pick(state, index)))
        self.cuts += len(ranks)
        self.cut_rank = self._folded_to = int(ranks[-1])
        self._folded, self._folded_time = self.aggregate.zero(1), BEGINNING
        self.rows.drop(self.cut_rank)
        return contributions

    # --- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Returns the state to resume from as bytes."""
        clock = [self.watermark, self.arrived, self.cuts, self.cut_rank]
        open_pane = [self._folded_to, self._folded_time, self.aggregate.encode(self._folded)]
        return codec.encode([clock, open_pane, encode_rows(self.rows.pieces()), encode_rows(self._waiting)])

    def _restore(self, snapshot: bytes) -> None:
        clock, open_pane, held, waiting = codec.decode(snapshot)
        self.watermark, self.arrived, self.cuts, self.cut_rank = map(operator.index, clock)
        self._folded_to, self._folded_time = map(operator.index, open_pane[:2])
        (folded,) = open_pane[2:]
        self._folded = self.aggregate.decode(folded)
        self.rows = OrderedRows(self.partition, self._folded_to)
        for piece in decode_rows(held):
            self.rows.append(piece)
        self._waiting = decode_rows(waiting)


def _in_order(pieces: list[Numbered], numbers: IntArray, order: IntArray) -> list[Numbered]:
    """Returns rows in an order. Elements of different types are not put into one column: then there are several pieces."""
    return [_ascending(rows, numbers[chosen]) for rows, chosen in arranged([piece.rows for piece in pieces], order)]


def _ascending(rows: Rows, numbers: IntArray) -> Numbered:
    """Rows that are sorted by time; their numbers shortened to the first if they are consecutive."""
    consecutive = bool(np.all(np.diff(numbers) == 1))
    ordered = Rows(rows.element, rows.ts, rows.origin, ascending=True)
    return Numbered(ordered, int(numbers[0]) if consecutive else numbers)
