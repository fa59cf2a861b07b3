"""Sessions of users over all partitions: a user's clicks may lie anywhere, the session is still one.

A session ends after ten seconds of silence. Its fragments are stitched from what each partition has sealed.
"""

from __future__ import annotations

from collections.abc import Iterator

import holons as h


class UserSessions(h.Program):
    """For each session: who, from when to when, how many clicks, and the total of what was bought."""

    emit = "once"

    clicks = h.WCRDT(h.Product(n=h.GCounter(), spent=h.Sum("float")), h.Session("10s"))

    def process(self, events: h.Events) -> None:
        self.clicks.insert({"n": 1, "spent": events["spent"]}, events.ts, key=events["user"])

    def on_window(self, session: h.Window) -> Iterator[dict[str, object]]:
        totals = self.clicks[session]
        yield {"user": session.key, "start": session.start, "end": session.end, **totals}


job = h.job(UserSessions(), "clicks", disorder="1s")
