"""The control log as one node reads it: every message once, and which of them no longer matter."""

from __future__ import annotations

from collections.abc import Iterator

from holons.node.jobs import Jobs
from holons.node.messages import Claim, Control, decode_control
from holons.node.ownership import Trail
from holons.streams import Cursor, SharedLog


class ControlReader:
    """Reads the control log from its beginning on."""

    def __init__(self, log: SharedLog, messages_max: int) -> None:
        self._log = log
        self._messages_max = messages_max
        self._cursor: Cursor = {}
        self.jobs = Jobs()
        """What the control log says about jobs."""
        self.trail = Trail()
        """The messages that were read, to tell which may be trimmed."""

    def read(self) -> Iterator[Control]:
        """Yields the messages that have come. Nobody may stop in their midst: the cursor has moved past all of them."""
        starts = self._log.starts()
        for message in self._log.read(self._cursor, self._messages_max):
            control = decode_control(message.data)
            claim = control if isinstance(control, Claim) else None
            self.trail.add(message.writer, message.position, claim, starts.get(message.writer, 0))
            self.jobs.merge(control)
            yield control
