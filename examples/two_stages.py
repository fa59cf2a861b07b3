"""A two-stage chain: the busiest second of each minute, over all partitions.

Stage 0 counts per second. Its `on_window` feeds stage 1, which has a clock of its own and picks the best per minute.
"""

from __future__ import annotations

from collections.abc import Iterator

import holons as h


class BusiestSecond(h.Program):
    """The second with the most events, per minute."""

    emit = "once"

    counts = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    busiest = h.WCRDT(h.TopK(1), h.Tumbling("1m"), stage=1)

    def process(self, events: h.Events) -> None:
        self.counts.insert(1, events.ts)

    @h.on_window(counts)
    def each_second(self, window: h.Window) -> None:
        self.busiest.insert((self.counts[window], window.start), window)

    @h.on_window(busiest)
    def each_minute(self, window: h.Window) -> Iterator[dict[str, object]]:
        for count, second in self.busiest[window]:
            yield {"minute": window.start, "second": second, "events": count}


job = h.job(BusiestSecond(), "events")
