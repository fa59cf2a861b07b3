"""Swarm runs: everything is drawn from the seed, nothing diverges, and a seed is one run for good."""

from __future__ import annotations

import os

import pytest

from holons.cli.swarm import COVERED, run_seed
from holons.engines.simulator.swarm import MET_WITHIN, draw, never_met
from holons.engines.simulator.swarm.line_coverage import LineCoverage
from holons.engines.simulator.swarm.unreachable import UNREACHABLE

SEEDS = int(os.environ.get("HOLONS_SWARM_SEEDS", "240" if os.environ.get("HOLONS_VERIFY") == "1" else "24"))
"""How many seeds are run; `make sim` runs 2,000. Every tenth one runs twice, and must be the same."""


@pytest.mark.parametrize("block", range(4))
def test_nothing_diverges(block):
    for seed in range(block, SEEDS, 4):
        seen = run_seed(seed)
        assert not seen.outcome.problem, f"{seen.drawn} {seen.outcome}"


def test_a_seed_draws_the_same_again():
    for seed in range(30):
        assert draw(seed).lines() == draw(seed).lines()


def test_what_was_never_met_is_named():
    assert never_met({}, 10) == []
    assert set(never_met({}, 10_000)) == set(MET_WITHIN)
    assert "parked" not in never_met({"parked": 1}, 10_000)


def test_lines_that_no_run_can_reach_are_there_and_do_not_count():
    everything, reachable = (LineCoverage(COVERED, lines) for lines in ((), UNREACHABLE))
    assert reachable.unreachable == set(UNREACHABLE), "remove from the list what is not in the code any more"
    assert everything.lines != reachable.lines
