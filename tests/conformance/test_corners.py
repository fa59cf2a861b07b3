"""Awkward programs and inputs: each gives the oracle's bytes, however it is run."""

from __future__ import annotations

import random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance import programs
from tests.rig import Rig
from tests.workloads import SECOND, YEAR, _bid, _click, _visit, load, partition, streams

import holons as h
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import END, Mark

JOBS = {
    "exact": (h.job(programs.EverythingExact(), "in", disorder="700ms"), _click, 8),
    "accumulating": (h.job(programs.Accumulating(), "in"), _click, 6),
    "two filters": (h.job(programs.TwoFilters(), "in", disorder="1s"), _bid, 5),
    "some columns": (h.job(programs.SomeColumns(), "in", disorder="1s", columns=["price"]), _bid, 5),
    "some columns, awaiting": (h.job(programs.SomeColumnsAwaiting(), "in", columns=["kind"]), _bid, 5),
    "two streams": (h.job(programs.TwoStreams(), h.Input("bids"), h.Input("visits", disorder="2s")), _bid, 5),
    "three stages": (h.job(programs.ThreeStages(), "in"), _click, 25),
    "awaits later stage": (h.job(programs.AwaitsLaterStage(), "in"), _visit, 40),
    "one by one": (h.job(programs.OneByOne(), "in"), _bid, 5),
    "one by one, awaiting": (h.job(programs.OneByOneAwaiting(), "in"), _bid, 5),
    "registers": (h.job(programs.Registers(), "in", disorder="1s"), _click, 6),
    "several windows": (h.job(programs.SeveralWindows(), "in", disorder="300ms"), _bid, 12),
    "future inserts": (h.job(programs.FutureInserts(), "in", disorder="1s"), _bid, 6),
}


def agree(job, given_streams, seed, rows_max):
    expected = run_oracle(job, given_streams)
    assert canonical(Rig(job, given_streams, seed).run(rows_max)) == canonical(expected)
    return expected


@pytest.mark.parametrize("name", JOBS)
@given(seed=st.integers(0, 2**32), rows_max=st.sampled_from([1, 3, 100]))
@settings(max_examples=settings.default.max_examples // 6)
def test_corner_programs_equal_the_oracle(name, seed, rows_max):
    job, make, span_s = JOBS[name]
    agree(job, streams(job, make, span_s, seed), seed, rows_max)


@pytest.mark.parametrize("name", JOBS)
def test_corner_programs_say_something(name):
    job, make, span_s = JOBS[name]
    channels = set().union(*(run_oracle(job, streams(job, make, span_s, seed)) for seed in range(10)))
    assert channels - {"late", "dead"}, "a comparison of nothing with nothing"


# --- every cut, every snapshot, every restart point -------------------------------------------------------------------


def every_way(job, log):
    """One partition's log, cut at every place, resumed from a snapshot taken at every place."""
    rows = sum(1 if isinstance(piece, Mark) else len(piece) for piece in log)
    stream = job.inputs[0].stream
    other = partition(random.Random(5), _click, span_s=6, rows=6)
    for cut in range(rows + 1):
        for resume_at in range(0, rows + 1, 3):
            yield stream, [log, other], cut, resume_at


@pytest.mark.parametrize("name", ["exact", "accumulating"])
def test_float_sums_and_sketches_are_bit_identical_for_all_cuts_and_restarts(name):
    job = JOBS[name][0]
    log = partition(random.Random(3), _click, span_s=6, rows=14, disorder_us=700_000)
    expected = None
    for stream, logs, cut, resume_at in every_way(job, log):
        expected = expected or canonical(run_oracle(job, {stream: logs}))
        rig = Rig(job, {stream: logs}, seed=0, replicas=1)
        while rig.runs[0].progress.read_to < resume_at:
            rig.feed(0, 1)
            rig.work(0)
        rig.store(0)
        rig.records[0] = rig.records[0][-1:]
        rig.crash(0)
        while rig.runs[0].progress.read_to < cut:
            rig.feed(0, cut - rig.runs[0].progress.read_to)
        rig.work(0)
        while not rig._finish_quietly(100):
            rig.work(0)
        assert canonical(rig.collected()) == expected, (cut, resume_at)


def test_an_await_at_every_possible_cut():
    job = load("alert_rule")
    log = [
        pl.DataFrame({"ts": [k * 10 * SECOND for k in range(24)], "server": "a", "visitors": range(90, 138, 2)}),
        END,
    ]
    other = [pl.DataFrame({"ts": [5 * SECOND, 200 * SECOND], "server": "b", "visitors": [100, 300]}), END]
    expected = canonical(run_oracle(job, {"visits": [log, other]}))
    for first in range(1, 24):
        for second in range(first + 1, 25, 2):
            rig = Rig(job, {"visits": [log, other]}, seed=first * 100 + second, replicas=2)
            rig.feed(0, first)
            rig.work(0)
            rig.store(0)
            rig.feed(0, second - first)
            rig.work(0)
            parked = rig.runs[0].progress.parked
            rig.crash(0)  # perhaps in the middle of an await
            assert not (parked and rig.runs[0].progress.parked), "a parked call is resumed as not yet begun"
            while not rig._finish_quietly(100):
                pass
            assert canonical(rig.collected()) == expected, (first, second)


# --- inputs -----------------------------------------------------------------------------------------------------------


def test_a_clock_that_jumps_a_year_finishes_at_once():
    class Slides(h.Program):
        n = h.WCRDT(h.GCounter(), h.Sliding("1s", every="10ms"))
        per = h.WCRDT(h.GCounter(), h.Tumbling("1s"), stage=1)

        def process(self, events):
            self.n.insert(1, events.ts)

        @h.on_window(n)
        def every(self, window):
            self.per.insert(1, window)

        @h.on_window(per)
        def second(self, window):
            yield {"start": window.start, "windows": self.per[window]}

    rows = pl.DataFrame({"ts": [0, YEAR, 2 * YEAR]})
    results = (
        h.run(h.job(Slides(), "in"), {"in": [rows, pl.DataFrame({"ts": [7]})]}, engine="embedded").wait().results()
    )
    assert sum(row["windows"] for row in results.rows("second", 0)) == 2 * 3 * 100, "only windows that hold a row"
    assert results.canonical() == canonical(
        run_oracle(h.job(Slides(), "in"), {"in": [[rows, END], [pl.DataFrame({"ts": [7]}), END]]})
    )


def test_a_session_that_never_ends_is_never_emitted_and_holds_up_nobody_else():
    job = load("user_sessions")

    def clicks(user, seconds):
        return pl.DataFrame({"ts": [s * SECOND for s in seconds], "user": user, "page": "/", "spent": 0.1})

    endless = [clicks("ann", range(0, 100, 5))]  # no end mark: the stream goes on
    other = [clicks("bob", [1, 2, 30, 31]), Mark(95 * SECOND)]
    expected = agree(job, {"clicks": [endless, other]}, seed=1, rows_max=3)
    assert [(row["user"], row["n"]) for row in expected["on_window"][0]] == [("bob", 2), ("bob", 2)]
    with_end = agree(job, {"clicks": [[*endless, END], [*other, END]]}, seed=1, rows_max=3)
    assert ("ann", 20) in [(row["user"], row["n"]) for row in with_end["on_window"][0]]


def test_a_session_is_stitched_over_partitions():
    job = load("user_sessions")

    def clicks(seconds):
        return [pl.DataFrame({"ts": [int(s * SECOND) for s in seconds], "user": "ann", "page": "/", "spent": 0.1}), END]

    expected = agree(
        job, {"clicks": [clicks([0, 18, 50]), clicks([9, 27]), clicks([36.999999, 61])]}, seed=2, rows_max=1
    )
    spans = [(row["start"] / SECOND, row["end"] / SECOND, row["n"]) for row in expected["on_window"][0]]
    assert spans == [(0, 46.999999, 5), (50, 60, 1), (61, 71, 1)], "a gap reached exactly begins a new session"


def test_accumulate_with_a_silent_partition():
    job = JOBS["accumulating"][0]

    def clicks(seconds):
        return pl.DataFrame({"ts": [s * SECOND for s in seconds], "user": "ann", "page": "/", "spent": 0.1})

    silent = [clicks([0]), Mark(9 * SECOND), END]
    busy = [clicks([0, 1, 3, 3, 5]), END]
    expected = agree(job, {"in": [silent, busy, [END]]}, seed=3, rows_max=2)
    assert [row["now"] for row in expected["on_window"][1]] == [f"{{'ann': {n}}}" for n in (2, 3, 5, 6)]


def test_two_filters_are_ordered_by_origin_not_by_batch():
    job = JOBS["two filters"][0]
    log = [pl.DataFrame({"ts": range(4), "kind": "bid", "price": [5, 20, 70, 5], "auction": 1}), END]
    rows = agree(job, {"in": [log]}, seed=4, rows_max=4)["process"][0]
    assert [(row["price"], row["why"]) for row in rows] == [
        (5, "cheap"), (20, "dear"), (20, "cheap"), (70, "dear"), (5, "cheap"),
    ]  # fmt: skip


def test_late_and_broken_rows_are_set_aside_with_their_offsets_and_nothing_is_lost():
    job = load("bid_share")
    log = [
        pl.DataFrame({"ts": [5 * SECOND, SECOND, None, 2**62, 6 * SECOND], "kind": "bid", "price": 1, "auction": 1}),
        END,
    ]
    out = agree(job, {"bids": [log]}, seed=5, rows_max=5)
    assert [row["_offset"] for row in out["late"][0]] == [1]
    assert [(row["_offset"], row["_reason"]) for row in out["dead"][0]] == [
        (2, "no time in column 'ts'"),
        (3, "the time in column 'ts' is out of range"),
    ]
    assert len(out["on_window"][0]) == 2
