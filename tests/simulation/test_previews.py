"""Previews between nodes: everybody sees an open window grow, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.simulation.scenarios import SCENARIOS, simulated
from tests.simulation.test_skew import CALM, OnlyHours, Shared, seconds

import holons as h
from holons.errors import WrongScope
from holons.node import Settings
from holons.streams import MemoryHub
from holons.windows import END

HOUR = h.Tumbling("1h").at(0)
SHOWN = replace(CALM, preview_s=10.0, snapshot_deltas=4, rows_max=1000)


def known(shared: Shared) -> set[object]:
    """What the nodes say of the open hour."""
    return {here.peek("hourly", HOUR) for here in shared.here()}


def sent(shared: Shared) -> list[MemoryHub]:
    """The streams of previews."""
    return [hub for name, hub in shared.world.hubs.items() if name.startswith("previews-")]


def test_every_node_sees_an_open_window_grow():
    shared = Shared(h.job(OnlyHours(), "in"), 3, SHOWN)
    shared.tick(10)
    assert known(shared) == {None}
    for partition, rows in enumerate((5, 7, 1)):
        shared.append(partition, seconds(0, rows))
    shared.tick(10)
    assert known(shared) == {13}
    shared.append(0, seconds(10, 20), seconds(3600, 3610), END)  # one has sealed it
    shared.append(2, seconds(10, 12))
    shared.tick(10)
    assert known(shared) == {25}
    shared.restart()
    shared.tick(40)
    assert known(shared) == {25}, "and it is there again after a restart"
    for partition in (1, 2):
        shared.append(partition, END)
    shared.tick(10)
    assert shared.world.collected("OnlyHours")["on_window"][0][0] == {"start": 0, "hourly": 25}
    shared.finish()
    assert shared.equals_the_oracle()


def test_by_default_nobody_sends_any():
    shared = Shared(h.job(OnlyHours(), "in"), 2, CALM)
    shared.append(0, seconds(0, 5))
    shared.tick(20)
    assert known(shared) == {None}
    assert not sent(shared), "not even the stream is opened"


def test_the_stream_is_trimmed_though_one_partition_never_changes_and_a_joiner_sees_that_one_too():
    shared = Shared(h.job(OnlyHours(), "in"), 3, SHOWN, nodes=1)
    shared.append(0, seconds(0, 5))
    sizes = []
    for second in range(120):
        shared.append(1, seconds(second, second + 1))
        shared.tick(2)
        sizes.append(sum(hub.bytes_held() for hub in sent(shared)))
    assert max(sizes[60:]) <= max(sizes[:60]) * 1.1
    shared.nodes.append(shared.node())
    shared.tick(4)
    assert known(shared) == {125}
    for here in shared.here():
        here.rejoin()  # a replica that starts from a snapshot has no previews
    assert known(shared) == {None}
    shared.tick(1)
    assert known(shared) == {125}


def test_from_outside_only_shared_handles_with_fixed_windows_are_seen():
    shared = Shared(h.job(OnlyHours(), "in"), 1, SHOWN, nodes=1)
    shared.tick(2)
    with pytest.raises(WrongScope, match="it has hourly"):
        shared.here()[0].peek("daily", HOUR)


@pytest.mark.parametrize("name", SCENARIOS)
def test_previews_change_no_output(name):
    shown = Settings(preview_s=0.02, rows_max=3, residence_s=1.0, snapshot_deltas=4, poison_deaths=100)
    for seed in range(6):
        outcome = simulated(name, seed, settings=shown)
        assert not outcome.problem, str(outcome)
