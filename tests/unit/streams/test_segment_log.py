"""What logs in segments add to the port: several writers, trimming, disk space, durability."""

from __future__ import annotations

import fcntl
import os
import resource
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from tests.unit.streams.log_kinds import flat, rows

from holons.errors import BadInput, InvariantBroken, LogDamaged, LogUnavailable
from holons.streams import StreamFolder
from holons.streams.segments import SegmentLog, SegmentSharedLog, files
from holons.streams.segments.segment import Segment


def opened(directory: Path, writer: str, **options) -> SegmentLog:
    return SegmentLog(directory, "s", 2, writer, **options)


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("stream.s/segment.*"))


def disk_bytes(directory: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in directory.rglob("*"))


def deleted_but_open(directory: Path) -> list[str]:
    maps = Path("/proc/self/maps")
    return [line for line in maps.read_text().splitlines() if str(directory) in line and "(deleted)" in line]


def numbers(length: int, seed: int = 0) -> pa.RecordBatch:
    drawn = np.random.default_rng(seed).integers(0, 2**60, (3, length))
    return pa.record_batch({"a": drawn[0], "b": drawn[1], "c": drawn[2]})


def together(chunks) -> pa.Table:
    return pa.Table.from_batches([chunk.rows for chunk in chunks]).combine_chunks()


# --- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch({"f": [1.5, float("nan"), None, -0.0]}),
        pa.record_batch({"d": pa.array(["x", "y", "x", None]).dictionary_encode()}),
        pa.record_batch({"l": [[1, 2], None, [], [3]], "s": [{"a": 1}, None, {"a": 2}, {"a": None}]}),
        pa.record_batch(
            {"b": pa.array([b"", b"\0", None, b"x"]), "t": pa.array([0, 1, 2, None], pa.timestamp("us", "UTC"))}
        ),
    ],
    ids=["floats", "dictionary", "nested", "bytes and times"],
)
def test_any_arrow_batch_comes_back_as_it_was(tmp_path, batch):
    with opened(tmp_path, "w") as log:
        log.append(0, batch.slice(1, 2))
        log.append(0, batch)
        first, second = log.read(0, 0, 100)
        assert repr(first.rows.to_pylist()) == repr(batch.slice(1, 2).to_pylist())
        assert repr(second.rows.to_pylist()) == repr(batch.to_pylist())
        assert second.rows.schema.equals(batch.schema, check_metadata=True)
        assert log.put(0, 2, batch) is False


def test_a_large_batch_is_cut_and_read_without_loss(tmp_path, monkeypatch):
    monkeypatch.setattr("holons.streams.segments.log._BODY_BYTES_MAX", 1 << 20)
    batch = numbers(300_000)
    with opened(tmp_path, "w") as log:
        assert log.append(0, batch) == 0
        whole = log.read(0, 0, 1_000_000)
        assert len(whole) > 1
        assert together(whole).equals(pa.Table.from_batches([batch]))
        at, parts = 0, []
        while chunks := log.read(0, at, 7_001):
            parts += chunks
            at += sum(chunk.length for chunk in chunks)
        assert together(parts).equals(pa.Table.from_batches([batch]))


def test_rows_outlive_the_log_that_they_were_read_from(tmp_path):
    batches = [numbers(50_000, seed) for seed in range(4)]
    with opened(tmp_path, "w", segment_bytes=2_000_000) as log:
        read = []
        for number, batch in enumerate(batches):
            log.append(0, batch)
            read.append(log.read(0, number * 50_000, 50_000))
        log.trim(0, 200_000)
    for path in segments(tmp_path):
        (path / "data.arrows").unlink()
    for batch, chunks in zip(batches, read):
        assert together(chunks).equals(pa.Table.from_batches([batch]))


# --- several writers --------------------------------------------------------------------------------------------------


def test_appends_continue_at_the_end_over_all_writers(tmp_path):
    with opened(tmp_path, "a") as a, opened(tmp_path, "b") as b:
        assert [a.append(0, rows(0, 1)), b.append(0, rows(2)), a.mark(0, 5), b.append(0, rows(3))] == [0, 2, 3, 4]
        for log in (a, b):
            assert flat(log.read(0, 0, 10)) == [0, 1, 2, ("mark", 5), 3]


def race(tmp_path: Path, *batches: pa.RecordBatch) -> SegmentLog:
    """Several writers that all put at 0 because none sees the others."""
    for number, batch in enumerate(batches):
        with SegmentLog(tmp_path / str(number), "s", 2, f"w{number}") as log:
            log.put(0, 0, batch)
        for segment in segments(tmp_path / str(number)):
            (tmp_path / "stream.s").mkdir(exist_ok=True)
            segment.rename(tmp_path / "stream.s" / segment.name)
    return opened(tmp_path, "reader")


def test_the_same_rows_from_several_writers_are_there_once(tmp_path):
    with race(tmp_path, rows(0, 1, 2), rows(0), rows(0, 1, 2, 3, 4), rows(0, 1)) as log:
        assert flat(log.read(0, 0, 10)) == [0, 1, 2, 3, 4]
        assert flat(log.read(0, 1, 2)) == [1, 2]
        assert log.put(0, 2, rows(2, 3, 4, 5)) is True
        assert log.end(0) == 6


@pytest.mark.parametrize(
    "second", [rows(0, 7, 2), rows(9), rows(0, 1, 2, 9).slice(1)], ids=["inside", "first", "shifted"]
)
def test_different_rows_from_two_writers_are_an_error(tmp_path, second):
    with (
        race(tmp_path, rows(0, 1, 2), second) as log,
        pytest.raises(InvariantBroken, match=r"'w[01]' and 'w[01]' hold different"),
    ):
        log.read(0, 0, 10)


def test_different_rows_are_found_also_when_read_one_by_one(tmp_path):
    with race(tmp_path, rows(0, 1, 2), rows(0, 7, 2)) as log:
        assert flat(log.read(0, 0, 1)) == [0]
        with pytest.raises(InvariantBroken, match="at or after offset 1"):
            log.read(0, 1, 1)


def test_a_row_and_a_mark_at_one_position_are_an_error(tmp_path):
    with opened(tmp_path, "w") as log:
        log.mark(0, 3)
        with pytest.raises(InvariantBroken, match="another row"):
            log.put(0, 0, rows(1))


def test_a_writer_id_is_used_by_one_log_at_a_time(tmp_path):
    with opened(tmp_path, "w") as first, opened(tmp_path, "w") as second:
        first.append(0, rows(0))
        with pytest.raises(InvariantBroken, match="already writes"):
            second.append(0, rows(1))
        assert flat(second.read(0, 0, 9)) == [0]
        first.close()
        assert second.append(0, rows(1)) == 1
        assert flat(first.read(0, 0, 9)) == [0, 1]


def test_any_name_will_do(tmp_path):
    with SegmentLog(tmp_path, "a/b.c d", 1, "../wé#1.") as log, SegmentSharedLog(tmp_path, "..", ".x/#2") as shared:
        log.append(0, rows(1))
        shared.append(b"x")
        shared.trim({".x/#2": 1})
        assert flat(log.read(0, 0, 1)) == [1]
        assert shared.starts() == {".x/#2": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stream.%2e%2e", "stream.a%2fb%2ec%20d"]
    (tmp_path / "stream.a%2Fb").mkdir()
    with pytest.raises(LogDamaged, match="not one of ours, or an older version wrote it"):
        StreamFolder(tmp_path).names()


# --- segments ---------------------------------------------------------------------------------------------------------


def test_trimming_gives_disk_back(tmp_path):
    with opened(tmp_path, "w", segment_bytes=1_000_000) as log, opened(tmp_path, "reader") as reader:
        for seed in range(20):
            log.append(0, numbers(20_000, seed))
        before = disk_bytes(tmp_path)
        assert len(reader.read(0, 0, 400_000)) == 20
        reader.trim(0, 395_000)
        assert disk_bytes(tmp_path) < before / 5
        assert (log.start(0), log.end(0)) == (395_000, 400_000)
        assert together(log.read(0, 0, 9_999)).equals(pa.Table.from_batches([numbers(20_000, 19).slice(15_000)]))
        assert deleted_but_open(tmp_path) == []


def test_one_partition_keeps_a_segment_for_itself(tmp_path):
    with opened(tmp_path, "w", segment_bytes=1) as log:
        log.append(0, rows(0))
        log.append(1, rows(1))
        log.append(0, rows(2))
        log.trim(0, 2)
        assert len(segments(tmp_path)) == 1
        assert flat(log.read(1, 0, 9)) == [1]
        log.trim(1, 1)
        assert segments(tmp_path) == []
        assert [log.end(0), log.end(1)] == [2, 1]


def test_a_segment_in_use_is_only_trimmed_when_it_is_idle(tmp_path):
    clock = HandClock()
    with opened(tmp_path, "w") as writer, opened(tmp_path, "t", idle_s=60, clock=clock) as trimmer:
        writer.append(0, rows(0, 1))
        trimmer.trim(0, 2)
        assert len(segments(tmp_path)) == 1
        clock.at_s += 61
        trimmer.trim(0, 2)
        assert segments(tmp_path) == []
        assert writer.append(0, rows(2)) == 2
        assert flat(trimmer.read(0, 0, 9)) == [2]


def test_a_row_that_is_written_while_its_segment_is_trimmed_stays(tmp_path, monkeypatch):
    with opened(tmp_path, "w") as writer, opened(tmp_path, "t", idle_s=0) as trimmer:
        writer.append(0, rows(0, 1))
        end = Segment.end

        def end_after_one_more_row(segment: Segment) -> None:
            monkeypatch.undo()
            writer.append(0, rows(2))
            end(segment)

        monkeypatch.setattr(Segment, "end", end_after_one_more_row)
        trimmer.trim(0, 2)
        assert flat(trimmer.read(0, 0, 9)) == [2]
        assert writer.append(0, rows(3)) == 3
        assert flat(trimmer.read(0, 0, 9)) == [2, 3]


def test_a_segment_that_is_trimmed_the_moment_it_appears_is_begun_anew(tmp_path, monkeypatch):
    with opened(tmp_path, "w") as writer, opened(tmp_path, "t", idle_s=0) as trimmer:
        rename = Path.rename

        def trimmed_at_once(path, target):
            rename(path, target)
            monkeypatch.undo()
            trimmer.trim(0, 0)

        monkeypatch.setattr(Path, "rename", trimmed_at_once)
        assert writer.append(0, rows(1)) == 0
        assert flat(trimmer.read(0, 0, 9)) == [1]


def test_what_interrupted_processes_left_is_cleared_away(tmp_path):
    clock = HandClock()
    with opened(tmp_path, "w") as log, opened(tmp_path, "t", clock=clock) as trimmer:
        log.append(0, rows(0))
        for name in (".new.segment.x.00000000.00000000", ".gone.segment.x.00000000.00000000"):
            (tmp_path / "stream.s" / name).mkdir()
        assert flat(log.read(0, 0, 9)) == [0]
        left = []
        for _ in range(2):
            trimmer.trim(0, 0)
            left.append([path.name[:5] for path in (tmp_path / "stream.s").iterdir() if path.name.startswith(".")])
            clock.at_s += 61
        assert left == [[".new."], []]
        assert flat(trimmer.read(0, 0, 9)) == [0]


def test_below_the_floor_nothing_is_compared(tmp_path):
    with opened(tmp_path, "w") as log:
        log.append(0, rows(0, 1, 2, 3))
        log.trim(0, 2)
        assert log.put(0, 0, rows(8, 9, 2, 3, 4)) is True
        assert log.put(0, 0, rows(8)) is False
        with pytest.raises(InvariantBroken):
            log.put(0, 1, rows(9, 8))


def open_files(directory: Path) -> list[str]:
    links = (Path(link) for link in Path("/proc/self/fd").iterdir())
    return [target for link in links if str(directory) in (target := os.path.realpath(link))]


def test_more_segments_than_may_be_open_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_OPEN_FILES_MAX", 3)
    with opened(tmp_path, "w", segment_bytes=1) as log, opened(tmp_path, "other") as other:
        for value in range(12):
            (other if value % 4 == 0 else log).append(0, rows(value))
        for reader in (log, other):
            assert flat(reader.read(0, 0, 100)) == list(range(12))
        written = 2
        assert len(open_files(tmp_path)) <= 3 + written
    assert open_files(tmp_path) == []


def test_a_thousand_partitions_take_no_more_files_than_one(tmp_path):
    with SegmentLog(tmp_path, "many", 1_000, "w") as log, SegmentLog(tmp_path, "many", 1_000, "r") as reader:
        held = []
        for partition in range(1_000):
            log.append(partition, rows(partition, partition + 1))
            log.mark(partition, 7)
            held.append(reader.read(partition, 0, 1))
        assert len(open_files(tmp_path)) < 10
        assert [flat(chunks) for chunks in held] == [[partition] for partition in range(1_000)]
    with SegmentLog(tmp_path, "many", 1_000, "r") as reader:
        assert [reader.end(partition) for partition in range(1_000)] == [3] * 1_000
        assert flat(reader.read(999, 0, 9)) == [999, 1_000, ("mark", 7)]


def test_rows_that_are_held_take_no_files(tmp_path):
    with opened(tmp_path, "w") as log, opened(tmp_path, "r") as reader:
        held = []
        for seed in range(40):
            log.append(0, numbers(5_000, seed))
            held += reader.read(0, 5_000 * seed, 5_000)
        assert len(open_files(tmp_path)) < 10
    assert together(held).equals(pa.Table.from_batches([numbers(5_000, seed) for seed in range(40)]).combine_chunks())


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at_s = 100.0

    def now_s(self) -> float:
        return self.at_s

    def utc_us(self) -> int:
        return round(self.at_s * 1_000_000)

    def sleep_s(self, seconds: float) -> None:
        self.at_s += seconds


def test_the_directory_is_listed_only_around_a_change(tmp_path, monkeypatch):
    """The time of a directory's last change is coarse: what comes within the same tick must be seen too."""
    clock, listed = HandClock(), []
    with opened(tmp_path, "r", clock=clock) as reader, opened(tmp_path, "w", segment_bytes=1) as log:
        names = reader._stream._names
        monkeypatch.setattr(reader._stream, "_names", lambda: listed.append(1) or names())
        monkeypatch.setattr(reader._stream, "_stat", lambda: (1, 2, 3))
        for number in range(5):
            log.append(0, rows(number))
            assert reader.end(0) == number + 1
        clock.at_s += 0.1
        reader.end(0)
        listed.clear()
        for _ in range(100):
            assert len(reader.read(0, 4, 10)) == 1
            assert reader.read(0, 5, 10) == []
        assert listed == []
        log.append(0, rows(5))
        monkeypatch.setattr(reader._stream, "_stat", lambda: (2, 2, 3))
        assert flat(reader.read(0, 5, 10)) == [5]


def test_disk_durability_writes_the_same(tmp_path):
    with opened(tmp_path, "w", durability="disk", segment_bytes=2_000) as log:
        for value in range(5):
            log.append(0, rows(value))
        log.trim(0, 2)
        assert flat(log.read(0, 0, 9)) == [2, 3, 4]


def recorded(done, name, shown, call):
    return lambda *arguments: done.append((name, shown(*arguments))) or call(*arguments)


def test_on_the_disk_nothing_is_published_before_what_it_publishes(tmp_path, monkeypatch):
    """A machine that dies may keep any of the writes since the last sync, and lose the others."""
    with opened(tmp_path, "w", durability="disk") as log:
        log.append(0, rows(0))
        done = []
        for name, shown in (("pwrite", lambda file, data, at: (file, at)), ("fdatasync", lambda file: file)):
            call = getattr(os, name)
            monkeypatch.setattr(
                os, name, lambda *of, call=call, name=name, shown=shown: done.append((name, shown(*of))) or call(*of)
            )
        log.append(0, rows(1))
    (_, (data, _)), (_, (index, _)) = done[:2]
    assert [name for name, _ in done] == ["pwrite", "pwrite", "fdatasync", "fdatasync", "pwrite", "fdatasync"]
    assert {file for name, file in done[2:4]} == {data, index}
    assert done[4:] == [("pwrite", (index, 0)), ("fdatasync", index)]


# --- polling ----------------------------------------------------------------------------------------------------------


def test_where_nothing_is_published_only_the_number_is_read(tmp_path, monkeypatch):
    with opened(tmp_path, "w") as writer, opened(tmp_path, "r") as reader:
        writer.append(0, rows(1))
        assert reader.end(0) == 1
        sizes, read = [], files.SegmentFile.read
        monkeypatch.setattr(
            files.SegmentFile, "read", lambda file, at, size: sizes.append(size) or read(file, at, size)
        )
        assert reader.read(0, 1, 10) == []
        assert reader.end(0) == 1
        assert sizes == [12, 12]
        writer.append(0, rows(2))
        assert flat(reader.read(0, 1, 10)) == [2]


def test_a_number_that_is_read_while_it_is_written_is_read_again(tmp_path, monkeypatch):
    with opened(tmp_path, "w") as writer, opened(tmp_path, "r") as reader:
        writer.append(0, rows(1))
        assert reader.end(0) == 1
        writer.append(0, rows(2))
        read, torn = files.SegmentFile.read, []

        def tearing(file, at, size):
            data = read(file, at, size)
            if size == 12 and len(torn) < 3:
                torn.append(data)
                return data[:8] + bytes(4)
            return data

        monkeypatch.setattr(files.SegmentFile, "read", tearing)
        assert reader.end(0) == 2
        assert len(torn) == 3


def test_a_segment_that_goes_while_it_is_read_is_listed_anew(tmp_path):
    with opened(tmp_path, "w") as writer, opened(tmp_path, "r") as reader, opened(tmp_path, "t", idle_s=0) as trimmer:
        writer.append(0, rows(1))
        assert reader.end(0) == 1
        trimmer.trim(0, 1)
        for segment in reader._stream.segments.values():
            segment._index.close()
        with pytest.raises(files.SegmentGone):
            next(iter(reader._stream.segments.values())).poll()
        writer.append(0, rows(2))
        assert reader.end(0) == 2
        assert flat(reader.read(0, 0, 10)) == [2]


# --- other readers ----------------------------------------------------------------------------------------------------


def test_any_arrow_reader_reads_the_data_of_a_segment(tmp_path):
    """Marks and positions are in the index, so that nothing but rows is in the stream."""
    with opened(tmp_path, "w") as log:
        log.mark(0, 5)
        for seed in range(3):
            log.append(seed % 2, numbers(20_000, seed))
            log.append(0, numbers(10, seed))
        (segment,) = segments(tmp_path)
        whole = pa.Table.from_batches([numbers(length, seed) for seed in range(3) for length in (20_000, 10)])
        assert pa.ipc.open_stream(segment / "data.arrows").read_all().equals(whole)
        assert pl.read_ipc_stream(segment / "data.arrows").to_arrow().equals(whole)


def test_a_writer_that_resumes_writes_the_schema_only_if_it_is_another(tmp_path):
    for seed in range(3):
        with opened(tmp_path, "w", resume=True) as log:
            log.append(0, numbers(10, seed))
    (segment,) = segments(tmp_path)
    assert pa.ipc.open_stream(segment / "data.arrows").read_all().num_rows == 30
    with opened(tmp_path, "w", resume=True) as log:
        log.append(0, rows(1))
        assert flat(log.read(0, 30, 10)) == [1]
        assert together(log.read(0, 0, 30)).num_rows == 30
    assert segments(tmp_path) == [segment]


def test_a_segment_that_another_process_writes_is_not_resumed(tmp_path):
    with opened(tmp_path, "w", resume=True) as log:
        log.append(0, rows(0))
    (segment,) = segments(tmp_path)
    with (segment / "index").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with opened(tmp_path, "w", resume=True) as log:
            log.append(0, rows(1))
            assert flat(log.read(0, 0, 10)) == [0, 1]
    assert len(segments(tmp_path)) == 2


# --- writes that fail -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [0, 100, 5_000, 200_000])
def test_a_full_disk_is_an_error_and_what_was_acknowledged_stays(tmp_path, room):
    """A limit on the size of files stands for the full disk: a write is cut short, and the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(tmp_path, "w") as log, opened(tmp_path, "r") as reader:
        log.append(0, numbers(1_000))
        size = (segments(tmp_path)[0] / "data.arrows").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, hard))
        try:
            for _ in range(2):
                with pytest.raises(LogUnavailable, match="files may not grow larger"):
                    log.append(0, numbers(100_000, 1))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert reader.end(0) == 1_000
        assert log.append(0, numbers(10, 2)) == 1_000
        assert together(reader.read(0, 1_000, 99)).equals(pa.Table.from_batches([numbers(10, 2)]))
    assert len(segments(tmp_path)) == 1


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it is done."""


def written_until_killed(directory: Path, monkeypatch, writes: int, share: float) -> tuple[int, bool]:
    """Appends, and dies inside a write after a share of its bytes; returns how much was acknowledged, and whether it died.

    The published number lies within one sector of the disk, and no death tears a write to that.
    """
    left, write = [writes], os.pwrite

    def dying(file, data, at):
        left[0] -= 1
        if left[0] >= 0:
            return write(file, data, at)
        whole = memoryview(data).cast("B")
        write(file, whole[: int(len(whole) * (share if at else round(share)))], at)
        raise Killed

    log, acknowledged = opened(directory, f"w{writes}"), 0
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", dying)
        try:
            for number in range(4):
                log.append(0, numbers(4_000, number) if number == 2 else rows(*range(acknowledged, acknowledged + 7)))
                acknowledged = log.end(0)
                log.mark(0, number)
                acknowledged += 1
        except Killed:
            return acknowledged, True
    return acknowledged, False


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_writer_that_dies_inside_any_write_loses_nothing_that_was_acknowledged(tmp_path, monkeypatch, share):
    died, writes = True, 0
    while died:
        directory = tmp_path / str(writes)
        acknowledged, died = written_until_killed(directory, monkeypatch, writes, share)
        with opened(directory, "reader") as log:
            end = log.end(0)
            chunks = log.read(0, 0, 1 << 20)
        assert end in (acknowledged, acknowledged + 1, acknowledged + 7, acknowledged + 4_000), (
            "whole appends or nothing"
        )
        assert sum(chunk.length for chunk in chunks) == end >= acknowledged
        assert share == 1.0 or end == acknowledged
        writes += 1
    assert writes > 20


def test_what_was_interrupted_while_it_was_published_is_not_overwritten(tmp_path, monkeypatch):
    """A reader may have seen it already."""
    with opened(tmp_path, "w") as log, opened(tmp_path, "r") as reader:
        log.append(0, rows(0))
        target, write = log._writer._open, os.pwrite

        def interrupted(file, data, at):
            written = write(file, data, at)
            if at == 0:
                raise KeyboardInterrupt
            return written

        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", interrupted)
            with pytest.raises(KeyboardInterrupt):
                log.append(0, rows(1))
        assert flat(reader.read(0, 0, 9)) == [0, 1]
        assert log.append(0, rows(2)) == 2
        assert log._writer._open is not target
        assert flat(reader.read(0, 0, 9)) == [0, 1, 2]


@pytest.mark.parametrize("frame", [pl.DataFrame({"ts": [1]}), pa.table({"ts": [1]})])
def test_what_is_no_record_batch_is_refused_and_nothing_is_written(tmp_path, frame):
    with StreamFolder(tmp_path).open("bids", 1, "producer#1") as log:
        with pytest.raises(BadInput, match=r"(?s)takes an Arrow record batch, not a p.*to_batches"):
            log.append(0, frame)
        assert log.end(0) == 0
