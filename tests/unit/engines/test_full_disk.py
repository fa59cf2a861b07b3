"""A disk that is full: an error that says so, nothing that was acknowledged is lost, and with room again it goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count

import pyarrow as pa
import pytest
from tests.full_disk import SmallDisk, small_disk  # noqa: F401 - a fixture
from tests.unit.engines.test_power_cuts import bids, in_input, in_journal, in_output, in_store, run_to_the_end

from holons.engines.batches import Batches
from holons.engines.directory_site import DirectorySite
from holons.errors import LogUnavailable, StoreUnavailable
from holons.examples import bid_share
from holons.node import Node, Settings
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import END

Write = Callable[[int], object]
Read = Callable[[DirectorySite], Sequence[object]]
PADDING = "x" * 5_000


def batch(value: int) -> pa.RecordBatch:
    return pa.record_batch({"ts": [value], "text": [PADDING]})


def to_an_input(site: DirectorySite) -> Write:
    log = site.producer("in", 1, "producer")
    return lambda n: log.append(0, batch(n))


def by_new_producers(site: DirectorySite) -> Write:
    numbers = count()

    def write(n: int) -> None:
        with site.producer("in", 1, f"producer#{next(numbers)}") as log:
            log.append(0, batch(n))

    return write


def in_batches(site: DirectorySite) -> Write:
    batches = Batches(site, "in", 1)
    return lambda n: batches.commit("query", n, [batches.stage(0, [batch(n)])])


def to_an_output(site: DirectorySite) -> Write:
    log = site.output("job", "out", 1, "node#1")
    return lambda n: log.put(0, n, batch(n))


def at_least_once(site: DirectorySite) -> Write:
    log = site.output("job", "out", 1, "node#1", appended=True)
    return lambda n: log.append(0, batch(n))


def as_messages(site: DirectorySite) -> Write:
    log = site.shared("sync-job", "node#1")
    return lambda n: log.append(b"%d " % n + PADDING.encode())


def to_a_journal(site: DirectorySite) -> Write:
    journal = site.journal("in", create=True)
    return lambda n: journal.propose(0, n, b"%d " % n + PADDING.encode())


def to_a_store(site: DirectorySite) -> Write:
    store = site.store("node#1")
    return lambda n: store.put("job/0/process", (n,), b"%d " % n + PADDING.encode())


def in_messages(site: DirectorySite) -> list[object]:
    return [message.data for message in site.shared("sync-job", "reader").read({}, 999)]


def number_of(found: object) -> int:
    """The number that was written."""
    return int(found.split()[0]) if isinstance(found, bytes) else int(found)


KINDS: dict[str, tuple[Callable[[DirectorySite], Write], Read]] = {
    "to an input": (to_an_input, in_input),
    "by new producers": (by_new_producers, in_input),
    "in batches": (in_batches, in_input),
    "to an output": (to_an_output, in_output),
    "at least once": (at_least_once, in_output),
    "messages": (as_messages, in_messages),
    "to a journal": (to_a_journal, in_journal),
    "to a store": (to_a_store, in_store),
}


@pytest.mark.parametrize("durability", ["process", "disk"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_is_an_error_that_says_so_and_nothing_else(kind, durability, small_disk):  # noqa: F811
    """Full as something begins, and in the middle of a write: each block that is free decides where."""
    begin, read = KINDS[kind]
    site = DirectorySite(small_disk.root / "site", durability=durability)
    write, acknowledged = begin(site), list[int]()
    for free_blocks in (0, 1, 2, 3, 5):
        small_disk.fill(free_blocks * 4_096)
        with pytest.raises((LogUnavailable, StoreUnavailable), match=r"the disk is full: free some space"):  # noqa: PT012
            for _ in range(9):
                write(len(acknowledged))
                acknowledged.append(len(acknowledged))
        there = [number_of(value) for value in read(DirectorySite(site.directory))]
        assert there[: len(acknowledged)] == acknowledged
        assert len(there) <= len(acknowledged) + 1, "of what failed nothing, or all of it"
        small_disk.free()
        acknowledged = there
        for _ in range(3):
            write(len(acknowledged))
            acknowledged.append(len(acknowledged))
        assert [number_of(value) for value in read(DirectorySite(site.directory))] == acknowledged


def test_a_job_goes_on_exactly_once_there_is_room_again(small_disk):  # noqa: F811
    site, settings = DirectorySite(small_disk.root / "site"), Settings(heartbeat_s=0.01, checkpoint_s=0.01, rows_max=3)
    site.load({"bids": [bids(0), bids(1)]})
    tick, full = Node.tick, [0]

    def with_a_disk_that_fills(node: Node) -> bool:
        full[0] += 1
        if full[0] % 40 == 20:
            small_disk.fill(full[0] % 3 * 4_096)
        if full[0] % 40 == 0:
            small_disk.free()
        with suppress(LogUnavailable, StoreUnavailable):
            return tick(node)
        return True

    Node.tick = with_a_disk_that_fills
    try:
        run_to_the_end(site, 0, settings)
    finally:
        Node.tick = tick
    assert full[0] > 60
    wanted = run_oracle(bid_share.job, {"bids": [[bids(n), END] for n in range(2)]})
    assert canonical(site.collected(bid_share.job.name)) == canonical(wanted)
