"""With `durability="disk"`, what was acknowledged is there after the death of the machine, at whatever moment that comes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count
from random import Random

import polars as pl
import pyarrow as pa
import pytest
from tests.power_cut import Disk, disk  # noqa: F401 - a fixture

import holons as h
from holons import disk as files
from holons.engines.batches import Batches
from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.processes import ProcessNodes
from holons.engines.memory_site import MemorySite
from holons.errors import BadInput
from holons.examples import bid_share
from holons.node import Node, Settings, cancel, submit
from holons.program import Collected, canonical
from holons.semantics import run as run_oracle
from holons.store import DirectoryStore
from holons.streams import ByTime, FileSink, ReadableLog, in_memory
from holons.streams.segments.writer import Entry
from holons.windows import END

Step = Callable[[DirectorySite], object]
Read = Callable[[DirectorySite], Sequence[object]]


def batch(value: int) -> pa.RecordBatch:
    return pa.record_batch({"ts": [value]})


def values(log: ReadableLog) -> list[object]:
    """The rows and marks of a log's first partition."""
    with closing(log):
        chunks = log.read(0, log.start(0), 1_000)
        return [value for chunk in chunks for value in (chunk.rows["ts"].to_pylist() if chunk.rows else [chunk.mark])]


def appended(site: DirectorySite) -> list[Step]:
    log = site.producer("in", 2, "producer")
    return [lambda _, n=n: log.mark(0, n) if n % 4 == 3 else log.append(0, batch(n)) for n in range(9)]


def by_producers_one_after_the_other(site: DirectorySite) -> list[Step]:
    def append(n: int) -> None:
        with site.producer("in", 2, f"producer#{n // 2}") as log:
            log.append(0, batch(n))

    return [lambda _, n=n: append(n) for n in range(6)]


def loaded(site: DirectorySite) -> list[Step]:
    def load() -> None:
        with site.loading("in", 1) as log:
            for n in range(3):
                log.append(0, batch(n))

    return [lambda _: load()]


def in_batches(site: DirectorySite) -> list[Step]:
    batches = Batches(site, "in", 1)
    return [
        lambda _, n=n: batches.commit(
            "query", n, [batches.stage(0, [batch(2 * n)]), batches.stage(0, [batch(2 * n + 1)])]
        )
        for n in range(4)
    ]


def emitted_rows(site: DirectorySite) -> list[Step]:
    log = site.output("job", "out", 1, "node#1")
    return [lambda _, n=n: log.put(0, n, batch(n)) for n in range(5)]


def appended_rows(site: DirectorySite) -> list[Step]:
    logs = [site.output("job", "out", 1, f"node#{n}", appended=True) for n in range(2)]
    return [lambda _, n=n: logs[n % 2].append(0, batch(n)) for n in range(5)]


def messages(site: DirectorySite) -> list[Step]:
    log = site.shared("sync-job", "node#1")
    return [lambda _, n=n: log.append(b"%d" % n) for n in range(5)]


def entries(site: DirectorySite) -> list[Step]:
    journal = site.journal("in", create=True)
    return [lambda _, n=n: journal.propose(0, n, b"%d" % n) for n in range(4)]


def decided(site: DirectorySite) -> list[Step]:
    job = h.job(bid_share.BidShare(), "in")
    site.create("in", 1)
    return [
        lambda _: submit(job, site.ports("driver#1")),
        lambda _: cancel(job.name, site.ports("driver#2")),
        lambda _: submit(job, site.ports("driver#3")),
    ]


def stored(site: DirectorySite) -> list[Step]:
    store = site.store("node#1")
    return [lambda _, n=n: store.put("job/0/process", (n,), b"%d" % n) for n in range(4)]


def in_input(site: DirectorySite) -> list[object]:
    return values(site.input("in", "reader")) if "in" in site.streams() else []


def in_output(site: DirectorySite) -> list[object]:
    return values(site.output("job", "out", 1, "reader")) if site.channels("job") else []


def in_journal(site: DirectorySite) -> list[object]:
    journal = site.journal("in")
    return [] if journal is None else [journal.get(0, n) for n in range(journal.end(0))]


def in_decisions(site: DirectorySite) -> list[object]:
    journal = site.decisions()
    return [journal.get(0, n) for n in range(journal.end(0))]


def in_store(site: DirectorySite) -> list[object]:
    store = site.store("reader")
    return [store.get("job/0/process", position) for position in store.positions("job/0/process")]


KINDS: dict[str, tuple[Callable[[DirectorySite], list[Step]], Read]] = {
    "appended": (appended, in_input),
    "by producers one after the other": (by_producers_one_after_the_other, in_input),
    "loaded": (loaded, in_input),
    "in batches": (in_batches, in_input),
    "emitted": (emitted_rows, in_output),
    "emitted at least once": (appended_rows, in_output),
    "messages": (messages, lambda site: [message.data for message in site.shared("sync-job", "reader").read({}, 99)]),
    "entries of a journal": (entries, in_journal),
    "decisions": (decided, in_decisions),
    "records": (stored, in_store),
}


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(files, "_synced", set())


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_acknowledged_survives_a_power_cut(kind, disk, tmp_path, request):  # noqa: F811
    write, read = KINDS[kind]
    site, random, number = DirectorySite(disk.root / "site", durability="disk"), Random(kind), count()
    acknowledged: list[object] = []

    def cut() -> None:
        for at_random in (None, random):
            left = disk.cut(tmp_path / f"cut-{next(number)}", at_random)
            found = read(DirectorySite(left / "site"))
            assert list(found[: len(acknowledged)]) == acknowledged, f"of {kind}, after sync {disk.syncs}"

    steps = write(site)
    disk.on_sync = cut
    for step in steps:
        step(site)
        acknowledged = list(read(DirectorySite(disk.root / "site")))
        cut()
    assert len(acknowledged) >= 3
    assert disk.syncs >= len(steps)


def test_a_batch_is_there_once_wherever_the_power_is_cut_while_it_is_committed(disk, tmp_path):  # noqa: F811
    """Whoever wrote it does not know, and writes it again."""
    site, random = DirectorySite(disk.root / "site", durability="disk"), Random(1)
    number, names = count(), count()

    def commit(site: DirectorySite, n: int) -> None:
        batches = Batches(site, "in", 1)
        batches.commit("query", n, [batches.stage(0, [batch(2 * n + k)]) for k in range(2)])

    def cut() -> None:
        at_random = random if next(number) % 2 else None
        left = DirectorySite(disk.cut(tmp_path / f"cut-{next(names)}", at_random) / "site")
        commit(left, 1)
        assert in_input(left) == list(range(4))

    commit(site, 0)
    disk.on_sync = cut
    commit(site, 1)
    assert next(number) > 20


def test_files_of_a_sink_survive_a_power_cut(disk, tmp_path):  # noqa: F811
    log = in_memory(1, [(0, batch(n * 3_600_000_000)) for n in range(3)])
    sink = FileSink(disk.root / "made" / "here", "out", "jsonl", durability="disk", by=ByTime("ts"))
    assert sink.drain(log) == 3
    left = FileSink(disk.cut(tmp_path / "cut") / "made" / "here", "out", "jsonl", by=ByTime("ts"))
    assert len(list(left.rows(0))) == 3


def test_a_record_that_another_writer_stored_survives_once_it_is_acknowledged(disk, tmp_path):  # noqa: F811
    DirectoryStore(disk.root / "store").put("p", (1,), b"data")
    DirectoryStore(disk.root / "store", durability="disk").put("p", (1,), b"data")
    assert DirectoryStore(disk.cut(tmp_path / "cut") / "store").get("p", (1,)) == b"data"


def test_rows_that_a_node_has_read_survive_whoever_wrote_them(disk, tmp_path):  # noqa: F811
    """What follows from rows is emitted and stored: then the rows must not be others after the power cut."""
    with DirectorySite(disk.root / "site").producer("in", 1, "producer") as log:
        log.append(0, batch(7))
        assert values(DirectorySite(disk.root / "site", durability="disk").input("in", "node")) == [7]
        assert in_input(DirectorySite(disk.cut(tmp_path / "cut") / "site")) == [7]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"durability": "disk"}, "nothing is kept on a disk"),
        ({"settings": Settings(durability="disk")}, "nothing is kept on a disk"),
        ({"durability": "disk", "log": "site", "store": "memory"}, "no checkpoint survives the machine"),
        ({"durability": "tape", "log": "site"}, "no durability is called 'tape'"),
    ],
)
@pytest.mark.parametrize("engine", ["embedded", "spark"])
def test_what_cannot_survive_the_machine_is_refused_before_anything_starts(asked, says, engine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=says):
        h.run(bid_share.job, {"bids": [bids(0)]}, engine=engine, **asked)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadInput, match="nothing is kept on a disk"):
        MemorySite().at_least("disk")


def test_a_driver_hands_the_durability_of_its_settings_on(tmp_path):
    for site in (DirectorySite(tmp_path), DirectorySite(tmp_path, durability="disk")):
        assert ProcessNodes(site, Settings(durability="disk")).site.durability == "disk"
    assert ProcessNodes(DirectorySite(tmp_path, durability="disk"), Settings()).site.durability == "disk"
    assert pickle.loads(pickle.dumps(DirectorySite(tmp_path, durability="disk"))).durability == "disk"


def test_a_takeover_survives_and_what_a_slow_producer_publishes_after_it_stays_without_effect(disk, tmp_path):  # noqa: F811
    site, random = DirectorySite(disk.root / "site", durability="disk"), Random(3)
    slow = site.producer("in", 1, "slow")
    slow.append(0, batch(0))
    standing = slow._writer._open
    standing.prepare([Entry(0, 1, batch(99))])
    with site.producer("in", 1, "quick") as quick:
        quick.append(0, batch(1))
    standing.publish()
    for number in range(20):
        left = disk.cut(tmp_path / f"cut-{number}", random if number else None)
        assert in_input(DirectorySite(left / "site", durability="disk")) == [0, 1]


def test_rows_that_others_append_later_are_made_durable_too(disk, tmp_path):  # noqa: F811
    with DirectorySite(disk.root / "site").producer("in", 1, "producer") as log:
        log.append(0, batch(0))
        with DirectorySite(disk.root / "site", durability="disk").input("in", "node") as reader:
            for value in range(3):
                assert len(reader.read(0, value, 9)) == 1
                left = disk.cut(tmp_path / f"cut-{value}")
                assert in_input(DirectorySite(left / "site")) == list(range(value + 1))
                log.append(0, batch(value + 1))


def bids(partition: int) -> pl.DataFrame:
    times = [at * 90_000 + partition for at in range(60)]
    return pl.DataFrame({"ts": times, "kind": ["bid", "ask", "bid"] * 20})


def run_to_the_end(site: DirectorySite, run: int, settings: Settings) -> None:
    """Runs two nodes in this process until the job has finished."""
    ports = site.ports(f"driver#{run}", settings)
    version = submit(bid_share.job, ports)
    nodes = [Node(f"node-{number}#{run}", site.ports(f"node-{number}#{run}", settings), settings) for number in (1, 2)]
    for node in nodes:
        node.add_job(version.id, bid_share.job)
    while not all(node.finished for node in nodes):
        site.clock.sleep_s(0.001)
        for node in nodes:
            node.tick()
            assert not node.failures
    for node in nodes:
        node.close()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 30))])
def test_a_job_goes_on_exactly_after_power_cuts(disk, tmp_path, seed):  # noqa: F811
    """Rows that somebody has read before are there after it, and at the end all are those of the oracle."""
    random, cuts = Random(seed), list[tuple[DirectorySite, Collected]]()
    idle_s = 5.0 if seed % 2 else None  # with a journal, or without
    settings = Settings(heartbeat_s=0.02, checkpoint_s=0.02, rows_max=9, durability="disk", idle_s=idle_s)
    site, name, due = (
        DirectorySite(disk.root / "site", durability="disk"),
        bid_share.job.name,
        random.randrange(30, 400),
    )
    site.load({"bids": [bids(0), bids(1), bids(2)]})

    def maybe_cut() -> None:
        nonlocal due
        due -= 1
        if due == 0 and len(cuts) < 3:
            seen = site.collected(name) if random.random() < 0.5 else {}
            left = disk.cut(tmp_path / f"cut-{len(cuts)}", random)
            cuts.append((DirectorySite(left / "site", durability="disk"), seen))
            due = random.randrange(30, 200)

    disk.on_sync = maybe_cut
    run_to_the_end(site, 0, settings)
    disk.on_sync = None
    wanted = canonical(run_oracle(bid_share.job, {"bids": [[bids(n), END] for n in range(3)]}))
    assert canonical(site.collected(name)) == wanted
    assert cuts
    for after, seen in cuts:
        found = after.collected(name)
        for channel, partitions in seen.items():
            for partition, rows in partitions.items():
                assert found[channel][partition][: len(rows)] == rows
        run_to_the_end(after, 1, settings)
        assert canonical(after.collected(name)) == wanted
