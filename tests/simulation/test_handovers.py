"""Handovers, deaths and ends under a load that never stops, and what a job's versions make of each other."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from tests.simulation.cluster import SETTINGS, Cluster
from tests.simulation.scenarios import HighestBid
from tests.simulation.test_scenarios import SECOND, bids, highest, stored, tasklets

import holons as h
from holons.engines.simulator.gated import SimulatedStore, SimulatedStream
from holons.errors import BadInput
from holons.node import Settings
from holons.node.partition import PartitionTasklet
from holons.node.state_keeper import StateKeeper
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.streams import MemoryLog


class Flood:
    """A cluster whose partitions get a row in every turn."""

    def __init__(self, partitions: int, settings: Settings) -> None:
        self.cluster = Cluster({}, settings)
        self.log = self.cluster.world.inputs["bids"] = MemoryLog(partitions)
        self.cluster.add(h.job(HighestBid(), "bids", name="highest"))
        self._ts = 0

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 100)):
            self._ts += 10_000
            for partition in range(self.log.partitions):
                self.log.append(
                    partition, pa.record_batch({"ts": [self._ts], "kind": ["bid"], "price": [1], "auction": [1]})
                )
            self.cluster.run(0.01)


def test_an_old_owner_lets_go_and_a_node_leaves_though_rows_keep_coming():
    flood = Flood(4, dataclasses.replace(SETTINGS, rows_max=1000))
    first = flood.cluster.start(0)
    flood.run(2.0)
    second = flood.cluster.start(1)
    flood.run(8.0)
    assert len(tasklets(first, "highest")) == len(tasklets(second, "highest")) == 2
    first.leave()
    flood.run(4.0)
    assert first.left
    assert sorted(tasklets(second, "highest")) == [0, 1, 2, 3]
    assert not any(tasklet.suspicion for tasklet in tasklets(second, "highest").values()), "to leave is no death"


def test_a_node_leaves_though_there_are_only_as_many_as_copies():
    flood = Flood(2, dataclasses.replace(SETTINGS, replicas=2))
    nodes = [flood.cluster.start(number) for number in range(2)]
    flood.run(3.0)
    nodes[0].leave()
    flood.run(3.0)
    assert nodes[0].left


@pytest.mark.parametrize("alone_s", [0.1, 3.0])
@pytest.mark.parametrize("copies", [2, 3])
def test_copies_of_a_partition_are_on_distinct_nodes_though_the_first_one_comes_alone(alone_s, copies):
    cluster = Cluster({}, dataclasses.replace(SETTINGS, replicas=copies, residence_s=0.5))
    cluster.world.inputs["bids"] = MemoryLog(10)
    cluster.add(h.job(HighestBid(), "bids", name="highest"))
    nodes = [cluster.start(0)]
    cluster.run(alone_s)
    nodes += [cluster.start(number) for number in range(1, 5)]
    cluster.run(8.0)
    shares = [sorted(tasklets(node, "highest")) for node in nodes]
    assert all(sum(partition in share for share in shares) == copies for partition in range(10)), shares
    assert max(map(len, shares)) - min(map(len, shares)) <= 1, shares


@pytest.mark.parametrize(("partitions", "count"), [(4, 2), (8, 2), (9, 3), (10, 5)])
def test_a_new_job_is_spread_about_evenly_long_before_partitions_may_be_moved(partitions, count):
    cluster = Cluster({}, dataclasses.replace(SETTINGS, residence_s=60.0))
    cluster.world.inputs["bids"] = MemoryLog(partitions)
    nodes = [cluster.start(number) for number in range(count)]
    cluster.run(1.5)
    for number in range(3):
        cluster.add(h.job(HighestBid(), "bids", name=f"highest-{number}"))
        cluster.run(1.5)
        held = [sum(len(nodes[0].ownership.held_by(node.name, job)) for job in nodes[0].jobs) for node in nodes]
        assert sum(held) == (number + 1) * partitions
        assert max(held) <= 1.5 * -(-sum(held) // count), "some claims cross on a slow control stream, and no more"


@pytest.mark.parametrize("alone_s", [0.0, 3.0])
def test_each_stream_of_a_job_is_spread_evenly(alone_s):
    """Or one node gets the many rows of one stream, and the other one the few of another."""
    cluster = Cluster({}, dataclasses.replace(SETTINGS, residence_s=0.5))
    for stream in ("bids", "auctions", "people"):
        cluster.world.inputs[stream] = MemoryLog(4)
    cluster.start(0)
    if not alone_s:
        cluster.start(1)
    cluster.run(1.5)
    cluster.add(h.job(HighestBid(), "bids", "auctions", "people", name="highest"))
    if alone_s:
        cluster.run(alone_s)
        cluster.start(1)
    cluster.run(12.0)
    for node in cluster.nodes.values():
        streams = [partition // 4 for partition in tasklets(node, "highest")]
        assert sorted(streams) == [0, 0, 1, 1, 2, 2]


def test_a_job_begins_and_is_told_to_be_out_without_waiting_for_heartbeats():
    job, streams, _ = highest(4, windows=2)
    cluster = Cluster(streams, dataclasses.replace(SETTINGS, rows_max=1000, heartbeat_s=20.0, failure_timeout_s=90.0))
    nodes = [cluster.start(number) for number in range(2)]
    cluster.run(50.0)
    cluster.add(job)
    cluster.run_until(lambda: all(node.finished for node in nodes), within_s=19.0)


def test_the_last_node_may_leave():
    flood = Flood(2, SETTINGS)
    only = flood.cluster.start(0)
    flood.run(1.0)
    only.leave()
    flood.run(0.5)
    assert only.left


def test_nodes_that_die_one_after_the_other_while_a_copy_goes_on_are_no_poison():
    flood = Flood(2, Settings(replicas=2, poison_deaths=3))
    healthy = flood.cluster.start(0)
    flood.run(1.0)
    for number in range(1, 5):
        unlucky = flood.cluster.start(number)
        flood.run(4.0)
        assert tasklets(unlucky, "highest")
        flood.cluster.kill(unlucky)
    assert not healthy.stopped


@pytest.mark.parametrize("third", ["dies", "is slow"])
def test_a_job_is_stopped_only_when_three_are_surely_dead(third, monkeypatch):
    job, streams, expected = highest(partitions=1, windows=5)
    cluster = Cluster(streams, Settings(poison_deaths=3, rows_max=7))
    cluster.add(job)
    timeout_s = cluster.settings.failure_timeout_s
    with monkeypatch.context() as patch:
        patch.setattr(PartitionTasklet, "tick", lambda _: False)  # nobody gets beyond the first row
        owner = cluster.start(0)
        cluster.run_until(lambda: bool(tasklets(owner, "highest")))
        for number in range(1, 4):
            following = cluster.start(number)
            cluster.run(0.5)
            cluster.kill(owner)
            if number < 3:
                cluster.run_until(lambda owner=following: bool(tasklets(owner, "highest")))
                cluster.run(0.5)
                owner = following
        cluster.run(2 * timeout_s)
        assert not following.stopped, "the third may still show up"
        assert not tasklets(following, "highest"), "nobody else is sent after the three"
        if third == "is slow":
            cluster.nodes[owner.name] = owner
            cluster.run(0.5)
    if third == "is slow":
        cluster.finish("highest", expected)
        assert not following.stopped
    else:
        cluster.run_until(lambda: "highest" in following.stopped, within_s=2 * timeout_s)
        assert following.stopped["highest"].kind == "Poison"
        assert "3 nodes in a row" in following.stopped["highest"].reason


def test_a_fresh_node_does_not_take_a_job_for_finished_whose_last_windows_nobody_emitted():
    job, streams, expected = highest(partitions=2, windows=30)
    cluster = Cluster(streams, dataclasses.replace(SETTINGS, rows_max=1000))
    cluster.add(job)
    node = cluster.start(0)
    cluster.run_until(lambda: len(tasklets(node, "highest")) == 2)
    for tasklet in tasklets(node, "highest").values():
        tasklet.run._window.work = lambda *_: False  # everything is sealed, and nothing emitted
    cluster.run(1.0)
    assert not node.finished
    cluster.kill(node)
    fresh = cluster.start(1)
    for _ in range(50):
        cluster.run(0.01)
        assert not fresh.finished
    cluster.run_until(lambda: fresh.finished)
    assert canonical(cluster.collected("highest")) == canonical(expected)


@pytest.mark.parametrize("kind", ["/process", "/window", "/replica"])
def test_records_that_are_dropped_between_list_and_get_are_not_lost(kind, monkeypatch):
    job, streams, expected = highest(partitions=2, windows=400)
    cluster = Cluster(streams, dataclasses.replace(SETTINGS, rows_max=3, checkpoint_s=0.1, residence_s=0.5))
    cluster.add(job)
    first = cluster.start(0)
    cluster.run(3.0)
    second = cluster.start(1)
    paused: list[str] = []
    listing = SimulatedStore.positions

    def positions(self, name):
        found = listing(self, name)
        if self._gate.name == second.name and name.endswith(kind) and not paused and len(found) >= 2:
            paused.append(name)
            cluster.run(1.0, only=[first])  # the other goes on, and drops what was just listed
        return found

    monkeypatch.setattr(SimulatedStore, "positions", positions)
    cluster.run(3.0)
    assert paused
    assert not first.stopped
    assert not second.failures
    cluster.finish("highest", expected, within_s=120.0)


def test_messages_that_are_trimmed_while_they_are_about_to_be_read_are_not_missed(monkeypatch):
    job, streams, expected = highest(partitions=2, windows=400)
    cluster = Cluster(streams, dataclasses.replace(SETTINGS, rows_max=3, checkpoint_s=0.1, residence_s=0.5))
    cluster.add(job)
    first, second = cluster.start(0), cluster.start(1)
    cluster.run_until(lambda: bool(tasklets(first, "highest") and tasklets(second, "highest")))
    paused: list[bool] = []
    reading = SimulatedStream.read

    def read(self, cursor, count_max):
        mine = self._gate.name == second.name and self._stream == second.jobs["highest"].sync._stream
        if mine and not any(paused):
            before = dict(cursor)
            cluster.run(0.5, only=[first])  # the other goes on, and trims what was just there
            paused.append(any(start > before.get(writer, 0) for writer, start in self.starts().items()))
        return reading(self, cursor, count_max)

    monkeypatch.setattr(SimulatedStream, "read", read)
    cluster.run_until(lambda: any(paused))
    monkeypatch.setattr(StateKeeper, "store_if_due", lambda _: None)  # and never trims again, so this is the only hint
    assert not second.failures
    cluster.finish("highest", expected, within_s=120.0)


def test_load_is_evened_out_whatever_jobs_there_were():
    flood = Flood(4, dataclasses.replace(SETTINGS, residence_s=0.3))
    first = flood.cluster.start(0)
    for number in range(3):
        flood.cluster.submit(h.job(HighestBid(), "bids", name=f"gone-{number}"))
        flood.run(1.0)
        flood.cluster.cancel(f"gone-{number}")
    flood.run(1.0)
    second = flood.cluster.start(1)
    flood.run(6.0)
    assert len(tasklets(first, "highest")) == len(tasklets(second, "highest")) == 2


# --- versions --------------------------------------------------------------------------------------------------------


class One(h.Program):
    """One stage."""

    top = h.WCRDT(h.MaxRegister(), h.Tumbling("1s"))

    def process(self, events):
        self.top.insert(events["price"], events.ts)

    def on_window(self, window):
        yield {"window": window.start, "top": self.top[window]}


class Two(h.Program):
    """The same, and another stage on top."""

    top = h.WCRDT(h.MaxRegister(), h.Tumbling("1s"))
    total = h.WCRDT(h.GCounter(), h.Tumbling("5s"), stage=1)

    def process(self, events):
        self.top.insert(events["price"], events.ts)

    @h.on_window(top)
    def on_window(self, window):
        self.total.insert(self.top[window], window)
        yield {"window": window.start, "top": self.top[window]}

    @h.on_window(total)
    def totals(self, window):
        yield {"window": window.start, "total": self.total[window]}


class TwoAgain(Two):
    """The same once more: only its name is another."""

    version = 3


def test_versions_with_more_stages_lose_no_window():
    streams = {"bids": [bids(partition, 60) for partition in range(2)]}
    cluster = Cluster(streams, dataclasses.replace(SETTINGS, rows_max=2, checkpoint_s=0.1))
    nodes = [cluster.start(number) for number in range(2)]
    first = cluster.submit(h.job(One(), "bids", name="j"))
    cluster.run_until(lambda: len(stored(cluster, first.id, 0, "window")) >= 2 and bool(cluster.collected("j")))
    second = cluster.submit(h.job(Two(), "bids", name="j"), upgrade=True)
    cluster.run_until(lambda: len(cluster.collected("j").get("totals", {}).get(0, [])) >= 2)
    cluster.run(0.3)
    cluster.submit(h.job(TwoAgain(), "bids", name="j"), upgrade=True)
    cluster.run_until(lambda: all(node.finished and not node.failures for node in nodes))
    whole = run_oracle(h.job(Two(), "bids", name="j"), streams, rows_per_call=1000)
    found = cluster.collected("j")
    assert canonical({"on_window": found["on_window"]}) == canonical({"on_window": whole["on_window"]})
    for partition, cut in enumerate(second.cuts):
        begun = [row for row in whole["totals"][partition] if row["window"] + 5 * SECOND > cut.emitted_to[0]]
        assert found["totals"][partition] == begun, "what the one-stage version had no word for begins where it ended"


def test_an_upgrade_keeps_its_inputs_in_their_order():
    streams = {"a": [bids(0, 20)], "b": [bids(1, 20)]}
    cluster = Cluster(streams)
    cluster.submit(h.job(One(), "a", "b", name="j"))
    for inputs in (("b", "a"), ("b",), ("a",)):
        with pytest.raises(BadInput, match="cannot be upgraded"):
            cluster.submit(h.job(Two(), *inputs, name="j"), upgrade=True)
    assert cluster.submit(h.job(Two(), "a", "b", name="j"), upgrade=True).generation == 1
