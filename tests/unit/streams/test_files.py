"""Files into a log: every row once, always in the same partition, and bad files by their name."""

import functools
import gzip
import json
import math
from functools import partial

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from holons.algebra.hashing import hash64
from holons.errors import BadInput
from holons.streams import ByColumn, LoadProgress, MemoryLog, load, read_files
from holons.streams.files import _recut
from holons.windows import END

READERS = {kind: partial(read_files, format=kind) for kind in ("parquet", "csv", "jsonl")}


def write(path, rows, kind, row_group_size=None):
    if kind == "parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=row_group_size)
    elif kind == "csv":
        pl.DataFrame(rows).write_csv(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_from(first, count):
    return [{"n": n, "name": f"name {n % 7}", "x": n / 4} for n in range(first, first + count)]


def rows_of(log, partition):
    return [row for chunk in log.read(partition, 0, 10**9) if chunk.rows is not None for row in chunk.rows.to_pylist()]


def lengths_of(log, partition):
    return [chunk.length for chunk in log.read(partition, 0, 10**9)]


@pytest.fixture(params=sorted(READERS))
def kind(request):
    return request.param


def test_a_file_is_read_whole_and_in_order(tmp_path, kind):
    log = READERS[kind](write(tmp_path / "rows", rows_from(0, 250), kind), batch_rows=100)
    assert rows_of(log, 0) == rows_from(0, 250)
    assert lengths_of(log, 0) == [100, 100, 50]


def test_files_are_dealt_in_turn(tmp_path, kind):
    paths = [write(tmp_path / f"{n}.{kind}", rows_from(100 * n, 10), kind) for n in range(5)]
    log = READERS[kind](paths, partitions=2)
    assert rows_of(log, 0) == rows_from(0, 10) + rows_from(200, 10) + rows_from(400, 10)
    assert rows_of(log, 1) == rows_from(100, 10) + rows_from(300, 10)


def test_a_directory_is_its_files_by_name(tmp_path, kind):
    for n in (2, 0, 1):
        write(tmp_path / f"part-{n}.{kind}", rows_from(10 * n, 10), kind)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden.csv").write_text("not for us")
    assert rows_of(READERS[kind](tmp_path), 0) == rows_from(0, 30)


def test_batches_are_dealt_in_turn(tmp_path, kind):
    path = write(tmp_path / "rows", rows_from(0, 50), kind)
    log = READERS[kind](path, partitions=3, partition_by="batch", batch_rows=20)
    assert [rows_of(log, n) for n in range(3)] == [rows_from(0, 20), rows_from(20, 20), rows_from(40, 10)]


@pytest.mark.parametrize("column", ["n", "name", "x"])
def test_rows_of_one_value_meet_in_the_partition_of_its_hash(tmp_path, kind, column):
    path = write(tmp_path / "rows", rows_from(0, 200), kind)
    log = READERS[kind](path, partitions=3, partition_by=ByColumn(column, hash64), batch_rows=64)
    frame = pl.DataFrame(rows_from(0, 200))
    values = frame[column] if column == "name" else frame[column].to_numpy()
    owners = pl.Series(hash64(values) % 3)
    for partition in range(3):
        assert rows_of(log, partition) == frame.filter(owners == partition).to_dicts()


@pytest.mark.parametrize("row_group_size", [7, 64, 1000])
def test_how_a_file_was_cut_does_not_show(tmp_path, row_group_size):
    path = write(tmp_path / "rows.parquet", rows_from(0, 200), "parquet", row_group_size)
    log = read_files(path, partitions=2, partition_by="batch", batch_rows=30)
    assert lengths_of(log, 0) == [30, 30, 30, 20]
    assert lengths_of(log, 1) == [30, 30, 30]


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 12))
def test_recutting_keeps_the_rows(lengths, rows):
    starts = [sum(lengths[:place]) for place in range(len(lengths))]
    batches = [pa.record_batch({"n": pa.array(range(s, s + c), pa.int64())}) for s, c in zip(starts, lengths)]
    cut = list(_recut(batches, rows))
    assert [n for batch in cut for n in batch.column(0).to_pylist()] == list(range(sum(lengths)))
    assert all(batch.num_rows == rows for batch in cut[:-1])
    assert all(0 < batch.num_rows <= rows for batch in cut)


def test_the_end_is_a_mark_in_every_partition(tmp_path, kind):
    log = READERS[kind](write(tmp_path / "rows", rows_from(0, 5), kind), partitions=2, end=END.ts)
    assert [log.read(n, 0, 100)[-1].mark for n in range(2)] == [END.ts, END.ts]
    assert log.end(1) == 1


def test_names_tell_formats_and_formats_may_be_mixed(tmp_path):
    rows = rows_from(0, 10)
    paths = [write(tmp_path / f"a.{kind}", rows, kind) for kind in READERS]
    packed = tmp_path / "b.csv.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    log = MemoryLog(1)
    assert load(log, [*paths, packed]) == 40
    assert rows_of(log, 0) == rows * 4


def test_a_schema_fixes_types_and_order(tmp_path):
    schema = pa.schema([("x", pa.float64()), ("n", pa.int32())])
    (tmp_path / "a.csv").write_text("n,x\n1,2\n")
    (tmp_path / "a.jsonl").write_text('{"n": 1, "x": 2}\n')
    for name in ("a.csv", "a.jsonl"):
        (chunk,) = read_files(tmp_path / name, schema=schema).read(0, 0, 10)
        assert chunk.rows.schema == schema
        assert chunk.rows.to_pylist() == [{"x": 2.0, "n": 1}]


def test_the_first_file_with_rows_gives_the_types(tmp_path):
    (tmp_path / "0.csv").write_text("n,x\n")
    (tmp_path / "1.csv").write_text("n,x\n1,1.5\n")
    (tmp_path / "2.csv").write_text("x,n\n2,2\n")
    log = read_files(tmp_path)
    assert rows_of(log, 0) == [{"n": 1, "x": 1.5}, {"n": 2, "x": 2.0}]


def test_types_follow_from_the_whole_first_file(tmp_path):
    lines = "".join(f"{n},\n" for n in range(300_000)) + "0.5,late\n"
    (tmp_path / "a.csv").write_text("n,note\n" + lines)
    (last,) = read_files(tmp_path / "a.csv").read(0, 300_000, 1)
    assert last.rows.to_pylist() == [{"n": 0.5, "note": "late"}]


def test_progress_is_told(tmp_path, kind):
    paths = [write(tmp_path / f"{n}.{kind}", rows_from(0, 25), kind) for n in range(2)]
    told = []
    load(MemoryLog(1), paths, batch_rows=20, progress=told.append)
    first, second = paths
    assert told == [
        LoadProgress(first, 0, 2, 20),
        LoadProgress(first, 0, 2, 25),
        LoadProgress(first, 1, 2, 25),
        LoadProgress(second, 1, 2, 45),
        LoadProgress(second, 1, 2, 50),
        LoadProgress(second, 2, 2, 50),
    ]


def test_an_empty_file_has_no_rows(tmp_path):
    (tmp_path / "a.jsonl").touch()
    (tmp_path / "a.csv").write_text("n\n")
    parquet.write_table(pa.table({"n": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    assert load(MemoryLog(1), tmp_path) == 0


# --- bad files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.parquet", b""),
        ("a.parquet", b"PAR1 but not really"),
        ("a.csv", b""),
        ("a.csv", b"a,b\n1,2\n1\n"),
        ("a.jsonl", b'{"a": 1}\n{"a": \n'),
        ("a.jsonl", b'{"a": 1}\n{"a": {"b": 1}}\n'),
        ("a.csv.gz", b"not packed"),
    ],
)
def test_a_bad_file_is_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=name) as caught:
        load(MemoryLog(1), tmp_path)
    assert caught.value.hint


def test_a_bad_parquet_file_is_found_before_any_row_is_appended(tmp_path):
    write(tmp_path / "a.parquet", rows_from(0, 10), "parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[:-20])
    log = MemoryLog(1)
    with pytest.raises(BadInput, match=r"b\.parquet"):
        load(log, tmp_path)
    assert log.end(0) == 0


def test_files_with_other_columns_are_refused(tmp_path, kind):
    write(tmp_path / f"a.{kind}", [{"n": 1}], kind)
    write(tmp_path / f"b.{kind}", [{"n": "one", "m": 2}], kind)
    with pytest.raises(BadInput, match=f"b.{kind}"):
        load(MemoryLog(1), tmp_path)


def test_columns_of_one_name_stay_where_they_are(tmp_path):
    (tmp_path / "a.csv").write_text("n,x,x\n1,2,3\n")
    (chunk,) = read_files([tmp_path / "a.csv"] * 2).read(0, 0, 1)
    assert [column.to_pylist() for column in chunk.rows.columns] == [[1], [2], [3]]
    (tmp_path / "b.csv").write_text("x,n,x\n1,2,3\n")
    with pytest.raises(BadInput, match=r"b\.csv"):
        load(MemoryLog(1), tmp_path)


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda root: load(MemoryLog(1), root / "missing.csv"), "no such file"),
        (lambda root: load(MemoryLog(1), []), "no files"),
        (lambda root: load(MemoryLog(1), root / "empty"), "no files"),
        (lambda root: load(MemoryLog(1), root / "rows.txt"), "(?s)cannot tell.*format="),
        (lambda root: read_files(root / "rows.csv", partition_by=ByColumn("m", hash64)), "no column 'm'"),
        (lambda root: read_files(root / "nulls.csv", partition_by=ByColumn("n", hash64)), "has nulls"),
        (lambda root: read_files(root / "rows.csv", batch_rows=0), "batch_rows"),
        (lambda root: read_files(root / "rows.csv", partitions=0), "at least 1"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path, use, says):
    (tmp_path / "empty").mkdir()
    (tmp_path / "rows.txt").write_text("n\n1\n")
    (tmp_path / "rows.csv").write_text("n\n1\n")
    (tmp_path / "nulls.csv").write_text("n,m\n,1\n2,2\n")
    with pytest.raises(BadInput, match=says):
        use(tmp_path)


# --- JSON lines: Arrow's reader ends the process at some of these ----------------------------------------------------

BAD_LINES = {
    "null": b"null",
    "null in the middle of a file": b' null, "ts": 1}',
    "null after an object": b'{"ts": 2} null',
    "null after a carriage return": b'{"ts": 2}\rnull',
    "two objects": b'{"ts": 2} {"ts": 3}',
    "an object over two lines": b'{"ts":\nnull}',
    "an object that ends in the next line": b'{"ts": 2, "tags": [\n{}]}',
    "another value": b"[1]",
    "no end": b'{"ts": 2',
    "NaN without an object": b"NaN",
    "deep lists": b'{"ts": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "deep objects": b'{"ts":' * 20_000 + b"1" + b"}" * 20_000,
    "deeper than allowed": b'{"ts": ' + b"[" * 50 + b"]" * 50 + b"}",
}


@pytest.mark.parametrize("schema", [None, pa.schema({"ts": pa.int64()})], ids=["inferred", "schema"])
@pytest.mark.parametrize("line", [pytest.param(line, id=name) for name, line in BAD_LINES.items()])
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(b"", id="first"),
        pytest.param(b'\xef\xbb\xbf{"ts": 1}\r\n', id="second"),
        pytest.param(b'{"ts": 1}\n' * 120_000, id="in the second block"),
    ],
)
def test_a_line_that_is_no_object_is_refused_with_its_number(tmp_path, schema, line, first):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(first + line + b'\n{"ts": 4}\n')
    with pytest.raises(BadInput, match=rf"rows\.jsonl, line {first.count(b'{') + 1}\b"):
        read_files(path, schema=schema)


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (b'\xef\xbb\xbf{"x": 1.5}\r\n\r\n{"x": 2.5}', [1.5, 2.5]),
        (b'\n \t\n  {"x": 1.5}\n{"x":\t-Infinity} ', [1.5, -math.inf]),
        (b'{"x": 1.5}\n{"x": Infinity}\n', [1.5, math.inf]),
        (b'{"x": 1.5}\n{"x": null}\n{}\n', [1.5, None, None]),
        (b'{"x": "{[\\"{[\\\\"}\n' * 3, ['{["{[\\'] * 3),
        (b'{"x": "' + b"[{" * 40 + b'"}', ["[{" * 40]),
        (b'{"x": [' + b'{"y": 1},' * 99 + b'{"y": 1}]}', [[{"y": 1}] * 100]),
        (b'{"x": ' + b"[" * 49 + b"1" + b"]" * 49 + b"}", [functools.reduce(lambda inner, _: [inner], range(49), 1)]),
        (b'{"x": 1.5}\n' * 300_000, [1.5] * 300_000),
    ],
    ids=["mark", "blank lines", "infinity", "null", "brackets in text", "many in text", "long lists", "deep", "many"],
)
def test_lines_as_people_write_them_are_rows(tmp_path, content, values):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(content, 1))
    for file in (path, packed):
        assert [row["x"] for row in rows_of(read_files(file), 0)] == values
