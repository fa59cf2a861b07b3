"""A run that resumes is the run it was: also where no output would show the difference for a long time."""

from __future__ import annotations

import polars as pl
import pytest

import holons as h
from holons import errors
from holons.program import ProgramRun
from holons.wcrdt import Replica
from holons.windows import BEGINNING

SECOND = 1_000_000


class MovesByHand(h.Program):
    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.n.insert(1, events.ts)
        self.n.advance(events.where(events["jump"]).ts + "5s")

    def on_window(self, window):
        yield {"start": window.start, "n": self.n[window]}


class Started:
    """One partition of a job, and all it has sent."""

    def __init__(self, program):
        self.job = h.job(program, "in")
        self.replica = Replica(self.job.layout.handles, 1)
        self.run = ProgramRun(self.job, 0, 1)
        self.deltas = []

    def feed(self, frame):
        self.run.feed(frame, self.run.progress.read_to)
        self.work()

    def mark(self, ts):
        self.run.mark(ts, self.run.progress.read_to)
        self.work()

    def work(self):
        while self.run.step(self.replica):
            _, deltas = self.run.drain()
            self.deltas += deltas
            for delta in deltas:
                self.replica.apply(delta)

    def restart(self):
        self.run = ProgramRun(self.job, 0, 1, resume=self.run.snapshot())


def row(ts, jump=False):
    return pl.DataFrame({"ts": [ts], "jump": [jump]})


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_moved_by_hand_stays_where_it_is(restarted):
    started = Started(MovesByHand())
    started.feed(row(0, jump=True))
    if restarted:
        started.restart()
    assert started.run.progress.watermark == 5 * SECOND
    with pytest.raises(errors.InsertBelowWatermark):
        started.feed(row(SECOND))


def test_a_mark_seals_at_once():
    started = Started(MovesByHand())
    started.feed(row(0))
    started.mark(2 * SECOND + 1)
    assert [(delta.start, delta.end) for delta in started.deltas] == [(BEGINNING, 0), (0, 2 * SECOND)]
    assert started.replica.watermark(0) == 2 * SECOND


def test_a_clock_moved_by_hand_seals_at_once():
    started = Started(MovesByHand())
    started.feed(row(0, jump=True))
    assert [(delta.start, delta.end) for delta in started.deltas] == [(BEGINNING, 5 * SECOND)]
