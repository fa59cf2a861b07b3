"""Sinks: each row once, in files that are whole, whatever happens."""

import datetime
import fcntl
import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from holons.errors import BadInput, InvariantBroken, LogDamaged, LogUnavailable
from holons.streams import FileSink, MemoryLog


def log_of(*partitions):
    log = MemoryLog(len(partitions))
    for number, count in enumerate(partitions):
        grow(log, number, count)
    return log


def grow(log, partition, count):
    first = log.end(partition)
    rows = [{"n": n, "name": f"row {n}"} for n in range(first, first + count)]
    log.append(partition, pa.RecordBatch.from_pylist(rows))


def rows_of(log, partition):
    return [
        (partition, chunk.offset + place, row)
        for chunk in log.read(partition, 0, 10**9)
        if chunk.rows is not None
        for place, row in enumerate(chunk.rows.to_pylist())
    ]


def visible(root):
    return sorted(path.name for path in root.iterdir() if not path.name.startswith("."))


@pytest.fixture(params=["parquet", "jsonl"])
def make_sink(request, tmp_path):
    return lambda channel="out", **settings: FileSink(tmp_path, channel, request.param, **settings)


def test_names_say_which_rows_a_file_holds(make_sink, tmp_path):
    sink = make_sink("on window/1", file_rows=20)
    assert sink.drain(log_of(30, 5)) == 35
    suffix = sink.files()[0].path.suffix
    assert visible(tmp_path) == [
        f"on%20window%2f1.p00000.000000000000000000.20{suffix}",
        f"on%20window%2f1.p00000.000000000000000020.10{suffix}",
        f"on%20window%2f1.p00001.000000000000000000.5{suffix}",
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9), st.booleans()), max_size=8),
    file_rows=st.integers(1, 10),
)
def test_the_files_hold_the_log_however_often_it_is_drained(make_sink, tmp_path_factory, steps, file_rows):
    log, root = MemoryLog(2), tmp_path_factory.mktemp("sink")
    kind = make_sink()._format
    for partition, count, drained in steps:
        grow(log, partition, count)
        if drained:
            FileSink(root, "out", kind, file_rows=file_rows).drain(log)
    sink = FileSink(root, "out", kind)
    sink.drain(log)
    assert sink.drain(log) == 0
    for partition in range(2):
        assert list(sink.rows(partition)) == rows_of(log, partition)
        assert sink.next_ordinal(partition) == log.end(partition)


def test_a_sink_goes_on_where_its_files_end(make_sink):
    log = log_of(10)
    make_sink().drain(log)
    assert make_sink().next_ordinal(0) == 10
    grow(log, 0, 7)
    assert make_sink().drain(log) == 7
    assert list(make_sink().rows(0)) == rows_of(log, 0)


def test_a_file_that_was_removed_is_written_again(make_sink):
    log = log_of(30)
    sink = make_sink(file_rows=10)
    sink.drain(log)
    sink.files()[1].path.unlink()
    assert sink.next_ordinal(0) == 10
    assert make_sink(file_rows=4).drain(log) == 10
    assert list(sink.rows(0)) == rows_of(log, 0)


def test_a_trimmed_log_is_drained_from_its_start(make_sink):
    log = log_of(10)
    grow(log, 0, 5)
    log.trim(0, 10)
    sink = make_sink()
    assert sink.drain(log) == 5
    assert [ordinal for _, ordinal, _ in sink.rows(0)] == [10, 11, 12, 13, 14]
    assert sink.next_ordinal(0) == 15


def test_files_stay_when_the_log_is_trimmed(make_sink):
    log = log_of(10)
    make_sink().drain(log)
    before = rows_of(log, 0)
    log.trim(0, 10)
    grow(log, 0, 3)
    assert make_sink().drain(log) == 3
    assert list(make_sink().rows(0)) == before + rows_of(log, 0)


def test_marks_are_no_rows(make_sink):
    log = log_of(3)
    log.mark(0, 17)
    grow(log, 0, 2)
    log.mark(0, 18)
    sink = make_sink()
    assert (sink.drain(log), sink.drain(log)) == (5, 0)
    assert list(sink.rows(0)) == rows_of(log, 0)


def test_rows_of_other_columns_go_to_files_of_their_own(make_sink):
    log = MemoryLog(1)
    for row in ({"n": 1}, {"n": 2}, {"n": 2.5}, {"m": None}):
        log.append(0, pa.RecordBatch.from_pylist([row]))
    sink = make_sink()
    sink.drain(log)
    assert [file.rows for file in sink.files()] == [2, 1, 1]
    assert list(sink.rows(0)) == rows_of(log, 0)


def test_channels_do_not_meet(make_sink):
    for channel in ("a", "a.p00000", "b"):
        make_sink(channel).drain(log_of(len(channel)))
    assert [len(make_sink(channel).files()) for channel in ("a", "a.p00000", "b")] == [1, 1, 1]
    assert make_sink("a").next_ordinal(0) == 1


def test_what_a_killed_sink_left_is_not_read_and_is_removed(make_sink, tmp_path):
    sink = make_sink()
    sink.drain(log_of(3))
    (file,) = sink.files()
    left = tmp_path / f".{file.path.name.replace('.3.', '.9.')}.part"
    foreign = tmp_path / ".out.notes.part"
    left.write_bytes(b"half a fi")
    foreign.write_bytes(b"not ours")
    assert sink.files() == [file]
    sink.drain(log_of(3))
    assert not left.exists()
    assert foreign.exists()


def test_one_sink_at_a_time(make_sink, tmp_path):
    sink = make_sink()
    sink.drain(log_of(3))
    (lock,) = tmp_path.glob(".*.lock")
    with lock.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LogUnavailable, match="another sink"):
            sink.drain(log_of(5))
    assert sink.drain(log_of(5)) == 2


def test_files_that_overlap_break_an_invariant(make_sink, tmp_path):
    sink = make_sink()
    sink.drain(log_of(10))
    path = sink.files()[0].path
    (tmp_path / path.name.replace("000.10.", "005.10.")).write_bytes(path.read_bytes())
    with pytest.raises(InvariantBroken, match="position is identity"):
        sink.drain(log_of(10))


def test_a_damaged_file_is_named(make_sink):
    sink = make_sink()
    sink.drain(log_of(10))
    path = sink.files()[0].path
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b""):
        path.write_bytes(damaged)
        with pytest.raises(LogDamaged, match=r"out\.p00000"):
            list(sink.rows(0))


def test_a_directory_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LogUnavailable, match="hint"):
        FileSink(tmp_path / "file", "out").drain(log_of(1))


def test_files_can_be_made_to_survive_the_machine(make_sink):
    sink = make_sink(durability="disk")
    sink.drain(log_of(3))
    assert list(sink.rows(0)) == rows_of(log_of(3), 0)


def test_parquet_files_are_plain_parquet(tmp_path):
    sink = FileSink(tmp_path, "out")
    sink.drain(log_of(3))
    assert parquet.read_table(sink.files()[0].path).to_pylist() == [row for _, _, row in rows_of(log_of(3), 0)]


def test_json_says_what_it_can(tmp_path):
    log = MemoryLog(1)
    moment = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
    row = {"at": moment, "day": moment.date(), "x": float("nan"), "data": b"\0", "list": [1, None], "text": "ä\n"}
    log.append(0, pa.RecordBatch.from_pylist([row]))
    sink = FileSink(tmp_path, "out", "jsonl")
    sink.drain(log)
    (written,) = sink.rows(0)
    assert written.row == {
        "at": "2024-05-01T12:00:00Z",
        "day": "2024-05-01",
        "x": None,
        "data": "AA==",
        "list": [1, None],
        "text": "ä\n",
    }


def test_settings_that_make_no_sense_are_refused(tmp_path):
    with pytest.raises(BadInput, match="file_rows"):
        FileSink(tmp_path, "out", file_rows=0)


# --- a sink that is killed ------------------------------------------------------------------------------------------

KILLED = """
import sys
import pyarrow as pa
from holons.streams import FileSink, MemoryLog

log = MemoryLog(1)
sink = FileSink(sys.argv[1], "out", sys.argv[2], file_rows=5000)
while True:
    first = log.end(0)
    log.append(0, pa.record_batch({"n": range(first, first + 20_000)}))
    sink.drain(log)
    print(sink.next_ordinal(0), flush=True)
"""


def test_a_sink_that_is_killed_leaves_whole_files(make_sink, tmp_path):
    sink = make_sink()
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path), sink._format], stdout=subprocess.PIPE, text=True
    )
    for _ in range(3):
        written = int(process.stdout.readline())
    process.kill()
    process.communicate()
    assert sink.next_ordinal(0) >= written
    log = MemoryLog(1)
    log.append(0, pa.record_batch({"n": range(sink.next_ordinal(0) + 5000)}))
    sink.drain(log)
    assert list(sink.rows(0)) == rows_of(log, 0)
    assert list(tmp_path.glob(".*.part")) == []


CUT_OFF = """
import resource, signal, sys
import pyarrow as pa
from holons.streams import FileSink, MemoryLog

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
log = MemoryLog(1)
log.append(0, pa.record_batch({"n": range(100)}))
sink = FileSink(sys.argv[1], "out", sys.argv[2])
sink.drain(log)
log.append(0, pa.record_batch({"n": range(100, 20_000)}))
sink.drain(log)
"""


def test_a_sink_killed_in_the_middle_of_a_file_leaves_the_files_before(make_sink, tmp_path):
    """The kernel kills a process whose file grows beyond its limit: always at the same byte."""
    sink = make_sink()
    killed = subprocess.run([sys.executable, "-c", CUT_OFF, str(tmp_path), sink._format], check=False)
    assert killed.returncode == -signal.SIGXFSZ
    assert sink.next_ordinal(0) == 100
    log = MemoryLog(1)
    log.append(0, pa.record_batch({"n": range(20_000)}))
    assert sink.drain(log) == 19_900
    assert list(sink.rows(0)) == rows_of(log, 0)
    assert list(tmp_path.glob(".*.part")) == []
