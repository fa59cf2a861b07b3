"""Actors work beside the nodes, die between any two of their operations, and a seed is one run for good."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import pairwise

from tests.simulation.scenarios import prepared

from holons.engines.simulator import Fault, Kind, Outcome, Simulation, Stage, simulate
from holons.examples import example
from holons.node import submit


@dataclass(frozen=True)
class Submits:
    """Submits a job, and gives the nodes its code, as often as it is started."""

    name: str = "driver"

    def run(self, stage: Stage) -> None:
        job = example("bid_share")
        stage.sleep(stage.random.uniform(0.0, 0.5))
        version = submit(job, stage.ports())
        stage.assign(version.id, job, version.cuts)


def run_with_driver(seed: int, **options: object) -> Outcome:
    _, streams, expected = prepared("bid share", seed % 8)
    return simulate({}, streams, {"BidShare": expected["shares"]}, seed, actors=[Submits()], **options)


def test_a_driver_that_dies_again_and_again_gets_its_job_run():
    faults = [Fault(Kind.ACTOR_CRASH, at_s, 0, 1.0, detail) for at_s, detail in ((0.0, 3), (0.6, 7), (3.0, 1))]
    outcome = run_with_driver(5, faults=faults)
    assert not outcome.problem, str(outcome)
    assert any("driver-0#1 ends: driver-0#1 dies at" in line for line in outcome.trace), str(outcome)


def test_a_run_with_actors_replays_exactly():
    first, second = (run_with_driver(8, kinds=tuple(Kind)) for _ in range(2))
    assert first.trace == second.trace
    assert not first.problem, str(first)


@dataclass(frozen=True)
class Counts:
    """Looks at the control log again and again, and notes who did so."""

    seen: list[str]
    name: str = "counter"

    def run(self, stage: Stage) -> None:
        control = stage.ports().control
        for _ in range(20):
            control.read({}, 1)
            self.seen.append(stage.name)


def test_actors_take_turns_between_any_two_of_their_operations():
    seen: list[str] = []
    simulate({}, {}, {}, 3, actors=[Counts(seen), Counts(seen)], faults=())
    assert set(seen) == {"counter-0#1", "counter-1#1"}
    assert sum(one != other for one, other in pairwise(seen)) > 5


class Raises:
    name = "driver"

    def run(self, stage: Stage) -> None:
        raise ZeroDivisionError("a mistake of its own")


def test_what_an_actor_raises_is_a_finding():
    assert "ZeroDivisionError: a mistake" in simulate({}, {}, {}, 0, actors=[Raises()], faults=()).problem


def test_no_thread_is_left_behind():
    before = threading.active_count()
    simulation = Simulation({}, {}, 0, actors=[Counts([]), Counts([])])
    simulation.cast.go_on(0)
    simulation.cast.close()
    assert threading.active_count() == before
