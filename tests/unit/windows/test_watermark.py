"""Watermarks and lateness against a loop over the rows; how the log was cut must not show."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.windows import (
    BEGINNING,
    END,
    ENDING,
    EventClock,
    Mark,
    Session,
    Sliding,
    Tumbling,
    is_ascending,
    seal_points,
)

ROW = st.integers(-30, 30)
LOG = st.lists(st.one_of(ROW, ROW, ROW, st.builds(Mark, ROW)), max_size=25)
DISORDER = st.integers(0, 12)


def row_by_row(log, disorder_us):
    """Which rows are late, the watermark at each, and the one at the end."""
    watermark, late, watermarks = BEGINNING, [], []
    for item in log:
        if isinstance(item, Mark):
            watermark = max(watermark, item.ts)
            continue
        late.append(item < watermark)
        watermark = max(watermark, item - disorder_us)
        watermarks.append(watermark)
    return late, watermarks, watermark


def in_batches(log, disorder_us, cuts):
    """The same by `EventClock`, one batch from cut to cut; marks cut by themselves."""
    clock, late, watermarks, batch = EventClock(disorder_us), [], [], []

    def flush():
        observed = clock.observe(np.array(batch, dtype=np.int64))
        late.extend([False] * len(batch) if observed.late is None else observed.late.tolist())
        watermarks.extend(observed.watermarks().tolist())
        batch.clear()

    for position, item in enumerate(log):
        if isinstance(item, Mark) or position in cuts:
            flush()
        if isinstance(item, Mark):
            clock.mark(item.ts)
        else:
            batch.append(item)
    flush()
    return late, watermarks, clock.watermark


@given(LOG, DISORDER, st.sets(st.integers(0, 25)))
def test_any_cut_gives_what_the_rows_say(log, disorder_us, cuts):
    assert in_batches(log, disorder_us, cuts) == row_by_row(log, disorder_us)


@given(st.lists(ROW, max_size=20).map(sorted), DISORDER)
def test_rows_in_order_are_never_late(times, disorder_us):
    assert EventClock(disorder_us).observe(np.array(times, dtype=np.int64)).late is None


@given(st.lists(ROW, max_size=20), DISORDER, st.randoms(use_true_random=False))
def test_rows_within_the_allowed_disorder_are_never_late(times, disorder_us, random):
    shaken = sorted(times, key=lambda ts: ts + random.randint(0, disorder_us))
    assert EventClock(disorder_us).observe(np.array(shaken, dtype=np.int64)).late is None


@pytest.mark.parametrize("length", [0, 1, 2, 1_023, 1_024, 1_025, 5_000])
def test_times_ascend_unless_one_steps_back_anywhere(length):
    times = np.arange(length) // 3
    assert is_ascending(times)
    for place in {1, 1_022, 1_023, 1_024, 1_025, length - 1} & set(range(1, length)):
        stepped = times.copy()
        stepped[place:] -= 2
        stepped[place] = stepped[place - 1] - 1
        assert not is_ascending(stepped), place


@given(st.lists(ROW, max_size=12), DISORDER)
def test_what_is_known_of_the_order_changes_nothing(times, disorder_us):
    ts = np.array(times, dtype=np.int64)
    told, found = EventClock(disorder_us, -3), EventClock(disorder_us, -3)
    ours, theirs = told.observe(ts, ascending=times == sorted(times)), found.observe(ts)
    assert told.watermark == found.watermark
    assert (ours.late is None) == (theirs.late is None)
    assert ours.late is None or ours.late.tolist() == theirs.late.tolist()


def test_a_clock_goes_on_where_it_was_left():
    clock = EventClock(5, watermark=100)
    observed = clock.observe(np.array([99, 100, 104]))
    assert observed.late.tolist() == [True, False, False]
    assert clock.watermark == 100


def test_nothing_observed_changes_nothing():
    clock = EventClock(5, watermark=7)
    assert clock.observe(np.array([], dtype=np.int64)).late is None
    assert clock.watermark == 7


def test_a_mark_moves_the_clock_and_never_back():
    clock = EventClock(disorder_us=3)
    clock.mark(10)
    clock.mark(4)
    assert clock.watermark == 10
    assert clock.observe(np.array([9, 10])).late.tolist() == [True, False]


def test_after_the_end_everything_is_late():
    clock = EventClock()
    clock.mark(END.ts)
    assert clock.observe(np.array([2**61 - 1])).late.tolist() == [True]
    assert clock.watermark == ENDING


# --- where a batch must be cut ---------------------------------------------------------------------------------------

SPECS = (Tumbling("10us"), Sliding("7us", every="3us"), Session("9us"))


def may_end_at(spec, ts):
    if isinstance(spec, Session):
        return ts % spec.pane_us == 0
    return (ts - spec.size_us) % spec.every_us == 0


@given(st.lists(st.integers(-40, 40), max_size=20).map(sorted), st.sets(st.sampled_from(SPECS)))
def test_a_batch_is_cut_where_a_window_may_have_ended_since_the_row_before(watermarks, specs):
    expected = [
        row
        for row in range(1, len(watermarks))
        if any(may_end_at(spec, ts) for spec in specs for ts in range(watermarks[row - 1] + 1, watermarks[row] + 1))
    ]
    assert seal_points(np.array(watermarks, dtype=np.int64), tuple(specs)).tolist() == expected


@pytest.mark.parametrize(
    ("watermarks", "cuts"),
    [
        ([8, 9, 10, 11], [2]),  # exactly on the boundary: the window before is over
        ([-11, -10, -9, 0], [1, 3]),
        ([5, 95, 99], [1]),  # a jump over several windows is one cut
        ([10, 10, 10], []),
        ([10], []),
        ([], []),
        ([BEGINNING, 5], [1]),
    ],
)
def test_seal_points_of_ten_microseconds(watermarks, cuts):
    assert seal_points(np.array(watermarks, dtype=np.int64), (Tumbling("10us"),)).tolist() == cuts
