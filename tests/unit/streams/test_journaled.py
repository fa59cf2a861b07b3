"""An input read through a journal is one list of rows and marks, for every reader, at every offset."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.streams.log_kinds import flat, rows

from holons import codec
from holons.errors import LogDamaged
from holons.streams import DirectoryJournal, JournaledLog, MemoryJournal, MemoryLog
from holons.streams import journaled as module


@pytest.fixture(params=["memory", "directory"])
def journal(request, tmp_path):
    return MemoryJournal() if request.param == "memory" else DirectoryJournal(tmp_path)


@pytest.fixture
def foreign():
    return MemoryLog(2)


@pytest.fixture
def log(foreign, journal):
    return JournaledLog(foreign, journal)


class Interrupted:
    """A journal in which something happens just before an entry is proposed."""

    def __init__(self, journal, happens):
        self.journal, self.happens = journal, happens

    def propose(self, partition, number, data):
        self.happens()
        return self.journal.propose(partition, number, data)

    def __getattr__(self, name):
        return getattr(self.journal, name)


def test_rows_and_marks_have_offsets_of_their_own(foreign, log):
    foreign.append(0, rows(1, 2))
    assert flat(log.read(0, 0, 9)) == [1, 2]
    assert log.mark(0, 77) == 2
    foreign.append(0, rows(3, 4))
    foreign.mark(0, 78)
    assert flat(log.read(0, 0, 9)) == [1, 2, ("mark", 77), 3, 4, ("mark", 78)]
    assert [(chunk.offset, chunk.length) for chunk in log.read(0, 1, 3)] == [(1, 1), (2, 1), (3, 1)]
    assert (log.start(0), log.end(0), log.end(1)) == (0, 6, 0)
    assert foreign.end(0) == 5, "the input is not ours"


def test_the_end_counts_rows_that_wait_to_be_admitted(foreign, journal, log):
    foreign.append(0, rows(1, 2))
    assert (log.end(0), journal.end(0)) == (2, 0)


def test_small_reads_do_not_make_small_entries(foreign, journal, log):
    foreign.append(0, rows(*range(100)))
    assert [flat(log.read(0, at, 1)) for at in range(100)] == [[at] for at in range(100)]
    assert journal.end(0) == 1


def test_one_entry_admits_a_bounded_number_of_rows(foreign, journal, log, monkeypatch):
    monkeypatch.setattr(module, "ADMITTED_MAX", 30)
    foreign.append(0, rows(*range(100)))
    assert flat(log.read(0, 0, 1000)) == list(range(100))
    assert journal.end(0) == 4


def test_a_mark_where_a_row_waits_is_not_written(foreign, journal, log):
    assert log.read(0, 0, 9) == []
    foreign.append(0, rows(1))
    assert log.mark(0, 77) is None
    assert (flat(log.read(0, 0, 9)), log.mark(0, 78)) == ([1], 1)


def test_a_mark_where_another_entry_won_is_written_nowhere(foreign, journal):
    other = JournaledLog(foreign, journal)
    late = JournaledLog(foreign, Interrupted(journal, lambda: other.mark(0, 5)))
    assert late.read(0, 0, 9) == []
    assert late.mark(0, 77) is None
    assert flat(late.read(0, 0, 9)) == flat(other.read(0, 0, 9)) == [("mark", 5)]


def test_two_who_make_the_same_mark_make_one(foreign, journal):
    first, second = JournaledLog(foreign, journal), JournaledLog(foreign, journal)
    assert first.read(0, 0, 9) == second.read(0, 0, 9) == []
    assert first.mark(0, 5) == second.mark(0, 5) == 0
    assert flat(first.read(0, 0, 9)) == [("mark", 5)]


def test_a_reader_that_did_not_read_to_the_end_does_not_mark_there(foreign, journal):
    ahead, behind = JournaledLog(foreign, journal), JournaledLog(foreign, journal)
    assert behind.read(0, 0, 9) == []
    foreign.append(0, rows(1))
    ahead.read(0, 0, 9)
    assert behind.mark(0, 5) is None
    assert flat(behind.read(0, 0, 9)) == [1]


def test_a_row_that_comes_between_the_decision_and_the_mark_is_after_it_for_everyone(foreign, journal):
    """Nobody may have read it, since it was not admitted; a reader that comes late finds the same order."""
    marking = JournaledLog(foreign, Interrupted(journal, lambda: foreign.append(0, rows(1))))
    assert marking.read(0, 0, 9) == []
    assert marking.mark(0, 77) == 0
    late = JournaledLog(foreign, journal)
    assert flat(late.read(0, 0, 9)) == flat(JournaledLog(foreign, journal).read(0, 0, 9)) == [("mark", 77), 1]


def test_an_admission_that_lost_is_followed_by_the_rest(foreign, journal):
    other = JournaledLog(foreign, journal)
    foreign.append(0, rows(1))

    def faster():
        if journal.end(0) == 0:
            other.read(0, 0, 9)
            foreign.append(0, rows(2, 3))

    log = JournaledLog(foreign, Interrupted(journal, faster))
    assert flat(log.read(0, 0, 9)) == flat(other.read(0, 0, 9)) == [1, 2, 3]


def test_a_reader_who_sees_less_of_the_input_waits_for_the_rest(foreign, journal):
    foreign.append(0, rows(1, 2))
    slow = MemoryLog(2)
    slow.append(0, rows(1))
    ahead, behind = JournaledLog(foreign, journal), JournaledLog(slow, journal)
    ahead.read(0, 0, 9)
    assert ahead.mark(0, 7) == 2
    assert flat(behind.read(0, 0, 9)) == [1]
    assert behind.read(0, 1, 9) == []
    slow.append(0, rows(2))
    assert flat(behind.read(0, 1, 9)) == [2, ("mark", 7)]


def test_only_the_producer_writes_rows(log):
    assert not hasattr(log, "append")
    assert not hasattr(log, "put")


def test_offsets_are_told_as_the_input_counts_them(foreign, log):
    foreign.append(0, rows(1, 2))
    log.read(0, 0, 9)
    log.mark(0, 5)
    log.read(0, 2, 9)
    log.mark(0, 6)
    foreign.append(0, rows(3, 4))
    log.read(0, 3, 9)
    assert [log.foreign_offset(0, at) for at in range(8)] == [0, 1, 2, 2, 2, 3, 4, 5]


def test_trimming_keeps_the_entry_that_holds_the_offset_and_the_last(foreign, journal, log):
    for at in range(10):
        foreign.append(0, rows(at))
        log.read(0, 2 * at, 1)
        log.mark(0, at)
    log.trim(0, 7)
    assert (log.start(0), journal.start(0)) == (7, 7)
    fresh = JournaledLog(foreign, journal)
    assert flat(fresh.read(0, 0, 3)) == [("mark", 3), 4, ("mark", 4)], "like any log, from where it begins"
    assert flat(fresh.read(0, 16, 3)) == [8, ("mark", 8), 9]
    log.trim(0, 1000)
    assert (log.start(0), log.end(0), journal.end(0) - journal.start(0)) == (19, 20, 1)
    foreign.append(0, rows(99))
    assert flat(JournaledLog(foreign, journal).read(0, 20, 9)) == [99]


def test_a_reader_that_fell_behind_a_trim_goes_on_where_the_journal_begins(foreign, journal):
    ahead, behind = JournaledLog(foreign, journal), JournaledLog(foreign, journal)
    assert behind.read(0, 0, 9) == []
    for at in range(5):
        ahead.read(0, at, 9)
        ahead.mark(0, at)
    ahead.trim(0, 3)
    assert flat(behind.read(0, 0, 9)) == [("mark", 3), ("mark", 4)]


def test_the_start_follows_an_input_that_was_trimmed(foreign, journal, log):
    foreign.append(0, rows(1))
    foreign.append(0, rows(2))
    foreign.trim(0, 1)
    assert (log.start(0), log.end(0)) == (1, 2), "before anyone has admitted anything"
    assert [chunk.offset for chunk in log.read(0, 0, 9)] == [1]
    log.mark(0, 5)
    foreign.append(0, rows(3))
    log.read(0, 2, 9)
    foreign.trim(0, 2)
    assert log.start(0) == 2, "the mark is still there"
    assert flat(log.read(0, 2, 9)) == [("mark", 5), 3]
    foreign.trim(0, 3)
    assert log.start(0) == log.end(0) == 4
    foreign.append(0, rows(4))
    assert [(chunk.offset, chunk.length) for chunk in log.read(0, 3, 9)] == [(4, 1)]


def test_a_journal_that_does_not_fit_together_is_an_error(foreign, journal, log):
    foreign.append(0, rows(1, 2))
    log.read(0, 0, 9)
    journal.propose(0, 1, codec.encode((7, 7, 1, None)))
    with pytest.raises(LogDamaged, match="does not follow"):
        log.read(0, 2, 9)
    journal.propose(1, 0, b"\xc1")
    with pytest.raises(LogDamaged, match="cannot be read"):
        log.read(1, 0, 9)


# --- against a list -------------------------------------------------------------------------------------------------


class Race:
    """Readers, a producer and one journal, in any interleaving; each step is checked against what was agreed on."""

    def __init__(self, seed, journal, reopen):
        self.random = Random(seed)
        self.foreign, self.produced = MemoryLog(1), []
        self.inner, self.reopen = journal, reopen
        self.agreed: list[object] = []
        self.entries = self.marks = 0
        self.lost = 0
        self.depth = 0
        self.readers = [self._open() for _ in range(2)]
        self.at = [0, 0]
        self.trimmed = 0

    def _open(self):
        return JournaledLog(self.foreign, Interrupted(self.reopen(), self._between))

    def _between(self):
        """Another reader or the producer may be faster; but not for ever."""
        if self.depth < 3 and self.random.random() < 0.5:
            self.step()

    def _learn(self):
        """Takes over entries in the order of their numbers: what they say is settled from then on."""
        while (data := self.inner.get(0, self.entries)) is not None:
            offset, foreign, count, mark = codec.decode(data)
            assert (offset, foreign) == (len(self.agreed), len(self.agreed) - self.marks)
            self.agreed += self.produced[foreign : foreign + count] if mark is None else [("mark", mark)]
            self.marks += mark is not None
            self.entries += 1

    def step(self):
        self.depth += 1
        reader = self.random.randrange(2)
        log = self.readers[reader]
        what = self.random.choice(["append", "read", "read", "read", "mark", "restart", "anywhere", "trim"])
        if what == "append":
            for _ in range(self.random.randint(1, 3)):
                added = list(range(len(self.produced), len(self.produced) + self.random.randint(0, 4)))
                self.produced += added
                self.foreign.append(0, rows(*added))
        elif what == "read":
            self._read(log, reader, self.random.randint(1, 5))
        elif what == "mark":
            ts = self.random.randrange(1000)
            offset = log.mark(0, ts)
            self._learn()
            self.lost += offset is None
            assert offset is None or self.agreed[offset] == ("mark", ts)
        elif what == "restart":
            self.readers[reader] = self._open()
        elif what == "anywhere" and self.agreed:
            self._check(log, self.random.randint(self.trimmed, len(self.agreed)), self.random.randint(1, 9))
        elif what == "trim":
            below = self.random.randint(0, min(self.at))
            self._learn()
            log.trim(0, below)
            self.trimmed = max(self.trimmed, below)
        self.depth -= 1

    def _read(self, log, reader, count):
        offset = self.at[reader]
        found = self._check(log, offset, count)
        if self.at[reader] == offset:  # nobody was faster with this very reader
            self.at[reader] += found

    def _check(self, log, offset, count):
        found = flat(chunks := log.read(0, offset, count))
        self._learn()
        assert not chunks or chunks[0].offset == offset
        assert found == self.agreed[offset : offset + len(found)]
        return len(found)

    def finish(self):
        self.depth = 3
        for log in (*self.readers, self._open()):
            start = log.start(0)
            assert start <= self.trimmed
            found = flat(log.read(0, start, 10_000))
            self._learn()
            assert found == self.agreed[start:]
            assert log.end(0) == len(self.agreed)
            rows_at = [at for at, one in enumerate(self.agreed) if not isinstance(one, tuple) and at >= start]
            assert [log.foreign_offset(0, at) for at in rows_at] == [self.agreed[at] for at in rows_at]
        assert [one for one in self.agreed if not isinstance(one, tuple)] == self.produced


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_readers_agree_on_every_offset_in_any_interleaving(kind, tmp_path):
    lost = marks = trimmed = 0
    for seed in range(150 if kind == "memory" else 30):
        directory = tmp_path / str(seed)
        journal = MemoryJournal() if kind == "memory" else DirectoryJournal(directory)
        reopen = (lambda kept=journal: kept) if kind == "memory" else (lambda at=directory: DirectoryJournal(at))
        race = Race(seed, journal, reopen)
        for _ in range(60):
            race.step()
        race.finish()
        lost, marks, trimmed = lost + race.lost, marks + race.marks, trimmed + (race.trimmed > 0)
    assert min(lost, marks, trimmed) > 10, "nothing much happened"
