"""Whether a segment grew is seen from its meta pages: a hint, which may come early, and must not hide a commit."""

import pyarrow as pa
import pytest

from holons.streams.lmdb import LmdbLog, mapping
from holons.streams.lmdb.environment import Environment, SegmentGone

ROW = pa.record_batch({"x": [1]})


@pytest.fixture
def logs(tmp_path):
    with LmdbLog(tmp_path, "s", 1, "writer#1") as writer, LmdbLog(tmp_path, "s", 1, "reader#1") as reader:
        writer.append(0, ROW)
        assert reader.end(0) == 1
        yield writer, reader


def test_a_log_that_did_not_grow_is_not_read(logs, monkeypatch):
    _, reader = logs
    reads = []
    read = Environment.read
    monkeypatch.setattr(Environment, "read", lambda self, work: reads.append(1) or read(self, work))
    assert reader.read(0, 1, 10) == []
    assert reader.end(0) == 1
    assert reads == []


def test_a_commit_that_shows_before_it_can_be_read_is_still_seen(logs, monkeypatch):
    writer, reader = logs
    newest = mapping.Mapping.newest_transaction
    monkeypatch.setattr(mapping.Mapping, "newest_transaction", lambda self: newest(self) + 1)
    assert reader.end(0) == 1
    monkeypatch.undo()
    writer.append(0, ROW)
    assert reader.end(0) == 2


def test_a_segment_that_goes_while_it_is_opened_is_gone(logs, monkeypatch):
    writer, reader = logs

    def gone(*_):
        raise FileNotFoundError("data.mdb")

    segment = next(iter(reader._stream.segments.values()))
    monkeypatch.setattr("holons.streams.lmdb.environment.Mapping", gone)
    segment.environment.write_through(sync=False)  # closes it, so that the next use opens it again
    with pytest.raises(SegmentGone):
        segment.environment.read(lambda transaction: transaction.id())
    monkeypatch.undo()
    writer.append(0, ROW)
    assert reader.end(0) == 2
