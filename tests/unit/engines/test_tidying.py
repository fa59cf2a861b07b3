"""What the dead leave in a site goes, and what belongs to the living stays."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack

import pyarrow as pa
import pytest
from tests.handles import Count
from tests.unit.streams.test_trimmed_in_time import HandSet

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.node import cancel, submit
from holons.windows import END

JOB = h.job(Count(), "visits")
KILLED = """
import os, sys
from holons.engines.directory_site import DirectorySite
site = DirectorySite(sys.argv[1])
site.hold("orders-dead").__enter__()
site.shared("orders-dead", "driver-dead").append(b"an order")
os._exit(9)
"""


KILLED_LOADER = """
import os, sys
import pyarrow as pa
from holons.engines.directory_site import DirectorySite
with DirectorySite(sys.argv[1]).loading("orders", 1) as log:
    log.append(0, pa.record_batch({"ts": list(range(1_000))}))
    os.kill(os.getpid(), 9)
"""


def site_in(tmp_path):
    clock = HandSet()
    return DirectorySite(tmp_path, clock=clock), clock


def test_the_orders_of_a_driver_go_with_it_however_it_ends(tmp_path):
    site, _ = site_in(tmp_path)
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    with ExitStack() as alive:
        alive.enter_context(site.hold("orders-alive"))
        site.shared("orders-alive", "driver-alive").append(b"an order")
        assert site.shared_streams() == ["orders-alive", "orders-dead"]
        for _ in range(3):
            site.tidier()()
        assert site.shared_streams() == ["orders-alive"]
        assert [path.name for path in (tmp_path / "held").iterdir()] == ["orders-alive"]
    assert site.shared_streams() == []
    assert list((tmp_path / "held").iterdir()) == []


def test_what_a_version_shared_and_stored_goes_once_it_has_stopped(tmp_path):
    site, clock = site_in(tmp_path)
    site.create("visits", 1)
    ports = site.ports("driver")
    old = submit(JOB, ports)
    for name in (old.id, "unheard-of"):
        ports.sync(name).append(b"seal")
    tidy = site.tidier()
    names = [f"{old.id}/0/process", f"{old.id}/0/window", f"{old.id}/replica"]
    for name in names:
        ports.store.put(name, (1, 2), b"a record")
    for _ in range(2):
        tidy()
        clock.sleep_s(100)
    assert site.shared_streams() == [f"sync-{old.id}"], "a job that runs keeps what is its own"
    cancel(JOB.name, ports)
    tidy()
    assert site.shared_streams() == [f"sync-{old.id}"], "its nodes may not have heard of it yet"
    clock.sleep_s(100)
    tidy()
    assert site.shared_streams() == []
    assert [ports.store.positions(name) for name in names] == [[], [], []]
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]


def a_run(site):
    h.run(JOB, log=site.directory, nodes=1, engine="embedded").wait()


def a_load(site):
    with site.loading("more", 1) as log:
        log.append(0, pa.record_batch({"ts": [1]}))


@pytest.mark.parametrize("then", [a_run, a_load, lambda site: site.tidier()()], ids=["run", "load", "tidying"])
def test_what_a_killed_process_was_loading_goes_at_once_and_what_lives_stays(tmp_path, then):
    site = DirectorySite(tmp_path)
    with site.loading("visits", 1) as log:
        log.append(0, pa.record_batch({"ts": [1]}))
        log.mark(0, END.ts)
    with site.loading("orders", 1) as log:
        log.append(0, pa.record_batch({"ts": [1]}))
        (ours,) = tmp_path.glob("loading-*")
        subprocess.run([sys.executable, "-c", KILLED_LOADER, str(tmp_path)], check=False)
        (left,) = set(tmp_path.glob("loading-*")) - {ours}
        assert sum(file.stat().st_size for file in left.rglob("*")) > 1_000, "rows are in it"
        then(site)
        assert list(tmp_path.glob("loading-*")) == [ours]
    assert site.streams()["orders"] == 1
    assert not list(tmp_path.glob("loading-*"))
    assert {path.name for path in (tmp_path / "input").iterdir()} >= {"stream.orders", "stream.visits"}
    assert not list((tmp_path / "input").glob(".*"))


def test_what_an_earlier_version_was_loading_goes_after_a_day(tmp_path):
    site = DirectorySite(tmp_path)
    for name in ("loading-old", "loading-new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows").touch()
    for path in (tmp_path / "loading-old" / "rows", tmp_path / "loading-old"):
        os.utime(path, (1, 1))
    site.tidier()()
    assert sorted(path.name for path in tmp_path.glob("loading-*")) == ["loading-new"]


def test_heartbeats_of_the_dead_go_though_nobody_lives_long(tmp_path):
    site, clock = site_in(tmp_path)
    tidy = site.tidier()
    for number in range(20):
        site.shared("heartbeats", f"node-{number}#1").append(b"a sign of life")
        tidy()
        clock.sleep_s(200)
    left = list((tmp_path / "shared" / "stream.heartbeats").glob("segment.*"))
    assert 2 <= len(left) <= 6, left
