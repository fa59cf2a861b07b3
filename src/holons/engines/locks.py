"""Locks between processes that go with their holder, however that ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holons.clock import SystemClock
from holons.disk import make_folder, open_to_write, try_lock

_LOOK_S = 0.02


@contextmanager
def locked(file: Path, within_s: float, refused: Exception) -> Iterator[None]:
    """Holds a lock, for which it waits so long; raises `refused` if somebody else keeps it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as at, locked(Path(at) / "lock", 0.0, TimeoutError()):
    ...     with locked(Path(at) / "lock", 0.0, TimeoutError("busy")):
    ...         pass
    Traceback (most recent call last):
    TimeoutError: busy
    """
    make_folder(file.parent)
    lock = open_to_write(file)
    try:
        clock = SystemClock()
        until_s = clock.now_s() + within_s
        while not try_lock(lock):
            if clock.now_s() >= until_s:
                raise refused
            clock.sleep_s(_LOOK_S)
        yield
    finally:
        os.close(lock)
