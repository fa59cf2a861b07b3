"""Shared streams stay small, whatever a segment's size, and forget writers that are long gone."""

from __future__ import annotations

import pytest
from tests.unit.streams.log_kinds import rows as batch_of

from holons.clock import Random, seeded
from holons.errors import WriterForgotten
from holons.streams import StreamFolder
from holons.streams.segments import SegmentLog, SegmentSharedLog

MINUTE_S = 60.0


class HandSet:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at_s = 1_000_000.0

    def now_s(self) -> float:
        return self.at_s

    def worked_s(self) -> float:
        return self.at_s

    def utc_us(self) -> int:
        return round(self.at_s * 1_000_000)

    def sleep_s(self, seconds: float) -> None:
        self.at_s += seconds

    def random(self) -> Random:
        return seeded(0)


def files_of(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def bytes_of(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def test_small_messages_are_trimmed_long_before_their_segment_is_full(tmp_path):
    sizes = []
    with SegmentSharedLog(tmp_path, "sync", "node-a#1") as log:
        for number in range(8_000):
            position = log.append(b"a window of a small job")
            if number % 64 == 63:
                log.trim({log.writer: position - 100})
            if number % 1_000 == 999:
                sizes.append(bytes_of(tmp_path))
    assert max(sizes) < 400_000, sizes


def test_small_rows_are_trimmed_long_before_their_segment_is_full(tmp_path):
    sizes, rows = [], batch_of(1)
    with SegmentLog(tmp_path, "rows", 2, "producer#1") as log, SegmentLog(tmp_path, "rows", 2, "trimmer#1") as trimmer:
        for number in range(4_000):
            log.append(number % 2, rows)
            if number % 100 == 99:
                for partition in range(2):
                    trimmer.trim(partition, number // 2 - 20)
            if number % 500 == 499:
                sizes.append(bytes_of(tmp_path))
        assert trimmer.end(0) == 2_000
        (chunk,) = trimmer.read(0, 1_999, 10)
        assert chunk.offset == 1_999
    assert max(sizes) < 1_000_000, sizes


def test_a_stream_of_which_all_was_trimmed_still_has_its_partitions_and_its_end(tmp_path):
    clock = HandSet()
    with SegmentLog(tmp_path, "rows", 3, "producer#1", clock=clock) as log:
        log.append(2, batch_of(1, 2))
        log.trim(2, 2)
        clock.sleep_s(2 * MINUTE_S)
        log.trim(2, 2)
    assert not list(tmp_path.rglob("segment.*"))
    folder = StreamFolder(tmp_path)
    assert folder.with_rows() == {"rows": 3}
    with folder.open("rows", 3, "reader#1") as reader:
        assert (reader.start(2), reader.end(2)) == (2, 2)
    assert folder.describe("rows").partitions == 3


@pytest.fixture
def forgotten(tmp_path):
    """A stream whose writer `node-a#1` has been silent for so long that its name is gone."""
    clock = HandSet()
    writer = SegmentSharedLog(tmp_path, "sync", "node-a#1", clock=clock)
    other = SegmentSharedLog(tmp_path, "sync", "node-b#1", clock=clock)
    for _ in range(3):
        writer.append(b"seal")
    other.append(b"seal")
    cursor = {}
    other.read(cursor, 10)
    for _ in range(30):
        clock.sleep_s(MINUTE_S)
        other.append(b"seal")
        other.trim({"node-a#1": 3})
    return clock, writer, other, cursor


def test_a_writer_that_is_long_gone_leaves_no_name_behind(tmp_path, forgotten):
    _, _, other, cursor = forgotten
    assert not [name for name in files_of(tmp_path) if "node-a" in name], files_of(tmp_path)
    assert other.starts() == {"node-b#1": 0}
    other.read(cursor, 100)
    assert cursor == {"node-b#1": 31}, "its place in cursors goes too"


def test_a_writer_is_known_for_ten_minutes_though_all_of_it_was_trimmed(tmp_path):
    clock = HandSet()
    with SegmentSharedLog(tmp_path, "sync", "node-a#1", clock=clock) as writer:
        writer.append(b"seal")
    with SegmentSharedLog(tmp_path, "sync", "node-b#1", clock=clock) as other:
        other.append(b"seal")
        for _ in range(8):
            clock.sleep_s(MINUTE_S)
            other.trim({"node-a#1": 1})
        assert other.starts() == {"node-a#1": 1, "node-b#1": 0}


def test_a_writer_that_was_forgotten_is_told_so_and_nobody_reads_what_it_adds(forgotten):
    _, writer, other, cursor = forgotten
    with pytest.raises(WriterForgotten, match=r"node-a#1.*forgotten"):
        writer.append(b"from long ago")
    other.read(cursor, 1_000)
    assert [message.data for message in other.read({}, 1_000) if message.writer == "node-a#1"] == []
