from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.errors import CodecError
from holons.wire import decoder, encode


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello/1"):
    name: str


class Bye(msgspec.Struct, frozen=True, array_like=True, tag="bye/1"):
    name: str
    times: int = 1


class Stranger(msgspec.Struct, frozen=True, array_like=True, tag="hello/2"):
    name: str


decode = decoder(Hello | Bye, "a greeting", "the guest book")


@given(st.one_of(st.builds(Hello, st.text()), st.builds(Bye, st.text(), st.integers(-(2**63), 2**63 - 1))))
def test_every_message_comes_back(message):
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"?", encode(Hello("ann"))[:-1], encode(Stranger("ann")), b"\x91" * 100_000 + b"\x00"]
)
def test_what_is_not_ours_is_an_error_that_names_the_stream(data):
    with pytest.raises(
        CodecError, match=r"not a greeting(.|\n)*the guest book is damaged, or was written by another version"
    ):
        decode(data)
