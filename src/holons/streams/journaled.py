"""An input that we may not write to, read through a journal of our own: every reader sees rows and marks in one order.

An entry of the journal admits rows of the input, or is a mark. A row is read only once it is admitted, so a mark has one
place among the rows for every reader, however late it reads (invariant: logged idleness).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from holons import codec
from holons.errors import CodecError, LogDamaged
from holons.streams.journal import Journal
from holons.streams.log import Chunk, ReadableLog

ADMITTED_MAX: Final = 1_000_000
"""The number of rows that one entry admits at most."""


class _Entry(NamedTuple):
    """An entry of the journal. It holds its own place, so that a reader may begin at any entry."""

    number: int
    offset: int
    foreign: int
    """The offset in the input of the row at `offset`; for a mark, that of the next row."""
    rows: int
    mark: int | None = None

    @property
    def end(self) -> int:
        return self.offset + self.rows + (self.mark is not None)

    @property
    def foreign_end(self) -> int:
        return self.foreign + self.rows


_BEFORE_ALL: Final = _Entry(-1, 0, 0, 0)


class JournaledLog:
    """A log of the rows of `foreign`, the input, and the marks of `journal`. One object belongs to one reader.

    A row's offset is its offset in the input plus the marks before it. Only the input's own producer writes rows; trimming
    never touches the input.

    >>> import pyarrow as pa; from holons.streams import MemoryJournal, MemoryLog
    >>> bids = MemoryLog(1)
    >>> log = JournaledLog(bids, MemoryJournal())
    >>> _ = bids.append(0, pa.record_batch({"price": [3, 5]}))
    >>> [(chunk.offset, chunk.length, chunk.mark) for chunk in log.read(0, 0, 10)], log.mark(0, 1_000)
    ([(0, 2, None)], 2)
    >>> _ = bids.append(0, pa.record_batch({"price": [8]}))
    >>> [(chunk.offset, chunk.length, chunk.mark) for chunk in log.read(0, 1, 10)], log.foreign_offset(0, 3)
    ([(1, 1, None), (2, 1, 1000), (3, 1, None)], 2)
    """

    def __init__(self, foreign: ReadableLog, journal: Journal) -> None:
        self._foreign = foreign
        self._journal = journal
        self._reached: dict[int, _Entry] = {}
        """By partition: the last entry that this reader has read."""

    @property
    def partitions(self) -> int:
        return self._foreign.partitions

    def mark(self, partition: int, ts: int) -> int | None:
        """Marks the partition right after what this reader has read last.

        Returns None, and adds no mark, if something else comes there: a row that waits in the input, or an entry of another
        reader. Then the partition was not idle; the reader reads on, and decides again.
        """
        last = self._reached.get(partition) or self._last(partition)
        if self._foreign.end(partition) > last.foreign_end:
            return None
        proposed = _Entry(last.number + 1, last.end, last.foreign_end, 0, ts)
        return proposed.offset if self._propose(partition, proposed) == proposed else None

    def read(self, partition: int, offset: int, rows_max: int, columns: Collection[str] | None = None) -> list[Chunk]:
        """Returns what follows from `offset` on; at the end of the journal it admits the rows that the input has."""
        chunks: list[Chunk] = []
        while rows_max > 0:
            entry = self._holding(partition, offset)
            if entry is None:
                if not self._admit(partition):
                    break
                continue
            read = self._execute(partition, entry, max(offset, entry.offset), rows_max, columns)
            if not read:
                break  # a reader that sees more of the input than this one admitted it
            chunks += read
            offset = read[-1].end
            rows_max -= sum(chunk.length for chunk in read)
        return chunks

    def start(self, partition: int) -> int:
        foreign_start, last = self._foreign.start(partition), self._last(partition)
        entry = self._search(partition, last, lambda entry: entry.foreign_end >= foreign_start)
        if entry is None:  # rows that were never admitted were trimmed already
            return last.end + max(foreign_start - last.foreign_end, 0)
        return entry.offset + max(foreign_start - entry.foreign, 0)

    def end(self, partition: int) -> int:
        """Returns the end of the journal plus the rows that wait to be admitted."""
        last = self._last(partition)
        return last.end + max(self._foreign.end(partition) - last.foreign_end, 0)

    def trim(self, partition: int, below: int) -> None:
        """Drops entries of the journal, never rows of the input; keeps the entry that holds the offset, and the last."""
        last = self._last(partition)
        entry = self._search(partition, last, lambda entry: entry.end > below) or last
        self._journal.trim(partition, max(entry.number, 0))

    def close(self) -> None:
        self._foreign.close()

    def foreign_offset(self, partition: int, offset: int) -> int:
        """Returns the offset of a row in the input; for a mark, that of the row after it."""
        last = self._last(partition)
        entry = self._search(partition, last, lambda entry: entry.end > offset)
        if entry is None:
            return last.foreign_end + offset - last.end
        return entry.foreign + (max(offset - entry.offset, 0) if entry.mark is None else 0)

    # --- executing -------------------------------------------------------------------------------------------------

    def _holding(self, partition: int, offset: int) -> _Entry | None:
        """Returns the entry that holds an offset, or the first one after it; None at the end of the journal."""
        reached = self._reached.get(partition, _BEFORE_ALL)
        if reached.offset <= offset < reached.end:
            return reached
        if offset == reached.end:
            entry = self._get(partition, reached.number + 1)
            if entry is not None and (entry.offset, entry.foreign) != (reached.end, reached.foreign_end):
                raise _damaged(partition, entry.number, f"does not follow {reached}")
            if entry is not None or self._journal.start(partition) <= reached.number + 1:
                self._reached[partition] = entry or reached
                return entry
        last = self._last(partition)
        entry = self._search(partition, last, lambda entry: entry.end > offset)
        self._reached[partition] = entry or last
        return entry

    def _admit(self, partition: int) -> bool:
        """Adds an entry for the rows that wait in the input, unless another reader is faster; returns False if none wait."""
        last = self._reached[partition]
        waiting = self._foreign.end(partition) - last.foreign_end
        if waiting <= 0:
            return False
        self._propose(partition, _Entry(last.number + 1, last.end, last.foreign_end, min(waiting, ADMITTED_MAX)))
        return True

    def _propose(self, partition: int, entry: _Entry) -> _Entry | None:
        body = (entry.offset, entry.foreign, entry.rows, entry.mark)
        won = self._journal.propose(partition, entry.number, codec.encode(body))
        return None if won is None else _decode(partition, entry.number, won)

    def _execute(
        self, partition: int, entry: _Entry, offset: int, rows_max: int, columns: Collection[str] | None
    ) -> list[Chunk]:
        if entry.mark is not None:
            return [Chunk(entry.offset, None, entry.mark)]
        shift = entry.offset - entry.foreign
        chunks = self._foreign.read(partition, offset - shift, min(rows_max, entry.end - offset), columns)
        moved = [chunk._replace(offset=chunk.offset + shift) for chunk in chunks]
        if moved and moved[0].offset > offset:  # trimmed from the input: like any log, continue where it begins
            return self.read(partition, max(self.start(partition), offset + 1), rows_max, columns)
        return moved

    # --- looking up ------------------------------------------------------------------------------------------------

    def _get(self, partition: int, number: int) -> _Entry | None:
        data = self._journal.get(partition, number)
        return None if data is None else _decode(partition, number, data)

    def _last(self, partition: int) -> _Entry:
        while True:
            known = self._reached.get(partition, _BEFORE_ALL).number
            end = self._journal.end(partition, known + 1)
            if end == 0:
                return _BEFORE_ALL
            entry = self._get(partition, end - 1)
            if entry is not None:
                return entry
            if self._journal.start(partition) == end:
                raise _damaged(partition, end - 1, "was trimmed, although it was the last one")

    def _search(self, partition: int, last: _Entry, wanted: Callable[[_Entry], bool]) -> _Entry | None:
        """Returns the first entry up to `last` that is wanted, where all that follow a wanted one are wanted too."""
        first: _Entry | None = None
        low, high = self._journal.start(partition), last.number + 1
        while low < high:
            middle = (low + high) // 2
            entry = self._get(partition, middle)
            if entry is None:  # trimmed meanwhile
                low = middle + 1
            elif wanted(entry):
                first, high = entry, middle
            else:
                low = middle + 1
        return first


def _decode(partition: int, number: int, data: bytes) -> _Entry:
    try:
        offset, foreign, rows, mark = codec.decode(data)
    except (CodecError, TypeError, ValueError) as error:
        raise _damaged(partition, number, "cannot be read") from error
    return _Entry(number, offset, foreign, rows, mark)


def _damaged(partition: int, number: int, what: str) -> LogDamaged:
    return LogDamaged(
        f"entry {number} of the journal of partition {partition} {what}",
        hint="restore the journal from a copy: what was read in its order cannot be read in another one",
    )
