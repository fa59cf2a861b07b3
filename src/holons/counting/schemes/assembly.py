"""What a root knows of one partition's rows: contiguous ones by rank, and how far the partition is."""

from __future__ import annotations

from holons.counting.counted import decode_rows
from holons.counting.keys import FIRST, Key
from holons.counting.ordered import OrderedRows
from holons.counting.schemes.messages import Frontier, RawRows


class Assembly:
    """Rows put together from messages in any order, repeated or overlapping; what comes too early waits."""

    def __init__(self, partition: int, start: int = 0) -> None:
        self.rows = OrderedRows(partition, start)
        self._early: dict[int, RawRows] = {}
        self._frontiers: dict[int, Key] = {}

    def take(self, message: RawRows) -> None:
        """Takes rows."""
        waiting = self._early.get(message.start)
        if message.end > self.rows.end and (waiting is None or waiting.end < message.end):
            self._early[message.start] = message
        while (start := min(self._early, default=None)) is not None and start <= self.rows.end:
            self._append(self._early.pop(start))

    def _append(self, message: RawRows) -> None:
        start = message.start
        for piece in decode_rows(message.data):
            repeated = min(max(self.rows.end - start, 0), piece.rows.count)
            start += piece.rows.count
            self.rows.append(piece.between(repeated, piece.rows.count))

    def reach(self, frontier: Frontier) -> None:
        """Takes a frontier. It counts once all rows up to its rank are here: before, rows below it may be missing."""
        known = self._frontiers.get(frontier.rank, FIRST)
        self._frontiers[frontier.rank] = max(known, frontier.key)

    def frontier(self) -> Key:
        """Returns the key above which all rows are that are not here."""
        arrived = [rank for rank in self._frontiers if rank <= self.rows.end]
        best = max((self._frontiers.pop(rank) for rank in arrived), default=FIRST)
        if arrived:
            self._frontiers[max(arrived)] = best
        return max(best, self.rows.key(self.rows.end)) if self.rows.count else best
