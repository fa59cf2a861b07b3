"""What the nodes of a grid write to each other. Plain data; nothing is ever unpickled.

Names and positions travel as their texts (`records.py`), so that any name and any number can be told.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holons.errors import CodecError


class Put(msgspec.Struct, frozen=True, array_like=True, tag="put"):
    """A record. The sender holds it, and those in `to` are to hold it as well."""

    name: str
    position: str
    data: bytes
    writer: str
    to: tuple[str, ...]


class Holds(msgspec.Struct, frozen=True, array_like=True, tag="holds"):
    """What the sender holds of some names: an acknowledgement, an answer, or just a reminder."""

    names: dict[str, tuple[str, tuple[str, ...]]]
    """For each name the position below which all was dropped, and the positions that are held."""
    answers: tuple[tuple[str, int], ...] = ()
    """Who asked for one of these names, and the number of the question."""


class Ask(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """Everybody shall say what they hold of a name, even if it is nothing."""

    name: str
    number: int


class Want(msgspec.Struct, frozen=True, array_like=True, tag="want"):
    """One node shall send a record."""

    name: str
    position: str
    of: str


Letter: TypeAlias = Put | Holds | Ask | Want

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Put | Holds | Ask | Want)


def encode(letter: Letter) -> bytes:
    """A letter as bytes."""
    return _encoder.encode(letter)


def decode(data: bytes) -> Letter:
    """A letter from bytes."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise CodecError(
            f"not a letter of the grid: {error}", hint="the grid's stream is damaged, or not ours"
        ) from error
