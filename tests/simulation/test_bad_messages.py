"""One wrong message with a right checksum, in each stream and store that node processes share, while they run.

The run finishes exactly, or fails soon with an error that names the stream: it never waits for ever, and nodes never die
without end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import msgspec
import pytest
from tests.handles import JOB, ROWS, SLOWLY, endless, expected, finish, until, visits

from holons.clock import SystemClock
from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.processes import ProcessNodes
from holons.errors import DescribedError
from holons.node import Settings, Submitted, sync_stream
from holons.node.messages import Heartbeat, Running
from holons.node.recovery import STATE
from holons.program import canonical
from holons.wire import encode

LIMIT_S = 90.0  # far more than it takes
HUGE = 2**64 - 1


def write(site: DirectorySite, stream: str, data: bytes) -> None:
    with site.shared(stream, "somebody#1") as log:
        log.append(data)


def odd_heartbeat(version: Submitted) -> bytes:
    """A heartbeat that is whole, of numbers that nobody has."""
    running = Running(
        version.id, 2**40, -7, HUGE, HUGE, HUGE, True, True, HUGE, (HUGE,) * 9, HUGE, HUGE, ordinals={"x": HUGE}
    )
    here = msgspec.structs.replace(running, partition=0)
    return encode(Heartbeat("somebody#1", HUGE, (running, here), jobs=-3))


def newest(site: DirectorySite, version: Submitted, kind: str, data: bytes) -> None:
    """Stores a record that is newer than all others; nodes do not look at it before they start from it."""
    store = site.store("somebody#1")
    name = f"{version.id}/replica" if kind == "replica" else f"{version.id}/0/{kind}"
    until(lambda: store.positions(name), f"nobody stores {name}", LIMIT_S)
    at = store.positions(name)[-1]
    store.put(name, (at[0] + 10**6, *at[1:]), data)


def newest_replica(site: DirectorySite, version: Submitted) -> None:
    """Stores a replica that is newer than all others, and whole but for its insides."""
    store, name = site.store("somebody#1"), f"{version.id}/replica"
    until(lambda: store.positions(name), f"nobody stores {name}", LIMIT_S)
    header = STATE.header(store.get(name, store.positions(name)[-1]))
    newest(site, version, "replica", STATE.encode(msgspec.structs.replace(header, state=msgspec.Raw(b"\x91\xc0"))))


Spoil = Callable[[DirectorySite, Submitted], object]

EXACT = ""
OFTEN = replace(SLOWLY, snapshot_deltas=2)  # so that the sync stream is trimmed, and a new node needs a stored replica
CASES: dict[str, tuple[Spoil, str, Settings]] = {
    "heartbeats": (lambda site, _: write(site, "heartbeats", b"?"), "heartbeat stream", SLOWLY),
    "odd heartbeat": (lambda site, version: write(site, "heartbeats", odd_heartbeat(version)), EXACT, SLOWLY),
    "control": (lambda site, _: write(site, "control", b"\x92\xa1\xff\x01"), "control log", SLOWLY),
    "sync": (lambda site, version: write(site, sync_stream(version.id), b"\x95\x01\x00"), "sync stream", SLOWLY),
    "previews": (
        lambda site, version: write(site, f"previews-{version.id}", b"?"),
        EXACT,
        replace(SLOWLY, preview_s=0.05),
    ),
    "logs": (lambda site, _: write(site, "logs", b"?"), EXACT, SLOWLY),
    "orders": (
        lambda site, _: [write(site, name, b"?" * 99) for name in site.shared_streams() if name.startswith("orders")],
        EXACT,
        SLOWLY,
    ),
    "decisions": (
        lambda site, _: site.decisions().propose(0, site.decisions().end(0), b"?"),
        "journal of jobs",
        SLOWLY,
    ),
    "process record": (lambda site, version: newest(site, version, "process", b"\xc1"), EXACT, SLOWLY),
    "replica snapshot": (lambda site, version: newest(site, version, "replica", b"\x92\xc1"), EXACT, OFTEN),
    "insides of a replica": (newest_replica, EXACT, OFTEN),
    "window record": (lambda site, version: newest(site, version, "window", b"\x92\xa1\xff"), EXACT, SLOWLY),
}
QUICK = {"sync"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES]
)
def test_one_wrong_message_while_nodes_run(tmp_path, case):
    spoil, named, settings = CASES[case]
    run_spoiled(endless(tmp_path), spoil, named, settings)


@pytest.mark.slow
def test_one_wrong_letter_of_the_grid_while_nodes_run(tmp_path):
    endless(tmp_path)
    site = DirectorySite(tmp_path, "memory")
    run_spoiled(site, lambda site, _: write(site, "grid", b"?"), "the grid's stream", SLOWLY)


def run_spoiled(site: DirectorySite, spoil: Spoil, named: str, settings: Settings) -> None:
    """Runs the job; spoils something, and kills a node, once rows come out."""
    clock = SystemClock()
    until_s = clock.now_s() + LIMIT_S
    with ProcessNodes(site, settings) as nodes:
        version = nodes.submit(JOB)
        names = [nodes.start() for _ in range(2)]
        while not has_rows(site):
            assert not nodes.tend(version)
            assert clock.now_s() < until_s, "no row came out"
        spoil(site, version)
        nodes.kill(names[0])
        finish(site)
        ends = pytest.raises(DescribedError, match=f"(?s)^(?=.*{named}).*hint: ") if named else nullcontext()
        with ends:
            while not nodes.tend(version):
                assert clock.now_s() < until_s, f"it waits for ever: {nodes.watcher.look(version.id, version.inputs)!r}"
                clock.sleep_s(0.02)
    if not named:
        assert canonical(site.collected(JOB.name)) == expected(visits(ROWS))


def has_rows(site: DirectorySite) -> bool:
    return any(rows for partitions in site.collected(JOB.name).values() for rows in partitions.values())
