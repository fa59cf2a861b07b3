"""What `on_window` may insert into the next stage: at any time that no partition can have sealed there."""

from __future__ import annotations

import polars as pl
import pytest

import holons as h
from holons.errors import InsertBelowWatermark

SECOND = 1_000_000


def inserting(window, before_end):
    """A program that inserts into stage 1 so long before each window's end."""

    class Inserts(h.Program):
        n = h.WCRDT(h.GCounter(), window)
        later = h.WCRDT(h.GCounter(), h.Tumbling("500ms"), stage=1)

        def process(self, events):
            self.n.insert(1, events.ts)

        @h.on_window(n)
        def first(self, window):
            self.later.insert(1, window.end - before_end)

        @h.on_window(later)
        def second(self, window):
            yield {"start": window.start, "n": self.later[window]}

    return Inserts()


@pytest.mark.parametrize(
    ("window", "floor"),
    [
        (h.Tumbling("1s"), SECOND),
        (h.Sliding("3s", every="2s"), 2 * SECOND),
        (h.Sliding("2s", every="300ms"), 300_000),
    ],
)
def test_one_step_of_the_windows_back_is_legal_and_more_is_refused_at_the_first_window(window, floor):
    rows = {"in": [pl.DataFrame({"ts": [0]}), pl.DataFrame({"ts": [10 * SECOND]})]}
    assert h.run(h.job(inserting(window, floor), "in"), rows, engine="embedded").wait().results().rows("second")
    with pytest.raises(InsertBelowWatermark):
        h.run(h.job(inserting(window, floor + 1), "in"), rows, engine="embedded").wait()
