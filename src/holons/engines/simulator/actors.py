"""The port of actors: whoever works beside the nodes (drivers, producers) as plain code that can die at any operation.

Each incarnation of an actor runs in a thread of its own, but only one thread runs at any time: at each of its operations an
actor stands still, and the simulation decides when it goes on. So two drivers meet between any two of their messages, and
a seed still names one run for good.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from holons.clock import Random, seeded
from holons.engines.simulator.damage import SimulatedCrash
from holons.engines.simulator.world import Gate, GatedSite
from holons.errors import LogUnavailable, StoreUnavailable

if TYPE_CHECKING:
    from holons.engines.simulator.simulation import Simulation
    from holons.node import Ports
    from holons.program import Cut, Job

_OPERATION_S = 0.03
"""An operation of an actor takes up to so long; every tenth one takes ten times as long."""
_AGAIN_AFTER_S = 0.5
"""An actor to which a log did not answer begins again so much later."""


class Actor(Protocol):
    """Somebody beside the nodes. A description: whatever it must know again after its death it reads from the site."""

    @property
    def name(self) -> str:
        """What its incarnations are called: `NAME-NUMBER#INCARNATION`. Nodes are called `node`."""
        ...

    def run(self, stage: Stage) -> None:
        """Does everything that it has to do, from the beginning: it has just been started, for the first time or again.

        It may return early, or raise what `HolonsError` it likes if that is right: such an error is a finding.
        """
        ...


@dataclass
class Stage:
    """The world as one incarnation of an actor uses it."""

    simulation: Simulation
    gate: ActorGate
    incarnation: int

    @property
    def name(self) -> str:
        """The name of this incarnation, under which it opens logs."""
        return self.gate.name

    @property
    def site(self) -> GatedSite:
        """The site, behind this incarnation's gate."""
        return GatedSite(self.gate)

    def ports(self) -> Ports:
        """Returns the site's ports, opened by this incarnation."""
        return self.gate.ports()

    @property
    def random(self) -> Random:
        """Chances that depend on the seed and this incarnation only."""
        return self.gate.random

    def sleep(self, seconds: float) -> None:
        """Lets virtual time pass."""
        self.gate.sleep(seconds)

    def assign(self, version: str, job: Job, cuts: Sequence[Cut] = ()) -> None:
        """Gives all nodes, those that are up and those to come, the code of a version of a job."""
        self.gate.pass_through(f"assign {version}")
        self.simulation.assign(version, job, cuts)

    def note(self, what: str) -> None:
        """Adds a line to the trace."""
        self.simulation.note(f"{self.name}: {what}")


@dataclass
class ActorGate(Gate):
    """A gate at which an actor stands still before each operation."""

    performance: Performance = field(kw_only=True)
    random: Random = field(kw_only=True)

    def pass_through(self, what: str) -> None:
        slow = 10.0 if self.random.random() < 0.1 else 1.0
        self.performance.pause(self.random.uniform(0.0, _OPERATION_S) * slow)
        super().pass_through(what)

    def look(self, what: str) -> None:
        self.log(what)

    def sleep(self, seconds: float) -> None:
        self.performance.pause(seconds)


class Performance:
    """One incarnation of an actor: it goes on when it is told to, and stands still at its next operation."""

    def __init__(self, actor: Actor, number: int, incarnation: int, simulation: Simulation) -> None:
        name = f"{actor.name}-{number}#{incarnation}"
        chances = seeded(zlib.crc32(f"{simulation.world.seed}/{name}".encode()))
        self.gate = ActorGate(simulation.world, -1, name, performance=self, random=chances)
        self.ended = False
        """Whether it has done all that it had to do."""
        self.died: str | None = None
        """What it died of."""
        self._actor = actor
        self._stage = Stage(simulation, self.gate, incarnation)
        self._raised: BaseException | None = None
        self._pause_s = 0.0
        self._goes_on = threading.Semaphore(0)
        self._stands_still = threading.Semaphore(0)
        self._abandoned = False
        self._thread = threading.Thread(target=self._perform, name=name, daemon=True)
        self._thread.start()

    def go_on(self) -> float:
        """Lets the actor go on to its next operation, or its end; returns after how long it wants to go on again."""
        self._goes_on.release()
        self._stands_still.acquire()
        if self._raised is not None:
            raise self._raised
        return self._pause_s

    def pause(self, seconds: float) -> None:
        """Stands still, in the actor's own thread, until it is told to go on."""
        self._pause_s = seconds
        self._stands_still.release()
        self._goes_on.acquire()
        if self._abandoned:
            raise SimulatedCrash(f"{self.gate.name} is abandoned")

    def abandon(self) -> None:
        """Ends the actor where it stands, at the end of a run."""
        self._abandoned = True
        if self._thread.is_alive():
            self._goes_on.release()
            self._thread.join()

    def _perform(self) -> None:
        self._goes_on.acquire()
        try:
            if not self._abandoned:
                self._actor.run(self._stage)
                self.ended = True
        except (SimulatedCrash, LogUnavailable, StoreUnavailable) as death:
            self.died = f"{self.gate.name} ends: {death}"
        except BaseException as error:  # noqa: BLE001 - raised in the simulation's thread
            self._raised = error
        finally:
            self._stands_still.release()


class Cast:
    """All actors of a run, each with the incarnation of it that is up."""

    def __init__(self, actors: Sequence[Actor], simulation: Simulation) -> None:
        self._actors = tuple(actors)
        self._simulation = simulation
        self._performances = [Performance(actor, number, 1, simulation) for number, actor in enumerate(actors)]
        self._incarnations = [1] * len(actors)
        self._stalled_until_s = [0.0] * len(actors)

    def __len__(self) -> int:
        return len(self._actors)

    @property
    def ended(self) -> bool:
        """Whether all have done what they had to do."""
        return all(performance.ended for performance in self._performances)

    def go_on(self, number: int) -> float | None:
        """Lets an actor go on; returns after how long again, or None once it has done all it had to do."""
        stalled_s = self._stalled_until_s[number] - self._simulation.world.now_s
        if stalled_s > 0.0:
            return stalled_s
        performance = self._performances[number]
        pause_s = performance.go_on()
        if performance.died is not None:
            self._simulation.note(performance.died)
            self._simulation.world.sightings["an actor died"] += 1
            return self._begin_again(number)
        return None if performance.ended else pause_s

    def begin_again(self, kind: type) -> dict[int, float]:
        """Lets actors of a kind that had done all they had to do look once more; returns after how long they go on."""
        ended = [
            at for at, actor in enumerate(self._actors) if isinstance(actor, kind) and self._performances[at].ended
        ]
        return {number: self._begin_again(number) for number in ended}

    def _begin_again(self, number: int) -> float:
        self._incarnations[number] += 1
        again = Performance(self._actors[number], number, self._incarnations[number], self._simulation)
        self._performances[number] = again
        return _AGAIN_AFTER_S + again.gate.random.uniform(0.0, 2.0)

    def kill(self, number: int, operations: int) -> None:
        """Lets an actor die after so many more operations; it starts again a little later."""
        performance = self._performances[number % len(self)]
        if not performance.ended:
            performance.gate.operations_left = operations

    def stall(self, number: int, until_s: float) -> None:
        """Lets an actor stand still, wherever it is."""
        self._stalled_until_s[number % len(self)] = until_s

    def close(self) -> None:
        """Ends all threads."""
        for performance in self._performances:
            performance.abandon()
