"""Query 7 as a program by hand: the load of the demo and of the recovery benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holons.algebra import Product, TopK
from holons.program import WCRDT, Events, Program
from holons.windows import Tumbling, Window


def highest_bid(window_us: int) -> Program:
    """q7: the highest bid of each window, once for all partitions; of equal ones the first by (time, partition, offset).

    Each field keeps the best row in one and the same total order, so all of them speak of the same bid.
    """

    class HighestBidOfWindow(Program):
        """The highest bid of each window."""

        emit = "once"
        best = WCRDT(Product(auction=TopK(1), bidder=TopK(1), date_time=TopK(1)), Tumbling(f"{window_us}us"))

        def process(self, events: Events) -> None:
            price = events["price"]
            fields = {"auction": (price, events["auction"]), "bidder": (price, events["bidder"])}
            self.best.insert(fields | {"date_time": (price, events.ts.micros)}, events.ts)

        def on_window(self, window: Window) -> Iterator[dict[str, Any]]:
            best: dict[str, Any] = self.best[window]
            bid = {name: rows[0][1] for name, rows in best.items()}
            yield {"window": window.start, "price": best["auction"][0][0], **bid}

    return HighestBidOfWindow()
