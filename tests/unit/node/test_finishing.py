"""A job has finished when its outputs are out, whatever heartbeats say: also if logs were restored from an older copy."""

from __future__ import annotations

import copy

import pytest
from tests.handles import JOB, expected, visits

from holons.engines.memory_site import MemorySite, logs_of
from holons.errors import CheckpointLost
from holons.node import Node, Settings, submit
from holons.program import canonical
from holons.store import MemoryStore
from holons.streams import Cursor
from holons.streams.memory import MemoryLog
from holons.windows import END

SETTINGS = Settings(rows_max=20)
STREAMS = visits(200)


def site_of_the_job() -> MemorySite:
    return MemorySite(logs_of({name: [[frame, END] for frame in frames] for name, frames in STREAMS.items()}))


def nodes_of(site: MemorySite, run: int) -> list[Node]:
    """Two nodes that have the job."""
    names = [f"node-{number}#{run}" for number in (1, 2)]
    version = submit(JOB, site.ports(f"driver-{run}"))
    nodes = [Node(name, site.ports(name), SETTINGS) for name in names]
    for node in nodes:
        node.add_job(version.id, JOB, version.cuts)
    return nodes


def turn(site: MemorySite, nodes: list[Node]) -> None:
    site.clock.sleep_s(0.01)
    for node in nodes:
        node.tick()


def first_run(site: MemorySite) -> dict[tuple[str, str], MemoryLog]:
    """Runs the job to its end; returns its outputs as they were on the way."""
    nodes, on_the_way = nodes_of(site, 1), {}
    while not all(node.finished for node in nodes):
        turn(site, nodes)
        rows = sum(log.end(partition) for log in site.outputs.values() for partition in range(log.partitions))
        if not on_the_way and rows >= 60:
            on_the_way = copy.deepcopy(site.outputs)
    for node in nodes:
        node.close()
    assert on_the_way
    return on_the_way


@pytest.mark.parametrize("kept", ["some of the rows", "nothing"])
def test_heartbeats_of_the_dead_say_nothing_about_outputs_that_were_restored_from_an_older_copy(kept):
    site = site_of_the_job()
    older = first_run(site)
    site.outputs = older if kept == "some of the rows" else {}
    nodes = nodes_of(site, 2)
    for _ in range(1_000):
        turn(site, nodes)
        assert not any(node.finished for node in nodes) or any(node.stopped for node in nodes), "rows are missing"
    assert [stopped.kind for stopped in nodes[0].stopped.values()] == [CheckpointLost.__name__]


def test_outputs_that_were_lost_before_any_record_of_them_are_emitted_again():
    site = site_of_the_job()
    first_run(site)
    site.outputs = {}
    (version,) = site.jobs().versions
    for kind in ("process", "window"):  # what a copy has that was made before the first checkpoint
        for partition in range(3):
            site.records.drop(f"{version}/{partition}/{kind}", (2**63,))
    site.hubs = {name: hub for name, hub in site.hubs.items() if not name.startswith("sync")}
    nodes = nodes_of(site, 3)
    while not all(node.finished for node in nodes):
        turn(site, nodes)
    assert not any(node.stopped for node in nodes)
    assert canonical(site.collected(JOB.name)) == expected(STREAMS)


def forget_all_records(site: MemorySite) -> None:
    """As if nodes had kept all records in their memory, and were gone."""
    site.records = MemoryStore()
    (sync,) = (site.shared(name, "judge") for name in site.shared_streams() if name.startswith("sync"))
    read: Cursor = {}
    sync.read(read, 1_000_000)
    sync.trim({writer: end // 2 for writer, end in read.items()})  # what is left does not tell what was sealed


def test_a_job_whose_outputs_are_all_there_is_finished_though_no_record_of_it_is():
    site = site_of_the_job()
    first_run(site)
    forget_all_records(site)
    (node, _) = nodes_of(site, 2)
    for _ in range(500):
        turn(site, [node])
        assert not node.stopped
    assert node.finished
    assert canonical(site.collected(JOB.name)) == expected(STREAMS)


def test_a_job_of_which_outputs_are_missing_and_all_records_is_lost():
    site = site_of_the_job()
    site.outputs = first_run(site)
    forget_all_records(site)
    (node, _) = nodes_of(site, 2)
    while not node.stopped:
        turn(site, [node])
    assert [stopped.kind for stopped in node.stopped.values()] == [CheckpointLost.__name__]


def test_a_job_whose_nodes_have_all_gone_is_finished_at_once_for_those_that_come_later():
    site = site_of_the_job()
    first_run(site)
    (node, _) = nodes_of(site, 2)
    turns = 0
    while not node.finished:
        turn(site, [node])
        turns += 1
    assert turns * 0.01 < SETTINGS.failure_timeout_s, "it did not have to take anything over"
    assert canonical(site.collected(JOB.name)) == expected(STREAMS)
