"""A small disk of its own, which can be filled and emptied."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest


class SmallDisk:
    """A file system in memory, and a file in it that takes up room."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._ballast = root / "ballast"

    def fill(self, free_bytes: int = 0) -> None:
        """Leaves so much room."""
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while file.write(b"\0" * 4_096):
                pass
        with self._ballast.open("r+b") as file:
            file.truncate(max(self._ballast.stat().st_size - free_bytes, 0))

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk of two megabytes; it takes the right to mount one."""
    root = tmp_path / "small"
    root.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", root], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no right to mount a disk: {mounted.stderr.decode().strip()}")
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", "--lazy", root], check=True)
