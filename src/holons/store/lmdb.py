"""A store in LMDB, for the processes of one machine: one environment for each writer incarnation.

Nobody writes to the environment of a living process, so one that is stopped in the middle of a write holds up nobody.
Readers merge over all writers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import lmdb

from holons.errors import RecordDamaged, StoreUnavailable
from holons.store.directory import Durability
from holons.store.environments import claim, environments, is_ready, reading, remove, still_ours, take_lock, write
from holons.store.records import header, missing, name_text, parse_position, position_text, unframe
from holons.store.store import Position

_MAP_BYTES: Final = 256 << 20
_WRITER_CHARACTERS_MAX: Final = 200


class LmdbStore:
    """Records in `<root>/<writer>/data.mdb`, opened by one writer incarnation.

    `drop` forgets the records of this writer and of dead ones. Those of another living writer stay until that writer
    drops them or dies: old records harm nobody. Two writers who put the same record at the same time both keep theirs;
    all readers prefer the same one.
    """

    def __init__(
        self, root: str | Path, writer: str, durability: Durability = "process", map_bytes: int = _MAP_BYTES
    ) -> None:
        text = name_text(writer)
        assert 0 < len(text) <= _WRITER_CHARACTERS_MAX, f"a writer's name that fits a folder, not {writer!r}"
        self._root = Path(root).absolute()
        self._folder = self._root / f"@{text}"
        self._sync = durability == "disk"
        self._map_bytes = map_bytes
        self._lock: int | None = None
        self._process = os.getpid()

    def put(self, name: str, position: Position, data: bytes) -> None:
        with self._unavailable("write"):
            if isinstance(self._find(name, position), bytes):
                return
            lock, key = self._claim(), _key(name, position)
            environment = environments.create(self._folder, lock, self._map_bytes, self._sync)
            try:
                stored = header(name, position, data) + data
                write(self._folder, environment, lambda transaction: _set(transaction, key, stored))
            except lmdb.Error:
                environments.forget(self._folder)  # LMDB wants to be opened again after a failed write
                raise
            if not still_ours(self._folder, lock):
                self._release()
                raise StoreUnavailable(
                    f"{self._folder} was removed under its writer", hint="the next try makes it anew"
                )

    def positions(self, name: str) -> list[Position]:
        found: set[Position] = set()
        with self._unavailable("list"):
            for _, environment in self._readable():
                with reading(environment) as transaction:
                    found.update(position for _, position in _positions(transaction, name))
        return sorted(found)

    def durable(self, name: str) -> list[Position]:
        return self.positions(name)

    def get(self, name: str, position: Position) -> bytes:
        with self._unavailable("read"):
            found = self._find(name, position)
            if isinstance(found, bytes):
                return found
            raise found or missing(name, position, f"{self._root}, damaged: {self.damaged_writers()}")

    def drop(self, name: str, below: Position) -> None:
        with self._unavailable("clean"):
            for folder in self._folders():
                if folder == self._folder and self._lock is not None:
                    self._drop_in(folder, name, below)
                    continue
                lock = take_lock(folder)
                if lock is not None:
                    try:
                        self._drop_of_dead(folder, name, below)
                    finally:
                        os.close(lock)

    def tend(self, live: Sequence[str]) -> bool:
        return True

    def damaged_writers(self) -> list[str]:
        """The folders whose records nobody can read any more."""
        return [folder.name for folder in self._folders() if is_ready(folder) and _open(folder) is None]

    def close(self) -> None:
        """Ends this writer. What it wrote stays; whoever drops may now also drop that."""
        environments.forget(self._folder)
        self._release()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_lock": None}  # a store that travels starts out as a reader

    # --- environments -----------------------------------------------------------------------------------------------

    def _folders(self) -> list[Path]:
        try:
            folders = sorted(path for path in self._root.iterdir() if path.name.startswith("@"))
        except FileNotFoundError:
            folders = []
        environments.forget_missing(self._root, folders)
        return folders

    def _readable(self) -> Iterator[tuple[Path, lmdb.Environment]]:
        for folder in self._folders():
            environment = _open(folder) if is_ready(folder) else None
            if environment is not None:
                yield folder, environment

    def _find(self, name: str, position: Position) -> bytes | RecordDamaged | None:
        """The first whole record; what is wrong with the last one if there are only damaged ones; None if none."""
        key, damage = _key(name, position), None
        for folder, environment in self._readable():
            with reading(environment) as transaction:
                stored = transaction.get(key)
            if stored is not None:
                try:
                    return unframe(name, position, bytes(stored), str(folder))
                except RecordDamaged as error:
                    damage = error
        return damage

    def _claim(self) -> int:
        if self._lock is None:
            self._lock, self._process = claim(self._folder), os.getpid()
        assert self._process == os.getpid(), "one writer, one process: make a store of your own after a fork"
        return self._lock

    def _release(self) -> None:
        if self._lock is not None:
            environments.forget(self._folder)
            os.close(self._lock)
            self._lock = None

    def _drop_of_dead(self, folder: Path, name: str, below: Position) -> None:
        if not is_ready(folder):
            remove(folder)
        elif _open(folder) is not None:
            self._drop_in(folder, name, below)
            with reading(environments.open(folder)) as transaction:
                empty = transaction.stat()["entries"] == 0
            if empty:
                remove(folder)

    def _drop_in(self, folder: Path, name: str, below: Position) -> None:
        environment = environments.open(folder)
        environment.reader_check()  # killed readers keep pages from being used again
        with reading(environment) as transaction:
            old = [key for key, position in _positions(transaction, name) if position < below]
        if old:
            write(folder, environment, lambda transaction: _delete(transaction, old))

    @contextmanager
    def _unavailable(self, what: str) -> Iterator[None]:
        try:
            yield
        except StoreUnavailable:
            raise
        except (OSError, lmdb.Error) as error:
            raise StoreUnavailable(
                f"cannot {what} under {self._root}: {error}",
                hint="is it a local disk, may this process write to it, and is it not full? It is tried again",
            ) from error


def _open(folder: Path) -> lmdb.Environment | None:
    """An environment to read from; None if it is damaged or was removed just now."""
    try:
        return environments.open(folder)
    except RecordDamaged:
        return None
    except (FileNotFoundError, lmdb.Error):
        if folder.exists():
            raise
        return None


# --- keys -----------------------------------------------------------------------------------------------------------


def _prefix(name: str) -> bytes:
    return hashlib.blake2b(name_text(name).encode(), digest_size=16).digest()


def _key(name: str, position: Position) -> bytes:
    return _prefix(name) + position_text(position).encode()


def _positions(transaction: lmdb.Transaction, name: str) -> Iterator[tuple[bytes, Position]]:
    prefix = _prefix(name)
    with transaction.cursor() as cursor:
        if not cursor.set_range(prefix):
            return
        for key in map(bytes, cursor.iternext(keys=True, values=False)):
            if not key.startswith(prefix):
                return
            position = parse_position(key[len(prefix) :].decode("ascii", "replace"))
            if position is not None:
                yield key, position


def _set(transaction: lmdb.Transaction, key: bytes, stored: bytes) -> None:
    transaction.put(key, stored)


def _delete(transaction: lmdb.Transaction, keys: list[bytes]) -> None:
    for key in keys:
        transaction.delete(key)
