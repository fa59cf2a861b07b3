"""Temporary directories that do not outlive their process for long, however it ends.

Each holds a lock for as long as its process lives. If that is killed, the next one that wants a directory finds it
without a lock, and removes it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holons.disk import try_lock

_PREFIX = "holons-"
_HELD = ".held"


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for as long as it is needed.

    >>> with scratch() as directory:
    ...     directory.is_dir()
    True
    >>> directory.exists()
    False
    """
    sweep()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with (directory / f"{_HELD}.new").open("w") as held:
            try_lock(held)
            Path(held.name).rename(directory / _HELD)  # who sees it sees it locked
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def sweep() -> list[Path]:
    """Removes the directories of those who were killed; returns which."""
    removed = []
    for held in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_HELD}"):
        with suppress(OSError), held.open("r+") as file:
            if try_lock(file):
                shutil.rmtree(held.parent, ignore_errors=True)
                removed.append(held.parent)
    return removed
