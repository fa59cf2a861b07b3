"""Any name that is accepted leads to its own rows, on every site and every engine; any other is refused at once."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.test_names import NAMES

import holons as h
from holons.engines.batches import Batches
from holons.engines.collecting import emitted, fold_id, folded, output_logs
from holons.engines.directory_site import DirectorySite
from holons.engines.memory_site import MemorySite
from holons.errors import BadName
from holons.node import Node, Site, submit
from holons.streams import DirectoryJournal, FileSink, in_memory
from holons.windows import END

AWKWARD = [
    "raw/copies",
    "..",
    "../../out",
    "a b",
    "Raw",
    "raw",
    "50%",
    "Umsätze/Köln",
    "売上",
    "🎉",
    "a.b-0-c",
    "x" * 190,
]
REFUSED = ["", " ", "a\0b", "\x1b]0;x\x07", "Umsa\u0308tze", "x" * 300]


class Copies(h.Program):
    """Copies its rows to channels of any name: its outputs say which is which."""

    def __init__(self, *channels: str) -> None:
        self.channels = channels

    def process(self, events):
        for channel in self.channels:
            self.output(events.with_columns(channel=pl.lit(channel)), channel=channel)


class Totals(h.Program):
    """Emits to channels of any name in `on_window`."""

    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def __init__(self, *channels: str) -> None:
        self.channels = channels

    def process(self, events):
        self.total.insert(1, events.ts)

    def on_window(self, window):
        for channel in self.channels:
            self.output({"channel": channel, "total": self.total[window]}, channel=channel)


def rows() -> pl.DataFrame:
    return pl.DataFrame({"ts": [1, 2]})


def run_by_hand(site: Site, job: h.Job) -> None:
    """Runs a job over a site with one node, until it has finished."""
    stream = job.inputs[0].stream
    with closing(site.producer(stream, 1, "producer#1")) as log:
        log.append(0, rows().to_arrow().to_batches()[0])
        log.mark(0, END.ts)
    ports = site.ports("node-1#1")
    node = Node("node-1#1", ports)
    node.add_job(submit(job, ports).id, job)
    for _ in range(400):
        node.tick()
        if node.failures:
            raise next(iter(node.failures.values()))
        if node.finished:
            return
        site.clock.sleep_s(0.001)
    raise AssertionError("the job did not finish")


def below(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*")}


@pytest.mark.parametrize("program", [Copies, Totals])
@pytest.mark.parametrize("where", ["memory", "directory"])
def test_rows_of_channels_with_any_accepted_name_come_back(program, where, tmp_path):
    site = MemorySite() if where == "memory" else DirectorySite(tmp_path / "site")
    job = h.job(program(*AWKWARD), "in/put ..", name="../Jöb")
    run_by_hand(site, job)
    found = emitted(site, job.name)
    assert {name: {row["channel"] for row in found.collected()[name][0]} for name in AWKWARD} == {
        name: {name} for name in AWKWARD
    }
    (version,) = site.jobs().history(job.name)
    assert set(site.channels(version.id)) == set(AWKWARD)
    assert site.streams() == {"in/put ..": 1}
    assert not below(tmp_path) or {name.split("/")[0] for name in below(tmp_path)} == {"site"}


def test_rows_of_channels_with_any_accepted_name_come_back_from_embedded_nodes(tmp_path):
    job = h.job(Copies(*AWKWARD), "in")
    for log in (None, tmp_path):
        with h.run(job, {"in": [rows()]}, nodes=1, engine="embedded", log=log) as running:
            results = running.wait().results()
        assert {name: results.count(name) for name in AWKWARD} == dict.fromkeys(AWKWARD, 2), log
        assert set(AWKWARD) <= set(results.channels)


@settings(deadline=None, max_examples=max(5, settings().max_examples // 5))
@example(AWKWARD)
@given(st.lists(NAMES, min_size=2, max_size=4, unique=True))
def test_streams_channels_journals_batches_and_records_of_two_names_never_meet(names):
    directory = Path(tempfile.mkdtemp())
    try:
        site = DirectorySite(directory / "site")
        store = site.store("writer")
        for number, name in enumerate(names):
            batch = pa.record_batch({"n": [number]})
            logs = site.producer(name, 1, "p#1"), site.output(name, "out", 1, "p#1"), site.output("job", name, 1, "p#1")
            for log in logs:
                with closing(log):
                    log.append(0, batch)
            journal = site.journal(name, create=True)
            assert isinstance(journal, DirectoryJournal)
            assert journal.propose(0, 0, name.encode()) == name.encode()
            batches = Batches(site, name, 1)
            assert batches.commit(name, 0, [batches.stage(0, [batch])])
            store.put(name, (0,), name.encode())
            site.folder("folds", name).mkdir(parents=True)
            sink = FileSink(directory / "files", name, "jsonl")
            assert sink.drain(in_memory(1, [(0, batch)])) == 1
        assert site.streams() == site.channels("job") == dict.fromkeys(names, 1)
        for number, name in enumerate(names):
            for log in (site.input(name, "r"), site.output(name, "out", 1, "r"), site.output("job", name, 1, "r")):
                with closing(log):
                    assert log.read(0, 0, 1)[0].rows.to_pylist() == [{"n": number}]
            assert store.get(name, (0,)) == name.encode()
            assert Batches(site, name, 1).newest(name) == 0
        assert {name.split("/")[0] for name in below(directory)} == {"site", "files"}
    finally:
        shutil.rmtree(directory)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("where", ["memory", "directory"])
def test_a_site_refuses_other_names_before_anything_is_written(name, where, tmp_path):
    site = MemorySite() if where == "memory" else DirectorySite(tmp_path / "site")
    for attempt in (
        lambda: site.create(name, 1),
        lambda: site.producer(name, 1, "p#1"),
        lambda: site.loading(name, 1).__enter__(),
        lambda: site.output("job", name, 1, "p#1"),
    ):
        with pytest.raises(BadName):
            attempt()
    assert below(tmp_path) == set()


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("program", [Copies, Totals])
def test_an_output_to_another_name_fails_at_the_call_with_the_programs_line(name, program):
    with (
        pytest.raises(BadName, match=r"name of a channel: .*line test_names_on_sites.py:\d+"),
        h.run(h.job(program(name), "in"), {"in": [rows()]}, nodes=1, engine="embedded") as running,
    ):
        running.wait()


def test_a_fold_and_a_job_whose_names_meet_have_rows_of_their_own():
    site = MemorySite()
    site.output(fold_id("x"), "out", 1, "w").append(0, pa.record_batch({"from": ["fold"]}))
    job = h.job(Copies("out"), "in", name="fold-x")
    run_by_hand(site, job)
    assert folded(site, "x").collected()["out"] == {0: [{"from": "fold"}]}
    assert [row["channel"] for row in emitted(site, "fold-x").collected()["out"][0]] == ["out", "out"]
    assert list(output_logs(site, "fold-x")) == ["out"]
