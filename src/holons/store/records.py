"""How a record is written down: the text of its name and position, and the bytes around its data.

The text of a position sorts as positions do, so that a folder or a key range lists records in their order: each number
is its sign, the count of its digits and its digits; below zero all of that is turned round.

>>> position_text((7, -12))
'at_p017_m9787'
>>> parse_position("at_p017_m9787")
(7, -12)
>>> sorted([position_text(at) for at in [(2,), (10,), (-1,), (-10,), (2, 0)]], key=str)
['at_m9789', 'at_m988', 'at_p012', 'at_p012_p010', 'at_p0210']
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from typing import Final

from isal import isal_zlib

from holons.errors import InvariantBroken, RecordDamaged
from holons.names import encoded
from holons.store.store import Position

POSITION_TEXT_MAX: Final = 200
"""Longer texts would not fit a file name or a key: eight numbers of 64 bits do."""

_MAGIC: Final = b"holons\x00\x01"
_HEADER: Final = struct.Struct("<8sIQ")
_POSITION: Final = re.compile(r"at((?:_[pm][0-9]{3,})*)")
_NINES: Final = str.maketrans("0123456789", "9876543210")
_REMEMBERED: Final = 4096
"""How many texts are not made anew: every look into a store lists what is there."""


@lru_cache(maxsize=_REMEMBERED)
def position_text(position: Position) -> str:
    """Returns a position as text that sorts as the position does."""
    text = "at" + "".join(f"_{_number_text(number)}" for number in position)
    if len(text) > POSITION_TEXT_MAX:
        raise InvariantBroken(f"the position {position} is too long to be stored", hint="eight numbers of 64 bits fit")
    return text


@lru_cache(maxsize=_REMEMBERED)
def parse_position(text: str) -> Position | None:
    """Returns the position that a text stands for; None if it is no such text."""
    parsed = _POSITION.fullmatch(text) if len(text) <= POSITION_TEXT_MAX else None
    if parsed is None:
        return None
    position = tuple(_parse_number(part) for part in parsed[1].split("_")[1:])
    return position if position_text(position) == text else None


def _number_text(number: int) -> str:
    digits = str(abs(number))
    if len(digits) > 99:
        return "p" + digits  # far beyond what fits: `position_text` says so
    return f"p{len(digits):02}{digits}" if number >= 0 else f"m{99 - len(digits):02}{digits.translate(_NINES)}"


def _parse_number(text: str) -> int:
    digits = text[3:]
    return int(digits) if text[0] == "p" else -int(digits.translate(_NINES))


# --- the bytes around the data --------------------------------------------------------------------------------------


def header(name: str, position: Position, data: bytes) -> bytes:
    """Returns what comes before a record's data: their length and a checksum, which also covers what the record is of."""
    return _HEADER.pack(_MAGIC, _checksum(name, position, data), len(data))


def unframe(name: str, position: Position, stored: bytes, where: str) -> bytes:
    """Returns the data behind a header; raises `RecordDamaged` if a single bit differs, or if it is another record's."""
    reason = ""
    if len(stored) < _HEADER.size:
        reason = f"it has only {len(stored)} bytes"
    else:
        magic, checksum, length = _HEADER.unpack_from(stored)
        data = stored[_HEADER.size :]
        if magic != _MAGIC:
            reason = "it was not written by this version of Holons"
        elif length != len(data):
            reason = f"it has {len(data)} of {length} bytes"
        elif checksum != _checksum(name, position, data):
            reason = "its checksum does not fit"
    if reason:
        raise RecordDamaged(
            f"the record {name} at {position} is damaged: {reason}",
            hint="an older record is used instead; look at the disk",
            where=where,
        )
    return data


def missing(name: str, position: Position, where: str) -> RecordDamaged:
    """Returns the error for a record that is not there."""
    return RecordDamaged(f"there is no record {name} at {position}", where=where)


def _checksum(name: str, position: Position, data: bytes) -> int:
    start: int = isal_zlib.crc32(f"{encoded(name)}/{position_text(position)}".encode())
    checksum: int = isal_zlib.crc32(data, start)
    return checksum
