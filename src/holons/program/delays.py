"""How long after their own times live rows are appended: what tells how late event time is, once no row comes any more.

The longest delay counts of those of about the last minute of rows, so that a producer which has caught up with a backlog is
no longer taken for late. Late rows do not count. All of it depends on the log alone, not on how it was cut into batches.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holons.windows import BEGINNING

_PERIOD_US: Final = 60_000_000


class Delays(NamedTuple):
    """The longest delays of one partition, in microseconds, in the newest periods of append time that had live rows.

    >>> delays = Delays().noted(appended=70_000_000, delay=5).noted(appended=80_000_000, delay=3)
    >>> delays.longest, delays.noted(130_000_000, 2).longest, delays.noted(130_000_000, 2).noted(190_000_000, 1).longest
    (5, 5, 2)
    """

    period: int = 0
    newest: int = BEGINNING
    before: int = BEGINNING
    """In the period with rows before that one."""

    @property
    def known(self) -> bool:
        """Whether there was any live row."""
        return self.newest > BEGINNING

    @property
    def longest(self) -> int:
        """The longest delay that rows had lately; negative if they were dated ahead."""
        return max(self.newest, self.before)

    def noted(self, appended: int, delay: int) -> Delays:
        """Returns the delays once a row was appended so long after its own time."""
        period = appended // _PERIOD_US
        if period == self.period:
            return self._replace(newest=max(self.newest, delay))
        return Delays(period, delay, self.newest)


NO_DELAYS: Final = Delays()
