"""What the nodes of a grid write to each other. Plain data; nothing is ever unpickled.

Names and positions travel as their texts (`records.py`), so that any name and any number can be written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from holons.wire import decoder


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

decode: Callable[[bytes], Letter] = decoder(Put | Holds | Ask | Want, "a letter of the grid", "the grid's stream")
