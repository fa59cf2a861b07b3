"""How previews of unsealed state go from node to node: a stream of their own, of which only the end matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holons.errors import CodecError, LogDamaged, LogUnavailable
from holons.node.settings import MESSAGES_MAX
from holons.program import SharedState
from holons.streams import Cursor, SharedLog
from holons.wcrdt import Seal

if TYPE_CHECKING:
    from holons.node.job_on_node import JobOnNode

_BEHIND_MAX = 4
"""A preview that has not changed is sent again once this many messages, for each that is sent here, follow it."""


class PreviewExchange:
    """Sends what the partitions here have open, and takes in what others have. Nothing depends on it but `peek`."""

    def __init__(self, here: JobOnNode) -> None:
        self._here = here
        self._stream: SharedLog | None = None
        self._state: SharedState | None = None
        self._cursor: Cursor = {}
        self._sent: dict[tuple[int, int], tuple[int, tuple[Seal, ...]]] = {}
        self._sent_at_s = float("-inf")

    def exchange(self) -> None:
        """Sends once in a while, and listens; neither if previews are off. A log that does not answer costs nothing."""
        interval_s, now_s = self._here.settings.preview_s, self._here.ports.clock.now_s()
        if interval_s is None:
            return
        try:
            if self._stream is None:
                self._stream = self._here.ports.previews(self._here.name)
            if now_s - self._sent_at_s >= interval_s:
                self._send(self._stream)
                self._sent_at_s = now_s
            self._listen(self._stream)
        except (LogUnavailable, LogDamaged, CodecError):
            return

    def _send(self, stream: SharedLog) -> None:
        """Sends what has changed, then trims below the oldest message that still matters.

        One that never changes would keep the others from being trimmed, so it is sent again before long.
        """
        previews = [preview for tasklet in self._here.tasklets.values() for preview in tasklet.run.previews()]
        running = {(preview.stage, preview.partition) for preview in previews}
        self._sent = {key: sent for key, sent in self._sent.items() if key in running}
        newest = max((position for position, _ in self._sent.values()), default=-1)
        for preview in previews:
            position, panes = self._sent.get((preview.stage, preview.partition), (-1, ()))
            stale = position >= 0 and newest - position > _BEHIND_MAX * len(previews)
            if panes != preview.panes or stale:
                newest = stream.append(preview.encode())
                self._sent[preview.stage, preview.partition] = newest, preview.panes
        if self._sent:
            stream.trim({stream.writer: min(position for position, _ in self._sent.values())})

    def _listen(self, stream: SharedLog) -> None:
        state = self._here.state
        if state is not self._state:  # a new state knows of no previews
            self._state, self._cursor = state, {}
        for message in stream.read(self._cursor, MESSAGES_MAX):
            state.receive_preview(message.data)
