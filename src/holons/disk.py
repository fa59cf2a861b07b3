"""What several rooms need of a file system: files of their owner, names that survive the machine, locks, errors as ours.

**Whoever writes a file of a site makes it here.** Files are 0600 and folders 0700, whatever the umask says; with
`durable`, a file is on the disk when the call returns, and so is its name, up to the root of the file system.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias, get_args

from holons.errors import BadInput, LogUnavailable, StoreUnavailable

Durability: TypeAlias = Literal["process", "disk"]
"""What was acknowledged survives the death of any process (`process`), or also that of the machine (`disk`)."""

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700

_HINTS: Final = {
    errno.ENOSPC: "the disk is full: free some space, and it goes on; what was acknowledged is kept",
    errno.EDQUOT: "the quota of this user is used up: free some space, and it goes on; what was acknowledged is kept",
    errno.EFBIG: "files may not grow larger for this process: raise its limit (ulimit -f)",
    errno.ENOMEM: "this process may have no more memory: raise its limit (ulimit -v), or give it less to do",
    errno.EMFILE: "this process may open no more files: raise its limit (ulimit -n)",
    errno.ENFILE: "this machine may open no more files: end some processes, or raise fs.file-max",
    errno.EROFS: "the file system is read-only: mount it for writing",
    errno.EACCES: "this process may not do that: run it as the owner of the directory",
    errno.EPERM: "this process may not do that: run it as the owner of the directory",
    errno.ENOENT: "is the directory there? It is tried again",
    errno.EIO: "the disk fails: look at what the kernel says (dmesg)",
}
"""What to do about an error of the operating system."""

_synced: set[str] = set()
"""The folders whose own names this process has made to survive."""


def check_durability(durability: str) -> None:
    """Raises `BadInput` if there is no such durability."""
    if durability not in get_args(Durability):
        raise BadInput(f"no durability is called {durability!r}", hint=f"use one of {', '.join(get_args(Durability))}")


def open_to_write(path: str | Path, flags: int = os.O_WRONLY) -> int:
    """Opens a file, which is made if there is none; only its owner may read and write it."""
    file = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    if stat.S_IMODE(os.fstat(file).st_mode) != FILE_MODE:
        with suppress(OSError):  # some file systems know no permissions
            os.fchmod(file, FILE_MODE)
    return file


def write(path: str | Path, *pieces: bytes, durable: bool = False) -> None:
    """Writes a whole file. Its name need not survive yet: see `sync`."""
    with open(open_to_write(path, os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.writelines(pieces)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def make_folder(path: str | Path, *, durable: bool = False, mode: int | None = FOLDER_MODE) -> None:
    """Makes a folder, and those above it, as far as they are not there; without a `mode` as the umask says."""
    folder = Path(path)
    missing = list(takewhile(lambda place: not place.is_dir(), (folder, *folder.parents)))
    for place in reversed(missing):
        place.mkdir(0o777 if mode is None else mode, exist_ok=True)
        if mode is not None:
            restrict(place, mode)
        _synced.discard(os.path.realpath(place))
    if durable:
        _sync_names(folder)


def restrict(folder: Path, mode: int = FOLDER_MODE) -> None:
    """Gives a folder these permissions, where the file system knows any."""
    if stat.S_IMODE(folder.stat().st_mode) != mode:
        with suppress(OSError):
            folder.chmod(mode)


def _sync_names(folder: Path) -> None:
    """Makes the names of a folder, and of all above it, survive the machine: each once, whoever has made it."""
    real = Path(os.path.realpath(folder))
    fresh = list(takewhile(lambda place: str(place) not in _synced, (real, *real.parents)))
    for place in fresh:
        with suppress(PermissionError):  # whoever may not list a folder has made no name in it
            sync(place.parent)
    _synced.update(map(str, fresh))


def try_lock(file: int | IO[bytes] | IO[str]) -> bool:
    """Locks an open file unless another process has; the lock goes with the process that holds it, however that ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sync(path: str | Path) -> None:
    """Makes what a file holds, or the names in a folder, survive the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(folder: Path) -> None:
    """Makes everything in a folder survive the machine."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


def hint_for(error: OSError) -> str:
    """Returns what somebody can do about an error of the operating system."""
    return _HINTS.get(error.errno or 0, "is the disk there, and may this process read and write it? It is tried again")


@contextmanager
def unavailable(kind: type[LogUnavailable | StoreUnavailable], what: str) -> Iterator[None]:
    """Raises the operating system's refusal to do `what` as an error of ours: whoever gets it tries again later.

    >>> with unavailable(LogUnavailable, "read /nowhere"):
    ...     Path("/nowhere").read_bytes()
    Traceback (most recent call last):
    holons.errors.LogUnavailable: cannot read /nowhere: [Errno 2] No such file or directory: '/nowhere'
      hint: is the directory there? It is tried again
    """
    try:
        yield
    except kind:
        raise
    except OSError as error:
        raise kind(
            f"cannot {what}: {error}",
            hint=hint_for(error),
        ) from error
