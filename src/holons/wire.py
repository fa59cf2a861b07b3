"""Messages between processes as bytes: msgspec structs in MessagePack. What is not one of ours is a `CodecError`.

Unlike `codec`, these bytes are not canonical: nothing is compared by them.
"""

from __future__ import annotations

from collections.abc import Callable
from types import UnionType
from typing import Final, TypeVar

import msgspec

from holons.errors import CodecError

MessageT = TypeVar("MessageT")
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that it cannot read: text that is no UTF-8 is not one of its own errors."""

_encoder = msgspec.msgpack.Encoder()


def encode(message: msgspec.Struct) -> bytes:
    """Returns a message as bytes."""
    return _encoder.encode(message)


def decoder(
    messages: type[MessageT] | UnionType, message_name: str, stream_name: str, *, remedy: str = ""
) -> Callable[[bytes | memoryview], MessageT]:
    """Makes a function that decodes the messages of one stream: a struct, or a union of tagged structs.

    `remedy`: what to do if one of them is not ours, for errors.

    >>> class Greeting(msgspec.Struct, frozen=True, array_like=True, tag="greeting/1"):
    ...     text: str
    >>> decode_greeting = decoder(Greeting, "a greeting", "the guest book")
    >>> decode_greeting(encode(Greeting("hello")))
    Greeting(text='hello')
    >>> decode_greeting(b"?")
    Traceback (most recent call last):
    holons.errors.CodecError: not a greeting: Expected `array`, got `int`
      hint: the guest book is damaged, or was written by another version of Holons
    """
    known = msgspec.msgpack.Decoder(messages)

    def decode(data: bytes | memoryview) -> MessageT:
        try:
            message: MessageT = known.decode(data)
        except UNREADABLE as error:
            raise CodecError(
                f"not {message_name}: {error}",
                hint=f"{stream_name} is damaged, or was written by another version of Holons{remedy}",
            ) from error
        return message

    return decode
