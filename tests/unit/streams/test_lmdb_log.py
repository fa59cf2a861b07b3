"""What LMDB logs add to the port: several writers, segments, damage, disk space."""

from __future__ import annotations

import os
from pathlib import Path

import lmdb
import numpy as np
import pyarrow as pa
import pytest
from tests.unit.streams.log_kinds import flat, rows

from holons.errors import BadInput, InvariantBroken, LogDamaged
from holons.streams.lmdb import LmdbLog, LmdbSharedLog, environment, values
from holons.streams.lmdb.segment import Segment


def opened(directory: Path, writer: str, **options) -> LmdbLog:
    return LmdbLog(directory, "s", 2, writer, **options)


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
    monkeypatch.setattr("holons.streams.lmdb.log._VALUE_BYTES", 1 << 20)
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
    with opened(tmp_path, "w", map_bytes=100_000, segment_bytes=2_000_000) as log:
        read = []
        for number, batch in enumerate(batches):
            log.append(0, batch)
            read.append(log.read(0, number * 50_000, 50_000))
        log.trim(0, 200_000)
    for path in segments(tmp_path):
        (path / "data.mdb").unlink()
    for batch, chunks in zip(batches, read):
        assert together(chunks).equals(pa.Table.from_batches([batch]))


# --- several writers --------------------------------------------------------------------------------------------------


def test_appends_continue_at_the_end_over_all_writers(tmp_path):
    with opened(tmp_path, "a") as a, opened(tmp_path, "b") as b:
        assert [a.append(0, rows(0, 1)), b.append(0, rows(2)), a.mark(0, 5), b.append(0, rows(3))] == [0, 2, 3, 4]
        for log in (a, b):
            assert flat(log.read(0, 0, 10)) == [0, 1, 2, ("mark", 5), 3]


def race(tmp_path: Path, *batches: pa.RecordBatch) -> LmdbLog:
    """Several writers that all put at 0 because none sees the others."""
    for number, batch in enumerate(batches):
        with LmdbLog(tmp_path / str(number), "s", 2, f"w{number}") as log:
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
    with LmdbLog(tmp_path, "a/b.c d", 1, "../wé#1.") as log, LmdbSharedLog(tmp_path, "..", ".x/#2") as shared:
        log.append(0, rows(1))
        shared.append(b"x")
        shared.trim({".x/#2": 1})
        assert flat(log.read(0, 0, 1)) == [1]
        assert shared.starts() == {".x/#2": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stream...", "stream.a%2Fb.c%20d"]
    with pytest.raises(BadInput, match="file's name"):
        opened(tmp_path, "x" * 200)


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


def test_more_segments_than_may_be_open_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "_OPEN_MAX", 3)
    with opened(tmp_path, "w", segment_bytes=1) as log, opened(tmp_path, "other") as other:
        for value in range(12):
            (other if value % 4 == 0 else log).append(0, rows(value))
        for reader in (log, other):
            assert flat(reader.read(0, 0, 100)) == list(range(12))
        assert len(environment.registry._handles) <= 3


def test_logs_may_be_collected_as_garbage_while_another_is_opened(tmp_path, monkeypatch):
    """The collector runs whenever something is made, and closes what it finds: also while handles are listed."""

    class Restless(dict):
        def items(self):
            for item in super().items():
                lost.clear()
                yield item

    monkeypatch.setattr(environment.registry, "_handles", Restless(environment.registry._handles))
    lost = []
    for name in "ab":
        with opened(tmp_path / name, "w") as log:
            log.append(0, rows(1))
        lost.append(opened(tmp_path / name, "r"))
        assert flat(lost[-1].read(0, 0, 9)) == [1]
    del log
    with opened(tmp_path / "c", "w") as log:
        log.append(0, rows(2))
        assert flat(log.read(0, 0, 9)) == [2]


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at_s = 100.0

    def now_s(self) -> float:
        return self.at_s

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
        handle = environment.registry.handle(log._writer._environment or log._stream.live[-1].environment)
        assert handle is None or handle.flags()["sync"]


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path):
    """One segment with small and large values, closed."""
    with opened(tmp_path, "w") as log:
        log.append(0, rows(1, 2, 3))
        log.append(0, numbers(20_000))
        log.append(1, rows(77, 78))
    (segment,) = segments(tmp_path)
    return segment / "data.mdb"


def all_of(tmp_path: Path) -> None:
    with opened(tmp_path, "reader") as log:
        for partition in range(2):
            at = 0
            while chunks := log.read(partition, at, 1_000):
                at = chunks[-1].offset + chunks[-1].length
            assert at == log.end(partition)


def test_an_undamaged_log_is_read(tmp_path, written):
    all_of(tmp_path)


@pytest.mark.parametrize("kept", [0, 1, 100, 4_096, 5_000, 8_192, 100_000, -4_096, -1])
def test_a_truncated_file_is_noticed(tmp_path, written, kept):
    size = written.stat().st_size
    os.truncate(written, kept if kept >= 0 else size + kept)
    with pytest.raises(LogDamaged, match="hint"):
        all_of(tmp_path)


def flip(path: Path, needle: bytes, shift: int) -> None:
    """Flips a bit behind every place where some bytes stand (LMDB leaves old copies of pages behind)."""
    data = bytearray(path.read_bytes())
    at, found = data.find(needle), 0
    while at >= 0:
        data[at + shift] ^= 0x10
        found += 1
        at = data.find(needle, at + shift + 1)
    assert found
    path.write_bytes(data)


@pytest.mark.parametrize("shift", [0, 5, 15])
def test_a_flipped_bit_in_a_small_value_is_noticed(tmp_path, written, shift):
    flip(written, (77).to_bytes(8, "little") + (78).to_bytes(8, "little"), shift)
    with pytest.raises(LogDamaged, match="checksum"):
        all_of(tmp_path)


def test_a_flipped_bit_in_a_large_value_is_noticed(tmp_path, written):
    flip(written, numbers(20_000).column(1).to_numpy()[12_345:12_346].tobytes(), 3)
    with pytest.raises(LogDamaged, match="checksum"):
        all_of(tmp_path)


@pytest.mark.parametrize("shift", [0, 16, 20, 28, 44])
def test_a_flipped_bit_in_a_head_is_noticed_when_the_end_is_asked_for(tmp_path, written, shift):
    head = values.value(values.ROWS, 1, 0, b"", 2)[:24]
    flip(written, head, shift)
    with opened(tmp_path, "reader") as log:
        assert log.end(0) == 20_003
        with pytest.raises(LogDamaged, match="partition 1"):
            log.end(1)


def test_a_file_that_is_not_lmdb_is_noticed(tmp_path, written):
    written.write_text("not a database\n" * 10_000)
    with pytest.raises(LogDamaged, match="not an LMDB file"):
        all_of(tmp_path)


def test_an_environment_of_somebody_else_is_noticed(tmp_path, written):
    written.unlink()
    with lmdb.open(str(written.parent)) as foreign, foreign.begin(write=True) as transaction:
        transaction.put(b"theirs", b"x")
    with pytest.raises(LogDamaged, match="no header of ours"):
        all_of(tmp_path)


def test_a_missing_file_is_noticed(tmp_path, written):
    written.unlink()
    with pytest.raises(LogDamaged, match="missing"):
        all_of(tmp_path)


def test_an_unknown_file_in_the_directory_is_noticed(tmp_path, written):
    (tmp_path / "stream.s" / "notes.txt").touch()
    with pytest.raises(LogDamaged, match=r"notes\.txt"):
        all_of(tmp_path)


def test_a_stream_under_another_name_is_noticed(tmp_path, written):
    (tmp_path / "stream.s").rename(tmp_path / "stream.t")
    with LmdbLog(tmp_path, "t", 2, "reader") as log, pytest.raises(LogDamaged, match="belongs to stream 's'"):
        log.read(0, 0, 1)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_stream_with_other_partitions_is_noticed(tmp_path, written, partitions):
    with LmdbLog(tmp_path, "s", partitions, "reader") as log, pytest.raises(LogDamaged, match="2 partitions"):
        log.end(0)


def test_a_log_is_not_a_shared_stream(tmp_path, written):
    with LmdbSharedLog(tmp_path, "s", "reader") as shared, pytest.raises(LogDamaged, match="2 partitions"):
        shared.read({}, 1)


def test_a_newer_format_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(values, "FORMAT", 3)
    with opened(tmp_path, "w") as log:
        log.append(0, rows(1))
    monkeypatch.undo()
    with pytest.raises(LogDamaged, match="format 3"):
        all_of(tmp_path)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_segment_is_noticed(tmp_path, lost):
    with opened(tmp_path, "w", segment_bytes=1) as log:
        for value in range(3):
            log.append(0, rows(value))
    segments(tmp_path)[lost].rename(tmp_path / "lost")
    with opened(tmp_path, "reader") as log, pytest.raises(LogDamaged, match="missing"):
        log.read(0, 0, 10)


def test_a_lost_segment_of_a_shared_stream_is_noticed(tmp_path):
    with LmdbSharedLog(tmp_path, "s", "w", segment_bytes=1) as log:
        for number in range(3):
            log.append(bytes([number]))
    segments(tmp_path)[1].rename(tmp_path / "lost")
    with LmdbSharedLog(tmp_path, "s", "reader") as log:
        cursor: dict[str, int] = {}
        with pytest.raises(LogDamaged, match="missing"):
            log.read(cursor, 10)
        assert cursor == {}
