"""Seeds of the simulator that once failed."""

from __future__ import annotations

import pytest
from tests.simulation.scenarios import simulated


@pytest.mark.parametrize(
    ("scenario", "seed"),
    [
        ("highest bid", 37),  # a node read on past what was trimmed from the sync stream
        ("two jobs", 6),  # a run that lagged behind another owner's records lost panes to trimming
        ("bid share", 298),  # and its local values too
        ("two jobs", 278),
        ("two jobs", 317),
    ],
)
def test_it_does_not_fail_again(scenario, seed):
    outcome = simulated(scenario, seed)
    assert not outcome.problem, str(outcome)
