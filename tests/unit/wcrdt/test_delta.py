"""Deltas on the wire: they come back as they were, and nothing else comes back at all."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.errors import CodecError, InvariantBroken
from holons.wcrdt import Delta, Seal
from holons.windows import BEGINNING, ENDING

TIMES = st.integers(BEGINNING, ENDING)
SEALS = st.lists(st.builds(Seal, st.integers(0, 9), TIMES, st.binary(max_size=9)), max_size=4).map(tuple)
DELTAS = st.builds(Delta, st.integers(0, 3), st.integers(0, 99), TIMES, TIMES, SEALS)


@given(DELTAS)
def test_a_delta_comes_back_as_it_was(delta):
    assert Delta.decode(delta.encode()) == delta
    assert Delta.decode(delta.encode()).encode() == delta.encode()


@given(st.binary(max_size=40))
def test_garbage_is_no_delta(data):
    with pytest.raises(CodecError) as caught:
        Delta.decode(data)
    assert caught.value.hint


@given(DELTAS, st.data())
def test_a_torn_delta_is_no_delta(delta, data):
    whole = delta.encode()
    with pytest.raises(CodecError, match="not a delta"):
        Delta.decode(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(CodecError):
        Delta.decode(whole + b"\x00")


@pytest.mark.parametrize(
    "other",
    [
        None,
        "delta",
        {"stage": 0},
        [],
        [2, 0, 0, 0, 1, []],  # another tag
        [1, 0, 0, 0],
        [1, 0, 0, 0.5, 1, []],
        [1, 0, 0, 0, 1, [[0, 0, "text"]]],
        [1, 0, 0, 0, 1, [[0, 0]]],
    ],
    ids=repr,
)
def test_other_messages_are_no_deltas(other):
    with pytest.raises(CodecError):
        Delta.decode(msgspec.msgpack.encode(other))


def test_a_message_nested_without_end_is_no_delta():
    seven_members = b"\x97\x01\x00\x00\x00\x01\x90"  # a delta, and one member more, which decoders skip
    with pytest.raises(CodecError):
        Delta.decode(seven_members + b"\x91" * 1_000_000)


def test_adjoining_deltas_are_one():
    a, b = Delta(0, 1, 0, 10, (Seal(0, 0, b"a"),)), Delta(0, 1, 10, 30, (Seal(0, 2, b"b"),))
    assert a.then(b) == Delta(0, 1, 0, 30, (Seal(0, 0, b"a"), Seal(0, 2, b"b")))


@pytest.mark.parametrize(
    "later",
    [Delta(0, 1, 11, 30), Delta(0, 1, 9, 30), Delta(0, 2, 10, 30), Delta(1, 1, 10, 30), Delta(0, 1, 0, 10)],
    ids=["a gap", "an overlap", "another partition", "another stage", "itself"],
)
def test_only_adjoining_deltas_can_be_merged(later):
    with pytest.raises(InvariantBroken, match="contiguous"):
        Delta(0, 1, 0, 10).then(later)
