"""Shortens tracebacks of errors in users' programs to the users' own lines."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Final, TypeVar

from holons.errors import DescribedError, InvariantBroken

_DEBUG_VARIABLE: Final = "HOLONS_DEBUG"
"""With this environment variable set, no line is left out."""
_LEFT_OUT: Final = ("holons", "contextlib")
E = TypeVar("E", bound=BaseException)


def for_people(error: E) -> E:
    """Returns the same error, and what caused it, without lines of Holons, which only a broken promise keeps."""
    if not isinstance(error, DescribedError) or isinstance(error, InvariantBroken) or os.environ.get(_DEBUG_VARIABLE):
        return error
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = _without_ours(link.__traceback__)
        link = link.__cause__
    return error


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    """Returns a traceback without the lines of Holons."""
    links = []
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in _LEFT_OUT:
            links.append(trace)
        trace = trace.tb_next
    kept: TracebackType | None = None
    for link in reversed(links):
        kept = TracebackType(kept, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return kept
