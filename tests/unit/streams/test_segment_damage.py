"""Damage to the files of a segment: a flipped bit never gives a wrong row, a short file never a signal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.streams.log_kinds import rows
from tests.unit.streams.test_segment_log import numbers, opened, segments

from holons.errors import LogDamaged
from holons.streams.segments import SegmentLog, SegmentSharedLog, frames, segment

FILES = ["index", "data.arrows"]


@pytest.fixture
def written(tmp_path) -> Path:
    """One segment with small and large bodies, closed."""
    with opened(tmp_path, "w") as log:
        log.append(0, rows(1, 2, 3))
        log.append(0, numbers(20_000))
        log.append(1, rows(77, 78))
        log.mark(1, 5)
    (segment,) = segments(tmp_path)
    return segment


def all_of(log: SegmentLog) -> list[object]:
    """Everything that a log holds: its ends, and its rows by partition."""
    found: list[object] = []
    for partition in range(2):
        at = 0
        while chunks := log.read(partition, at, 1_000):
            found += [(chunk.mark, chunk.rows and chunk.rows.to_pydict()) for chunk in chunks]
            at = chunks[-1].end
        assert at == log.end(partition)
        found.append(at)
    return found


def all_in(directory: Path) -> list[object]:
    with opened(directory, "reader") as log:
        return all_of(log)


def test_an_undamaged_log_is_read(tmp_path, written):
    assert all_in(tmp_path)[-1] == 3


def flip(path: Path, at: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (value,) = file.read(1)
        file.seek(at)
        file.write(bytes([value ^ 1 << bit]))


def some_bytes(path: Path) -> list[int]:
    """Of the index what is used, every byte of it; of the data a sample."""
    size = path.stat().st_size
    if path.name == "index":
        return [*range(12), *range(64, 64 + 8 + 20), *range(segment.HEADER_BYTES, size)]
    return list(range(0, size, 1 + size // 150))


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_anywhere_never_gives_a_wrong_row(tmp_path, name):
    with opened(tmp_path, "w") as log:
        log.append(0, rows(1, 2, 3))
        log.append(1, pa.record_batch({"a": pa.array(["x", "y"]).dictionary_encode()}))
        log.mark(1, 5)
    (held,) = segments(tmp_path)
    whole, noticed = all_in(tmp_path), 0
    for at in some_bytes(held / name):
        flip(held / name, at, at % 8)
        try:
            assert all_in(tmp_path) == whole, f"byte {at}"
        except LogDamaged:
            noticed += 1
        flip(held / name, at, at % 8)
    assert noticed == len(some_bytes(held / name))


@pytest.mark.parametrize("many", [False, True])
def test_a_flipped_bit_in_any_record_is_noticed_before_anything_is_read(tmp_path, many):
    """Few records are checked one by one, many by NumPy."""
    with opened(tmp_path, "w") as log:
        for value in range(20 if many else 3):
            log.append(value % 2, rows(value))
    (held,) = segments(tmp_path)
    size = (held / "index").stat().st_size
    for at in range(segment.HEADER_BYTES, size, 7):
        flip(held / "index", at, at % 8)
        with opened(tmp_path, "reader") as log, pytest.raises(LogDamaged, match="checksum"):
            log.end(0)
        flip(held / "index", at, at % 8)
    with opened(tmp_path, "reader") as log:
        assert log.end(0) == (10 if many else 2)


def test_a_flipped_bit_in_a_large_body_is_noticed(tmp_path, written):
    data = written / "data.arrows"
    flip(data, data.read_bytes().index(numbers(20_000).column(1).to_numpy()[12_345:12_346].tobytes()), 3)
    with pytest.raises(LogDamaged, match="checksum"):
        all_in(tmp_path)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kept", [0, 1, 11, 100, 1_024, 1_100, 100_000, -4_096, -64, -1])
@pytest.mark.parametrize("known", [False, True], ids=["opened later", "opened before"])
def test_a_truncated_file_is_noticed(tmp_path, written, name, kept, known):
    path = written / name
    size = path.stat().st_size
    if kept >= size or -kept > size:
        pytest.skip("the file is shorter than that")
    with opened(tmp_path, "reader") as log:
        if known:
            assert all_of(log)
            log._recent.clear()
        os.truncate(path, kept if kept >= 0 else size + kept)
        with pytest.raises(LogDamaged, match="fewer than"):
            all_of(log)


def test_records_that_are_taken_back_are_noticed(tmp_path):
    with opened(tmp_path, "writer") as writer, opened(tmp_path, "reader") as log:
        writer.append(0, rows(1, 2))
        assert log.end(0) == 2
        with (segments(tmp_path)[0] / "index").open("r+b") as index:
            index.write(segment.published(1))
        with pytest.raises(LogDamaged, match="1 records are published, and 2 were"):
            log.end(0)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_noticed(tmp_path, written, name):
    (written / name).unlink()
    with pytest.raises(LogDamaged, match=f"{name} is missing"):
        all_in(tmp_path)


def test_a_foreign_file_in_place_of_the_index_is_noticed(tmp_path, written):
    (written / "index").write_text("not an index\n" * 1_000)
    with pytest.raises(LogDamaged, match="no header of ours"):
        all_in(tmp_path)


def test_a_segment_of_an_older_version_is_told_from_damage(tmp_path, written):
    for name in FILES:
        (written / name).unlink()
    (written / "data.mdb").touch()
    with pytest.raises(LogDamaged, match="older version"):
        all_in(tmp_path)


def test_a_newer_format_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(segment, "FORMAT", 5)
    with opened(tmp_path, "w") as log:
        log.append(0, rows(1))
    monkeypatch.undo()
    with pytest.raises(LogDamaged, match="format 5"):
        all_in(tmp_path)


def test_an_unknown_file_in_the_directory_is_noticed(tmp_path, written):
    (tmp_path / "stream.s" / "notes.txt").touch()
    with pytest.raises(LogDamaged, match=r"notes\.txt"):
        all_in(tmp_path)


def test_a_stream_under_another_name_is_noticed(tmp_path, written):
    (tmp_path / "stream.s").rename(tmp_path / "stream.t")
    with SegmentLog(tmp_path, "t", 2, "reader") as log, pytest.raises(LogDamaged, match="belongs to stream 's'"):
        log.read(0, 0, 1)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_stream_with_other_partitions_is_noticed(tmp_path, written, partitions):
    with SegmentLog(tmp_path, "s", partitions, "reader") as log, pytest.raises(LogDamaged, match="2 partitions"):
        log.end(0)


def test_a_log_is_not_a_shared_stream(tmp_path, written):
    with SegmentSharedLog(tmp_path, "s", "reader") as shared, pytest.raises(LogDamaged, match="2 partitions"):
        shared.read({}, 1)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_segment_is_noticed(tmp_path, lost):
    with opened(tmp_path, "w", segment_bytes=1) as log:
        for value in range(3):
            log.append(0, rows(value))
    segments(tmp_path)[lost].rename(tmp_path / "lost")
    with opened(tmp_path, "reader") as log, pytest.raises(LogDamaged, match="missing"):
        log.read(0, 0, 10)


def test_a_lost_segment_of_a_shared_stream_is_noticed(tmp_path):
    with SegmentSharedLog(tmp_path, "s", "w", segment_bytes=1) as log:
        for number in range(3):
            log.append(bytes([number]))
    segments(tmp_path)[1].rename(tmp_path / "lost")
    with SegmentSharedLog(tmp_path, "s", "reader") as log:
        cursor: dict[str, int] = {}
        with pytest.raises(LogDamaged, match="missing"):
            log.read(cursor, 10)
        assert cursor == {}


def test_a_flipped_bit_in_a_message_is_noticed(tmp_path):
    with SegmentSharedLog(tmp_path, "s", "w") as log:
        for text in (b"one", b"two", b"three"):
            log.append(text)
    flip(segments(tmp_path)[0] / "data.messages", 4, 0)
    with SegmentSharedLog(tmp_path, "s", "reader") as log, pytest.raises(LogDamaged, match="checksum"):
        log.read({}, 10)


def test_records_that_are_all_zero_are_damaged():
    """As an interrupted machine may leave them."""
    assert frames.frame_of(bytes(frames.RECORD_BYTES)) is None
    assert frames.whole_records(bytes(frames.RECORD_BYTES) * 20) is None


# --- what is told, and what is held -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_an_error_names_the_stream_the_directory_and_what_to_do(tmp_path, written, name):
    for at in (1_030 if name == "index" else 1_000, 5):
        flip(written / name, at, 1)
        with pytest.raises(LogDamaged) as caught:
            all_in(tmp_path)
        flip(written / name, at, 1)
        assert caught.value.where["stream"] == "s"
        assert str(tmp_path / "stream.s") in caught.value.hint
        assert "restore it from a copy" in caught.value.hint


@pytest.mark.parametrize("more", [1, 1_000, 2**40, 2**63, 2**64])
def test_a_published_length_beyond_the_index_is_noticed(tmp_path, written, more):
    records = ((written / "index").stat().st_size - segment.HEADER_BYTES) // frames.RECORD_BYTES
    with (written / "index").open("r+b") as index:
        index.write(segment.published(min(records + more, 2**64 - 1)))
    (written / "counted").unlink()
    with pytest.raises(LogDamaged, match=r"index has fewer than|wrong checksum"):
        all_in(tmp_path)


@pytest.mark.parametrize("how", ["truncated", "deleted"])
def test_rows_that_are_held_stay_what_they_are_when_their_file_is_cut_short(tmp_path, written, how):
    """In a map they would be a signal that ends the process."""
    with opened(tmp_path, "reader") as log:
        (chunk,) = log.read(0, 3, 20_000)
        (part,) = log.read(0, 3, 20_000, frozenset([numbers(1).schema.names[0]]))
        if how == "truncated":
            os.truncate(written / "data.arrows", 0)
            with pytest.raises(LogDamaged, match="fewer than"):
                part.whole.read()
        else:
            shutil.rmtree(written)
            assert part.whole.read().equals(numbers(20_000))
        assert chunk.rows.equals(numbers(20_000))
        assert part.rows.column(0).equals(numbers(20_000).column(0))


SHORT_OF_MEMORY = """
import resource, sys
import numpy as np, pyarrow as pa
from holons.streams.segments import SegmentLog

with SegmentLog(sys.argv[1], "s", 1, "writer") as log:
    log.append(0, pa.record_batch({"a": np.arange(4_000_000)}))
with SegmentLog(sys.argv[1], "s", 1, "reader") as log:
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20),) * 2)
    try:
        print(sum(chunk.length for chunk in log.read(0, 0, 4_000_000)))
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_too_little_memory_is_not_told_as_a_full_disk(tmp_path):
    """As `ulimit -v` sets it."""
    ended = subprocess.run(
        [sys.executable, "-c", SHORT_OF_MEMORY, tmp_path], capture_output=True, text=True, check=True
    )
    assert "Memory" in ended.stdout or "memory" in ended.stdout
    assert "disk" not in ended.stdout
    assert "damage" not in ended.stdout
