"""What survives the death of the machine: a disk that keeps of each file and folder what was synced last.

It watches `fsync` and `fdatasync` of this process, whoever calls them, and remembers what the file held, or which names the
folder had, at that moment. `cut` makes of it the directory that a power cut would leave. With a `random`, each file and
folder may also be there as it is now, or files in part: a disk is free to write more than it was asked to.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

SECTOR_BYTES = 512
Content = bytes | dict[str, int]
"""What a file holds, or the names in a folder with the numbers of their inodes."""


class Disk:
    """The disk below a directory, which survives itself."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.syncs = 0
        self.on_sync: Callable[[], None] | None = None
        """Called before and after each sync."""
        self._synced: dict[int, Content] = {}
        self._folders = {root.stat().st_ino}
        self._held: dict[int, int] = {}
        """Open files: what is deleted keeps its number as long as it is open, so that no other file gets it."""
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._sync)

    def close(self) -> None:
        for file in self._held.values():
            os.close(file)

    def _sync(self, file: int) -> None:
        path = Path(f"/proc/self/fd/{file}").readlink()
        if path == self.root or self.root in path.parents:
            for then in (None, self._content(path)):
                if then is not None:
                    self.syncs += 1
                    self._synced[os.fstat(file).st_ino] = then
                if self.on_sync is not None:
                    self.on_sync()

    def _content(self, path: Path) -> Content:
        if not path.is_dir():
            return path.read_bytes()
        names = {}
        for child in path.iterdir():
            inode = names[child.name] = child.stat().st_ino
            if inode not in self._held:
                self._held[inode] = os.open(child, os.O_RDONLY)
            if child.is_dir():
                self._folders.add(inode)
        return names

    def cut(self, into: Path, random: Random | None = None) -> Path:
        """Makes a directory of what the machine's death would leave of this one."""
        now: dict[int, Content] = {}
        if random is not None:
            for path in (self.root, *self.root.rglob("*")):
                if random.random() < 0.5:
                    now[path.stat().st_ino] = self._content(path)
        self._make(self.root.stat().st_ino, into, now, random)
        return into

    def _make(self, inode: int, path: Path, now: dict[int, Content], random: Random | None) -> None:
        synced = self._synced.get(inode, {} if inode in self._folders else b"")
        content = now.get(inode, synced)
        if isinstance(content, bytes):
            assert isinstance(synced, bytes)
            path.write_bytes(content if random is None else _mixed(synced, content, random))
            return
        path.mkdir(parents=True, exist_ok=True)
        for name, child in content.items():
            self._make(child, path / name, now, random)


def _mixed(old: bytes, new: bytes, random: Random) -> bytes:
    """Returns what a file holds of which some sectors were written and others not, as the disk pleased."""
    sectors = [
        (new if random.random() < 0.5 else old.ljust(len(new), b"\0"))[at : at + SECTOR_BYTES]
        for at in range(0, len(new), SECTOR_BYTES)
    ]
    return b"".join(sectors)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """The disk below `tmp_path / "disk"`."""
    root = tmp_path / "disk"
    root.mkdir()
    made = Disk(root, monkeypatch)
    yield made
    made.close()
