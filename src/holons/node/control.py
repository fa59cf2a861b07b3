"""The control log as one node reads it: every claim once, and which of them no longer matter."""

from __future__ import annotations

from collections.abc import Iterator

from holons.node.messages import Claim, decode_claim
from holons.node.ownership import Trail
from holons.streams import Cursor, SharedLog


class ControlReader:
    """Reads the control log from its beginning on."""

    def __init__(self, log: SharedLog, messages_max: int) -> None:
        self._log = log
        self._messages_max = messages_max
        self._cursor: Cursor = {}
        self.trail = Trail()
        """The claims that were read, to tell which may be trimmed."""

    def read(self) -> Iterator[Claim]:
        """Yields the claims that have come. Nobody may stop in their midst: the cursor has moved past all of them."""
        starts = self._log.starts()
        for message in self._log.read(self._cursor, self._messages_max):
            claim = decode_claim(message.data)
            self.trail.add(message.writer, message.position, claim, starts.get(message.writer, 0))
            yield claim
