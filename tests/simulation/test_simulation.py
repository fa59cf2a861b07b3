"""Nodes under every kind of fault put out the oracle's bytes, and get there in time."""

from __future__ import annotations

import pytest
from tests.simulation.scenarios import SCENARIOS, SEEDS, simulated

from holons.engines.simulator import Fault, Kind
from holons.node import Settings

TWICE = Settings(replicas=2, rows_max=7, snapshot_deltas=4, poison_deaths=100)


@pytest.mark.parametrize("block", range(5))
@pytest.mark.parametrize("name", SCENARIOS)
def test_outputs_survive_all_faults(name, block):
    for seed in range(block, SEEDS, 5):
        outcome = simulated(name, seed)
        assert not outcome.problem, str(outcome)


@pytest.mark.parametrize("name", SCENARIOS)
def test_outputs_survive_all_faults_with_two_copies_of_everything(name):
    for seed in range(SEEDS // 5):
        outcome = simulated(name, seed, settings=TWICE, nodes=4)
        assert not outcome.problem, str(outcome)


@pytest.mark.parametrize("name", SCENARIOS)
def test_outputs_survive_faults_of_all_kinds(name):
    for seed in range(SEEDS // 5):
        outcome = simulated(name, seed, kinds=tuple(Kind), nodes=4)
        assert not outcome.problem, str(outcome)


def test_a_run_replays_exactly():
    first, second = (simulated("two jobs", 7) for _ in range(2))
    assert first.trace == second.trace
    assert first.finished_s == second.finished_s


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_fault_by_itself(kind):
    for seed in range(3):
        faults = [Fault(kind, at_s, node, 1.5, detail=seed * 7) for at_s, node in ((0.4, 0), (2.1, 1), (3.3, 0))]
        outcome = simulated("bid share", seed, faults=faults)
        assert not outcome.problem, str(outcome)


def test_nobody_is_declared_dead_after_a_pause_of_ones_own_or_an_outage_of_the_log():
    for kind in (Kind.LOG_OUTAGE, Kind.STALL):
        outcome = simulated("bid share", 1, nodes=1, faults=[Fault(kind, 1.0, 0, 10.0, 0)])
        assert not outcome.problem, str(outcome)
