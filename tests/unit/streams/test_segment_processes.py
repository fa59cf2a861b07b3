"""Segment logs between real processes: killed, stopped, forked, and at the same time."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.unit.streams.log_kinds import flat, rows
from tests.unit.streams.other_process import LIMIT_S, processes
from tests.unit.streams.segment_process import STREAM

from holons.errors import InvariantBroken
from holons.streams.segments import SegmentLog, SegmentSharedLog


@pytest.fixture
def start():
    with processes("tests.unit.streams.segment_process") as start:
        yield start


def everything(log: SegmentLog) -> list[object]:
    found: list[object] = []
    while chunks := log.read(0, len(found), 10_000):
        found.extend(flat(chunks))
    return found


def test_a_killed_writer_leaves_everything_it_acknowledged(tmp_path, start):
    random = Random(4)
    with SegmentLog(tmp_path, STREAM, 1, "reader") as log:
        for incarnation in range(5):
            writer = start("append_until_killed", tmp_path, f"w#{incarnation}")
            acknowledged = [int(writer.line()) for _ in range(random.randint(1, 60))]
            acknowledged += [int(line) for line in writer.kill()]
            there = everything(log)
            assert len(there) == log.end(0) >= acknowledged[-1]
            assert there == list(range(len(there)))


def test_a_writer_stopped_inside_a_write_holds_up_nobody(tmp_path, start):
    stopped = start("stop_inside_a_write", tmp_path, "stopped")
    assert stopped.line() == "inside"
    stopped.stop()
    assert start("work_beside", tmp_path, "beside").line() == "done"
    stopped.kill()
    with SegmentLog(tmp_path, STREAM, 1, "after") as log:
        assert flat(log.read(0, 0, 100)) == [4, 5]


def test_a_writer_whose_segment_was_trimmed_inside_a_write_writes_it_elsewhere(tmp_path, start):
    writer = start("stop_inside_a_write", tmp_path, "writer")
    assert writer.line() == "inside"
    with SegmentLog(tmp_path, STREAM, 1, "trimmer", idle_s=0) as log:
        log.trim(0, 3)
        assert list(tmp_path.glob(f"stream.{STREAM}/segment.*")) == []
        assert writer.ask() == "committed"
        assert flat(log.read(0, 0, 10)) == [3]


def test_two_writers_of_the_same_positions_merge(tmp_path, start):
    writers = [start("put_until", tmp_path, f"w{length}", 5_000, length) for length in (7, 11, 13)]
    assert [writer.line() for writer in writers] == ["ready"] * 3
    for writer in writers:
        writer._process.stdin.write(b"\n")
        writer._process.stdin.flush()
    with SegmentLog(tmp_path, STREAM, 1, "reader") as log:
        at = 0
        wait_for(lambda: log.end(0) > 0)
        while at < 5_000:
            chunks = log.read(0, at, 500)
            assert flat(chunks) == list(range(at, at + sum(chunk.length for chunk in chunks)))
            at = chunks[-1].offset + chunks[-1].length if chunks else at
        assert [writer.line() for writer in writers] == ["5000"] * 3
        assert everything(log) == list(range(5_000))


def test_a_segment_grows_while_another_process_reads(tmp_path, start):
    reader = start("read_on_demand", tmp_path)
    assert reader.line() == "ready"
    with SegmentLog(tmp_path, STREAM, 1, "writer", segment_bytes=1 << 30) as log:
        at = 0
        for length in (10, 1_000, 20_000, 200_000):
            log.append(0, rows(*range(at, at + length)))
            at += length
            assert reader.ask() == f"{at} {at * (at - 1) // 2}"
        assert len(list(tmp_path.glob("*/segment.*"))) == 1


def test_a_commit_is_seen_by_the_next_read(tmp_path, start):
    with SegmentSharedLog(tmp_path, "messages", "me") as log:
        cursor: dict[str, int] = {}
        for incarnation in range(3):
            other = start("write_messages_on_demand", tmp_path, f"other#{incarnation}")
            assert other.line() == "ready"
            for number in range(50):
                assert other.ask(f"{number}") == str(number)
                assert log.read(cursor, 10) == [(f"other#{incarnation}", number, str(number).encode())]
                assert log.read(cursor, 10) == []


def test_a_forked_process_opens_its_own(tmp_path):
    with SegmentLog(tmp_path, STREAM, 1, "parent") as log, SegmentSharedLog(tmp_path, "messages", "parent") as shared:
        log.append(0, rows(0, 1))
        assert flat(log.read(0, 0, 10)) == [0, 1]
        shared.append(b"parent")
        child = os.fork()
        if child == 0:
            os._exit(in_the_child(tmp_path, log, shared))
        assert ended_with(child) == 0
        assert flat(log.read(0, 0, 10)) == [0, 1, 2]
        assert log.append(0, rows(3)) == 3
        assert [message.writer for message in shared.read({}, 10)] == ["child", "parent"]


def in_the_child(directory: Path, log: SegmentLog, shared: SegmentSharedLog) -> int:
    try:
        assert flat(log.read(0, 0, 10)) == [0, 1]
        with pytest.raises(InvariantBroken, match="forked"):
            log.append(0, rows(9))
        with pytest.raises(InvariantBroken, match="forked"):
            shared.append(b"child")
        with SegmentLog(directory, STREAM, 1, "child") as own, SegmentSharedLog(directory, "messages", "child") as mine:
            assert own.append(0, rows(2)) == 2
            mine.append(b"child")
            assert flat(log.read(0, 0, 10)) == [0, 1, 2]
        log.close()
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        print(f"in the child: {error!r}", file=sys.stderr, flush=True)
        return 1
    return 0


def ended_with(pid: int) -> int:
    status: list[int] = []

    def ended() -> bool:
        found, code = os.waitpid(pid, os.WNOHANG)
        if found:
            status.append(os.waitstatus_to_exitcode(code))
        return bool(found)

    try:
        wait_for(ended)
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    return status[0]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
