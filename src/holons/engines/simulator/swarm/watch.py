"""Those who watch a run from outside: invariants, which must hold at every step, and situations, which are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holons.engines.simulator.swarm.run import SwarmRun
    from holons.node import Node


class Violation(Exception):
    """An invariant does not hold."""


class Watch:
    """Looks at a run. Nothing that it sees or keeps changes the run."""

    name = ""

    def ticked(self, run: SwarmRun, node: Node) -> None:
        """Looks at a node that has just had its turn, and lives."""

    def stepped(self, run: SwarmRun) -> None:
        """Looks at the site after each step of anybody."""

    def look(self, run: SwarmRun) -> None:
        """Looks at everything, a few times in a virtual second."""

    def at_the_end(self, run: SwarmRun) -> None:
        """Looks at a run whose outputs are complete."""

    def check(self, run: SwarmRun, holds: object, what: str) -> None:
        """Raises `Violation`, which says what was seen and when, unless something holds."""
        if not holds:
            raise Violation(f"invariant broken at {run.world.now_s:.3f} s: {self.name}: {what}")
