"""Messages between nodes: a version that a reader does not know is an error that says so."""

from __future__ import annotations

import msgspec
import pytest

from holons.errors import CodecError
from holons.node.messages import Claim, Heartbeat, Stopped, decode_claim, decode_decision, decode_heartbeat
from holons.wire import encode


def test_messages_come_back_as_they_were():
    heartbeat, claim = Heartbeat("node-1#1", 7, jobs=2), Claim("job", 3, 0, 5, "node-1#1")
    assert decode_heartbeat(encode(heartbeat)) == heartbeat
    assert decode_claim(encode(claim)) == claim


@pytest.mark.parametrize(
    ("decode", "message"),
    [
        (decode_heartbeat, Heartbeat("a", 1)),
        (decode_claim, Claim("j", 0, 0, 0, "a")),
        (decode_decision, Stopped("j", "Cancelled", "on request")),
    ],
)
def test_a_message_of_another_version_is_refused(decode, message):
    tag, *fields = msgspec.msgpack.decode(encode(message))
    later = msgspec.msgpack.encode([f"{tag.partition('/')[0]}/99", *fields])
    with pytest.raises(CodecError, match=r"99.*\n.*another version of Holons"):
        decode(later)
