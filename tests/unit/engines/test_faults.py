"""The newer kinds of faults do what they say."""

from __future__ import annotations

import pytest

from holons.engines.simulator import Fault, Kind, Simulation
from holons.engines.simulator.faults import EFFECTS
from holons.engines.simulator.scenarios import prepared, simulated
from holons.errors import LogUnavailable, StoreUnavailable
from holons.node import node


@pytest.fixture
def simulation() -> Simulation:
    jobs, streams, _ = prepared("bid share", 0)
    return Simulation(jobs, streams, 0, nodes=4, faults=())


def struck(simulation: Simulation, kind: Kind, number: int, detail: int) -> None:
    simulation.strike(Fault(kind, 0.0, number, 2.0, detail))


@pytest.mark.parametrize("detail", [0, 0b0110, 0b1111, 999])
def test_a_split_makes_two_groups_until_it_is_over(simulation: Simulation, detail: int):
    struck(simulation, Kind.SPLIT, 2, detail)
    world = simulation.world
    heard = {(a, b) for a in range(4) for b in range(4) if world.reaches(f"node-{a}#1", b)}
    apart = {number for number in range(4) if (2, number) in heard}
    assert 2 in apart
    assert 3 not in apart
    assert heard == {(a, b) for a in range(4) for b in range(4) if (a in apart) == (b in apart)}
    world.now_s = 3.0
    assert all(world.reaches(f"node-{a}#1", b) for a in range(4) for b in range(4))


def test_a_clock_leaps_ahead_and_only_that_one(simulation: Simulation):
    clocks = [member.node.ports.clock for member in simulation.members]
    before = [clock.now_s() for clock in clocks]
    struck(simulation, Kind.CLOCK_JUMP, 1, 0)
    assert [clock.now_s() - was for clock, was in zip(clocks, before, strict=True)] == pytest.approx([0, 20, 0, 0])


def test_a_lost_answer_leaves_what_was_written(simulation: Simulation):
    ports = simulation.members[0].node.ports
    struck(simulation, Kind.LOST_ANSWER, 0, 0)
    lost = 0
    for number in range(20):
        try:
            ports.heartbeats.append(b"%d" % number)
        except LogUnavailable:
            lost += 1
        try:
            ports.store.put("record", (number,), b"data")
        except StoreUnavailable:
            lost += 1
    assert 5 < lost < 35
    assert [message.data for message in simulation.world.hubs["heartbeats"].read({}, 100)] == [
        b"%d" % n for n in range(20)
    ]
    assert ports.store.positions("record") == [(number,) for number in range(20)]
    simulation.world.now_s = 3.0
    for number in range(20):
        ports.heartbeats.append(b"%d" % number)


def test_all_others_crash(simulation: Simulation):
    struck(simulation, Kind.CRASH_OTHERS, 2, 5)
    assert [member.gate.operations_left for member in simulation.members] == [5, 5, None, 5]


def test_what_a_node_raises_is_a_finding_that_comes_with_what_happened(monkeypatch: pytest.MonkeyPatch):
    def broken(self):
        raise ZeroDivisionError("of a node")

    monkeypatch.setattr(node.Node, "tick", broken)
    outcome = simulated("bid share", 1, nodes=2)
    assert outcome.problem == "ZeroDivisionError: of a node"
    assert "node-1#1 starts" in outcome.trace[1]


def test_every_kind_of_fault_has_an_effect():
    assert set(EFFECTS) == set(Kind)
