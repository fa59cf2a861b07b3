"""Memory that nobody needs any more."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress


def give_back() -> None:
    """Gives everything that is free back to the system: for a process that has nothing to do for now.

    Allocators keep what was freed, and what refers to itself is not even free before the garbage collector has seen it.
    """
    gc.collect()
    with suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)
