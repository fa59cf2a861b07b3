"""What the two records of a partition hold, and which of them go together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import holons as h
from holons import codec
from holons.engines.embedded.nodes import World
from holons.errors import CheckpointLost
from holons.node import Node, Settings
from holons.node.recovery import Checkpoints
from holons.program import PartitionRun
from holons.streams import MemoryLog

ROWS = 1_000
JOB = "mine"


class Mine(h.Program):
    """Much state of a partition's own, which the next windows need for three seconds."""

    own = h.WLocal(h.MergeMap(h.GCounter()), h.Tumbling("1s"), keep="3s")

    def process(self, events):
        self.own.insert((events["key"], 1), events.ts)

    def on_window(self, window):
        yield {"n": len(self.own[window])}


@pytest.fixture
def world():
    """A world in which a node has run for a while, and stored where it is again and again."""
    world = World({"in": MemoryLog(1)})
    node = Node("node-0", world.ports("node-0"), Settings(checkpoint_s=0.5))
    node.add_job(JOB, h.job(Mine(), "in"))
    for second in range(100):
        world.inputs["in"].append(0, pa.record_batch({"ts": np.full(ROWS, second * 1_000_000), "key": np.arange(ROWS)}))
        world.clock.sleep_s(0.1)
        node.tick()
        assert not node.failures
    return world


def stored(world, kind):
    name = f"{JOB}/0/{kind}"
    return [codec.decode(world.store.get(name, position))[-1] for position in world.store.positions(name)]


def loaded(world):
    return Checkpoints(world.store, JOB, 0).load((0, world.inputs["in"].end(0)), lambda channel: 2**62)


def tear(world, kind, count=1):
    name = f"{JOB}/0/{kind}"
    for position in world.store.positions(name)[-count:]:
        world.store.replace(name, position, world.store.get(name, position)[:-1])


def test_a_process_record_holds_what_windows_to_come_may_read_and_no_more(world):
    newest = PartitionRun(h.job(Mine(), "in"), 0, 1, resume=loaded(world))
    held = newest.process.local_panes[0].present
    assert len(held) <= 5, "five windows pass between two checkpoints, and three are kept"
    assert newest.process.forgotten_to == min(newest.window.emitted_to)


@pytest.mark.parametrize(
    ("torn", "process", "window"),
    [([], -1, -1), (["process"], -2, -1), (["window"], -2, -2), (["process", "window"], -2, -2)],
)
def test_the_newest_records_that_go_together_are_loaded(world, torn, process, window):
    expected = stored(world, "process")[process], stored(world, "window")[window]
    for kind in torn:
        tear(world, kind)
    assert tuple(loaded(world)) == expected


def test_a_process_record_alone_is_not_enough_if_it_has_let_go_of_something(world):
    tear(world, "window", count=2)
    with pytest.raises(CheckpointLost, match="the other records"):
        loaded(world)
