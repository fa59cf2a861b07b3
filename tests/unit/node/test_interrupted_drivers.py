"""Real drivers that die, or stand still, at each moment of a decision: it is made as a whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.node.interrupted_driver import NAME, submitted, variant
from tests.unit.streams.other_process import processes

from holons.engines.directory_site import DirectorySite

DIGESTS = [variant(number).digest for number in range(3)]


def moments(how: str, what: str, directory: Path) -> list[tuple[Path, str, str]]:
    """Runs a driver for each moment; returns the site of each, and what the one meanwhile and the driver itself got."""
    with processes("tests.unit.node.interrupted_driver") as start:
        lines = [line.split() for line in start(how, what, directory).rest()]
    assert len(lines) > 20, "a decision has more moments than that"
    return [(directory / number, meanwhile, outcome) for number, meanwhile, outcome in lines]


@pytest.mark.parametrize(
    "what", ["upgrade", *(pytest.param(other, marks=pytest.mark.slow) for other in ("submit", "cancel"))]
)
def test_a_driver_that_is_killed_has_decided_or_has_not(tmp_path, what):
    before, after = {"submit": (None, 1), "upgrade": (0, 1), "cancel": (0, None)}[what]
    stands = []
    for site, _, _ in moments("killed", what, tmp_path):
        jobs = DirectorySite(site).jobs()
        running = jobs.running(NAME)
        stands.append(None if running is None else DIGESTS.index(running.digest))
        if stands[-1] is not None:
            assert submitted(stands[-1], site, "driver-3") == DIGESTS[stands[-1]], "what stands goes on"
            assert submitted(2, site, "driver-4") == "JobRunning"
        elif what == "cancel":
            assert submitted(2, site, "driver-4") == DIGESTS[2], "its name is free"
        if what == "upgrade":
            history = [DIGESTS.index(version.digest) for version in jobs.history(NAME)]
            assert history == ([0, 1] if stands[-1] == 1 else [0])
    assert stands == sorted(stands, key=[before, after].index)
    assert {before, after} == set(stands)


def test_of_two_drivers_one_of_which_stands_still_one_is_refused(tmp_path):
    winners = []
    for site, meanwhile, outcome in moments("stopped", "submit", tmp_path):
        assert (meanwhile, outcome) in ((DIGESTS[2], "JobRunning"), ("JobRunning", DIGESTS[1]))
        (version,) = DirectorySite(site).jobs().versions.values()
        winners.append(version.digest)
        assert version.digest in (meanwhile, outcome)
    assert set(winners) == set(DIGESTS[1:])
