"""Streams that nodes share are damaged: a run goes on if nothing depends on them, or says which one it is and what to do."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.processes import ProcessNodes
from holons.errors import JobFailed, LogDamaged, NodesFailed
from holons.node import Settings, sync_stream
from holons.program import Collected, Job

SETTINGS = Settings(heartbeat_s=0.05, failure_timeout_s=0.5, checkpoint_s=0.05)
ROWS = 40


class Count(h.Program):
    """Rows per second."""

    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.n.insert(1, events.ts)

    def on_window(self, window):
        yield {"window": window.start, "n": self.n[window]}


def count(name: str) -> Job:
    return h.job(Count(), "bids", name=name)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The directory of a site on which a job has run to its end."""
    site = DirectorySite(tmp_path_factory.mktemp("sites") / "finished")
    site.load({"bids": [pl.DataFrame({"ts": np.arange(ROWS) * 100_000}) for _ in range(2)]})
    logging.getLogger("holons.nodes").setLevel(logging.INFO)  # so that nodes log something
    assert_right(run(site, "first"))
    logging.getLogger("holons.nodes").setLevel(logging.NOTSET)
    return site.directory


@pytest.fixture
def site(finished, tmp_path) -> DirectorySite:
    return DirectorySite(shutil.copytree(finished, tmp_path / "site"))


def run(site: DirectorySite, name: str) -> Collected:
    with ProcessNodes(site, SETTINGS) as nodes:
        return nodes.run_to_end(count(name), nodes=1)


def assert_right(collected: Collected) -> None:
    found = {partition: [row["n"] for row in rows] for partition, rows in collected["on_window"].items()}
    assert found == {partition: [20] * (ROWS // 10) for partition in range(2)}


def files_of(site: DirectorySite, stream: str, name: str) -> list[Path]:
    found = sorted(site.directory.glob(f"shared/stream.{stream}*/segment.*/{name}"))
    assert found, stream
    return found


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("file", ["data.messages", pytest.param("index", marks=pytest.mark.slow)])
def test_what_a_dead_driver_ordered_never_matters(site, file):
    with site.shared("orders-0123456789", "driver-0123456789") as orders:
        orders.append(b"what a driver that was killed has left" * 3)
    for path in files_of(site, "orders", file):
        flip(path, 40)
    assert_right(run(site, "second"))


@pytest.mark.slow
def test_nodes_that_end_alike_again_and_again_end_the_run_with_their_error(site):
    with site.shared("heartbeats", "node-of-another-kind") as heartbeats:
        heartbeats.append(b"?")
    with pytest.raises(
        NodesFailed,
        match=r"CodecError: not a heartbeat.*\n.*hint: the heartbeat stream is damaged.*: end all nodes, remove",
    ):
        run(site, "second")


@pytest.mark.parametrize("stream", ["heartbeats", pytest.param("control", marks=pytest.mark.slow)])
def test_a_damaged_stream_is_named_with_what_to_do(site, stream):
    flip(files_of(site, stream, "data.messages")[0], 3)
    with pytest.raises((LogDamaged, NodesFailed), match=f"(?s)stream {stream}.*hint: .* remove it, .*stream.{stream}"):
        run(site, "second")
    shutil.rmtree(site.directory / "shared" / f"stream.{stream}")
    assert_right(run(site, "second"))


@pytest.mark.slow
def test_what_nodes_have_logged_can_be_damaged(site, caplog):
    flip(files_of(site, "logs", "data.messages")[0], 3)
    assert_right(run(site, "second"))
    assert "logs" in caplog.text


@pytest.mark.slow
def test_a_damaged_sync_stream_stops_the_job_that_needs_it(site):
    version = site.jobs().history("first")[0].id
    flip(files_of(site, sync_stream(version), "data.messages")[0], 3)
    with pytest.raises(JobFailed, match=f"(?s)LogDamaged.*{sync_stream(version)}.*hint: "):
        run(site, "first")


def test_outputs_that_were_restored_from_an_older_copy_are_never_finished(site):
    shutil.rmtree(site.directory / "output")  # of the older copy, from before the first row
    with pytest.raises(JobFailed, match="CheckpointLost"):
        run(site, "first")
    assert_right(run(site, "first"))  # it was stopped: now it is computed anew
