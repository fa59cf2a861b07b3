"""What several rooms need of a file system: locks, names that survive the machine, and its errors as ours."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from holons.errors import LogUnavailable, StoreUnavailable


def try_lock(file: int | IO[bytes] | IO[str]) -> bool:
    """Locks an open file unless another process has; the lock goes with the process that holds it, however that ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sync(path: str | Path) -> None:
    """Makes a file, or the names in a folder, survive the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def unavailable(kind: type[LogUnavailable | StoreUnavailable], what: str) -> Iterator[None]:
    """Raises the operating system's refusal to do `what` as an error of ours: whoever gets it tries again later.

    >>> with unavailable(LogUnavailable, "read /nowhere"):
    ...     Path("/nowhere").read_bytes()
    Traceback (most recent call last):
    holons.errors.LogUnavailable: cannot read /nowhere: [Errno 2] No such file or directory: '/nowhere'
      hint: is the directory there, may this process write to it, and is the disk not full? It is tried again
    """
    try:
        yield
    except kind:
        raise
    except OSError as error:
        raise kind(
            f"cannot {what}: {error}",
            hint="is the directory there, may this process write to it, and is the disk not full? It is tried again",
        ) from error
