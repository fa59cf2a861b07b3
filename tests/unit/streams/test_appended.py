"""A log to which several writers append: one order for everybody, and nothing that was acknowledged is ever lost."""

from __future__ import annotations

import random
import signal
import subprocess
import sys

import pyarrow as pa
import pytest

from holons.errors import BadInput, LogDamaged
from holons.streams.appended import AppendedLog, appended_partitions
from holons.streams.order import RECORD_BYTES, AppendOrder, writer_number


def rows(*numbers):
    return pa.record_batch({"n": list(numbers), "text": [f"row {number}" for number in numbers]})


def read(log, partition=0, at=0, rows_max=1_000, columns=None):
    return [
        (chunk.offset + place, number)
        for chunk in log.read(partition, at, rows_max, columns)
        for place, number in enumerate(chunk.rows.column("n").to_pylist())
    ]


@pytest.mark.parametrize("seed", range(5))
def test_several_writers_get_one_position_for_each_row_whatever_is_read_meanwhile(tmp_path, seed):
    rng, partitions = random.Random(seed), 2
    writers = [AppendedLog(tmp_path, partitions, f"node-{number}#1") for number in range(3)]
    known = [[], []]
    for number in range(60):
        writer, partition, count = rng.choice(writers), rng.randrange(partitions), rng.randrange(4)
        numbers = [number * 10 + place for place in range(count)]
        assert writer.append(partition, rows(*numbers)) == len(known[partition])
        known[partition] += numbers
        reader = rng.choice([*writers, AppendedLog(tmp_path, partitions, "reader")])
        at, count = rng.randrange(len(known[partition]) + 2), rng.randrange(1, 30)
        expected = list(enumerate(known[partition]))[at : at + count]
        assert read(reader, partition, at, count) == expected
        assert reader.end(partition) == len(known[partition])
    assert appended_partitions(tmp_path) == partitions
    (chunk, *_) = writers[0].read(0, 0, 5, ["n"])
    assert chunk.rows.schema.names == ["n"]
    assert chunk.whole is not None
    for log in writers:
        log.close()


def test_positions_go_on_from_file_to_file(tmp_path):
    orders = [AppendOrder(tmp_path, 1, records_per_file=4) for _ in range(3)]
    for number in range(30):  # each looks into the file that it knows, which may be full by now
        orders[number % 3].add(0, number % 3, number // 3, 1)
    late = AppendOrder(tmp_path, 1, records_per_file=4)
    late.refresh()
    for order in orders:
        order.refresh()
        assert order._partitions == late._partitions
    assert late.end(0) == 30
    assert len(list(tmp_path.glob("order.*"))) == 8


def test_a_record_that_came_when_its_file_was_full_does_not_count_and_is_appended_to_the_next(tmp_path):
    slow, quick = (AppendOrder(tmp_path, 1, records_per_file=2) for _ in range(2))
    slow.refresh()
    for number in range(2):
        quick.add(0, 1, number, 1)
    slow.refresh = lambda: None  # it stood still between its look and its append
    slow.add(0, 2, 0, 5)
    del slow.refresh
    for order in (slow, quick, AppendOrder(tmp_path, 1, records_per_file=2)):
        order.refresh()
        assert order.end(0) == 7
        assert order.position(0, 2, 4) == 6


def test_what_is_torn_counts_for_nobody(tmp_path):
    order = AppendOrder(tmp_path, 1)
    order.add(0, 1, 0, 3)
    with (tmp_path / "order.00000000").open("ab") as file:
        file.write(bytes(RECORD_BYTES) + b"half of a record")
    order.add(0, 1, 3, 4)  # where the file ends in the midst of a record, another one is begun
    for reader in (order, AppendOrder(tmp_path, 1)):
        reader.refresh()
        assert reader.end(0) == 7
    assert len(list(tmp_path.glob("order.*"))) == 2


@pytest.mark.parametrize("at", [0, 3, 4, 10, 31, 63])
def test_a_bit_that_is_turned_over_is_named_and_nothing_is_read_around_it(tmp_path, at):
    order = AppendOrder(tmp_path, 1)
    for offset in (0, 3, 6):
        order.add(0, 1, offset, 3)
    (path,) = tmp_path.glob("order.*")
    whole = path.read_bytes()
    path.write_bytes(whole[: 64 + at] + bytes([whole[64 + at] ^ 4]) + whole[65 + at :])
    later = AppendOrder(tmp_path, 1)
    for _ in range(2):
        with pytest.raises(LogDamaged, match=f"record 1 of order.00000000 .*\n.*restore it from a copy: {path}"):
            later.refresh()
    path.write_bytes(whole)
    later.refresh()
    assert later.end(0) == 9


def test_a_record_that_a_machine_did_not_write_before_it_died_does_not_count(tmp_path):
    order = AppendOrder(tmp_path, 1)
    order.add(0, 1, 0, 3)
    with (tmp_path / "order.00000000").open("ab") as file:
        file.write(bytes(64))
    order.add(0, 1, 3, 4)
    later = AppendOrder(tmp_path, 1)
    later.refresh()
    assert later.end(0) == 7


def test_rows_that_a_dead_writer_did_not_get_into_the_order_are_nowhere(tmp_path):
    with AppendedLog(tmp_path, 1, "a#1") as first, AppendedLog(tmp_path, 1, "b#1") as second:
        first.append(0, rows(1, 2))
        first._own.append(0, rows(3))  # and there it dies
        second.append(0, rows(3, 4))
        assert read(second) == list(enumerate([1, 2, 3, 4]))
        first.append(0, rows(5))
        assert read(second) == list(enumerate([1, 2, 3, 4, 5]))


def test_rows_cannot_be_put_at_positions(tmp_path):
    with AppendedLog(tmp_path, 1, "a#1") as log, pytest.raises(BadInput, match="at least once"):
        log.put(0, 0, rows(1))


def test_a_writers_stream_that_is_gone_is_named(tmp_path):
    with AppendedLog(tmp_path, 1, "a#1") as log:
        log.append(0, rows(1))
    next(tmp_path.glob("stream.*")).rename(tmp_path / "elsewhere")
    with pytest.raises(LogDamaged, match="a writer's rows are missing"):
        AppendedLog(tmp_path, 1, "reader").read(0, 0, 10)


_APPENDS = """
import sys
import pyarrow as pa
from pathlib import Path
from holons.streams.appended import AppendedLog
with AppendedLog(Path(sys.argv[1]), 1, sys.argv[2]) as log:
    for number in range(int(sys.argv[3])):
        log.append(0, pa.record_batch({"n": [number], "writer": [sys.argv[2]]}))
        print(number, flush=True)
"""


def test_processes_append_at_the_same_time_and_one_is_killed(tmp_path):
    names = ["a#1", "b#1", "victim#1"]
    processes = {
        name: subprocess.Popen(
            [sys.executable, "-c", _APPENDS, str(tmp_path), name, "100000" if name == "victim#1" else "300"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    }
    victim = processes["victim#1"]
    while int(victim.stdout.readline()) < 50:
        pass
    victim.send_signal(signal.SIGKILL)
    acknowledged = {name: [int(line) for line in process.stdout] for name, process in processes.items()}
    assert processes["a#1"].wait() == processes["b#1"].wait() == 0
    with AppendedLog(tmp_path, 1, "reader") as log:
        chunks = log.read(0, 0, 1_000_000)
        assert [chunk.offset for chunk in chunks] == [0, *(chunk.end for chunk in chunks[:-1])]
        table = [row for chunk in chunks for row in chunk.rows.to_pylist()]
    for name in names:
        numbers = [row["n"] for row in table if row["writer"] == name]
        assert numbers == list(range(len(numbers))), "each row once, in the order of its writer"
        assert len(numbers) > max(acknowledged[name], default=50)
    assert len(set(map(writer_number, names))) == 3
