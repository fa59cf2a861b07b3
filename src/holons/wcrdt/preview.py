"""Previews: what partitions have inserted into windows that they have not sealed yet. Only `peek` uses them.

Previews travel apart from deltas, complete nothing, are part of no snapshot, and may be lost at any time. Of each partition
only the newest preview counts (the one with the highest position), and of that only panes that it has not sealed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from holons import wire
from holons.algebra import State
from holons.errors import InvariantBroken
from holons.wcrdt.delta import Seal
from holons.wcrdt.handle import Handle
from holons.wcrdt.panes import SealedPanes
from holons.windows import Window


class Preview(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """All open panes of one partition in one stage: a pane that is missing is empty."""

    stage: int
    partition: int
    position: int
    """How far the partition was: its offset in stage 0, its number of calls of `on_window` in later stages."""
    panes: tuple[Seal, ...] = ()

    def encode(self) -> bytes:
        return wire.encode(self)

    @staticmethod
    def decode(data: bytes) -> Preview:
        return _decode(data)


class Previews:
    """The newest preview of every partition."""

    def __init__(self, handles: Sequence[Handle]) -> None:
        self._handles = handles
        self._newest: dict[tuple[int, int], Preview] = {}

    def take(self, preview: Preview, progress: Sequence[Sequence[int]]) -> None:
        """Keeps a preview if it is the newest of its partition, without what has been sealed; `progress` is by stage."""
        stage, partition = preview.stage, preview.partition
        known = 0 <= stage < len(progress) and 0 <= partition < len(progress[stage])
        if not known or any(not 0 <= pane.handle < len(self._handles) for pane in preview.panes):
            raise InvariantBroken(
                f"complete-before-read: a preview of stage {stage}, partition {partition}",
                hint="the preview stream belongs to another program, or the job's partitions changed",
            )
        before = self._newest.get((stage, partition))
        if before is None or before.position <= preview.position:
            panes = tuple(pane for pane in preview.panes if self._end(pane) > progress[stage][partition])
            self._newest[stage, partition] = msgspec.structs.replace(preview, panes=panes)

    def unsealed(self, index: int, progress: Sequence[int]) -> list[dict[int, bytes]]:
        """Returns the open panes of a handle, in partition order, beyond what each partition has sealed."""
        stage = self._handles[index].stage
        panes_by_partition = []
        for partition, sealed_to in enumerate(progress):
            preview = self._newest.get((stage, partition), Preview(stage, partition, 0))
            unsealed = (pane for pane in preview.panes if pane.handle == index and self._end(pane) > sealed_to)
            panes_by_partition.append({pane.pane: pane.payload for pane in unsealed})
        return panes_by_partition

    def _end(self, pane: Seal) -> int:
        return self._handles[pane.handle].window.pane_end(pane.pane)

    def bytes_held(self) -> int:
        """Returns the size of all previews."""
        return sum(len(pane.payload) for preview in self._newest.values() for pane in preview.panes)


def known_state(panes: SealedPanes, window: Window, unsealed: Iterable[Mapping[int, bytes]]) -> State | None:
    """Returns everything that is known of a window, first what is sealed, then what is open; None if that is nothing.

    With `accumulate`, a window contains everything before it: seals already do, and open panes are added.
    """
    aggregate, wanted = panes.handle.aggregate, panes.handle.window.panes(window)
    state = panes.state_so_far(window)
    for opened in unsealed:
        for pane in sorted(opened):
            if pane in wanted or (panes.handle.accumulate and pane < wanted.start):
                part = aggregate.decode(opened[pane])
                state = part if state is None else aggregate.merge(state, part)
    return state


_decode: Callable[[bytes], Preview] = wire.decoder(Preview, "a preview", "the preview stream")
