"""A program made of programs: the same two parts, composed.

`Share` and `Highest` are ordinary programs. `Market` passes each the events it wants; their `on_window` run by
themselves, into channels of their own (`share.on_window`, `highest.on_window`).
"""

from __future__ import annotations

from collections.abc import Iterator

import holons as h


class Share(h.Program):
    """Each partition's share of all bids."""

    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    local = h.WLocal(h.GCounter(), h.Tumbling("1s"))

    def process(self, bids: h.Events) -> None:
        self.total.insert(1, bids.ts)
        self.local.insert(1, bids.ts)

    def on_window(self, window: h.Window) -> Iterator[dict[str, object]]:
        yield {"window": window.start, "share": self.local[window] / self.total[window]}


class Highest(h.Program):
    """The highest bid; among equal prices the earliest, whatever the network does."""

    emit = "once"

    highest = h.WCRDT(h.TopK(1), h.Tumbling("2s"))

    def process(self, bids: h.Events) -> None:
        self.highest.insert((bids["price"], bids["auction"]), bids.ts)

    def on_window(self, window: h.Window) -> Iterator[dict[str, object]]:
        for price, auction in self.highest[window]:
            yield {"window": window.start, "price": price, "auction": auction}


class Market(h.Program):
    """Both, over the same bids, and what each partition has seen in all."""

    share = h.Nested(Share)
    highest = h.Nested(Highest)
    seen = h.Local(0)

    def process(self, events: h.Events) -> None:
        bids = events.where(events["kind"] == "bid")
        self.share.process(bids)
        self.highest.process(bids.where(bids["price"] >= 20))
        self.seen.value += len(bids)


job = h.job(Market(), "bids")
