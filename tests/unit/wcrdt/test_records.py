"""Checkpoint records: what comes back, and what is refused, and how."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons import codec
from holons.errors import CodecError, UnknownRecordVersion
from holons.wcrdt import RecordFormat


class Visit(msgspec.Struct, frozen=True, array_like=True, tag="visit/2"):
    place: str
    minutes: list[int]


class VisitBefore(msgspec.Struct, frozen=True, array_like=True, tag="visit/1"):
    place: str


VISITS = RecordFormat(Visit)
RECORD = Visit("café", [3, -4])
STATES = [{"b": 1, "a": (2.0, None)}, (np.arange(40_000),)]


def test_a_record_comes_back_with_its_states():
    record, (plain, (column,)) = VISITS.decode(VISITS.encode(RECORD, STATES))
    assert record == RECORD
    assert plain == STATES[0]
    assert column.tolist() == list(range(40_000))
    assert VISITS.header(memoryview(VISITS.encode(RECORD, STATES))) == RECORD


def test_equal_states_give_equal_bytes():
    other = {"a": (2.0, None), "b": 1}
    assert VISITS.encode(RECORD, [other]) == VISITS.encode(RECORD, STATES[:1])


@given(st.integers(0, len(VISITS.encode(RECORD, STATES[:1])) - 1))
def test_a_record_that_was_cut_off_is_damaged(length):
    with pytest.raises(CodecError, match="visit/2"):
        VISITS.decode(VISITS.encode(RECORD, STATES[:1])[:length])


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (RecordFormat(VisitBefore).encode(VisitBefore("here")), "'visit/1'"),
        (codec.encode((("here", 3), {})), "'unknown'"),
        (codec.encode([["visit/3", "here", [3]], b""]), "'visit/3'"),
        (codec.encode([]), "'unknown'"),
    ],
)
def test_a_record_of_another_version_is_refused_by_its_version(data, kind):
    with pytest.raises(UnknownRecordVersion, match=f"{kind}.*reads 'visit/2'") as caught:
        VISITS.header(data)
    assert "another version of holons" in caught.value.hint
    assert not isinstance(caught.value, CodecError), "it must not be taken for a torn one"


def test_a_record_of_our_version_with_other_fields_is_damaged():
    with pytest.raises(CodecError, match="damaged"):
        VISITS.header(codec.encode([["visit/2", 7, "no minutes"], b""]))
