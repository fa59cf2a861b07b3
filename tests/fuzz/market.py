"""A job with one of everything, partly run: its deltas, previews and records are what decoders are fed with."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl

import holons as h
from holons import wire
from holons.counting import CountWindow
from holons.program import Job, Records
from holons.program.ports import SharedState

ROWS = 60
PARTITIONS = 2


class Market(h.Program):
    """Sums, maps, sketches, sessions, local values and a second stage."""

    total = h.WCRDT(h.Product(n=h.GCounter(), spent=h.Sum("float")), h.Sliding("3s", every="1s"))
    by_user = h.WCRDT(h.MergeMap(h.Average("float")), h.Tumbling("1s"))
    ever = h.WCRDT(h.MergeMap(h.GCounter()), h.Tumbling("1s"), accumulate=True)
    best = h.WCRDT(h.TopK(2), h.Tumbling("2s"))
    visits = h.WCRDT(h.GCounter(), h.Session("2s"))
    mine = h.WLocal(h.GCounter(), h.Tumbling("1s"))
    busiest = h.WCRDT(h.TopK(1), h.Tumbling("4s"), stage=1)
    calls = h.Local(0, scope="window")
    last = h.Local({"users": ["nobody"]})

    def process(self, events):
        user, spent = events["user"], events["spent"]
        self.total.insert({"n": 1, "spent": spent}, events.ts)
        self.by_user.insert((user, spent), events.ts)
        self.ever.insert((user, 1), events.ts)
        self.best.insert((spent, user), events.ts)
        self.visits.insert(1, events.ts, key=user)
        self.mine.insert(1, events.ts)
        self.last.value = {"users": user.to_list()[-2:]}
        self.output(events.select("user"))

    @h.on_window(by_user)
    def seconds(self, window):
        self.calls.value += 1
        users, ever = self.by_user[window].to_dict(), self.ever[window].to_dict()
        self.busiest.insert((len(users), window.start), window)
        yield {"start": window.start, "users": str(users), "ever": str(ever), "mine": self.mine[window]}

    @h.on_window(total)
    def totals(self, window):
        yield {"start": window.start, "total": str(self.total[window]), "calls": self.calls.value}

    @h.on_window(best)
    def bests(self, window):
        yield {"start": window.start, "best": str(self.best[window])}

    @h.on_window(visits)
    def visit(self, window):
        yield {"start": window.start, "key": window.key, "n": self.visits[window]}

    @h.on_window(busiest)
    def later(self, window):
        yield {"start": window.start, "busiest": str(self.busiest[window])}


class CountingMarket(Market):
    """The same, and windows over so many rows."""

    dozen = h.WCRDT(h.GCounter(), CountWindow(12))

    def process(self, events):
        super().process(events)
        self.dozen.insert(1, events.ts)

    @h.on_window(dozen)
    def twelve(self, window):
        yield {"start": window.start, "n": self.dozen[window]}


JOB: Job = h.job(CountingMarket(), "market", name="market")
FOLDED: Job = h.job(Market(), "market", name="market")
"""Count windows cannot be folded over DataFrames."""


class Made(NamedTuple):
    """What a run of the job has made."""

    messages: list[bytes]
    previews: list[bytes]
    records: list[Records]
    snapshots: list[bytes]


def rows(partition: int) -> pl.DataFrame:
    rng = np.random.default_rng(partition)
    return pl.DataFrame(
        {
            "ts": np.sort(rng.integers(0, 9_000_000, ROWS)),
            "user": rng.choice(["ann", "bob", "zoë"], ROWS),
            "spent": rng.choice([0.5, 1.25, float("inf"), 3.0], ROWS),
        }
    )


def new_state() -> SharedState:
    return JOB.open_state(PARTITIONS)


@cache
def made() -> Made:
    """Runs both partitions in three parts, and keeps all that they say."""
    state, result = new_state(), Made([], [], [], [])
    runs = [JOB.open_run(partition, PARTITIONS) for partition in range(PARTITIONS)]
    for part in range(3):
        for partition, run in enumerate(runs):
            frame = rows(partition)[part * ROWS // 3 : (part + 1) * ROWS // 3]
            run.feed(frame, part * ROWS // 3)
        happened = True
        while happened:
            happened = False
            for run in runs:
                happened |= run.step(state)
                for message in run.drain()[1]:
                    result.messages.append(wire.encode(message))
                    happened |= state.receive(wire.encode(message))
        for run in runs:
            run.forget(run.progress.emitted_to)
            result.records.append(Records(run.process_record(), run.window_record()))
            result.previews.extend(preview.encode() for preview in run.previews())
        result.snapshots.append(state.snapshot_bytes())
    return result
