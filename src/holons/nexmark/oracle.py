"""What queries must give, computed by NumPy from the bids alone."""

from __future__ import annotations

import numpy as np

from holons.nexmark.paced import PacedBids

_BATCHES = 500


def highest_bids(load: PacedBids) -> list[dict[str, int]]:
    """q7 over all bids of a load: the rows of `highest_bid`, one for each window."""
    best: dict[int, tuple[int, ...]] = {}
    for partition in range(load.partitions):
        for number in range(0, load.batch_count, _BATCHES):
            rows = load.batch(load.ids(partition, number, min(_BATCHES, load.batch_count - number)))
            price, ts, auction, bidder = (
                rows[name].cast("int64").to_numpy() for name in ("price", "date_time", "auction", "bidder")
            )
            windows = ts // load.window_us
            order = np.lexsort((np.arange(len(ts)), ts, -price, windows))
            for at in order[np.flatnonzero(np.diff(windows[order], prepend=-1))].tolist():
                window = int(windows[at])
                candidate = -int(price[at]), int(ts[at]), int(auction[at]), int(bidder[at])
                if window not in best or candidate[:2] < best[window][:2]:  # of equal ones the first stays
                    best[window] = candidate
    return [
        {"window": window * load.window_us, "price": -price, "auction": auction, "bidder": bidder, "date_time": ts}
        for window, (price, ts, auction, bidder) in sorted(best.items())
    ]
