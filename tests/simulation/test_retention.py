"""Rows of inputs go while nodes, drivers and trimmers die at any operation: what comes out is the same."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.simulation.scenarios import prepared

from holons.engines.simulator import Outcome, Simulation, Stage
from holons.engines.simulator.faults import FIRST_KINDS, Kind
from holons.errors import PromiseBroken
from holons.examples import example
from holons.node import Jobs, Ports, Settings, recovery, retain, retention, submit

SETTINGS = Settings(
    rows_max=3, residence_s=1.0, snapshot_deltas=4, poison_deaths=100, checkpoint_s=0.2, idle_s=None, replicas=2
)
KINDS = (*FIRST_KINDS, Kind.ACTOR_CRASH)


@dataclass(frozen=True)
class Submits:
    """Submits a job, and gives the nodes its code, as often as it is started."""

    name: str = "driver"

    def run(self, stage: Stage) -> None:
        job = example("bid_share")
        stage.sleep(stage.random.uniform(0.0, 0.5))
        version = submit(job, stage.ports())
        stage.assign(version.id, job, version.cuts)


@dataclass(frozen=True)
class Retains:
    """Keeps no row that nobody needs, for as long as rows come and a while longer."""

    name: str = "keeper"

    def run(self, stage: Stage) -> None:
        while not stage.simulation.world.jobs().versions:
            stage.sleep(0.1)  # a job that is submitted later begins later: that is another test
        rules = stage.simulation.world.retention()
        for stream in stage.simulation.world.inputs:
            rules.keep_input(stream, "0s")
        while stage.simulation.world.now_s < 12.0:
            stage.sleep(stage.random.uniform(0.1, 0.6))
            retain(stage.ports())


def run(seed: int) -> tuple[Outcome, int]:
    """Returns what became of a run, and how many rows and marks were trimmed."""
    _, streams, expected = prepared("bid share", seed % 8)
    actors = [Submits(), Retains(), Retains()]
    simulation = Simulation({}, streams, seed, actors=actors, settings=SETTINGS, foreign=seed % 2 == 1, kinds=KINDS)
    try:
        outcome = simulation.run({"BidShare": expected["shares"]})
    except (Exception, PromiseBroken) as error:  # noqa: BLE001 - whatever a node raises is a finding
        outcome = simulation.outcome(f"{type(error).__name__}: {error}")
    finally:
        simulation.cast.close()
    logs = simulation.world.inputs.values()
    return outcome, sum(log.start(place) for log in logs for place in range(log.partitions))


@pytest.mark.parametrize(
    "seeds", [range(12), pytest.param(range(12, 300), marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_what_comes_out_is_the_same_whatever_is_trimmed(seeds):
    trimmed = 0
    for seed in seeds:
        outcome, gone = run(seed)
        assert not outcome.problem, str(outcome)
        trimmed += gone > 0
    assert trimmed > len(seeds) // 2, "nothing much happened"


def only_the_newest_record_is_looked_at(patch):
    def needed_from(store, name, number):
        records = store.durable(f"{name}/{number}/process")
        return records[-1][0] if records else None

    patch.setattr(retention, "needed_from", needed_from)


def who_has_no_record_yet_needs_nothing(patch):
    def needed_from(store, name, number):
        needed = recovery.needed_from(store, name, number)
        return 2**40 if needed is None else needed

    patch.setattr(retention, "needed_from", needed_from)


def jobs_that_do_not_run_now_are_forgotten(patch):
    patch.setattr(Jobs, "readers", lambda self, stream: [])


def a_gap_is_read_over(patch):
    class Blind:
        """An input that does not tell where it begins."""

        def __init__(self, log):
            self._log = log

        def __getattr__(self, name):
            return getattr(self._log, name)

        def start(self, place):
            return 0

    input_of = Ports.__init__

    def blind(self, **ports):
        open_input = ports.pop("input")
        input_of(self, input=lambda stream: Blind(open_input(stream)), **ports)

    patch.setattr(Ports, "__init__", blind)
    patch.setattr(retention, "needed_from", lambda *_: 2**40)


BUGS = {
    only_the_newest_record_is_looked_at: 64,
    who_has_no_record_yet_needs_nothing: 9,
    jobs_that_do_not_run_now_are_forgotten: 7,
    a_gap_is_read_over: 1,
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_whoever_trims_too_far_is_found(bug, monkeypatch):
    bug(monkeypatch)
    for seed in (BUGS[bug], *range(200)):
        outcome, _ = run(seed)
        if outcome.problem:
            assert not any(kind in outcome.problem for kind in ("TypeError", "AttributeError", "NameError"))
            return
    pytest.fail(f"{bug.__name__} was not found")
