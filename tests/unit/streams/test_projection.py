"""Reading some columns: the same rows as reading all; damage in every byte that is read is noticed, and in no other."""

from __future__ import annotations

import os
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from isal.isal_zlib import crc32

from holons.errors import LogDamaged
from holons.streams import Chunk, JournaledLog, MemoryJournal, MemoryLog, joined
from holons.streams.segments import SegmentLog, frames

LENGTH = 20_000


def drawn(seed: int = 0, length: int = LENGTH) -> dict[str, object]:
    """Columns of every kind: with nulls, nested, by dictionary, of no bytes at all."""
    rng = np.random.default_rng(seed)
    numbers, texts = rng.integers(0, 2**60, length), rng.choice(["ann", "bob", "", None], length)
    code = pa.array(texts.tolist()).dictionary_encode()
    return {
        "price": numbers,
        "code": code,
        "nothing": pa.nulls(length),
        "name": pa.array([None if one % 7 == 0 else f"n{one}" for one in numbers.tolist()]),
        "tags": pa.array([[int(one % 5)] * int(one % 3) for one in numbers.tolist()]),
        "pair": pa.StructArray.from_arrays([code, pa.array(numbers[::-1].copy())], ["code", "number"]),
        "last": rng.random(length),
    }


def opened(directory: Path, writer: str = "reader") -> SegmentLog:
    return SegmentLog(directory, "s", 1, writer)


@pytest.fixture
def batch() -> pa.RecordBatch:
    return pa.record_batch(drawn())


@pytest.fixture
def written(tmp_path, batch) -> Path:
    with opened(tmp_path, "w") as log:
        log.append(0, batch)
    (data,) = tmp_path.glob("stream.s/segment.*/data.arrows")
    return data


class Body(NamedTuple):
    """Rows as they are in a segment, so that a test can damage them."""

    schema: frames.RowSchema
    frame: frames.Frame
    data: bytearray
    places: list[frames.ColumnPlace]

    def read(self, columns: Collection[str] | None = None) -> Chunk:
        def read(memory: memoryview, first: int) -> None:
            memory[:] = self.data[first : first + len(memory)]

        return frames.read_rows(self.frame, read, self.schema, self.places, columns)


def body_of(batch: pa.RecordBatch) -> Body:
    schema = frames.RowSchema.of(batch, 0)
    body = schema.body(batch)
    places = schema.places(body)
    checksum = frames.rest_checksum(memoryview(body), places)
    frame = frames.Frame(schema.kind, False, 0, 0, batch.num_rows, 0, body.size, checksum, len(places), 0)
    return Body(schema, frame, bytearray(body), places)


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [["price"], ["code"], ["nothing"], ["pair", "name"], ["tags", "last", "price"]])
def test_some_columns_are_those_of_the_whole(tmp_path, written, batch, wanted):
    with opened(tmp_path) as log:
        chunks = log.read(0, 0, LENGTH, frozenset(wanted))
    names = [name for name in batch.schema.names if name in wanted]
    assert pa.Table.from_batches([chunk.rows for chunk in chunks]).equals(pa.Table.from_batches([batch.select(names)]))
    assert pa.Table.from_batches([chunk.whole.read() for chunk in chunks]).equals(pa.Table.from_batches([batch]))


def test_columns_that_nobody_reads_are_not_read(tmp_path, monkeypatch):
    wide = pa.record_batch({"key": np.arange(LENGTH), "text": ["x" * 500] * LENGTH})
    with opened(tmp_path, "w") as log:
        log.append(0, wide)
    counts, preadv = list[int](), os.preadv
    monkeypatch.setattr(os, "preadv", lambda *of: (counts.append(preadv(*of)), counts[-1])[1])
    with opened(tmp_path) as log:
        (chunk,) = log.read(0, 0, LENGTH, frozenset(["key"]))
        assert 8 * LENGTH <= sum(counts) < 9 * LENGTH
        assert chunk.whole.read().equals(wide)
        assert wide.nbytes <= sum(counts) < wide.nbytes + 2 * LENGTH
        assert chunk.whole.read().num_rows == LENGTH


def test_all_columns_are_whole_already(tmp_path, written, batch):
    with opened(tmp_path) as log:
        (chunk, *_) = log.read(0, 0, LENGTH, frozenset(batch.schema.names))
    assert chunk.whole is None


def test_unknown_columns_are_left_out_and_none_known_means_all(tmp_path, written, batch):
    with opened(tmp_path) as log:
        assert log.read(0, 0, 10, {"price", "x"})[0].rows.schema.names == ["price"]
        assert log.read(0, 0, 10, {"x"})[0].rows.schema.names == batch.schema.names


def test_a_read_that_goes_on_with_other_columns_gets_those(tmp_path, written, batch):
    with opened(tmp_path) as log:
        assert log.read(0, 0, 100, {"price"})[0].rows.schema.names == ["price"]
        assert log.read(0, 100, 100, {"name"})[0].rows.equals(batch.select(["name"]).slice(100, 100))
        (chunk,) = log.read(0, 200, 100, {"name"})
        assert chunk.whole.read().equals(batch.slice(200, 100))
        assert log.read(0, 300, 100)[0].rows.equals(batch.slice(300, 100))


@pytest.mark.parametrize("journaled", [False, True])
def test_logs_in_memory_and_behind_a_journal_do_the_same(batch, journaled):
    memory = MemoryLog(1)
    memory.append(0, batch)
    log = JournaledLog(memory, MemoryJournal()) if journaled else memory
    (chunk,) = log.read(0, 7, 10, {"price", "name"})
    assert chunk.offset == 7
    assert chunk.rows.equals(batch.select(["price", "name"]).slice(7, 10))
    assert chunk.whole.read().equals(batch.slice(7, 10))


def test_small_values_are_read_whole_and_shown_in_part(tmp_path):
    small = pa.record_batch({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    with opened(tmp_path, "w") as log:
        log.append(0, small)
        (chunk,) = log.read(0, 1, 10, {"b"})
    assert chunk.rows.to_pydict() == {"b": ["y", "z"]}
    assert chunk.whole.read().equals(small.slice(1))


def test_chunks_that_look_alike_only_in_part_stay_apart():
    log = MemoryLog(1)
    for rows in ({"a": [1], "b": [1]}, {"a": [2], "b": [2]}, {"a": [3], "c": [3]}):
        log.append(0, pa.record_batch(rows))
    told = [(one.rows.to_pydict(), one.whole().to_pydict()) for one in joined(log.read(0, 0, 10, {"a"}))]
    assert told == [({"a": [1, 2]}, {"a": [1, 2], "b": [1, 2]}), ({"a": [3]}, {"a": [3], "c": [3]})]


# --- damage -----------------------------------------------------------------------------------------------------------


def test_every_byte_is_under_one_checksum(batch):
    body = body_of(batch)
    assert len(body.places) == batch.num_columns
    assert all(one.end <= other.first for one, other in pairwise(body.places))
    held = sum(one.end - one.first for one in body.places)
    assert batch.nbytes * 0.9 < held < len(body.data)
    rest = bytearray(body.data)
    for place in reversed(body.places):
        assert crc32(rest[place.first : place.end]) == place.checksum
        del rest[place.first : place.end]
    assert crc32(rest) == body.frame.checksum


def ranges_of(body: Body) -> dict[str, range]:
    """Where each column is in a body, and what comes before them all, which belongs to none."""
    names = body.schema.schema.names
    ranges = {
        name: range(one.first, one.end) for name, one in zip(names, body.places, strict=True) if one.first < one.end
    }
    return ranges | {"metadata": range(body.places[0].first)}


PARTS = ["price", "code", "name", "tags", "pair", "last", "metadata"]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_flipped_bit_is_noticed_by_those_who_read_it(batch, part, share):
    body = body_of(batch)
    damaged = ranges_of(body)[part]
    body.data[damaged[int(len(damaged) * share)]] ^= 0x10
    with pytest.raises(LogDamaged, match="checksum"):
        body.read()
    for name in batch.schema.names:
        others = frozenset(batch.schema.names) - {name}
        if name == part:  # what is not read is not noticed, until it is
            chunk = body.read(others)
            assert chunk.rows.equals(batch.select([one for one in batch.schema.names if one != name]))
            with pytest.raises(LogDamaged, match="column"):
                chunk.whole.read()
        else:
            with pytest.raises(LogDamaged, match="checksum"):
                body.read(others)


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_a_flipped_bit_in_the_places_of_columns_is_noticed(columns):
    places = [frames.ColumnPlace(at, at + 8, 77 + at) for at in range(columns)]
    records = frames.place_records(places)
    assert frames.places_of(memoryview(records), columns) == places
    assert len(records) == (frames.Frame(1, False, 0, 0, 1, 0, 0, 0, columns, 0).records - 1) * frames.RECORD_BYTES
    for at in range(len(records)):
        damaged = bytearray(records)
        damaged[at] ^= 1 << at % 8
        assert frames.places_of(memoryview(damaged), columns) is None


def test_a_flipped_bit_anywhere_is_noticed_in_a_small_body_too():
    body = body_of(pa.record_batch({"a": [1, 2], "b": [3, 4]}))
    checksum = frames.rest_checksum(memoryview(body.data), [])
    whole = body._replace(places=[], frame=body.frame._replace(checksum=checksum, columns=0))
    assert whole.read({"a"}).rows.to_pydict() == {"a": [1, 2]}
    for at in range(len(body.data)):
        whole.data[at] ^= 1
        with pytest.raises(LogDamaged, match="checksum"):
            whole.read({"a"})
        whole.data[at] ^= 1


def test_damage_on_disk_is_noticed_through_the_log(tmp_path, written, batch):
    needle = np.asarray(drawn()["last"])[12_345:12_346].tobytes()
    data = bytearray(written.read_bytes())
    assert data.count(needle) == 1
    data[data.find(needle) + 3] ^= 0x10
    written.write_bytes(data)
    with opened(tmp_path) as log:
        assert log.read(0, 0, LENGTH, {"price"})[0].rows.equals(batch.select(["price"]))
        with pytest.raises(LogDamaged, match="column"):
            log.read(0, 0, LENGTH, {"last"})
        with pytest.raises(LogDamaged, match="column"):
            log.read(0, 0, LENGTH)
