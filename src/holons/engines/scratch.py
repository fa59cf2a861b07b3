"""Directories that do not outlive their process for long, however it ends: temporary ones, and those of unfinished loads.

Each holds a lock for as long as its process lives. If that is killed, the next one that wants a directory finds it
without a lock, and removes it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holons import disk

_PREFIX: Final = "holons-"
HELD: Final = ".held"
"""The file with the lock."""


@contextmanager
def scratch(within: Path | None = None, prefix: str = _PREFIX) -> Iterator[Path]:
    """A directory for as long as it is needed, among the temporary ones unless it says where.

    >>> with scratch() as directory:
    ...     directory.is_dir()
    True
    >>> directory.exists()
    False
    """
    sweep(within, prefix)
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=within))
    try:
        new = directory / f"{HELD}.new"
        with os.fdopen(disk.open_to_write(new), "wb") as held:
            disk.try_lock(held)
            new.rename(directory / HELD)  # who sees it sees it locked
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def sweep(within: Path | None = None, prefix: str = _PREFIX) -> list[Path]:
    """Removes the directories of those who were killed; returns which."""
    removed = []
    for held in (within or Path(tempfile.gettempdir())).glob(f"{prefix}*/{HELD}"):
        with suppress(OSError), held.open("r+") as file:
            if disk.try_lock(file):
                shutil.rmtree(held.parent, ignore_errors=True)
                removed.append(held.parent)
    return removed
