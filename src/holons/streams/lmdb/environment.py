"""LMDB environments: opened once per process, never open across a fork, closed when nobody needs them.

LMDB forbids to open an environment twice in one process, or to use it after a fork. So all of them are opened here, and
`Registry` knows them: they are closed before a fork, and parent and child each open again what they use.

A read transaction is kept for the next read, with its place in LMDB's table of readers, so that a process takes no lock
to read: one that is stopped at any moment while it reads holds up nobody. (It does take one for a moment when it opens
an environment, and when it looks for dead readers.)
"""

from __future__ import annotations

import os
import struct
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, TypeVar

import lmdb

from holons.clock import Clock
from holons.errors import HolonsError, LogDamaged, LogUnavailable
from holons.streams.lmdb.mapping import Mapping

DATA_FILE: Final = "data.mdb"

_READERS_MAX: Final = 1024
_OPEN_MAX: Final = 128  # each takes up to four file descriptors, and there may be only 1024
_READER_CHECK_S: Final = 5.0
_FORK_WAIT_S: Final = 1.0
_ENGINE: Final = 0  # LMDB 0.9, data format 1: `Meta` knows where its numbers are

_MAGIC: Final = 0xBEEFC0DE
_DATA_VERSION: Final = 1
_META: Final = struct.Struct("=16x II 8x Q I 92x Q Q")  # magic, version, map size, page size, last page, transaction
_PAGE_BYTES_MAX: Final = 0x8000
_META_TRIES: Final = 5

_DAMAGE: Final = (
    lmdb.BadTxnError,
    lmdb.CorruptedError,
    lmdb.IncompatibleError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)

Transaction: TypeAlias = "lmdb.Transaction[memoryview]"
Result = TypeVar("Result")


class SegmentGone(Exception):
    """A segment was trimmed while somebody was about to read it: list the directory again."""


class Meta(NamedTuple):
    """What LMDB's two meta pages say of a data file."""

    map_bytes: int
    pages: int
    page_bytes: int
    transaction: int

    @classmethod
    def read(cls, directory: Path) -> Meta:
        """Reads it, and compares it with the file's size: LMDB does not, and a truncated file would be a SIGBUS.

        A live writer may be replacing a meta page at this very moment, so what looks wrong is looked at again.
        """
        path = directory / DATA_FILE
        for tries_left in reversed(range(_META_TRIES)):
            try:
                found, size = _meta_of(path)
            except FileNotFoundError as error:
                if not directory.exists():
                    raise SegmentGone(str(directory)) from error
                raise damaged(directory, f"{DATA_FILE} is missing") from error
            if found is not None and found.pages * found.page_bytes <= size:
                return found
            if not tries_left:
                break
        if found is None:
            raise damaged(directory, f"{DATA_FILE} is not an LMDB file")
        raise damaged(directory, f"{DATA_FILE} has {size} bytes instead of {found.pages * found.page_bytes}")


def _meta_of(path: Path) -> tuple[Meta | None, int]:
    with path.open("rb", buffering=0) as file:
        first = file.read(_META.size)
        if len(first) < _META.size:
            return None, 0
        magic, version, map_bytes, page_bytes, last_page, transaction = _META.unpack(first)
        if (magic, version) != (_MAGIC, _DATA_VERSION) or not _META.size <= page_bytes <= _PAGE_BYTES_MAX:
            return None, 0
        file.seek(page_bytes)
        second = file.read(_META.size)
        if len(second) == _META.size:
            other = _META.unpack(second)
            if other[:2] != (_MAGIC, _DATA_VERSION):
                return None, 0
            if other[5] > transaction:
                map_bytes, last_page, transaction = other[2], other[4], other[5]
        size = os.fstat(file.fileno()).st_size
    return Meta(map_bytes, last_page + 1, page_bytes, transaction), size


def damaged(directory: Path, what: str) -> LogDamaged:
    """A segment that cannot be trusted."""
    return LogDamaged(
        f"segment {directory.name} is damaged: {what}",
        hint=f"restore {directory}, or move the stream's directory away and replay from the source",
    )


class Environment:
    """One segment's LMDB environment: opened at its first use, and again after a fork or when it was closed for room."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self.directory = directory
        self.lock = threading.Lock()
        self.used = 0
        self._clock = clock
        self._checked_s = clock.now_s()
        self._writable = False
        self._sync = False
        self._mapping: Mapping | None = None

    def write_through(self, *, sync: bool) -> None:
        """From now on this process writes to it; `sync`: every commit goes to the disk itself."""
        with self.lock:
            registry.close(self)
            self._writable, self._sync = True, sync

    def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Runs `work` in a read transaction. Nothing that points into LMDB's memory may leave it."""
        with self.lock:
            try:
                with self._begin(write=False) as transaction:
                    return work(transaction)
            except lmdb.Error as error:
                raise self._failure(error) from error

    def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Runs `work` in a write transaction; if the map is full, in a map twice as large once more."""
        with self.lock:
            while True:
                try:
                    with self._begin(write=True) as transaction:
                        return work(transaction)
                except lmdb.MapFullError:
                    self._grow()
                except lmdb.Error as error:
                    raise self._failure(error) from error

    def grew_since(self, transaction: int) -> bool:
        """Whether there may be a commit after this one. Costs nothing; `last_transaction` says what can be read."""
        mapping = self._mapping
        return mapping is None or mapping.newest_transaction() != transaction

    def last_transaction(self) -> int:
        """The number of the last commit."""
        if registry.handle(self) is None:
            return Meta.read(self.directory).transaction
        return self.read(lambda transaction: transaction.id())

    def mapping(self) -> Mapping:
        """A way to read large values without copying; to be used within `read`."""
        assert self._mapping is not None
        return self._mapping

    def forget_mapping(self) -> None:
        """Lets go of the file; rows that somebody holds stay valid."""
        self._mapping = None

    def _begin(self, *, write: bool) -> Transaction:
        handle = registry.handle(self) or self._open()
        now_s = self._clock.now_s()
        if now_s - self._checked_s > _READER_CHECK_S:  # killed readers pin pages
            self._checked_s = now_s
            handle.reader_check()
        try:
            return handle.begin(write=write, buffers=True)
        except lmdb.MapResizedError:
            handle.set_mapsize(0)
        except lmdb.ReadersFullError:
            handle.reader_check()
        return handle.begin(write=write, buffers=True)

    def _open(self) -> lmdb.Environment:
        meta = Meta.read(self.directory)
        handle = registry.open(self, lambda: self._opened(meta.map_bytes))
        handle.reader_check()
        try:
            self._mapping = Mapping(self.directory / DATA_FILE, meta.page_bytes)
        except FileNotFoundError as error:
            registry.close(self)
            raise SegmentGone(str(self.directory)) from error
        return handle

    def _opened(self, map_bytes: int) -> lmdb.Environment:
        return lmdb.open(
            str(self.directory),
            map_size=map_bytes,
            create=False,
            readonly=not self._writable,
            sync=self._sync,
            metasync=self._sync,
            max_readers=_READERS_MAX,
            max_spare_txns=1,
            lib_version=_ENGINE,
        )

    def _grow(self) -> None:
        handle = registry.handle(self)
        assert handle is not None
        wanted = 2 * handle.info()["map_size"]
        try:
            handle.set_mapsize(wanted)
        except lmdb.Error as error:
            raise LogUnavailable(
                f"segment {self.directory.name} needs a map of {wanted} bytes: {error}",
                hint="append smaller batches, or allow this process more address space (ulimit -v)",
            ) from error

    def _failure(self, error: lmdb.Error) -> HolonsError | SegmentGone:
        if not self.directory.exists():
            return SegmentGone(str(self.directory))
        if isinstance(error, _DAMAGE):
            return damaged(self.directory, str(error))
        return LogUnavailable(f"segment {self.directory.name}: {error}", hint="is the disk full, or out of reach?")

    def __del__(self) -> None:
        if registry is not None:  # at the interpreter's end it may be gone already
            registry.close(self)


def create(directory: Path, map_bytes: int, first: dict[bytes, bytes], *, sync: bool) -> None:
    """Makes a new environment with some entries in it, and leaves it closed."""
    try:
        with (
            lmdb.open(
                str(directory),
                map_size=map_bytes,
                sync=sync,
                metasync=sync,
                max_readers=_READERS_MAX,
                lib_version=_ENGINE,
            ) as handle,
            handle.begin(write=True) as transaction,
        ):
            for key, data in first.items():
                transaction.put(key, data)
    except lmdb.Error as error:
        raise LogUnavailable(f"no new segment in {directory.parent}: {error}", hint="is the disk full?") from error


class Registry:
    """All environments that this process has open: one handle for each directory, and not too many at once."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._environments: weakref.WeakValueDictionary[Path, Environment] = weakref.WeakValueDictionary()
        self._handles: dict[int, tuple[Path, lmdb.Environment]] = {}
        self._uses = 0
        self._held: list[Environment] = []
        self._inherited: list[object] = []

    def environment(self, directory: Path, clock: Clock) -> Environment:
        """The environment in a directory; the same object for everyone in this process."""
        with self._lock:
            found = self._environments.get(directory)
            if found is None:
                found = self._environments[directory] = Environment(directory, clock)
            return found

    def handle(self, environment: Environment) -> lmdb.Environment | None:
        """Its handle, if it is open."""
        known = self._handles.get(id(environment))
        if known is None:
            return None
        self._uses += 1
        environment.used = self._uses
        return known[1]

    def open(self, environment: Environment, opened: Callable[[], lmdb.Environment]) -> lmdb.Environment:
        """Opens a handle; makes room by closing the one that was not used for longest."""
        with self._lock:
            self._close_duplicates(environment)
            while len(self._handles) >= _OPEN_MAX and self._close_oldest():
                pass
            handle = opened()
            self._handles[id(environment)] = environment.directory, handle
            return handle

    def close(self, environment: Environment) -> None:
        """Closes its handle, if it is open."""
        with self._lock:
            known = self._handles.pop(id(environment), None)
            if known is not None:
                environment.forget_mapping()
                known[1].close()

    def before_fork(self) -> None:
        """Closes everything, and keeps it closed: a child that closed what it inherited would free its parent's slots
        in LMDB's table of readers, and one that did not could never open it again."""
        open_now = [environment for environment in self._environments.values() if id(environment) in self._handles]
        self._held = [environment for environment in open_now if environment.lock.acquire(timeout=_FORK_WAIT_S)]
        self._lock.acquire()
        for environment in self._held:
            self.close(environment)

    def after_fork_in_parent(self) -> None:
        """Lets everyone open again what they need."""
        self._lock.release()
        while self._held:
            self._held.pop().lock.release()

    def after_fork_in_child(self) -> None:
        """Starts anew. What another thread of the parent was using is dropped without being closed."""
        self._lock = threading.RLock()
        self._held = []
        self._inherited.append(self._handles)
        self._handles = {}
        for environment in self._environments.values():
            environment.lock = threading.Lock()

    def _close_duplicates(self, environment: Environment) -> None:
        """A handle whose owner is being destroyed in another thread may still be there.

        A copy is made at once: while a list is made, the garbage collector may destroy owners in this very thread.
        """
        for key, (directory, _) in self._handles.copy().items():
            if directory == environment.directory and key in self._handles:
                self._handles.pop(key)[1].close()

    def _close_oldest(self) -> bool:
        """False if all are in use."""
        for environment in sorted(self._environments.values(), key=lambda environment: environment.used):
            if id(environment) in self._handles and environment.lock.acquire(blocking=False):
                try:
                    self.close(environment)
                    return True
                finally:
                    environment.lock.release()
        return False


registry: Final = Registry()
os.register_at_fork(
    before=registry.before_fork,
    after_in_parent=registry.after_fork_in_parent,
    after_in_child=registry.after_fork_in_child,
)
