"""What every site can do, however it stores what it is given."""

from __future__ import annotations

import pickle
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

import holons as h
from holons.engines.collecting import emitted
from holons.engines.directory_site import DirectorySite
from holons.engines.memory_site import MemorySite
from holons.errors import BadInput
from holons.node import Node, Settings, Site, submit
from holons.streams import AppendableLog, ReadableLog
from holons.windows import END


class Count(h.Program):
    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.total.insert(1, events.ts)

    def on_window(self, window):
        yield {"window": window.start, "total": self.total[window]}


@pytest.fixture(params=["memory", "directory"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    return MemorySite() if request.param == "memory" else DirectorySite(tmp_path / "site")


def fill(log: AppendableLog) -> None:
    for partition in range(log.partitions):
        log.append(partition, pa.record_batch({"ts": [0, 500_000, 1_200_000]}))
        log.mark(partition, END.ts)


def fill_and_fail(log: AppendableLog) -> None:
    fill(log)
    raise BadInput("the file is damaged")


def marks(log: ReadableLog) -> list[int | None]:
    with closing(log):
        return [chunk.mark for chunk in log.read(0, 0, 100)]


def test_a_stream_is_listed_once_it_is_created_and_read_as_it_was_produced(site):
    assert site.streams() == {}
    site.create("in", 2)
    assert site.streams() == {"in": 2}
    with closing(site.producer("in", 2, "producer#1")) as log:
        fill(log)
    with closing(site.input("in", "reader")) as log:
        assert [log.end(partition) for partition in range(2)] == [5, 4], "the creator left a mark in the first"


def test_a_stream_that_is_missing_is_an_error_that_names_the_others(site):
    site.create("in", 1)
    with pytest.raises(BadInput, match=rf"there is no stream 'out' in {site.name}\n.*there are: in"):
        site.input("out", "reader")


def test_a_stream_is_loaded_as_a_whole_or_not_at_all(site):
    with pytest.raises(BadInput), site.loading("in", 1) as log:
        fill_and_fail(log)
    assert site.streams() == {}
    with site.loading("in", 1) as log:
        fill(log)
        assert site.streams() == {}
    assert site.streams() == {"in": 1}


def test_marks_in_the_journal_of_an_input_are_there_for_all(site):
    site.create("in", 1)
    site.ports("node-1#1").input("in").read(0, 0, 10)
    journaled = site.ports("node-2#1", Settings(idle_s=1.0)).input("in")
    journaled.read(0, 0, 10)
    assert journaled.mark(0, 7) == 1
    assert marks(site.ports("node-3#1", Settings(idle_s=None)).input("in"))[1:] == [7], "whatever the settings are"
    assert len(marks(site.input("in", "reader"))) == 1, "the stream itself is as its producer wrote it"


def test_a_job_runs_and_its_rows_are_found_by_its_name(site):
    with site.loading("in", 2) as log:
        fill(log)
    job, ports = h.job(Count(), "in"), site.ports("node-1#1")
    version = submit(job, ports)
    node = Node("node-1#1", ports)
    node.add_job(version.id, job)
    while not node.finished:
        site.clock.sleep_s(0.01)
        node.tick()
        assert not node.failures
    assert [one.id for one in site.jobs().history(job.name)] == [version.id]
    assert site.channels(version.id) == {"on_window": 2}
    assert f"sync-{version.id}" in site.shared_streams()
    rows = [{"window": 0, "total": 4}, {"window": 1_000_000, "total": 2}]
    for name in (job.name, version.id):
        assert emitted(site, name).collected() == {"on_window": {0: rows, 1: rows}}
    assert emitted(site, "nobody").collected() == {}


def test_a_directory_can_be_sent_to_a_process_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    DirectorySite("site").create("in", 3)
    sent = pickle.dumps(DirectorySite("site"))
    monkeypatch.chdir("/")
    assert pickle.loads(sent).streams() == {"in": 3}


def test_inputs_may_be_those_of_another_site(tmp_path):
    first, second = DirectorySite(tmp_path / "first"), DirectorySite(tmp_path / "second")
    first.create("in", 3)
    second.share_inputs(first)
    assert second.streams() == {"in": 3}
