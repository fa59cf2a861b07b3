"""Text that is safe to show: what a terminal would obey, or what hides what stands there, is written as Python does.

Values of users' rows, names, errors of their programs and what nodes log may hold anything. Printed as they are, escape
sequences move the cursor, set the window's title or the clipboard, and marks of direction turn text round. Whatever a
command, a notebook or a log shows goes through here once.
"""

from __future__ import annotations

import re
import sys
import traceback
from types import TracebackType
from typing import Final

_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb]"
)


def visible(text: str) -> str:
    r"""Returns a text in which nothing but line ends and tabs is a command: control characters are written out.

    Also written out are marks of direction and lone surrogates, which no terminal and no file can take.

    >>> print(visible("a\x1b[31mb\r\u202ec"))
    a\x1b[31mb\r\u202ec
    """
    return _HIDDEN.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


def show_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints a traceback as Python does at the end of a process, but visible: for `sys.excepthook`."""
    sys.stderr.write(visible("".join(traceback.format_exception(kind, error, trace))))
