"""Count windows on the axis of ranks, and their panes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.counting.streams import ends_of_panes

from holons.counting import CountWindow
from holons.errors import BadWindow
from holons.windows import BEGINNING, ENDING, Window

WINDOWS = st.integers(1, 12).flatmap(lambda size: st.builds(CountWindow, st.just(size), st.integers(1, size)))


@given(window=WINDOWS)
def test_boundaries_are_all_starts_and_all_ends(window):
    ends = ends_of_panes(window, 60, ended=False)
    assert window.boundaries(0, 60).tolist() == ends
    assert window.boundaries(7, 41).tolist() == [end for end in ends if 7 < end <= 41]
    assert [window.after(rank) for rank in range(40)] == [min(end for end in ends if end > r) for r in range(40)]


@given(window=WINDOWS)
def test_panes_lie_side_by_side_between_boundaries(window):
    starts = [0, *ends_of_panes(window, 60, ended=False)]
    assert [window.pane_start(pane) for pane in range(len(starts))] == starts
    panes = [window.pane_at(rank) for rank in range(60)]
    assert panes == [max(p for p, start in enumerate(starts) if start <= rank) for rank in range(60)]
    assert window.panes_of(np.arange(60)).tolist() == panes


@given(window=WINDOWS)
def test_a_window_is_made_of_whole_panes_and_none_is_short(window):
    for number in range(5):
        made = window.window(number)
        assert made == Window(number * window.every, number * window.every + window.size)
        panes = window.panes(made)
        assert (window.pane_start(panes[0]), window.pane_end(panes[-1])) == (made.start, made.end)
    assert window.next_window(BEGINNING, [0, 1, 2]) == window.window(0)
    assert window.boundary(window.size) == window.size
    assert window.boundary(ENDING) == ENDING


def test_sliding_windows_have_two_panes_for_each_step_and_not_one_for_each_row():
    window = CountWindow(1_000_000, every=999_999)
    assert len(window.boundaries(0, 10 * 999_999)) <= 20
    assert len(CountWindow(1_000_000, every=1).boundaries(0, 100)) == 100


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "10", None, 2**62 + 1])
def test_a_bad_size_is_refused_with_a_hint(size):
    with pytest.raises(BadWindow, match="hint: "):
        CountWindow(size)
    if size is not None:
        with pytest.raises(BadWindow, match="hint: "):
            CountWindow(10, every=size)


def test_a_step_larger_than_the_window_is_refused():
    with pytest.raises(BadWindow, match="leave gaps"):
        CountWindow(10, every=11)


def test_a_window_is_a_value():
    assert CountWindow(10) == CountWindow(10, every=10) != CountWindow(10, partial=True)
    assert str(CountWindow(10, every=3, partial=True)) == "CountWindow(10, every=3, partial=True)"
    assert hash(CountWindow(np.int64(10))) == hash(CountWindow(10))
