"""Tumbling, sliding and session windows against counting on one's fingers."""

import math
import pickle
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.errors import BadDuration, BadWindow, UnknownWindow
from holons.windows import BEGINNING, ENDING, FixedSpec, Session, Sliding, Tumbling, Window

YEAR_US = 365 * 86_400 * 10**6


def us(count: int) -> timedelta:
    return timedelta(microseconds=count)


TUMBLING = st.builds(Tumbling, st.integers(1, 9).map(us))
SLIDING = st.integers(1, 12).flatmap(lambda size: st.builds(Sliding, st.just(us(size)), st.integers(1, size).map(us)))
FIXED = st.one_of(TUMBLING, SLIDING)
SESSION = st.builds(Session, st.integers(1, 30).map(us))
ANY = st.one_of(FIXED, SESSION)
TIMES = st.one_of(st.integers(-60, 60), st.integers(-(10**15), 10**15))


def windows_with(spec: FixedSpec, ts: int) -> list[Window]:
    """All windows that contain an instant: every start that could do is tried."""
    starts = range(ts - spec.size_us + 1, ts + 1)
    return [Window(start, start + spec.size_us) for start in starts if start % spec.every_us == 0]


def windows_over(spec: FixedSpec, pane: int) -> list[Window]:
    """All windows that a pane lies in."""
    first, last = pane * spec.pane_us, (pane + 1) * spec.pane_us - 1
    return [window for window in windows_with(spec, first) if last in window]


def may_end_at(spec, ts: int) -> bool:
    if isinstance(spec, Session):
        return ts % spec.pane_us == 0
    return (ts - spec.size_us) % spec.every_us == 0


def last_end(spec, ts: int) -> int:
    """The last instant up to `ts` at which a window may end, by walking back."""
    while not may_end_at(spec, ts):
        ts -= 1
    return ts


# --- panes -----------------------------------------------------------------------------------------------------------


@given(ANY, st.lists(TIMES, min_size=1, max_size=20))
def test_every_instant_lies_in_its_pane(spec, times):
    for ts, pane in zip(times, spec.panes_of(np.array(times)).tolist(), strict=True):
        assert pane * spec.pane_us <= ts < spec.pane_end(pane)
        assert spec.pane_end(pane - 1) == pane * spec.pane_us


@given(FIXED)
def test_panes_are_the_largest_slices_that_windows_are_made_of(spec):
    fitting = [width for width in range(1, 13) if spec.size_us % width == 0 and spec.every_us % width == 0]
    assert spec.pane_us == max(fitting)
    assert spec.panes_per_window * spec.pane_us == spec.size_us


@given(SESSION)
def test_two_events_of_one_pane_are_always_in_one_session(spec):
    assert spec.pane_us >= 1
    assert spec.pane_us - 1 < spec.gap_us


@given(FIXED, TIMES)
def test_a_window_is_its_panes(spec, ts):
    window = spec.at(ts)
    panes = spec.panes(window)
    assert len(panes) == spec.panes_per_window
    assert [pane for pane in range(panes[0] - 3, panes[-1] + 4) if window in windows_over(spec, pane)] == list(panes)


@given(FIXED, st.integers(-50, 50))
def test_a_pane_is_needed_until_its_last_window_ends(spec, pane):
    assert spec.pane_needed_until(pane) == max(window.end for window in windows_over(spec, pane))


@given(SESSION, st.integers(-50, 50))
def test_a_session_pane_is_needed_until_it_is_stitched(spec, pane):
    assert spec.pane_needed_until(pane) == spec.pane_end(pane)


# --- where windows end -----------------------------------------------------------------------------------------------


@given(ANY, TIMES)
def test_the_boundary_is_the_last_instant_at_which_a_window_may_end(spec, ts):
    assert spec.boundary(ts) == last_end(spec, ts)


@given(ANY, st.integers(-60, 60))
def test_the_grid_changes_exactly_where_the_boundary_does(spec, start):
    times = list(range(start, start + 40))
    grid = spec.grid(np.array(times)).tolist()
    ends = [last_end(spec, ts) for ts in times]
    assert [a != b for a, b in pairwise(grid)] == [a != b for a, b in pairwise(ends)]


@given(ANY)
def test_the_beginning_and_the_end_are_boundaries(spec):
    assert spec.boundary(BEGINNING) == BEGINNING
    assert spec.boundary(ENDING) == ENDING


# --- which windows ---------------------------------------------------------------------------------------------------


@given(FIXED, TIMES)
def test_windows_of_an_instant_are_all_that_contain_it(spec, ts):
    expected = windows_with(spec, ts)
    assert spec.windows_of(ts) == expected
    assert spec.at(ts) == expected[-1]


@given(FIXED, TIMES)
def test_the_window_before_is_one_slide_earlier(spec, ts):
    window = spec.at(ts)
    before = spec.before(window)
    earlier = {other for at in range(window.start - spec.every_us, ts + 1) for other in windows_with(spec, at)}
    assert before == max(other for other in earlier if other < window)


@given(FIXED, st.integers(-30, 30), st.sampled_from([0, 0, 0, -1, 1, 30]))
def test_only_windows_of_the_specification_are_known(spec, start, longer):
    window = Window(start, start + spec.size_us + longer)
    if window in windows_with(spec, start):
        spec.check(window)
    else:
        with pytest.raises(UnknownWindow, match="is not a window of"):
            spec.check(window)
        with pytest.raises(UnknownWindow):
            spec.before(window)


def test_an_unknown_window_is_told_a_known_one():
    with pytest.raises(UnknownWindow) as caught:
        Tumbling("1s").check(Window(-1, 999_999))
    assert str(Window(-1_000_000, 0)) in caught.value.hint
    with pytest.raises(UnknownWindow):
        Tumbling("1s").check(Window(0, 1_000_000, "a key"))


# --- the next window that is not empty -------------------------------------------------------------------------------


class Counted(Sequence):
    """A list that counts how often it is looked at."""

    def __init__(self, items: list[int]) -> None:
        self.items = items
        self.looks = 0

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index):
        self.looks += 1
        return self.items[index]


GAPS = st.lists(st.sampled_from([1, 1, 2, 3, 7, 50, YEAR_US]), max_size=12)


@given(FIXED, st.integers(-20, 20), GAPS)
def test_next_window_finds_every_window_that_is_not_empty_in_order(spec, pane, gaps):
    present = [pane]
    for gap in gaps:
        present.append(present[-1] + gap)
    expected = sorted({window for pane in present for window in windows_over(spec, pane)})
    found, after, panes = [], BEGINNING, Counted(present)
    for _ in expected:
        window = spec.next_window(after, panes)
        assert window is not None
        found.append(window)
        after = window.end
    assert found == expected
    assert spec.next_window(after, panes) is None
    assert panes.looks <= (len(expected) + 1) * (math.log2(len(present)) + 3), "it walked over a gap"


@given(FIXED, st.lists(st.integers(-15, 15), max_size=5), st.integers(-60, 60))
def test_next_window_may_be_asked_from_anywhere(spec, panes, after):
    windows = {window for pane in panes for window in windows_over(spec, pane) if window.end > after}
    assert spec.next_window(after, sorted(panes)) == min(windows, default=None)


# --- descriptions ----------------------------------------------------------------------------------------------------


def test_a_slide_longer_than_the_window_is_refused():
    with pytest.raises(BadWindow, match="1s every 2s would leave gaps") as caught:
        Sliding("1s", every="2s")
    assert "must not be longer" in caught.value.hint


@pytest.mark.parametrize(
    "make", [Tumbling, Session, lambda d: Sliding(d, every="1s"), lambda d: Sliding("1s", every=d)]
)
@pytest.mark.parametrize("duration", ["0s", "soon", 1, True])
def test_a_specification_wants_durations(make, duration):
    with pytest.raises(BadDuration):
        make(duration)


def test_a_slide_that_does_not_divide_the_size_has_smaller_panes():
    spec = Sliding("10s", every="4s")
    assert spec.pane_us == 2_000_000
    assert spec.windows_of(9_000_000) == [Window(start * 10**6, (start + 10) * 10**6) for start in (0, 4, 8)]


@given(ANY, ANY)
def test_specifications_are_values(a, b):
    assert pickle.loads(pickle.dumps(a)) == a
    assert (a == b) == (str(a) == str(b))
    assert a != b or hash(a) == hash(b)
