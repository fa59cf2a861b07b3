"""A site that an earlier build has written is read, and its jobs go on: formats hold from this release on."""

from __future__ import annotations

import tarfile
from contextlib import closing

import pytest
from tests.golden.make import AGAIN, ARCHIVE, SETTINGS
from tests.handles import JOB, PARTITIONS, ROWS, expected, finish, until, visits

from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.processes import ProcessNodes
from holons.node import sync_stream
from holons.node.messages import decode_claim, decode_heartbeat
from holons.node.recovery import STATE
from holons.program import canonical
from holons.program.records import PROCESS, WINDOW
from holons.wcrdt import decode_message


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
