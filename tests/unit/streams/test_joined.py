"""Chunks are joined as far as marks and schemas allow, and nothing is lost or moved."""

import pyarrow as pa

from holons.streams import Chunk, joined


def rows(*values):
    return pa.record_batch({"x": list(values)})


def test_rows_between_marks_become_one_table():
    chunks = [Chunk(3, rows(1, 2)), Chunk(5, rows(3)), Chunk(6, None, 70), Chunk(7, None, 80), Chunk(8, rows(4))]
    told = [(offset, table and table["x"].to_pylist(), mark) for offset, table, mark, *_ in joined(chunks)]
    assert told == [(3, [1, 2, 3], None), (6, None, 70), (7, None, 80), (8, [4], None)]


def test_rows_of_different_columns_or_types_stay_apart():
    chunks = [Chunk(0, rows(1)), Chunk(1, rows(0.5)), Chunk(2, pa.record_batch({"y": [1]})), Chunk(3, rows(2))]
    assert [(offset, table.num_rows) for offset, table, *_ in joined(chunks)] == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_joined_rows_keep_when_they_were_appended():
    chunks = [Chunk(3, rows(1, 2), appended=5, live=True), Chunk(5, rows(3), appended=7)]
    (table,) = joined([*chunks, Chunk(6, rows(4, 5, 6), appended=7, live=True).part(1, 1)])
    assert table.appended == ((2, 5, True), (1, 7, False), (1, 7, True))


def test_nothing_becomes_nothing():
    assert list(joined([])) == []
