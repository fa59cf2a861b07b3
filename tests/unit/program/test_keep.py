"""A handle can be read exactly as far back as it keeps its windows: neither more, nor less."""

from __future__ import annotations

import polars as pl
import pytest

import holons as h
from holons.errors import WindowTrimmed

SECOND = 1_000_000


def earlier(window, seconds):
    return h.Window(window.start - seconds * SECOND, window.end - seconds * SECOND)


def reading(keep, back):
    """A program whose `on_window` reads so many seconds back."""

    class Reads(h.Program):
        n = h.WCRDT(h.GCounter(), h.Tumbling("1s"), keep=keep)

        def process(self, events):
            self.n.insert(1, events.ts)

        def on_window(self, window):
            yield {"n": self.n[earlier(window, back)]}

    return Reads()


def awaiting(keep, back):
    """A program whose `process` awaits so many seconds back from what is sealed."""

    class Awaits(h.Program):
        n = h.WCRDT(h.GCounter(), h.Tumbling("1s"), keep=keep)

        async def process(self, events):
            self.n.insert(1, events.ts)
            for window, run in events.by_window(self.n):
                sealed_last = self.n.window.before(window)
                told = await self.n.completed(earlier(sealed_last, back))
                self.output(run.select(n=pl.lit(told)))

    return Awaits()


@pytest.mark.parametrize(("keep", "back"), [("0s", 0), ("1s", 1), ("2999ms", 2), ("3s", 3), (None, 1)])
@pytest.mark.parametrize(("program", "channel"), [(reading, "on_window"), (awaiting, "process")])
def test_what_is_kept_is_read_and_what_is_older_is_refused(program, channel, keep, back):
    rows = {"in": [pl.DataFrame({"ts": [second * SECOND for second in range(6)]})]}
    assert len(h.run(h.job(program(keep, back), "in"), rows, engine="embedded").wait().results().rows(channel)) == 6
    with pytest.raises(WindowTrimmed):
        h.run(h.job(program(keep, back + 1), "in"), rows, engine="embedded").wait()
