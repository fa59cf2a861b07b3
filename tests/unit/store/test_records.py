"""The text of positions and the bytes around data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.errors import InvariantBroken, RecordDamaged
from holons.store.records import header, parse_position, position_text, unframe

POSITIONS = st.lists(st.integers(-(2**70), 2**70) | st.integers(-12, 12), max_size=4).map(tuple)


@given(POSITIONS, POSITIONS)
def test_texts_sort_as_positions_do(one, other):
    assert (position_text(one) < position_text(other)) == (one < other)
    assert (position_text(one) + ".record" < position_text(other) + ".record") == (one < other)


@given(POSITIONS)
def test_the_text_of_a_position_can_be_read_back(position):
    assert parse_position(position_text(position)) == position


@given(st.text(alphabet="atpm_0189.", max_size=14))
def test_a_text_that_is_read_is_the_text_of_that_position(text):
    position = parse_position(text)
    assert position is None or position_text(position) == text


def test_eight_large_numbers_fit_and_more_say_that_they_do_not():
    assert position_text((-(2**63),) * 8)
    with pytest.raises(InvariantBroken, match="too long"):
        position_text((2**63,) * 20)
    with pytest.raises(InvariantBroken, match="too long"):
        position_text((10**300,))


@given(st.binary(max_size=30), st.data())
def test_any_cut_and_any_changed_bit_is_noticed(data, draw):
    stored = header("p", (3,), data) + data
    assert unframe("p", (3,), stored, "") == data
    length = draw.draw(st.integers(0, len(stored) - 1))
    bit = draw.draw(st.integers(0, 8 * len(stored) - 1))
    flipped = (int.from_bytes(stored, "little") ^ (1 << bit)).to_bytes(len(stored), "little")
    for damaged in (stored[:length], flipped, stored + b"\0"):
        with pytest.raises(RecordDamaged):
            unframe("p", (3,), damaged, "")


@pytest.mark.parametrize(("name", "position"), [("q", (3,)), ("p", (4,)), ("p", (3, 0))])
def test_another_records_bytes_are_noticed(name, position):
    with pytest.raises(RecordDamaged, match="checksum"):
        unframe(name, position, header("p", (3,), b"data") + b"data", "")
