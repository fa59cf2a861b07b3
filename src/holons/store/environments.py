"""The LMDB environments that a process has open, and who may write to one.

LMDB allows a process to open an environment once, and never across a fork: hence one registry. It notices neither
damage nor truncation, and reading beyond the end of a file kills the process: so a data file is as long as its map from
the beginning (mostly holes), and a shorter one has been cut off.

A process stopped inside a write transaction blocks every other writer of that environment. So an environment has one
writer, who holds a lock on a small file for as long as it lives; nobody ever waits for that lock.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lmdb

from holons.errors import RecordDamaged, StoreUnavailable

_DATA: Final = "data.mdb"
_FILES: Final = (_DATA, "lock.mdb", "writer.lock")  # removed in this order: the lock is what others look at
_READY: Final = b"ready\n"
_READERS_MAX: Final = 1024
_CLAIMS_MAX: Final = 8
_DAMAGE: Final = (lmdb.InvalidError, lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.VersionMismatchError)


# --- who may write --------------------------------------------------------------------------------------------------


def claim(folder: Path) -> int:
    """Makes a folder for an environment, and this process its only writer; returns the lock's descriptor."""
    for _ in range(_CLAIMS_MAX):
        folder.mkdir(parents=True, exist_ok=True)
        lock = take_lock(folder, create=True)
        if lock is not None:
            return lock
    raise StoreUnavailable(
        f"somebody else writes to {folder}",
        hint="each incarnation of a node needs a writer name of its own",
    )


def take_lock(folder: Path, create: bool = False) -> int | None:
    """The lock of an environment that has no living writer; None if it has one, or is gone."""
    path = folder / "writer.lock"
    try:
        lock = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o644)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), path.stat()):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(lock)
    return None


def still_ours(folder: Path, lock: int) -> bool:
    """Whether the folder whose lock we hold is still the one with that name."""
    try:
        return os.path.samestat(os.fstat(lock), (folder / "writer.lock").stat())
    except FileNotFoundError:
        return False


def is_ready(folder: Path) -> bool:
    """Whether the writer has finished making its environment. Before that there is nothing to read, or to wait for."""
    try:
        return (folder / "writer.lock").read_bytes() == _READY
    except (FileNotFoundError, NotADirectoryError):
        return False


def remove(folder: Path) -> None:
    """Gives an environment's disk space back. The caller holds its lock, and nobody needs what is in it."""
    environments.forget(folder)
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()


# --- what is open ---------------------------------------------------------------------------------------------------


@dataclass
class _Open:
    environment: lmdb.Environment
    file: tuple[int, int]
    sync: bool
    map_bytes: int


class Environments:
    """The environments of this process, each open once however many stores use it."""

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._process = os.getpid()
        self._open: dict[Path, _Open] = {}

    def create(self, folder: Path, lock: int, map_bytes: int, sync: bool) -> lmdb.Environment:
        """The environment of which this process is the writer; made if it is not there."""
        with self._guard:
            self._notice_fork()
            known = self._open.get(folder)
            if known is not None and known.sync == sync:
                return known.environment
            self.forget(folder)
            if is_ready(folder):
                _check_size(folder, 0)
                environment = _opened(folder, 0, sync, create=False)
                _check_size(folder, environment.info()["map_size"])
            else:
                environment = _opened(folder, map_bytes, sync, create=True)
                os.truncate(folder / _DATA, environment.info()["map_size"])
                os.pwrite(lock, _READY, 0)
            return self._keep(folder, environment, sync)

    def open(self, folder: Path) -> lmdb.Environment:
        """An environment to read from. Raises `RecordDamaged` if its file is not what its writer made."""
        with self._guard:
            self._notice_fork()
            known = self._open.get(folder)
            try:
                _check_size(folder, known.map_bytes if known else 0)  # before anything looks at the map
                if known is None or known.file != _identity(folder / _DATA):
                    self.forget(folder)
                    environment = self._keep(folder, _opened(folder, 0, False, create=False), sync=False)
                    _check_size(folder, environment.info()["map_size"])
                    environment.reader_check()
                    return environment
            except RecordDamaged:
                self.forget(folder)
                raise
            known.map_bytes = known.environment.info()["map_size"]
            return known.environment

    def forget(self, folder: Path) -> None:
        """Closes an environment, if it is open."""
        with self._guard:
            self._notice_fork()
            known = self._open.pop(folder, None)
            if known is not None:
                known.environment.close()

    def forget_missing(self, root: Path, folders: list[Path]) -> None:
        """Closes the environments under a root whose folders have been removed."""
        with self._guard:
            for folder in [folder for folder in self._open if folder.parent == root and folder not in folders]:
                self.forget(folder)

    def _keep(self, folder: Path, environment: lmdb.Environment, sync: bool) -> lmdb.Environment:
        self._open[folder] = _Open(environment, _identity(folder / _DATA), sync, environment.info()["map_size"])
        return environment

    def _notice_fork(self) -> None:
        if self._process != os.getpid():
            self._open, self._process = {}, os.getpid()  # let go, not closed: closing would take the parent's readers


environments: Final = Environments()


@contextmanager
def reading(environment: lmdb.Environment) -> Iterator[lmdb.Transaction]:
    """A short read transaction; takes note of a map that its writer has enlarged."""
    try:
        transaction = environment.begin()
    except lmdb.MapResizedError:
        environment.set_mapsize(0)
        transaction = environment.begin()
    with transaction:
        yield transaction


def write(folder: Path, environment: lmdb.Environment, change: Callable[[lmdb.Transaction], None]) -> None:
    """Makes a change in one transaction; enlarges the map, and before it the file, as often as needed."""
    while True:
        try:
            with environment.begin(write=True) as transaction:
                change(transaction)
            return
        except lmdb.MapFullError:
            map_bytes = 2 * environment.info()["map_size"]
            os.truncate(folder / _DATA, map_bytes)
            environment.set_mapsize(map_bytes)
        except lmdb.MapResizedError:
            environment.set_mapsize(0)


def _opened(folder: Path, map_bytes: int, sync: bool, create: bool) -> lmdb.Environment:
    try:
        return lmdb.open(
            str(folder),
            map_size=map_bytes,
            sync=sync,
            metasync=sync,
            create=create,
            readahead=False,
            max_readers=_READERS_MAX,
        )
    except _DAMAGE as error:
        raise RecordDamaged(f"this is not an LMDB environment: {error}", hint=_LOOK, where=folder) from error


def _identity(data: Path) -> tuple[int, int]:
    found = data.stat()
    return found.st_dev, found.st_ino


def _check_size(folder: Path, map_bytes: int) -> None:
    try:
        size = (folder / _DATA).stat().st_size
    except FileNotFoundError:
        size = 0
    if size == 0 or size < map_bytes:
        raise RecordDamaged(f"the file has {size} bytes and once had {map_bytes or 'more'}", hint=_LOOK, where=folder)


_LOOK: Final = "something else wrote to this directory, or cut its file off; other writers' records are still used"
