"""Rows that are dated far ahead are dead and move no clock: the same ones for every cut, every restart and every owner."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance import programs
from tests.rig import Rig
from tests.workloads import SECOND, _bid, _click, streams

import holons as h
from holons.errors import BadDuration, BadProgram
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.semantics.oracle import Stamped
from holons.windows import Mark

DAY = 24 * 3600 * SECOND
JOBS = {
    "exact": (h.job(programs.EverythingExact(), "in", disorder="700ms"), _click, 8),
    "some columns": (h.job(programs.SomeColumns(), "in", disorder="1s", columns=["price"]), _bid, 5),
    "some columns, awaiting": (h.job(programs.SomeColumnsAwaiting(), "in", columns=["kind"]), _bid, 5),
    "one by one, awaiting": (h.job(programs.OneByOneAwaiting(), "in"), _bid, 5),
}


# --- any cut, any restart ---------------------------------------------------------------------------------------------


def stamped(log, rng):
    """The same log with times of appending that never go back, some of them well before the times of the rows."""
    appended, pieces = -(10**12), []
    for piece in log:
        if isinstance(piece, Mark) or not len(piece):
            pieces.append(piece)
            continue
        known = piece["ts"].drop_nulls()
        at = (known.min() if len(known) else 0) + rng.randint(-3 * SECOND, 3 * SECOND)
        appended = max(appended, at)
        pieces.append(Stamped(piece, appended, rng.random() < 0.7))
    return pieces


@pytest.mark.parametrize("max_future", ["auto", "500ms", None])
@pytest.mark.parametrize("name", JOBS)
@given(seed=st.integers(0, 2**32), rows_max=st.sampled_from([1, 3, 100]))
@settings(max_examples=settings.default.max_examples // 10)
def test_programs_equal_the_oracle_where_rows_are_dated_ahead(name, max_future, seed, rows_max):
    job, make, span_s = JOBS[name]
    job = replace(job, inputs=tuple(replace(source, max_future=max_future) for source in job.inputs))
    rng = random.Random(seed)
    given_streams = {
        stream: [stamped(log, rng) for log in logs] for stream, logs in streams(job, make, span_s, seed).items()
    }
    expected = run_oracle(job, given_streams)
    assert canonical(Rig(job, given_streams, seed).run(rows_max)) == canonical(expected)


def test_the_comparison_is_about_rows_that_are_dated_ahead():
    job, make, span_s = JOBS["exact"]
    job = replace(job, inputs=(h.Input("in", disorder="700ms", max_future="500ms"),))
    logs = [stamped(log, random.Random(seed)) for seed in range(10) for log in streams(job, make, span_s, seed)["in"]]
    dead = [row for rows in run_oracle(job, {"in": logs})["dead"].values() for row in rows]
    assert sum("more than 500ms after the row was appended" in row["_reason"] for row in dead) > 10


# --- what users see ---------------------------------------------------------------------------------------------------


def counted(**options):
    return h.source("clicks", **options).window(h.Tumbling("1s")).agg(n=h.count()).to("out")


def clicks(first: datetime, seconds: int, *extra: datetime) -> pl.DataFrame:
    times = [first + timedelta(seconds=second) for second in range(seconds)]
    half = seconds // 2
    return pl.DataFrame({"ts": [*times[:half], *extra, *times[half:]]})


def ran(job, partitions):
    return h.run(job, {"clicks": partitions}, engine="embedded").wait(60).results()


@pytest.mark.filterwarnings("ignore::holons.LateRows")
def test_a_live_row_from_tomorrow_does_not_make_honest_rows_late():
    """Two live partitions: the bad row would else end the windows of both with half of their rows."""
    now = datetime.now(UTC).replace(microsecond=0)
    tomorrow = now + timedelta(days=1)
    partitions = [iter([clicks(now, 10, tomorrow)]), iter([clicks(now, 10)])]
    results = ran(counted(), partitions)
    assert [row["n"] for row in results.rows("out")] == [2] * 10
    assert results.rows("late") == []
    (dead,) = results.rows("dead")
    assert (dead["ts"], dead["_offset"]) == (tomorrow, 5)
    assert dead["_reason"].startswith("the time in column 'ts' is more than 1h after the row was appended, at 20")


def test_history_may_have_any_times():
    """A table is history, whenever it is loaded: also beside a live partition."""
    later = datetime(2300, 1, 1, tzinfo=UTC)
    assert len(ran(counted(), [clicks(later, 10)]).rows("out")) == 10
    results = ran(counted(), [clicks(later, 10), iter([])])
    assert (len(results.rows("out")), results.rows("dead")) == (10, [])


def test_a_limit_of_the_user_holds_for_history_too_and_none_is_no_limit():
    later = datetime(2300, 1, 1, tzinfo=UTC)
    assert len(ran(counted(max_future="1h"), [clicks(later, 10)]).rows("dead")) == 10
    assert ran(counted(max_future=None), [iter([clicks(later, 10)])]).rows("dead") == []


def test_a_limit_that_is_no_duration_is_refused():
    for make in (counted, lambda **options: h.job(programs.SomeColumns(), "in", **options)):
        with pytest.raises(BadDuration, match="soon"):
            make(max_future="soon")


def test_one_stream_has_one_limit():
    with pytest.raises(BadProgram, match="another time column, disorder or max_future"):
        h.job(counted(), counted(max_future=None).together([], "other"))


def test_another_limit_is_another_job_and_the_default_none():
    assert counted(max_future="auto").digest == counted().digest
    assert len({counted().digest, counted(max_future="1h").digest, counted(max_future=None).digest}) == 3


# --- times beyond all clocks ------------------------------------------------------------------------------------------

FARTHEST = {
    "milliseconds": pl.Series([2**63 - 1, -(2**63)], dtype=pl.Int64).cast(pl.Datetime("ms")),
    "microseconds": pl.Series([2**63 - 1, -(2**63)], dtype=pl.Int64).cast(pl.Datetime("us")),
    "days": pl.Series([2**31 - 1, -(2**31)], dtype=pl.Int32).cast(pl.Date),
    "unsigned": pl.Series([2**64 - 1, 2**63], dtype=pl.UInt64),
}


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("unit", FARTHEST)
def test_the_farthest_times_are_dead_in_any_unit(unit, live):
    frame = pl.DataFrame({"ts": FARTHEST[unit]})
    results = ran(counted(max_future="1h"), [iter([frame]) if live else frame])
    reasons = results.to_polars("dead")["_reason"].to_list()
    assert reasons == ["the time in column 'ts' is out of range"] * 2


def test_the_farthest_nanoseconds_are_far_ahead_and_within_range():
    frame = pl.DataFrame({"ts": pl.Series([2**63 - 1], dtype=pl.Datetime("ns"))})
    (reason,) = ran(counted(), [iter([frame])]).to_polars("dead")["_reason"].to_list()
    assert "more than 1h after" in reason
