"""What a traceback shows of an error in a user's program: the user's own lines, not the forty of ours around them."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Final, TypeVar

from holons.errors import DescribedError, InvariantBroken

_WHOLE: Final = "HOLONS_DEBUG"
"""With this variable set, nothing is left out."""
_AROUND: Final = ("holons", "contextlib")
E = TypeVar("E", bound=BaseException)


def for_people(error: E) -> E:
    """The same error, and what caused it, without our own lines. A broken promise keeps them: it is about our code."""
    if not isinstance(error, DescribedError) or isinstance(error, InvariantBroken) or os.environ.get(_WHOLE):
        return error
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = _others(link.__traceback__)
        link = link.__cause__
    return error


def _others(trace: TracebackType | None) -> TracebackType | None:
    """The lines of a traceback that are not ours."""
    links = []
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in _AROUND:
            links.append(trace)
        trace = trace.tb_next
    kept: TracebackType | None = None
    for link in reversed(links):
        kept = TracebackType(kept, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return kept
