"""An input that we may not write to, read through a journal of ours: rows and marks in one order for everyone.

An entry of the journal admits rows of the input, or is a mark. A row is read only once it is admitted, so a mark has one
place among the rows, whoever reads, and however late (invariant: logged idleness).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from holons import codec
from holons.errors import CodecError, LogDamaged
from holons.streams.journal import Journal
from holons.streams.log import Chunk, ReadableLog

ADMITTED_MAX: Final = 1_000_000
"""How many rows one entry admits at most."""


class _Entry(NamedTuple):
    """An entry says all about its place, so that a reader may begin anywhere."""

    number: int
    offset: int
    foreign: int
    """The offset in the input of the row at `offset`; of the next row, if this is a mark."""
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
    """A log that is the rows of `foreign`, the input, and the marks of `journal`. One object belongs to one reader.

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
        """By partition: the last entry that was executed here."""

    @property
    def partitions(self) -> int:
        return self._foreign.partitions

    def mark(self, partition: int, ts: int) -> int | None:
        """Marks the partition right after what was last read here.

        None, and there is no mark, if something else comes there: a row that waits in the input, or an entry of another
        reader. Then the partition was not idle after all; read on, and decide again.
        """
        last = self._reached.get(partition) or self._last(partition)
        if self._foreign.end(partition) > last.foreign_end:
            return None
        mine = _Entry(last.number + 1, last.end, last.foreign_end, 0, ts)
        return mine.offset if self._propose(partition, mine) == mine else None

    def read(self, partition: int, offset: int, rows_max: int, columns: Collection[str] | None = None) -> list[Chunk]:
        """What follows from `offset` on; admits what the input has if the journal is at its end."""
        chunks: list[Chunk] = []
        while rows_max > 0:
            entry = self._holding(partition, offset)
            if entry is None:
                if not self._admit(partition):
                    break
                continue
            found = self._execute(partition, entry, max(offset, entry.offset), rows_max, columns)
            if not found:
                break  # it was admitted by a reader who sees more of the input than this one
            chunks += found
            offset = found[-1].end
            rows_max -= sum(chunk.length for chunk in found)
        return chunks

    def start(self, partition: int) -> int:
        begun, last = self._foreign.start(partition), self._last(partition)
        entry = self._search(partition, last, lambda entry: entry.foreign_end >= begun)
        if entry is None:  # rows that were never admitted are gone already
            return last.end + max(begun - last.foreign_end, 0)
        return entry.offset + max(begun - entry.foreign, 0)

    def end(self, partition: int) -> int:
        """Where the journal ends, plus the rows that wait to be admitted."""
        last = self._last(partition)
        return last.end + max(self._foreign.end(partition) - last.foreign_end, 0)

    def trim(self, partition: int, below: int) -> None:
        """Drops entries of the journal, never rows of the input. The one that holds the offset stays, and the last."""
        last = self._last(partition)
        entry = self._search(partition, last, lambda entry: entry.end > below) or last
        self._journal.trim(partition, max(entry.number, 0))

    def close(self) -> None:
        self._foreign.close()

    def foreign_offset(self, partition: int, offset: int) -> int:
        """Where a row is in the input; for a mark, where the row after it is."""
        last = self._last(partition)
        entry = self._search(partition, last, lambda entry: entry.end > offset)
        if entry is None:
            return last.foreign_end + offset - last.end
        return entry.foreign + (max(offset - entry.offset, 0) if entry.mark is None else 0)

    # --- executing -------------------------------------------------------------------------------------------------

    def _holding(self, partition: int, offset: int) -> _Entry | None:
        """The entry that holds an offset, or the first after it; None at the journal's end."""
        reached = self._reached.get(partition, _BEFORE_ALL)
        if reached.offset <= offset < reached.end:
            return reached
        if offset == reached.end:
            found = self._get(partition, reached.number + 1)
            if found is not None and (found.offset, found.foreign) != (reached.end, reached.foreign_end):
                raise _damaged(partition, found.number, f"does not follow {reached}")
            if found is not None or self._journal.start(partition) <= reached.number + 1:
                self._reached[partition] = found or reached
                return found
        last = self._last(partition)
        found = self._search(partition, last, lambda entry: entry.end > offset)
        self._reached[partition] = found or last
        return found

    def _admit(self, partition: int) -> bool:
        """Moves on by one entry from the journal's end: what waits in the input, or what another was faster with."""
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
        if moved and moved[0].offset > offset:  # trimmed from the input: like any log, go on where it begins
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
            found = self._get(partition, end - 1)
            if found is not None:
                return found
            if self._journal.start(partition) == end:
                raise _damaged(partition, end - 1, "was trimmed, though it was the last")

    def _search(self, partition: int, last: _Entry, wanted: Callable[[_Entry], bool]) -> _Entry | None:
        """The first entry up to `last` that is wanted, where all that follow a wanted one are wanted too."""
        found: _Entry | None = None
        low, high = self._journal.start(partition), last.number + 1
        while low < high:
            middle = (low + high) // 2
            entry = self._get(partition, middle)
            if entry is None:  # trimmed meanwhile
                low = middle + 1
            elif wanted(entry):
                found, high = entry, middle
            else:
                low = middle + 1
        return found


def _decode(partition: int, number: int, data: bytes) -> _Entry:
    try:
        offset, foreign, rows, mark = codec.decode(data)
    except (CodecError, TypeError, ValueError) as error:
        raise _damaged(partition, number, "cannot be read") from error
    return _Entry(number, offset, foreign, rows, mark)


def _damaged(partition: int, number: int, what: str) -> LogDamaged:
    return LogDamaged(
        f"entry {number} of the journal of partition {partition} {what}",
        hint="restore the journal: what was read by its order cannot be read by another",
    )
