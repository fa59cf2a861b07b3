"""An alert when traffic jumps: the rule of the Windowed CRDT paper.

Each partition compares every visit count it sees with the average of the window before, taken over *all* partitions.
It awaits that average, so the program branches on a global value and is still deterministic: the runtime parks the
call until the window is completed, and goes on elsewhere meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

import holons as h

MINUTE = h.Tumbling("1m")


class AlertRule(h.Program):
    """Rows that exceed the last minute's global average by 10%, and a summary of each minute."""

    visits = h.WCRDT(h.Average("int"), MINUTE)
    alerts = h.WCRDT(h.GCounter(), MINUTE)

    async def process(self, events: h.Events) -> None:
        self.visits.insert(events["visitors"], events.ts)
        for window, run in events.by_window(self.visits):
            usual = await self.visits.completed(MINUTE.before(window))
            if usual is not None:
                jumps = run.where(run["visitors"] > 1.1 * usual)
                self.alerts.insert(1, jumps.ts)
                self.output(jumps.select("server", "visitors", usual=pl.lit(usual)))

    def on_window(self, window: h.Window) -> Iterator[dict[str, object]]:
        yield {"minute": window.start, "average": self.visits[window], "alerts": self.alerts[window]}


job = h.job(AlertRule(), "visits")
