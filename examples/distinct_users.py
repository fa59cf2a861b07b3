"""Distinct users per minute over all partitions, with a HyperLogLog; and per page, from the same events.

The sketch is our own: registers joined by maximum, seeded, the same bytes for every cut of the input.
"""

from __future__ import annotations

from collections.abc import Iterator

import holons as h


class DistinctUsers(h.Program):
    """How many users were there, everywhere and on each page."""

    users = h.WCRDT(h.HyperLogLog(precision=11), h.Tumbling("1m"))
    pages = h.WCRDT(h.MergeMap(h.HyperLogLog(precision=7)), h.Tumbling("1m"))

    def process(self, events: h.Events) -> None:
        self.users.insert(events["user"], events.ts)
        self.pages.insert((events["page"], events["user"]), events.ts)

    def on_window(self, window: h.Window) -> Iterator[dict[str, object]]:
        mine = self.pages[window].share()  # this partition's share of the pages, so that the work is spread
        for page, users in mine.items():
            yield {"minute": window.start, "page": page, "users": users, "of": self.users[window]}


job = h.job(DistinctUsers(), "clicks")
