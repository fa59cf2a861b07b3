"""A site that an earlier build has written is read, and its jobs go on: formats hold from this release on."""

from __future__ import annotations

import tarfile
from contextlib import closing

import polars as pl
import pytest
from isal.isal_zlib import crc32
from tests.golden.make import AGAIN, ARCHIVE, SETTINGS
from tests.handles import JOB, PARTITIONS, ROWS, expected, finish, until, visits

from holons import codec
from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.processes import ProcessNodes
from holons.errors import CodecError, LogDamaged, UnknownRecordVersion
from holons.node import sync_stream
from holons.node.messages import Heartbeat, decode_claim, decode_heartbeat
from holons.node.recovery import STATE
from holons.program import canonical
from holons.program.records import PROCESS, WINDOW
from holons.streams.segments.segment import _HEADER, _HEADER_AT, _MAGIC, FORMAT, HEADER_BYTES, Header
from holons.wcrdt import decode_message
from holons.windows import END


@pytest.fixture
def site(tmp_path) -> DirectorySite:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return DirectorySite(tmp_path / "site")


def test_every_format_is_read(site):
    with closing(site.input("visits", "reader#1")) as log:
        assert [log.end(partition) for partition in range(PARTITIONS)] == [ROWS] * PARTITIONS
        chunks = log.read(0, 0, ROWS)
        assert sum(chunk.length for chunk in chunks) == ROWS
        assert all(chunk.appended and chunk.live for chunk in chunks)
    with closing(site.input("batched", "reader#1")) as log:
        assert log.read(0, 0, 9)[0].rows.to_pylist() == [{"ts": 1, "text": "a"}, {"ts": 2, "text": None}]
    version, again = (site.jobs().history(job.name)[0].id for job in (JOB, AGAIN))
    assert site.appends(again)
    assert not site.appends(version)
    decoders = {"heartbeats": decode_heartbeat, "control": decode_claim, sync_stream(version): decode_message}
    for stream, decode in decoders.items():
        with closing(site.shared(stream, "reader#1")) as shared:
            messages = shared.read({}, 10_000)
            assert messages, stream
            for message in messages:
                decode(message.data)
    store = site.store("reader#1")
    for name, kind in (
        (f"{version}/0/process", PROCESS),
        (f"{version}/0/window", WINDOW),
        (f"{version}/replica", STATE),
    ):
        assert kind.header(store.get(name, store.positions(name)[-1]))


def test_marks_are_read_those_of_producers_and_those_in_journals(site):
    """A journaled mark has an offset of its own, so the rows behind it keep theirs."""
    with closing(site.ports("reader#1").input("quiet")) as log:
        chunks = log.read(0, 0, 100)
    assert [chunk.mark if chunk.rows is None else chunk.rows["ts"].to_pylist() for chunk in chunks] == [
        [1_000_000],
        2_000_000,
        5_000_000,
        [6_000_000],
        END.ts,
    ]
    with closing(site.input("quiet", "reader#1")) as log:
        assert log.end(0) == len(chunks) - 1, "what the producer has written"


def test_rows_at_least_once_are_read(site):
    seconds = pl.concat(visits(ROWS)["visits"])["ts"] // 1_000_000 * 1_000_000
    counts = dict(seconds.value_counts().iter_rows())
    rows = [row for part in site.collected(AGAIN.name)["on_window"].values() for row in part]
    assert rows
    assert all(row["n"] == counts[row["window"]] for row in rows)


def newer(data: bytes, tag: str) -> bytes:
    """What a later version might write: the next number of this kind."""
    kind, number = tag.split("/")
    assert data.count(tag.encode()) == 1
    return data.replace(tag.encode(), f"{kind}/{int(number) + 1}".encode())


def test_what_a_later_version_wrote_is_refused_by_its_name(site):
    version = site.jobs().history(JOB.name)[0].id
    with closing(site.shared("heartbeats", "reader#1")) as shared:
        message = shared.read({}, 1)[0].data
    tag = Heartbeat.__struct_config__.tag
    with pytest.raises(CodecError, match=f"not a heartbeat: .*heartbeat/{int(tag[10:]) + 1}") as refused:
        decode_heartbeat(newer(message, tag))
    assert "written by another version of Holons" in refused.value.hint

    store, name = site.store("reader#1"), f"{version}/replica"
    record = store.get(name, store.positions(name)[-1])
    with pytest.raises(UnknownRecordVersion, match=r"of kind 'replica/2', .* reads 'replica/1'"):
        STATE.header(newer(record, "replica/1"))

    index = next(site.directory.glob("input/stream.quiet/segment.*/index"))
    block = index.read_bytes()
    body = Header("quiet", 1, "producer#1").block()[_HEADER_AT + _HEADER.size :].rstrip(b"\0")
    later = codec.encode((_MAGIC, FORMAT + 1, *codec.decode(body)[2:], "a field more"))
    written = _HEADER.pack(len(later), crc32(later)) + later
    index.write_bytes(block[:_HEADER_AT] + written.ljust(HEADER_BYTES - _HEADER_AT, b"\0") + block[HEADER_BYTES:])
    with (
        pytest.raises(LogDamaged, match=rf"segment.*format {FORMAT + 1}, and this version reads {FORMAT}"),
        closing(site.input("quiet", "reader#1")) as log,
    ):
        log.read(0, 0, 100)


def test_a_job_goes_on(site):
    """As a new version: its code is the same, but another build of Holons gives it another digest."""
    rows = len(site.collected(JOB.name)["on_window"])
    assert rows
    with ProcessNodes(site, SETTINGS) as nodes:
        version = nodes.submit(JOB, upgrade=True)
        nodes.start()
        finish(site)
        until(lambda: nodes.tend(version), "it does not finish", 300)
    assert canonical(site.collected(JOB.name)) == expected(visits(ROWS))
