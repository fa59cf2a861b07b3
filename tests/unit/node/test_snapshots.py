"""How often a replica is stored, and how often a stored one is read. Time passes by turns, so nothing here is by chance."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import holons as h
from holons.engines.memory_site import MemorySite, TurnClock
from holons.node import Node, Settings
from holons.node.recovery import STATE
from holons.store import MemoryStore
from holons.streams import MemoryLog

SETTINGS = Settings(snapshot_deltas=1, checkpoint_s=0.5)


class Count(h.Program):
    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.n.insert(1, events.ts)

    def on_window(self, window):
        yield {"n": self.n[window]}


class SlowStore(MemoryStore):
    """A store that takes so long for each replica, and notes what is asked of it."""

    def __init__(self, clock: TurnClock, takes_s: float) -> None:
        super().__init__()
        self.clock = clock
        self.takes_s = takes_s
        self.stored_s: list[float] = []
        self.sizes: list[int] = []
        self.read: list[tuple[int, ...]] = []

    def put(self, name, position, data):
        if name.endswith("/replica"):
            self.stored_s.append(self.clock.now_s())
            self.sizes.append(len(data))
            self.clock.sleep_s(self.takes_s)
        super().put(name, position, data)

    def get(self, name, position):
        if name.endswith("/replica"):
            self.read.append(position)
        return super().get(name, position)


def run(takes_s: float, program: h.Program | None = None, keys: int = 1) -> SlowStore:
    log = MemoryLog(1)
    world = MemorySite({"in": log})
    store = world.records = SlowStore(world.clock, takes_s)
    node = Node("node-0", world.ports("node-0"), SETTINGS)
    node.add_job("count", h.job(program or Count(), "in"))
    for second in range(400):
        log.append(0, pa.record_batch({"ts": np.full(keys, second * 1_000_000), "key": np.arange(keys)}))
        world.clock.sleep_s(0.1)
        node.tick()
        assert not node.failures
    return store


@pytest.mark.parametrize(("takes_s", "rest_s"), [(0.0, 0.5), (0.3, 3.0), (1.0, 10.0)])
def test_the_longer_it_takes_the_less_often_a_replica_is_stored(takes_s, rest_s):
    gaps_s = [after - before for before, after in pairwise(run(takes_s).stored_s)]
    assert len(gaps_s) > 2
    assert min(gaps_s) >= rest_s
    assert max(gaps_s) <= rest_s + takes_s + 0.3


def test_what_a_node_stored_itself_is_not_read():
    store = run(0.0)
    assert len(store.stored_s) > 10
    assert not store.read


class Keep(h.Program):
    """Holds on to an hour of windows."""

    n = h.WCRDT(h.MergeMap(h.GCounter()), h.Tumbling("1s"), keep="1h")

    def process(self, events):
        self.n.insert((events["key"], 1), events.ts)

    def on_window(self, window):
        yield {"n": len(self.n[window])}


def test_a_large_replica_is_stored_only_when_much_is_new():
    sizes = run(0.0, Keep(), keys=2_000).sizes
    assert max(sizes) > 4_000_000
    assert sum(sizes) < 5 * max(sizes), "every half second would be fifty times as much"


def test_a_node_that_stood_still_for_long_starts_from_what_is_stored():
    world = MemorySite({"in": MemoryLog(1)})
    store = world.records = SlowStore(world.clock, 0.0)
    node = Node("node-0", world.ports("node-0"), SETTINGS)
    node.add_job("count", h.job(Count(), "in"))

    def live(seconds: int) -> None:
        for _ in range(seconds * 10):
            world.clock.sleep_s(0.1)
            node.tick()

    live(5)
    for second in range(10):
        world.inputs["in"].append(0, pa.record_batch({"ts": np.array([second * 1_000_000])}))
        live(1)
    state, read = node.jobs["count"].state, len(store.read)
    live(40)
    assert node.jobs["count"].state is state
    world.clock.sleep_s(31.0)  # writers may have come, and gone, and been forgotten in the meantime
    live(1)
    assert node.jobs["count"].state is not state
    assert len(store.read) > read
    world.inputs["in"].append(0, pa.record_batch({"ts": np.array([60_000_000])}))
    live(2)
    assert len(world.collected("count")["on_window"][0]) == 10


@pytest.mark.parametrize("insides", [b"\x91\xc0", b"\xc1", b"\xc0"])
def test_a_stored_replica_with_wrong_insides_gives_way_to_an_older_one(insides):
    world = MemorySite({"in": MemoryLog(1)})
    store = world.records = SlowStore(world.clock, 0.0)
    nodes = [Node("node-0", world.ports("node-0"), SETTINGS)]
    nodes[0].add_job("count", h.job(Count(), "in"))

    def live(seconds: range) -> None:
        for second in seconds:
            world.inputs["in"].append(0, pa.record_batch({"ts": np.array([second * 1_000_000])}))
            for _ in range(10):
                world.clock.sleep_s(0.1)
                nodes[-1].tick()

    live(range(10))
    name = "count/replica"
    older = store.positions(name)[-1]
    newest = STATE.header(store.get(name, older))
    store.read.clear()
    store.put(name, (10**6, 0), STATE.encode(msgspec.structs.replace(newest, state=msgspec.Raw(insides))))
    nodes.append(Node("node-1", world.ports("node-1"), SETTINGS))
    nodes[1].add_job("count", h.job(Count(), "in"))
    live(range(10, 20))
    assert not nodes[1].failures
    assert store.read[:2] == [(10**6, 0), older]
    assert len(world.collected("count")["on_window"][0]) == 19
