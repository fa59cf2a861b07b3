"""A journal: entries on which everybody agrees, in memory and in a directory."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.streams.log_kinds import rows
from tests.unit.streams.other_process import processes

from holons.errors import LogDamaged, LogUnavailable
from holons.streams import DirectoryJournal, MemoryJournal
from holons.streams.segments import SegmentLog


@pytest.fixture(params=["memory", "directory"])
def journal(request, tmp_path):
    return MemoryJournal() if request.param == "memory" else DirectoryJournal(tmp_path)


def filled(journal, count, partition=0):
    for number in range(count):
        assert journal.propose(partition, number, b"%d" % number) == b"%d" % number
    return journal


def entries(directory):
    return sorted((directory / "0" / "entries").iterdir())


def test_the_first_wins_and_everyone_is_told(journal):
    assert journal.propose(0, 0, b"first") == b"first"
    assert journal.propose(0, 0, b"second") == b"first"
    assert journal.get(0, 0) == b"first"
    assert journal.get(0, 1) is None
    assert journal.get(1, 0) is None


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 100])
def test_the_end_is_found_from_anywhere(journal, count):
    filled(journal, count)
    assert all(journal.end(0, known) == count for known in range(count + 1))
    assert journal.end(1) == 0


def test_what_is_trimmed_is_gone_and_the_rest_stays(journal):
    filled(journal, 10)
    journal.trim(0, 4)
    assert (journal.start(0), journal.end(0), journal.start(1)) == (4, 10, 0)
    assert [journal.get(0, number) for number in (3, 4, 9)] == [None, b"4", b"9"]
    journal.trim(0, 2)
    assert journal.start(0) == 4


def test_a_trimmed_entry_is_never_taken_again(journal):
    filled(journal, 3).trim(0, 2)
    assert journal.propose(0, 1, b"late") is None
    assert journal.get(0, 1) is None


def test_everything_may_be_trimmed_and_what_follows_goes_on(journal):
    filled(journal, 5).trim(0, 99)
    assert (journal.start(0), journal.end(0)) == (5, 5)
    assert journal.propose(0, 5, b"next") == b"next"
    assert journal.end(0) == 6


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("propose"), st.integers(0, 1), st.integers(0, 3), st.binary(max_size=5)),
            st.tuples(st.just("trim"), st.integers(0, 1), st.integers(0, 9), st.just(b"")),
            st.tuples(st.just("reopen"), st.just(0), st.just(0), st.just(b"")),
        ),
        max_size=30,
    )
)
def test_a_directory_is_like_memory(tmp_path_factory, steps):
    directory = tmp_path_factory.mktemp("journal")
    memory, files = MemoryJournal(), DirectoryJournal(directory)
    for step, partition, number, data in steps:
        end = memory.end(partition)
        if step == "propose":
            at = max(end - number, 0)
            assert files.propose(partition, at, data) == memory.propose(partition, at, data)
        elif step == "trim":
            memory.trim(partition, max(end - number, 0))
            files.trim(partition, max(end - number, 0))
        else:
            files = DirectoryJournal(directory)
        assert (files.start(partition), files.end(partition)) == (memory.start(partition), memory.end(partition))
        assert all(files.get(partition, n) == memory.get(partition, n) for n in range(end + 2))


# --- files ----------------------------------------------------------------------------------------------------------


def test_where_entries_begin_is_known_after_a_restart_even_if_none_is_left(tmp_path):
    filled(DirectoryJournal(tmp_path), 5).trim(0, 5)
    assert entries(tmp_path) == []
    again = DirectoryJournal(tmp_path)
    assert (again.start(0), again.end(0), again.propose(0, 2, b"late")) == (5, 5, None)


def test_a_trim_that_was_killed_halfway_is_finished_by_the_next(tmp_path):
    journal = filled(DirectoryJournal(tmp_path), 6)
    (tmp_path / "0" / "starts").mkdir()
    (tmp_path / "0" / "starts" / f"{4:020d}").touch()  # and then it died
    assert (journal.start(0), journal.get(0, 3)) == (4, None)
    journal.trim(0, 5)
    assert [path.name for path in entries(tmp_path)] == [f"{5:020d}"]
    assert len(list((tmp_path / "0" / "starts").iterdir())) == 1


@pytest.mark.parametrize("damage", [b"", b"h", b"foreign file", "flip", "cut"])
def test_a_damaged_or_foreign_entry_is_never_skipped(tmp_path, damage):
    journal = filled(DirectoryJournal(tmp_path), 3)
    path = entries(tmp_path)[1]
    whole = path.read_bytes()
    changed = {"flip": whole[:-1] + bytes([whole[-1] ^ 1]), "cut": whole[:-1]}
    path.write_bytes(changed[damage] if isinstance(damage, str) else damage)
    with pytest.raises(LogDamaged, match="damaged"):
        journal.get(0, 1)
    with pytest.raises(LogDamaged):
        journal.propose(0, 1, b"mine")


def test_an_entry_under_the_name_of_another_is_found_out(tmp_path):
    journal = filled(DirectoryJournal(tmp_path), 3)
    entries(tmp_path)[2].write_bytes(entries(tmp_path)[1].read_bytes())
    with pytest.raises(LogDamaged):
        journal.get(0, 2)


def test_a_lost_entry_is_not_written_again_by_whoever_comes_along(tmp_path):
    journal = filled(DirectoryJournal(tmp_path), 3)
    entries(tmp_path)[1].unlink()
    with pytest.raises(LogDamaged, match="missing"):
        journal.propose(0, 1, b"another history")


def test_a_foreign_name_among_the_starts_is_an_error(tmp_path):
    filled(DirectoryJournal(tmp_path), 3).trim(0, 1)
    (tmp_path / "0" / "starts" / "notes.txt").touch()
    with pytest.raises(LogDamaged, match=r"notes\.txt is not an entry"):
        DirectoryJournal(tmp_path).start(0)


def test_what_killed_writers_left_is_swept_and_what_is_young_stays(tmp_path):
    filled(DirectoryJournal(tmp_path), 1)
    parts = tmp_path / "0" / "parts"
    assert list(parts.iterdir()) == []
    for name, age_s in (("old", 3600), ("young", 0)):
        (parts / name).write_bytes(b"half")
        os.utime(parts / name, (time.time() - age_s,) * 2)
    DirectoryJournal(tmp_path).propose(0, 1, b"1")
    assert [path.name for path in parts.iterdir()] == ["young"]


def test_a_proposer_whose_file_was_swept_writes_it_again(tmp_path, monkeypatch):
    journal, link, swept = DirectoryJournal(tmp_path), os.link, []

    def after_a_pause(part, path):
        if not swept:
            swept.append(part)
            part.unlink()
        link(part, path)

    monkeypatch.setattr(os, "link", after_a_pause)
    assert journal.propose(0, 0, b"data") == b"data"
    assert swept
    assert journal.get(0, 0) == b"data"


def test_a_proposer_that_stood_still_while_its_number_was_taken_and_trimmed_has_not_won(tmp_path, monkeypatch):
    journal, other, link = DirectoryJournal(tmp_path), DirectoryJournal(tmp_path), os.link
    seen = []

    def after_a_pause(part, path):
        monkeypatch.setattr(os, "link", link)
        filled(other, 4).trim(0, 2)
        link(part, path)
        seen.append(other.get(0, 0))

    monkeypatch.setattr(os, "link", after_a_pause)
    assert journal.propose(0, 0, b"from the past") is None
    assert seen == [None], "another reader took it for an entry before its proposer knew"
    assert [path.name for path in entries(tmp_path)] == [f"{number:020d}" for number in (2, 3)]


def test_the_end_is_found_though_entries_are_trimmed_meanwhile(tmp_path, monkeypatch):
    journal, other = filled(DirectoryJournal(tmp_path), 6), DirectoryJournal(tmp_path)

    def start(partition):
        monkeypatch.undo()
        before = journal.start(partition)
        other.trim(partition, 4)
        return before

    monkeypatch.setattr(journal, "start", start)
    assert journal.end(0) == 6


def test_a_directory_that_cannot_be_written_is_tried_again(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LogUnavailable):
        DirectoryJournal(tmp_path / "file").propose(0, 0, b"")


def test_entries_may_survive_the_machine(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), fsync(descriptor)))
    filled(DirectoryJournal(tmp_path, durability="disk"), 1)
    assert len(synced) >= 2, "the file and its name"


# --- processes ------------------------------------------------------------------------------------------------------


@pytest.fixture
def start():
    with processes("tests.unit.streams.journal_process") as start:
        yield start


def test_processes_that_race_for_entries_agree_even_if_some_are_killed(tmp_path, start):
    count = 400
    racers = [start("propose_until", tmp_path, name, count) for name in "abcd"]
    for racer in racers:
        assert racer.line() == "ready"
    for racer in racers:
        racer.tell()
    told = [[racer.line() for _ in range(40)] for racer in racers[:2]]
    told = [[*first, *racer.kill()] for first, racer in zip(told, racers, strict=False)]
    told += [racer.rest() for racer in racers[2:]]
    journal = DirectoryJournal(tmp_path)
    assert journal.end(0) == count
    stored = [journal.get(0, number) for number in range(count)]
    winners = [data[: data.index(b":")].decode() for data in stored]
    assert stored == [f"{name}:{number}".encode() * 50 for number, name in enumerate(winners)]
    assert [len(lines) for lines in told[2:]] == [count, count]
    assert all(lines == winners[: len(lines)] for lines in told)
    assert len(set(winners)) > 1, "there was no race"


def test_readers_in_several_processes_read_rows_and_marks_in_one_order(tmp_path, start):
    count = 300
    readers = [start("read_and_mark_until", tmp_path, name, count) for name in "abc"]
    with SegmentLog(tmp_path, "rows", 1, "producer#1") as log:
        log.append(0, rows(0))
        for reader in readers:
            assert reader.line() == "ready"
        for reader in readers:
            reader.tell()
        killed = [readers[0].line() for _ in range(3)]
        for at in range(1, count):
            log.append(0, rows(at))
            if at == count // 2:
                killed += readers[0].kill()
        told = [reader.rest() for reader in readers[1:]]
    assert [lines.pop() for lines in told] == ["done", "done"]
    assert told[0] == told[1]
    assert killed == told[0][: len(killed)]
    values = [line.split(" ", 1) for line in told[0]]
    assert [int(at) for at, _ in values] == list(range(len(values)))
    assert [int(value) for _, value in values if value.isdecimal()] == list(range(count))
    assert len(values) > count, "nobody found it idle"
