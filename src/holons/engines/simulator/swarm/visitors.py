"""Those who come by: with wrong wishes, with jobs that soon go again, or to restart nodes in good order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from holons.engines.simulator.actors import Stage
from holons.errors import BadInput, JobRunning
from holons.node import Decisions, Settings, cancel, retain, submit
from holons.program import Input, Job

_SHORT_JOBS = (17, 17, 17, 40)
"""So many jobs come and go: with their ends more decisions than a journal keeps, and fewer than its summary forgets."""
_DOWN_S = 1.5


@dataclass(frozen=True)
class Mistaken:
    """Somebody who asks for what cannot be done. Each wish is refused, with an error that says so, and changes nothing."""

    at_s: float
    job: Job
    stays: bool
    """Whether the job, once it was submitted, runs until the end."""
    name: str = "mistaken"

    def run(self, stage: Stage) -> None:
        stage.sleep(max(self.at_s - stage.simulation.world.now_s, 0.0))
        decisions = Decisions(stage.ports().decisions)
        decisions.read()
        runs = self.stays and decisions.jobs.running(self.job.name) is not None
        for wish, kind, ask in (*self._always(stage), *(self._while_it_runs(stage) if runs else ())):
            try:
                ask()
            except kind:
                stage.simulation.world.sightings["a wrong wish refused"] += 1
            else:
                raise AssertionError(f"nobody refused {wish}")
        stage.simulation.world.sightings["a running job's name refused to others"] += runs
        decisions.read()
        mine = [version.id for version in decisions.jobs.versions.values() if version.writer == stage.name]
        assert not mine, f"what was refused is there: {mine}"

    def _always(self, stage: Stage) -> Iterator[tuple[str, type[Exception], Callable[[], Any]]]:
        ports = stage.ports()
        nowhere = replace(self.job, name="nowhere", inputs=(Input("nowhere"),))
        yield "an idle time that is none", BadInput, lambda: Settings(idle_s="soon")  # type: ignore[arg-type]
        yield "a guarantee that is none", BadInput, lambda: Settings(guarantee="twice")  # type: ignore[arg-type]
        yield "a durability that is none", BadInput, lambda: Settings(durability="tape")  # type: ignore[arg-type]
        yield "a disk, where nothing is kept on one", BadInput, lambda: stage.site.at_least("disk")
        yield "a job without its input", BadInput, lambda: submit(nowhere, ports)
        yield "the end of a job that is not there", BadInput, lambda: cancel("nobody", ports)

    def _while_it_runs(self, stage: Stage) -> Iterator[tuple[str, type[Exception], Callable[[], Any]]]:
        ports, inputs = stage.ports(), self.job.inputs
        stage.simulation.world.create("elsewhere", 1)
        others = (*inputs[1:], Input("elsewhere"))
        other = replace(self.job, inputs=tuple(replace(source, disorder="77s") for source in inputs))
        yield "another job of that name", JobRunning, lambda: submit(other, ports)
        yield (
            "an upgrade with other inputs",
            BadInput,
            lambda: submit(replace(other, inputs=others), ports, upgrade=True),
        )


@dataclass(frozen=True)
class ShortJobs:
    """Submits and cancels other jobs, one after the other, so that the journal of jobs is soon replaced by its summary."""

    job: Job
    at_s: float
    name: str = "short-jobs"

    def run(self, stage: Stage) -> None:
        stage.sleep(max(self.at_s - stage.simulation.world.now_s, 0.0))
        world = stage.simulation.world
        ports = world.ports(stage.name)  # nothing goes wrong with these; the drivers of other jobs meet them
        for number in range(stage.random.choice(_SHORT_JOBS)):
            job = replace(self.job, name=f"short {number % 3} of {self.job.name}")
            if world.jobs().running(job.name) is None:
                submit(job, ports)
                stage.sleep(stage.random.uniform(0.0, 0.05))
            cancel(job.name, ports)
        retain(stage.ports())
        world.sightings["the journal of jobs summarised"] += world.decided.start(0) > 0


@dataclass(frozen=True)
class Operator:
    """Restarts the nodes one by one, each in good order: it says that it ends, and stores where it is."""

    at_s: float
    name: str = "operator"

    def run(self, stage: Stage) -> None:
        simulation = stage.simulation
        stage.sleep(max(self.at_s - simulation.world.now_s, 0.0))
        for member in list(simulation.members):
            stage.gate.pass_through(f"restart node {member.number}")
            if member.node is not None and not member.gone:
                simulation.stop_in_order(member, _DOWN_S)
                simulation.world.sightings["a node restarted in good order"] += 1
            stage.sleep(stage.random.choice([0.0, 0.3, _DOWN_S]))
