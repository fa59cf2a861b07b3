"""Each partition's share of all bids, per second: the first query of Holon Streaming.

`total` is one number over all partitions, `local` this partition's part of it. A window is read once every partition
has sealed it, so the share is the same on every machine and in every run.
"""

from __future__ import annotations

from collections.abc import Iterator

import holons as h


class BidShare(h.Program):
    """Each partition's share of all bids, per second."""

    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    local = h.WLocal(h.GCounter(), h.Tumbling("1s"))

    def process(self, events: h.Events) -> None:
        bids = events.where(events["kind"] == "bid")
        self.total.insert(1, bids.ts)
        self.local.insert(1, bids.ts)

    def on_window(self, window: h.Window) -> Iterator[dict[str, object]]:
        yield {"window": window.start, "share": self.local[window] / self.total[window]}


job = h.job(BidShare(), "bids")
