"""A partition has one producer at a time: whoever stood still meanwhile adds nothing, and learns of it."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from types import FrameType

import pytest
from tests.unit.streams.log_kinds import flat, rows
from tests.unit.streams.other_process import OtherProcess, processes

from holons.engines.directory_site import DirectorySite
from holons.engines.memory_site import MemorySite
from holons.errors import InvariantBroken, LogUnavailable, ProducerFenced
from holons.node import Site
from holons.streams import ReadableLog
from holons.streams.segments import SegmentLog, ending
from holons.streams.segments.writer import OpenSegment

STREAM = "rows"
CALLS_MAX = 400
PROCESSES = 8


@pytest.fixture(params=["memory", "directory"])
def site(request, tmp_path) -> Site:
    return MemorySite() if request.param == "memory" else DirectorySite(tmp_path)


def all_rows(log: ReadableLog, partition: int = 0) -> list[object]:
    return flat(log.read(partition, 0, 1_000))


# --- one after the other, and both at once ------------------------------------------------------------------------------


def test_a_second_producer_fences_off_the_first(site):
    first, second = site.producer(STREAM, 2, "first"), site.producer(STREAM, 2, "second")
    first.append(0, rows(1, 2))
    assert second.append(0, rows(3)) == 2
    for write in (lambda: first.append(0, rows(9)), lambda: first.mark(0, 9), lambda: first.put(0, 3, rows(9))):
        with pytest.raises(ProducerFenced, match=r"'first' may write no more.*partition 0, holder second"):
            write()
    assert second.append(0, rows(4)) == 3
    assert all_rows(site.input(STREAM, "reader")) == [1, 2, 3, 4]


def test_a_producer_keeps_the_partitions_that_nobody_else_takes(site):
    first, second = site.producer(STREAM, 3, "first"), site.producer(STREAM, 3, "second")
    for partition in range(2):
        first.append(partition, rows(1))
    second.append(0, rows(2))
    second.append(2, rows(2))
    assert first.append(1, rows(3)) == 1
    assert second.append(2, rows(4)) == 1
    with pytest.raises(ProducerFenced):
        first.append(0, rows(9))
    assert first.append(1, rows(5)) == 2
    reader = site.input(STREAM, "reader")
    assert [all_rows(reader, partition) for partition in range(3)] == [[1, 2], [1, 3, 5], [2, 4]]


def test_who_opens_the_stream_again_takes_the_partition_back(site):
    producers = [site.producer(STREAM, 1, f"producer#{number}") for number in range(30)]
    for number, producer in enumerate(producers):
        assert producer.append(0, rows(number)) == number
        for fenced in producers[:number][-2:]:
            with pytest.raises(ProducerFenced):
                fenced.append(0, rows(99))
    assert all_rows(site.input(STREAM, "reader")) == list(range(30))


@pytest.mark.parametrize("damage", [lambda text: text[:2], lambda text: b"F" + text[1:], lambda text: b""])
def test_who_took_a_partition_before_is_fenced_off_also_if_its_name_is_damaged(tmp_path, damage):
    site = DirectorySite(tmp_path)
    first, second, beside = (site.producer(STREAM, 2, name) for name in ("first", "second", "beside"))
    first.append(0, rows(1))
    beside.append(1, rows(1))
    (taken,) = tmp_path.glob("input/stream.rows/epochs/0.0")
    taken.write_bytes(damage(taken.read_bytes()))
    assert second.append(0, rows(2)) == 1
    with pytest.raises(ProducerFenced):
        first.append(0, rows(9))
    assert beside.append(1, rows(2)) == 1
    reader = site.input(STREAM, "reader")
    assert [all_rows(reader, partition) for partition in range(2)] == [[1, 2], [1, 2]]


def test_a_producer_that_tries_again_learns_that_it_was_fenced_off_meanwhile(tmp_path, monkeypatch):
    """Also if another producer's rows are where it wanted to put its own."""
    site = DirectorySite(tmp_path)
    first, second = (site.producer(STREAM, 1, name) for name in ("first", "second"))
    assert first.put(0, 0, rows(1, 2))
    with monkeypatch.context() as full:
        full.setattr(OpenSegment, "prepare", _no_space)
        with pytest.raises(LogUnavailable):
            first.put(0, 2, rows(3))
    assert second.append(0, rows(4, 5)) == 2
    with pytest.raises(ProducerFenced):
        first.put(0, 2, rows(3))
    assert not first.put(0, 0, rows(1, 2)), "what is there is there"
    with pytest.raises(InvariantBroken, match="position is identity"):
        second.put(0, 2, rows(9))
    assert all_rows(site.input(STREAM, "reader")) == [1, 2, 4, 5]


def test_a_takeover_that_a_full_disk_has_interrupted_is_completed_when_it_is_tried_again(tmp_path, monkeypatch):
    site = DirectorySite(tmp_path)
    first, second = (site.producer(STREAM, 1, name) for name in ("first", "second"))
    assert first.put(0, 0, rows(1, 2))
    with monkeypatch.context() as full:
        full.setattr(ending, "decide", _no_space)
        with pytest.raises(LogUnavailable):
            second.take(0)
    assert second.take(0) == 2
    with pytest.raises(ProducerFenced):
        first.put(0, 2, rows(9))
    assert second.append(0, rows(3)) == 2
    assert all_rows(site.input(STREAM, "reader")) == [1, 2, 3]


def test_what_is_published_while_nobody_can_decide_what_counts_is_seen_later(tmp_path, monkeypatch):
    site = DirectorySite(tmp_path)
    first = site.producer(STREAM, 1, "first")
    first.append(0, rows(1))
    reader = site.input(STREAM, "reader")
    assert all_rows(reader) == [1]
    first.append(0, rows(2))
    with monkeypatch.context() as full:
        full.setattr(ending.disk, "write", _no_space)
        next(tmp_path.glob("input/stream.rows/segment.*/open")).unlink()
        assert all_rows(reader) == [1, 2]
    first.append(0, rows(3))
    assert all_rows(reader) == [1, 2, 3]
    first.append(0, rows(4))
    assert all_rows(reader) == [1, 2, 3, 4]


def _no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_takeovers_leave_little_behind(tmp_path):
    for number in range(50):
        with DirectorySite(tmp_path).producer(STREAM, 1, f"producer#{number}") as log:
            log.append(0, rows(number))
    assert len(list(tmp_path.glob("input/stream.rows/epochs/*"))) < 12


def test_producers_of_one_name_that_follow_each_other_fence_off_nobody(tmp_path):
    for number in range(5):
        with DirectorySite(tmp_path).producer(STREAM, 1, "batches", resume=True) as log:
            log.append(0, rows(number))
    assert len(list(tmp_path.glob("input/stream.rows/epochs/*"))) == 1
    assert len(list(tmp_path.glob("input/stream.rows/segment.*"))) == 1


# --- standing still at any moment ---------------------------------------------------------------------------------------


class Interrupted:
    """Does something else right before a piece of work calls the operating system for the n-th time."""

    def __init__(self, number: int, meanwhile: Callable[[], None]) -> None:
        self.left = number
        self._meanwhile = meanwhile

    def __enter__(self) -> Interrupted:
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, function: object) -> None:
        if event == "c_call" and getattr(function, "__module__", "") in ("posix", "io", "_io") and _for_us(frame):
            if self.left == 0:
                sys.setprofile(None)
                self._meanwhile()
                sys.setprofile(self._profile)
            self.left -= 1


def _for_us(frame: FrameType) -> bool:
    """Whether a function of ours calls, by itself or through `pathlib`. To interrupt an import would block the process."""
    while frame.f_globals["__name__"] == "pathlib" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals["__name__"].startswith("holons.streams.")


class Race:
    """Two producers of one partition, the second of which writes while the first one stands still, and a reader."""

    def __init__(self, directory: Path) -> None:
        site = DirectorySite(directory)
        self.slow = site.producer(STREAM, 1, "slow")
        self.fast = site.producer(STREAM, 1, "fast")
        self.reader = SegmentLog(directory / "input", STREAM, 1, "reader", fenced=True)
        self.later = SegmentLog(directory / "input", STREAM, 1, "later", fenced=True)
        self.acknowledged: list[object] = []
        self.seen: list[object] | None = None

    def append(self, producer: SegmentLog, *values: int) -> bool:
        """Appends rows; returns whether they were acknowledged."""
        try:
            producer.append(0, rows(*values))
        except ProducerFenced:
            return False
        self.acknowledged += values
        return True

    def fast_writes(self) -> None:
        all_rows(self.reader)
        assert self.append(self.fast, 10, 11, 12)
        self.seen = all_rows(self.reader)

    def slow_writes(self) -> None:
        self.seen = all_rows(self.reader)
        for value in (13, 14):
            self.append(self.slow, value)

    def check(self) -> None:
        """Only one may go on; everybody has read, and reads, what was acknowledged, once, and nothing else."""
        assert self.append(self.slow, 30) != self.append(self.fast, 31)
        everything = all_rows(self.reader)
        assert everything[: len(self.seen or [])] == (self.seen or [])
        assert everything == all_rows(self.later)
        assert sorted(everything) == sorted(self.acknowledged)

    def close(self) -> None:
        for log in (self.slow, self.fast, self.reader, self.later):
            log.close()


def races(tmp_path: Path) -> Iterator[tuple[int, Race]]:
    for number in range(CALLS_MAX):
        with closing(Race(tmp_path / str(number))) as race:
            yield number, race
    raise AssertionError("the work has more moments than that")


@pytest.mark.parametrize("before", [(), (1, 2)], ids=["its first rows", "more rows"])
def test_a_producer_may_stand_still_at_any_moment(tmp_path, before):
    outcomes = []
    for number, race in races(tmp_path):
        for value in before:
            race.append(race.slow, value)
        with Interrupted(number, race.fast_writes):
            outcomes.append(race.append(race.slow, 20, 21))
        if race.seen is None:
            break
        race.check()
    assert {True, False} == set(outcomes)  # it stood still before its rows were there, and after


def test_a_takeover_may_stand_still_at_any_moment(tmp_path):
    """Until it is done the producer before may go on; what that has had acknowledged is there."""
    for number, race in races(tmp_path):
        race.append(race.slow, 1)
        with Interrupted(number, race.slow_writes):
            assert race.append(race.fast, 20, 21)
        race.check()
        assert race.acknowledged[-1] == 31
        if race.seen is None:
            break


@pytest.fixture
def start():
    with processes("tests.unit.streams.segment_process") as start:
        yield start


def test_a_process_that_was_stopped_between_its_position_and_its_commit(tmp_path, start):
    slow = start("append_where_told", tmp_path)
    assert slow.line() == "100"
    assert slow.ask("stop") == "standing still"
    with DirectorySite(tmp_path).producer(STREAM, 1, "fast") as fast:
        assert fast.append(0, rows(*range(100, 151))) == 100
        reader = DirectorySite(tmp_path).input(STREAM, "reader")
        assert len(all_rows(reader)) == 151
        assert slow.ask("go on") == "ProducerFenced"
        assert fast.append(0, rows(151)) == 151
        assert all_rows(reader) == all_rows(DirectorySite(tmp_path).input(STREAM, "later")) == list(range(152))


@pytest.mark.slow
def test_processes_that_are_stopped_anywhere_lose_nothing_and_add_nothing(tmp_path, start):
    """Each is stopped after a while, another one begins, and the stopped ones go on: only acknowledged rows count."""
    random, site = Random(8), DirectorySite(tmp_path)
    stopped: list[OtherProcess] = []
    acknowledged, seen = set[int](), list[object]()

    def ends(process: OtherProcess) -> None:
        os.kill(process.pid, signal.SIGCONT)
        acknowledged.update(map(int, process.rest()))

    site.create(STREAM, 1)
    reader = site.input(STREAM, "reader")
    for number in range(PROCESSES):
        process = start("append_until_fenced", tmp_path, number)
        acknowledged.add(int(process.line()))
        time.sleep(random.uniform(0.0, 0.02))
        process.stop()
        seen += flat(reader.read(0, len(seen), 1_000_000))
        if stopped and random.random() < 0.7:
            ends(stopped.pop(random.randrange(len(stopped))))
        stopped.append(process)
    acknowledged.update(map(int, stopped.pop().kill()))
    for process in stopped:
        ends(process)
    seen += flat(reader.read(0, len(seen), 1_000_000))
    everything = flat(site.input(STREAM, "later").read(0, 0, 1_000_000))
    assert seen == everything
    values = everything[1:]  # behind the mark that made the stream
    assert len(set(values)) == len(values)
    assert acknowledged <= set(values)
    assert len(set(values) - acknowledged) <= PROCESSES  # each may have been stopped just behind a commit


# --- past the fence -----------------------------------------------------------------------------------------------------


def test_rows_that_appear_behind_a_reader_are_an_error(tmp_path):
    site = DirectorySite(tmp_path)
    with site.producer(STREAM, 1, "producer") as log, SegmentLog(tmp_path / "other", STREAM, 1, "stranger") as stranger:
        log.append(0, rows(1, 2, 3))
        for _ in range(2):
            stranger.append(0, rows(1, 2))
        reader = site.input(STREAM, "reader")
        assert flat(reader.read(0, 0, 10)) == [1, 2, 3]
        (segment,) = (tmp_path / "other" / "stream.rows").glob("segment.*")
        segment.rename(tmp_path / "input" / "stream.rows" / segment.name)
        with pytest.raises(
            InvariantBroken, match=r"at or after 0 of partition 0 of stream 'rows', behind what was read"
        ):
            reader.read(0, 3, 10)


def test_the_same_rows_may_appear_behind_a_reader(tmp_path):
    site = DirectorySite(tmp_path)
    with site.producer(STREAM, 1, "producer") as log, SegmentLog(tmp_path / "other", STREAM, 1, "stranger") as stranger:
        log.append(0, rows(1, 2, 3))
        stranger.append(0, rows(1, 2))
        reader = site.input(STREAM, "reader")
        assert flat(reader.read(0, 0, 10)) == [1, 2, 3]
        (segment,) = (tmp_path / "other" / "stream.rows").glob("segment.*")
        segment.rename(tmp_path / "input" / "stream.rows" / segment.name)
        assert flat(reader.read(0, 3, 10)) == []
        log.append(0, rows(4))
        assert flat(reader.read(0, 3, 10)) == [4]
