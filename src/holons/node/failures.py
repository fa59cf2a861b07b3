"""Why jobs cannot continue, and that everybody learns of it."""

from __future__ import annotations

from holons.errors import DescribedError
from holons.node.jobs import Decisions, stop
from holons.node.messages import Stopped


class Failures:
    """The errors that have stopped jobs on this node, and reports of them that are not written yet."""

    def __init__(self, decisions: Decisions) -> None:
        self.errors: dict[str, DescribedError] = {}
        self._decisions = decisions
        self._unreported: list[Stopped] = []
        self.missing: dict[str, float] = {}
        """Jobs of which a checkpoint is missing, and since when: its holder may only be cut off."""

    def add(self, job: str, error: DescribedError) -> None:
        """A job has failed here; it is to stop everywhere."""
        self.errors[job] = error
        self._unreported.append(Stopped.by(job, error))

    def stop(self, stopped: Stopped) -> None:
        """Reports that a job is to stop everywhere. If another report waits, this one is decided again later."""
        self._unreported = self._unreported or [stopped]

    def report(self) -> None:
        """Writes what is not reported yet."""
        while self._unreported:
            stop(self._unreported[0], self._decisions)
            self._unreported.pop(0)

    def missing_s(self, job: str, now_s: float) -> float:
        """A checkpoint of a job is missing; returns for how long it has been."""
        return now_s - self.missing.setdefault(job, now_s)
