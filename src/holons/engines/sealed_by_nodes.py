"""What nodes have sealed of a job, to be compared with what its program should have sealed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from holons.errors import CodecError, RecordDamaged
from holons.node.recovery import STATE
from holons.program import Job
from holons.store import Store
from holons.streams import SharedLog
from holons.wcrdt import Delta, Handle, Replica, decode_message
from holons.windows import BEGINNING

Verdict: TypeAlias = Literal["agrees", "differs", "trimmed", "not sealed"]
"""Whether nodes sealed the same, something else, something that was trimmed since, or nothing yet."""

_MESSAGES_PER_READ = 10_000


class SealedByNodes:
    """The seals of a job, as far as its sync stream and its stored replicas still have them."""

    def __init__(self, deltas: Iterable[Delta], replica: Replica | None = None) -> None:
        self._deltas: dict[tuple[int, int], list[Delta]] = {}
        for delta in deltas:
            self._deltas.setdefault((delta.stage, delta.partition), []).append(delta)
        self._replica = replica

    @classmethod
    def read(
        cls, job: Job, partitions: int, sync: SharedLog, store: Store | None = None, name: str = ""
    ) -> SealedByNodes:
        """Reads a job's sync stream, and the newest replica that is stored whole. The job may run under another `name`."""
        deltas: list[Delta] = []
        cursor: dict[str, int] = {}
        while messages := sync.read(cursor, _MESSAGES_PER_READ):
            decoded = (decode_message(message.data) for message in messages)
            deltas += (delta for delta in decoded if isinstance(delta, Delta))
        name = f"{name or job.name}/replica"
        for position in reversed(store.positions(name) if store is not None else []):
            assert store is not None
            try:
                snapshot = STATE.header(store.get(name, position)).state
            except (RecordDamaged, CodecError):
                continue
            return cls(deltas, Replica.resumed(job.layout.handles, partitions, snapshot))
        return cls(deltas)

    def compare(self, index: int, handle: Handle, partition: int, ours: Mapping[int, bytes | None]) -> Verdict:
        """Compares panes of one partition, each with the payload that it should have."""
        theirs = {pane: self._look(index, handle, partition, pane) for pane in ours}
        if any(isinstance(sealed, tuple) and sealed[0] != ours[pane] for pane, sealed in theirs.items()):
            return "differs"
        missing = [sealed for sealed in theirs.values() if isinstance(sealed, str)]
        return missing[0] if missing else "agrees"

    def _look(
        self, index: int, handle: Handle, partition: int, pane: int
    ) -> tuple[bytes | None] | Literal["trimmed", "not sealed"]:
        end, reached = handle.window.pane_end(pane), BEGINNING
        for delta in self._deltas.get((handle.stage, partition), []):
            reached = max(reached, delta.end)
            if delta.start < end <= delta.end:
                same = (seal.payload for seal in delta.seals if (seal.handle, seal.pane) == (index, pane))
                return (next(same, None),)
        if self._replica is not None:
            panes, progress = self._replica.panes[index], self._replica.progress[handle.stage][partition]
            if progress >= end and handle.window.pane_needed_until(pane) > panes.trimmed_to:
                return (panes.get(pane, partition),)
            reached = max(reached, progress)
        return "trimmed" if reached >= end else "not sealed"
