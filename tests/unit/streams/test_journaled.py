"""An input read through a journal is one list of rows and marks, for every reader, at every offset."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.streams.log_kinds import flat, rows

from holons import codec
from holons.errors import LogDamaged
from holons.streams import DirectoryJournal, JournaledLog, MemoryJournal, MemoryLog


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


def test_rows_cost_no_entry_and_a_mark_costs_two(foreign, journal, log):
    foreign.append(0, rows(*range(100)))
    assert [flat(log.read(0, at, 1)) for at in range(100)] == [[at] for at in range(100)]
    assert (log.end(0), journal.end(0)) == (100, 0)
    log.mark(0, 5)
    assert (log.end(0), journal.end(0)) == (101, 2)


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


class BeforeEntry:
    """A journal in which a row appears just before the entry with some number is proposed."""

    def __init__(self, journal, number, foreign):
        self.journal, self.number, self.foreign = journal, number, foreign

    def propose(self, partition, number, data):
        if number == self.number:
            self.foreign.append(partition, rows(1))
        return self.journal.propose(partition, number, data)

    def __getattr__(self, name):
        return getattr(self.journal, name)


def test_a_row_that_comes_before_the_question_is_there_makes_it_vain(foreign, journal):
    marking = JournaledLog(foreign, BeforeEntry(journal, 0, foreign))
    assert marking.read(0, 0, 9) == []
    assert marking.mark(0, 77) is None
    assert flat(marking.read(0, 0, 9)) == flat(JournaledLog(foreign, journal).read(0, 0, 9)) == [1]


def test_a_row_that_comes_before_the_answer_is_there_is_after_the_mark_for_everyone(foreign, journal):
    """Whoever reads it sees the question."""
    reading = JournaledLog(foreign, journal)
    marking = JournaledLog(foreign, BeforeEntry(journal, 1, foreign))
    assert marking.read(0, 0, 9) == reading.read(0, 0, 9) == []
    assert marking.mark(0, 77) == 0
    for log in (marking, reading, JournaledLog(foreign, journal)):
        assert flat(log.read(0, 0, 9)) == [("mark", 77), 1]


def test_a_question_whose_asker_died_is_answered_by_whoever_reads_on(foreign, journal):
    for come_meanwhile, expected in ((0, [("mark", 7), 5]), (1, [5])):
        partition = come_meanwhile
        log = JournaledLog(foreign, journal)
        assert log.read(partition, 0, 9) == []
        journal.propose(partition, 0, codec.encode((0, 0, 7)))  # and then it died
        if come_meanwhile:
            foreign.append(partition, rows(5))
            assert flat(log.read(partition, 0, 9)) == expected
        else:
            assert flat(log.read(partition, 0, 9)) == [("mark", 7)]
            foreign.append(partition, rows(5))
        assert flat(JournaledLog(foreign, journal).read(partition, 0, 9)) == expected
        assert journal.end(partition) == 2


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


def test_trimming_keeps_the_last_mark_before_the_offset(foreign, journal, log):
    for at in range(10):
        foreign.append(0, rows(at))
        log.read(0, 2 * at, 1)
        log.mark(0, at)
    log.trim(0, 7)
    assert (log.start(0), journal.start(0)) == (5, 4)
    fresh = JournaledLog(foreign, journal)
    assert flat(fresh.read(0, 0, 3)) == [("mark", 2), 3, ("mark", 3)], "like any log, from where it begins"
    assert flat(fresh.read(0, 16, 3)) == [8, ("mark", 8), 9]
    log.trim(0, 1000)
    assert (log.start(0), log.end(0), journal.end(0) - journal.start(0)) == (19, 20, 2)
    foreign.append(0, rows(99))
    assert flat(JournaledLog(foreign, journal).read(0, 20, 9)) == [99]


def test_a_reader_that_fell_behind_a_trim_goes_on_where_the_journal_begins(foreign, journal):
    ahead, behind = JournaledLog(foreign, journal), JournaledLog(foreign, journal)
    assert behind.read(0, 0, 9) == []
    for at in range(5):
        ahead.read(0, at, 9)
        ahead.mark(0, at)
    ahead.trim(0, 3)
    assert flat(behind.read(0, 0, 9)) == [("mark", 2), ("mark", 3), ("mark", 4)]


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
    journal.propose(0, 0, codec.encode((7, 7, 1)))
    with pytest.raises(LogDamaged, match="does not follow"):
        log.read(0, 2, 9)
    journal.propose(1, 0, b"\xc1")
    with pytest.raises(LogDamaged, match="cannot be read"):
        log.read(1, 0, 9)


# --- against a list -------------------------------------------------------------------------------------------------


class Watched:
    """An input in which something happens before and after each look at it."""

    def __init__(self, log, happens):
        self.log, self.happens = log, happens

    def read(self, *args):
        self.happens()
        found = self.log.read(*args)
        self.happens()
        return found

    def end(self, partition):
        self.happens()
        end = self.log.end(partition)
        self.happens()
        return end

    def start(self, partition):
        return self.log.start(partition)


class Race:
    """Readers, a producer and one journal, in any interleaving; what anybody has read must stand for all, for good."""

    def __init__(self, seed, journal, reopen):
        self.random = Random(seed)
        self.foreign, self.produced = MemoryLog(1), []
        self.inner, self.reopen = journal, reopen
        self.agreed: list[object] = []
        self.read_to = 0
        self.lost = self.marks = 0
        self.answered = []
        self.depth = 0
        self.readers = [self._open() for _ in range(2)]
        self.at = [0, 0]
        self.trimmed = 0

    def _open(self):
        return JournaledLog(Watched(self.foreign, self._between), Interrupted(self.reopen(), self._between))

    def _between(self):
        """Another reader or the producer may be faster; but not for ever."""
        if self.depth < 3 and self.random.random() < 0.3:
            self.step()

    def _learn(self):
        """Takes over what stands now; what anybody has read must still be there."""
        while (data := self.inner.get(0, 2 * len(self.answered) + 1)) is not None:
            self.answered.append(codec.decode(data))
        order, done = [], 0
        for foreign, _, mark in self.answered:
            if mark is not None:
                order += [*self.produced[done:foreign], ("mark", mark)]
                done = foreign
        order += self.produced[done:]
        assert order[: self.read_to] == self.agreed[: self.read_to], "what was read has changed"
        self.agreed, self.marks = order, len(order) - len(self.produced)

    def step(self):
        self.depth += 1
        reader = self.random.randrange(2)
        log = self.readers[reader]
        what = self.random.choice(["append", "read", "read", "read", "mark", "mark", "restart", "anywhere", "trim"])
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
        if offset < self.trimmed:  # meanwhile
            return 0
        assert not chunks or chunks[0].offset == offset
        assert found == self.agreed[offset : offset + len(found)]
        self.read_to = max(self.read_to, offset + len(found))
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
    lost = marks = trimmed = declined = 0
    for seed in range(150 if kind == "memory" else 30):
        directory = tmp_path / str(seed)
        journal = MemoryJournal() if kind == "memory" else DirectoryJournal(directory)
        reopen = (lambda kept=journal: kept) if kind == "memory" else (lambda at=directory: DirectoryJournal(at))
        race = Race(seed, journal, reopen)
        for _ in range(60):
            race.step()
        race.finish()
        lost, marks, trimmed = lost + race.lost, marks + race.marks, trimmed + (race.trimmed > 0)
        declined += sum(mark is None for _, _, mark in race.answered)
    assert min(lost, marks, trimmed, declined) > 10, "nothing much happened"
