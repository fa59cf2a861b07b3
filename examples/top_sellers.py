"""The best sellers of the last ten seconds, every second, over all partitions.

Revenue by seller is a map CRDT: no shuffle, every node holds it. One fixed partition emits the answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import holons as h


class TopSellers(h.Program):
    """The k sellers with the highest revenue, sliding."""

    emit = "once"

    revenue = h.WCRDT(h.MergeMap(h.Sum("int")), h.Sliding("10s", every="1s"))

    def __init__(self, k: int = 3) -> None:
        self.k = k

    def process(self, events: h.Events) -> None:
        self.revenue.insert((events["seller"], events["price"]), events.ts)

    def on_window(self, window: h.Window) -> Iterator[dict[str, object]]:
        for rank, (seller, revenue) in enumerate(self.revenue[window].top(self.k), start=1):
            yield {"end": window.end, "rank": rank, "seller": seller, "revenue": revenue}


job = h.job(TopSellers(), "sales", disorder="500ms")
