"""How large slices become."""

from __future__ import annotations

from holons.node.pace import Pace


def test_full_and_short_slices_grow_up_to_the_most():
    pace = Pace(first=8, most=100)
    for _ in range(10):
        pace.learn(pace.size, worked_s=0.001, passed_s=0.001)
    assert pace.size == 100


def test_slices_that_found_little_to_do_do_not_grow():
    pace = Pace(first=8, most=100)
    pace.learn(3, worked_s=0.001, passed_s=0.001)
    pace.learn(0, worked_s=0.001, passed_s=10.0)
    assert pace.size == 8


def test_much_work_makes_the_next_slice_as_small_as_it_should_have_been():
    pace = Pace(first=8192, most=100_000)
    pace.learn(8192, worked_s=8.192, passed_s=8.2)
    assert pace.size == 50
    pace.learn(1, worked_s=3.0, passed_s=3.0)
    assert pace.size == 1


def test_a_program_that_waits_gets_smaller_slices_too():
    pace = Pace(first=8192, most=100_000)
    for _ in range(20):
        pace.learn(pace.size, worked_s=0.0001, passed_s=pace.size * 0.001)
    assert 1 < pace.size <= 500


def test_a_busy_machine_does_not_make_slices_of_a_row():
    pace = Pace(first=8192, most=100_000)
    for number in range(100):  # every third slice is not given the processor for long
        pace.learn(pace.size, worked_s=0.002, passed_s=0.4 if number % 3 == 0 else 0.002)
    assert pace.size >= 8192
