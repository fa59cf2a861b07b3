"""A store in a directory: one file for each record, on a disk, a shared file system or an object store.

A record is written under a temporary name and then moved to its own, so a file under a record's name is whole. What a
killed writer leaves behind has a temporary name still; nobody reads it, and it is removed once it is old.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pyarrow import fs

from holons import disk
from holons.disk import Durability, unavailable
from holons.errors import RecordDamaged, StoreUnavailable
from holons.names import encoded
from holons.store.records import header, missing, parse_position, position_text, unframe
from holons.store.store import Position

_RECORD: Final = ".record"
_LEFTOVER: Final = re.compile(r"at[_pm0-9]*\.record\.[0-9a-f]{32}\.part")
_FOLDER_CHARACTERS_MAX: Final = 200
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})


class DirectoryStore:
    """Records as files `<root>/<name>/<position>.record`.

    Of several writers of one record the first wins. Where the file system has no hard links (an object store) and they
    write at the very same time, it may be the last; both records are good ones then, only one is kept.

    `filesystem` is any file system of pyarrow; without it `root` is a local path, or an address such as `s3://bucket/path`.
    """

    def __init__(
        self,
        root: str | Path,
        filesystem: fs.FileSystem | None = None,
        durability: Durability = "process",
        leftover_age_s: float = 3600.0,
    ) -> None:
        if filesystem is not None:
            self._files, self._root = filesystem, str(root).rstrip("/")
        elif "://" in str(root):
            self._files, self._root = fs.FileSystem.from_uri(str(root))
        else:
            self._files, self._root = fs.LocalFileSystem(), str(Path(root).absolute())
        self._local = isinstance(self._files, fs.LocalFileSystem)
        self._durable = durability == "disk" and self._local
        self._leftover_age_s = leftover_age_s

    def put(self, name: str, position: Position, data: bytes) -> None:
        path = self._path(name, position)
        with unavailable(StoreUnavailable, f"write {path}"):
            if self._is_whole(name, position):
                self._make_durable(name, position)
                return
            self._create_folder(self._folder(name))
            part = f"{path}.{uuid.uuid4().hex}.part"
            try:
                self._write(part, header(name, position, data), data)
                self._publish(name, position, part)
            except OSError:
                with contextlib.suppress(OSError):  # the first error is the one to tell
                    self._files.delete_file(part)
                raise
            self._make_durable(name, position)

    def positions(self, name: str) -> list[Position]:
        with unavailable(StoreUnavailable, f"list {self._folder(name)}"):
            return sorted(position for position, _ in self._records(self._list(name)))

    def durable(self, name: str) -> list[Position]:
        return self.positions(name)

    def get(self, name: str, position: Position) -> bytes:
        path = self._path(name, position)
        with unavailable(StoreUnavailable, f"read {path}"):
            try:
                with self._files.open_input_stream(path, compression=None) as stream:
                    stored = stream.read()
            except FileNotFoundError:
                raise missing(name, position, path) from None
        return unframe(name, position, stored, path)

    def drop(self, name: str, below: Position) -> None:
        with unavailable(StoreUnavailable, f"clean {self._folder(name)}"):
            files = self._list(name)
            old = [path for position, path in self._records(files) if position < below]
            for path in [*old, *self._leftovers(files)]:
                with contextlib.suppress(FileNotFoundError):  # another node was faster
                    self._files.delete_file(path)
            if self._local and len(old) == len(files):
                with contextlib.suppress(OSError):  # something new is in it
                    Path(self._folder(name)).rmdir()

    def tend(self, live: Sequence[str]) -> bool:
        return True

    # --- files ------------------------------------------------------------------------------------------------------

    def _folder(self, name: str) -> str:
        text = "@" + encoded(name)
        steps = [text[at : at + _FOLDER_CHARACTERS_MAX] for at in range(0, len(text), _FOLDER_CHARACTERS_MAX)]
        return "/".join([self._root, *steps])

    def _path(self, name: str, position: Position) -> str:
        return f"{self._folder(name)}/{position_text(position)}{_RECORD}"

    def _list(self, name: str) -> list[fs.FileInfo]:
        listed = self._files.get_file_info(fs.FileSelector(self._folder(name), allow_not_found=True))
        if not listed and self._files.get_file_info(self._root).type == fs.FileType.File:
            raise NotADirectoryError(f"{self._root} is a file")  # listing alone would say that nothing is in it
        return [info for info in listed if info.type == fs.FileType.File]

    @staticmethod
    def _records(files: list[fs.FileInfo]) -> Iterator[tuple[Position, str]]:
        for info in files:
            if info.base_name.endswith(_RECORD):
                position = parse_position(info.base_name.removesuffix(_RECORD))
                if position is not None:
                    yield position, info.path

    def _leftovers(self, files: list[fs.FileInfo]) -> list[str]:
        """Returns the files that killed writers left: much older than the newest one by the file system's own clock."""
        times_ns = [info.mtime_ns for info in files if info.mtime_ns is not None]
        old_ns = max(times_ns, default=0) - int(self._leftover_age_s * 1e9)
        return [
            info.path
            for info in files
            if _LEFTOVER.fullmatch(info.base_name) and info.mtime_ns is not None and info.mtime_ns < old_ns
        ]

    def _create_folder(self, folder: str) -> None:
        if self._local:
            disk.make_folder(folder, durable=self._durable)
        else:
            self._files.create_dir(folder, recursive=True)

    def _make_durable(self, name: str, position: Position) -> None:
        """Makes a record survive the machine, whoever wrote it."""
        if self._durable:
            disk.make_folder(self._folder(name), durable=True)
            for path in (self._path(name, position), self._folder(name)):
                disk.sync(path)

    def _is_whole(self, name: str, position: Position) -> bool:
        """Whether the record is there and can be read. A damaged one is written again."""
        if self._files.get_file_info(self._path(name, position)).type == fs.FileType.NotFound:
            return False
        try:
            self.get(name, position)
        except RecordDamaged:
            return False
        return True

    def _write(self, part: str, *pieces: bytes) -> None:
        if self._local:
            disk.write(part, *pieces, durable=self._durable)
            return
        with self._files.open_output_stream(part, compression=None) as stream:
            for piece in pieces:
                stream.write(piece)

    def _publish(self, name: str, position: Position, part: str) -> None:
        """Gives a written file its name, unless there is a record of that name."""
        path = self._path(name, position)
        if self._local:
            try:
                os.link(part, path)
            except FileExistsError:
                pass
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
            else:
                os.unlink(part)  # noqa: PTH108 - paths are text here, for all file systems
                return
        if self._is_whole(name, position):
            self._files.delete_file(part)
        else:
            self._files.move(part, path)
