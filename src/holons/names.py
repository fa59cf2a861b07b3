"""Names that users choose, of streams, jobs, channels and handles: which names there are, and their form in paths.

A name is any text that can be read aloud: spaces, slashes, dots and letters of all scripts are fine. Refused is only what
nobody can mean: nothing at all, control characters, and what does not fit into a file's name.

Where a name becomes a part of a path, it is encoded: lower-case letters, digits, `-` and `_` stand for themselves, and
every other byte of UTF-8 is `%` and two hexadecimal digits. So each name has one encoded form, each form is of one name,
no form is `..` or holds a separator, and file systems that do not distinguish `A` from `a`, or that rewrite Unicode, see
nothing of it. With `.` in place of `%` it is the name of a Kafka topic.

Names are compared as they are written. Text that looks alike and is not composed in the same way would be two names, so
only the composed form (NFC), which keyboards and almost all programs make, is a name.

>>> encoded("Bids/3"), decoded("%42ids%2f3")
('%42ids%2f3', 'Bids/3')
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from holons.errors import BadName

NAME_BYTES_MAX: Final = 190
"""How long a name may be in its encoded form. Our own names add up to 30 bytes, and those of files have 255 at most."""

_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_UPPER_CASE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_CONTROLS: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_DIRECTIONS: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_REMEMBERED: Final = 4096


def check_name(what: str, name: object, **where: object) -> str:
    """Returns a name; raises `BadName` if it is none. `what` it is the name of: a stream, a job, a channel, a handle.

    >>> check_name("stream", "Gebote 2026/Köln")
    'Gebote 2026/Köln'
    >>> check_name("stream", "")
    Traceback (most recent call last):
    holons.errors.BadName: '' cannot be the name of a stream: it is empty
      hint: choose a text such as 'bids'
    """
    refusal = _refusal(name) if isinstance(name, str) else ("it is not text", "choose a text such as 'bids'")
    if refusal is not None:
        reason, hint = refusal
        raise BadName(f"{_shown(name)} cannot be the name of a {what}: {reason}", hint=hint, **where)
    return str(name)


@lru_cache(maxsize=_REMEMBERED)
def _refusal(name: str) -> tuple[str, str] | None:
    """Returns why a text is no name, and what to do; None if it is one."""
    if not name.strip():
        return "it is empty", "choose a text such as 'bids'"
    for character in name:
        if unicodedata.category(character) in _CONTROLS or character in _DIRECTIONS:
            return f"it holds the control character U+{ord(character):04X}", "leave out what cannot be seen"
    composed = unicodedata.normalize("NFC", name)
    if composed != name:
        return (
            "it has letters that are put together of several characters",
            f'write {composed!r} composed: unicodedata.normalize("NFC", name)',
        )
    size = len(encoded(name))
    if size > NAME_BYTES_MAX:
        return (
            f"it is too long: it takes {size} bytes in a path, and {NAME_BYTES_MAX} is the most",
            "shorten it; lower-case letters, digits, - and _ take one byte, others of ASCII three, the rest six to twelve",
        )
    return None


def _shown(name: object) -> str:
    text = ascii(name)
    return text if len(text) <= 60 else f"{text[:40]}…{text[-10:]}"


@lru_cache(maxsize=_REMEMBERED)
def encoded(name: str, *, keep_case: bool = False) -> str:
    """Returns a name as a part of a path. `keep_case` is for paths in which something else tells names apart, too."""
    plain = _PLAIN | _UPPER_CASE if keep_case else _PLAIN
    return "".join(chr(byte) if byte in plain else f"%{byte:02x}" for byte in name.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=_REMEMBERED)
def decoded(text: str) -> str | None:
    """Returns the name that an encoded form stands for; None if it is the form of no name."""
    try:
        name = unquote_to_bytes(text).decode("utf-8", "surrogatepass")
    except UnicodeError:
        return None
    return name if encoded(name) == text else None


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Returns the known names that somebody may have meant, the nearest first.

    >>> nearest("Order", ["orders", "visits"])
    ['orders']
    """
    folded = {other.casefold(): other for other in known}
    return [folded[match] for match in difflib.get_close_matches(name.casefold(), folded)]
