"""HyperLogLog: registers against a loop over hashes, estimates against the truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.algebra.rows_by_hand import folded, read

from holons.algebra import Groups, HyperLogLog, rows_of
from holons.algebra.hashing import hash64
from holons.algebra.hyperloglog import bit_length
from holons.errors import BadElement, BadProgram


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1))
def test_bit_length(values):
    assert bit_length(np.array(values, dtype=np.int64)).tolist() == [value.bit_length() for value in values]


@pytest.mark.parametrize("precision", [4, 11, 12, 18])
def test_registers_are_the_longest_runs_of_zeros(precision):
    values = np.arange(3_000)
    expected = [0] * (1 << precision)
    for value in hash64(values).tolist():
        place, rest = divmod(value, 1 << (64 - precision))
        expected[place] = max(expected[place], 64 - precision - rest.bit_length() + 1)
    assert folded(HyperLogLog(precision), values)[0][0].tolist() == expected


@pytest.mark.parametrize("precision", [6, 10, 12])
@pytest.mark.parametrize("true", [0, 1, 10, 100, 1_000, 10_000, 300_000])
def test_estimates_are_within_a_few_standard_errors(precision, true):
    sketch = HyperLogLog(precision)
    assert abs(read(sketch, np.arange(true) * 3 + 5) - true) <= max(4 * sketch.standard_error * true, 0.5)


def test_the_error_is_as_stated():
    """Over 200 different sets the root mean square error is that of the theory, within a fifth."""
    sketch, size, sets = HyperLogLog(8), 20_000, 200
    ids = np.repeat(np.arange(sets), size)
    state = sketch.fold(Groups.by_label(ids)[1], rows_of(np.arange(sets * size)))
    errors = sketch.values(state) / size - 1.0
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(sketch.standard_error, rel=0.2)
    assert abs(errors.mean()) < 3 * sketch.standard_error / np.sqrt(sets)


def test_small_numbers_are_nearly_exact():
    sketch = HyperLogLog()
    assert [read(sketch, list(range(n))) for n in (1, 2, 5, 20)] == [1, 2, 5, 20]


def test_repeated_elements_count_once():
    assert read(HyperLogLog(), ["a", "b"] * 500) == 2
    assert read(HyperLogLog(), [0.0, -0.0, float("nan"), float("nan")]) == 2
    assert read(HyperLogLog(), [True, False, True]) == 2


@pytest.mark.parametrize("value", [7, 2.5, "x", True])
def test_a_scalar_is_the_column_of_itself(value):
    rows = rows_of((value, [0, 0, 0]))
    state = HyperLogLog().fold(Groups.single(3), rows.with_element(rows.element[0]))
    assert HyperLogLog().encode(state) == HyperLogLog().encode(folded(HyperLogLog(), [value] * 3))


def test_estimates_never_change():
    """Pinned: an estimate is part of outputs, so a new version must not give another one."""
    assert read(HyperLogLog(), np.arange(100_000)) == PINNED_INTEGERS
    assert read(HyperLogLog(10), [f"user-{i}" for i in range(5_000)]) == PINNED_STRINGS


PINNED_INTEGERS = 101_770
PINNED_STRINGS = 4_837


def test_full_registers():
    sketch = HyperLogLog(4)
    full = (np.full((1, 16), 61, dtype=np.uint8),)
    assert sketch.value(full) == 2**64


def test_parameters_and_elements():
    for precision in (3, 19):
        with pytest.raises(BadProgram):
            HyperLogLog(precision)
    with pytest.raises(BadElement, match="one value per row"):
        read(HyperLogLog(), ([1], [2]))
