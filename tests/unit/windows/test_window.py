"""A window is half-open, and ordered by (end, start, key)."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from holons.windows import Window

TIMES = st.integers(-2, 2)
KEYS = st.one_of(st.integers(-2, 2), st.sampled_from(["", "a", "b"]))


@given(TIMES, TIMES, KEYS, TIMES, TIMES, KEYS)
def test_windows_are_ordered_by_end_then_start_then_key(start, end, key, other_start, other_end, other_key):
    a, b = Window(start, end, key), Window(other_start, other_end, other_key)
    if end != other_end:
        expected = end < other_end
    elif start != other_start:
        expected = start < other_start
    elif type(key) is not type(other_key):
        expected = isinstance(other_key, str)  # numbers before words
    else:
        expected = key < other_key
    assert (a < b) == expected
    assert (a <= b) == (expected or a == b)


def test_sorting_does_not_depend_on_the_order_before():
    windows = [Window(0, 5, 2), Window(0, 5, "a"), Window(0, 5, "b"), Window(3, 5, 0), Window(-9, 6, 0)]
    assert all(sorted(shuffled) == windows for shuffled in permutations(windows))


def test_the_end_is_outside():
    window = Window(-5, 5)
    assert [ts for ts in range(-9, 9) if ts in window] == list(range(-5, 5))
    assert (window.last, window.size_us) == (4, 10)


def test_a_window_for_people():
    assert str(Window(0, 1_000_000)) == "[1970-01-01 00:00:00, 1970-01-01 00:00:01)"
    assert str(Window(0, 1_000_000, "ann")).endswith(") of 'ann'")
