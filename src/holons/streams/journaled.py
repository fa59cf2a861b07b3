"""An input that we may not write to, with marks that stand in a journal of ours: every reader sees them in one order.

Rows are read as they come, and a mark is asked for in two steps: an entry of the journal *asks* for a mark before a row
that is not there yet; another one *answers* whether it stands there. Whoever answers looks at the end of the input after
the question was there for all to see, and says no if a row has come meanwhile. A reader looks for questions after it has
read: so either it sees the question, or whoever answers sees the rows. Anybody may answer, and the first answer holds; so
nobody waits for a process that stopped in between, and a mark has one place among the rows for every reader, however late
it reads (invariant: logged idleness).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from holons import codec
from holons.errors import CodecError, LogDamaged
from holons.streams.journal import Journal
from holons.streams.log import Chunk, ReadableLog, TrimmableLog


class _Entry(NamedTuple):
    """An entry of the journal: questions have even numbers, their answers the odd ones after them.

    It holds its own place, so that a reader may begin at any of them.
    """

    number: int
    foreign: int
    """The offset in the input of the row before which the mark is to stand."""
    marks: int
    """How many marks come before it."""
    mark: int | None
    """The time of the mark; None if the answer is that there is none."""

    @property
    def offset(self) -> int:
        """The offset of the mark among rows and marks."""
        return self.foreign + self.marks

    @property
    def marks_after(self) -> int:
        """How many marks there are up to an answer, with its own."""
        return self.marks + (self.mark is not None)

    @property
    def end(self) -> int:
        """The offset of what follows an answer."""
        return self.foreign + self.marks_after


_BEFORE_ALL = _Entry(-1, 0, 0, None)


class _Trimmed(Exception):
    """The next entry was trimmed: this reader is further back than anybody needs."""


class JournaledLog:
    """A log of the rows of `foreign`, the input, and the marks of `journal`. One object belongs to one reader.

    A row's offset is its offset in the input plus the marks before it. Only the input's own producer writes rows; trimming
    touches the input only if it is `ours`.

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

    def __init__(self, foreign: ReadableLog, journal: Journal, ours: TrimmableLog | None = None) -> None:
        """`ours` is the input again, if it is to be trimmed with its journal."""
        self._foreign = foreign
        self._ours = ours
        self._journal = journal
        self._passed: dict[int, _Entry] = {}
        """By partition: the last answer before the place where this reader reads."""
        self._read_to: dict[int, int] = {}
        """By partition: the offset in the input up to which this reader has read."""

    @property
    def partitions(self) -> int:
        return self._foreign.partitions

    def mark(self, partition: int, ts: int) -> int | None:
        """Marks the partition right after what this reader has read last.

        Returns None, and adds no mark, if something else comes there: a row that waits in the input, or an entry of another
        reader. Then the partition was not idle; the reader reads on, and decides again.
        """
        last = self._passed.get(partition) or self._last(partition)
        if self._foreign.end(partition) > self._read_to.get(partition, last.foreign):
            return None
        wanted = _Entry(last.number + 1, max(self._foreign.end(partition), last.foreign), last.marks_after, ts)
        if self._propose(partition, wanted) != wanted:
            return None
        answer = self._answer(partition, wanted)
        return None if answer is None or answer.mark is None else answer.offset

    def read(self, partition: int, offset: int, rows_max: int, columns: Collection[str] | None = None) -> list[Chunk]:
        """Returns what follows from `offset` on. Questions that nobody has answered are answered here."""
        chunks: list[Chunk] = []
        while rows_max > 0:
            last = self._before(partition, offset)
            offset = max(offset, last.end)  # what is before the first entry that is left has no known place
            at = offset - last.marks_after
            rows = self._foreign.read(partition, at, rows_max, columns)
            try:
                mark = self._next_mark(partition, last, offset)  # looked for once the rows are read
            except _Trimmed:
                self._passed.pop(partition, None)
                continue
            if mark is not None and mark.offset < offset:  # the reader went on to another place
                self._passed[partition] = mark
                continue
            if rows and rows[0].offset > at and (start := self.start(partition)) > offset:
                offset = start  # trimmed from the input: like any log, continue where it begins
                continue
            if mark is not None and mark.foreign <= at:
                chunks.append(Chunk(mark.offset, None, mark.mark))
                self._passed[partition] = mark
                self._read_to[partition] = at
                offset, rows_max = mark.offset + 1, rows_max - 1
                continue
            before = rows if mark is None else _below(rows, mark.foreign)
            chunks += [chunk._replace(offset=chunk.offset + last.marks_after) for chunk in before]
            self._read_to[partition] = before[-1].end if before else at
            if mark is None or not before:
                break  # without rows before a mark that is not here yet, this reader sees less of the input than others
            offset, rows_max = chunks[-1].end, rows_max - sum(chunk.length for chunk in before)
        return chunks

    def start(self, partition: int) -> int:
        return self.own_offset(partition, self._foreign.start(partition))

    def end(self, partition: int) -> int:
        return self._foreign.end(partition) + self._last(partition).marks_after

    def trim(self, partition: int, below: int) -> None:
        """Drops entries of the journal, but for the last answer before the offset; of an input that is ours, rows too."""
        if self._ours is not None:
            self._ours.trim(partition, self.foreign_offset(partition, below))
        kept = self._last_answer(partition, lambda entry: entry.end <= below)
        self._journal.trim(partition, max(kept.number - 1, 0))

    def appended_before(self, partition: int, time_us: int) -> int:
        assert self._ours is not None, "asked only where the input is to be trimmed"
        return self.own_offset(partition, self._ours.appended_before(partition, time_us))

    def close(self) -> None:
        self._foreign.close()

    def own_offset(self, partition: int, foreign: int) -> int:
        """Returns the offset of a row of the input, or of the marks before it."""
        answer = self._last_answer(partition, lambda entry: entry.foreign < foreign)
        return max(foreign + answer.marks_after, answer.end)

    def foreign_offset(self, partition: int, offset: int) -> int:
        """Returns the offset of a row in the input; for a mark, that of the row after it."""
        return offset - self._last_answer(partition, lambda entry: entry.end <= offset).marks_after

    # --- questions and answers --------------------------------------------------------------------------------------

    def _next_mark(self, partition: int, last: _Entry, offset: int) -> _Entry | None:
        """Returns the first mark after an answer; None if there is none, and none can come before what was read."""
        while self._journal.reaches(partition, last.number + 1):
            wanted = self._get(partition, last.number + 1)
            if wanted is None:
                raise _Trimmed
            answer = self._get(partition, last.number + 2) or self._answer(partition, wanted)
            if answer is None:
                raise _Trimmed
            if answer.offset < last.end or answer.marks != last.marks_after:
                raise _damaged(partition, answer.number, f"does not follow {last}")
            if answer.mark is not None:
                return answer
            last = answer
            if last.end <= offset:
                self._passed[partition] = last
        return None

    def _answer(self, partition: int, wanted: _Entry) -> _Entry | None:
        """Answers a question, unless somebody was faster; None if it was trimmed."""
        stands = self._foreign.end(partition) <= wanted.foreign  # looked up once the question was there for all to see
        mark = wanted.mark if stands else None
        return self._propose(partition, wanted._replace(number=wanted.number + 1, mark=mark))

    def _propose(self, partition: int, entry: _Entry) -> _Entry | None:
        won = self._journal.propose(partition, entry.number, codec.encode(tuple(entry[1:])))
        return None if won is None else _decode(partition, entry.number, won)

    # --- looking up ------------------------------------------------------------------------------------------------

    def _before(self, partition: int, offset: int) -> _Entry:
        """Returns an answer before an offset: the last one, unless the reader went on to another place."""
        passed = self._passed.get(partition)
        if passed is None or passed.end > offset:
            passed = self._passed[partition] = self._last_answer(partition, lambda entry: entry.end <= offset)
        return passed

    def _get(self, partition: int, number: int) -> _Entry | None:
        data = self._journal.get(partition, number)
        return None if data is None else _decode(partition, number, data)

    def _last(self, partition: int) -> _Entry:
        return self._last_answer(partition, lambda _: True)

    def _last_answer(self, partition: int, counts: Callable[[_Entry], bool]) -> _Entry:
        """Returns the last answer that counts, where all before one that counts do too.

        If none that is left counts, that is the place before the first one that is left.
        """
        low, high = (self._journal.start(partition) + 1) // 2, self._journal.end(partition) // 2
        best, first_after = None, None
        while low < high:
            middle = (low + high) // 2
            answer = self._get(partition, 2 * middle + 1)
            if answer is None or counts(answer):  # trimmed meanwhile, or it counts
                low, best = middle + 1, answer or best
            else:
                high, first_after = middle, answer
        if best is not None:
            return best
        if first_after is not None and first_after.number > 1:
            return _Entry(first_after.number - 2, first_after.foreign, first_after.marks, None)
        return _BEFORE_ALL


def _below(rows: list[Chunk], foreign: int) -> list[Chunk]:
    """Returns the rows below an offset of the input."""
    whole = [chunk for chunk in rows if chunk.end <= foreign]
    if len(whole) < len(rows) and rows[len(whole)].offset < foreign:
        cut = rows[len(whole)]
        whole.append(cut.part(0, foreign - cut.offset))
    return whole


def _decode(partition: int, number: int, data: bytes) -> _Entry:
    try:
        foreign, marks, mark = places = codec.decode(data)
        if not all(type(place) is int for place in places if place is not None) or min(foreign, marks) < 0:
            raise TypeError
    except (CodecError, TypeError, ValueError) as error:
        raise _damaged(partition, number, "cannot be read") from error
    return _Entry(number, foreign, marks, mark)


def _damaged(partition: int, number: int, what: str) -> LogDamaged:
    return LogDamaged(
        f"entry {number} of the journal of partition {partition} {what}",
        hint="restore the journal from a copy: what was read in its order cannot be read in another one",
    )
