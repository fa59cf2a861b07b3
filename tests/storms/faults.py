"""What storms do to disks and files."""

from __future__ import annotations

import errno
import os
import random
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from holons.engines.directory_site import DirectorySite

_DISK_BYTES = 512 << 20
_HEADER_BYTES = 64


class Disk:
    """A small file system of its own, if we may mount one: it can be full."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.full = self.was_full = self.was_restored = False
        self.copies: list[tuple[Path, int, bytes]] = []
        """Of files that were damaged: from where on, and what was there before."""
        self._mounted = False

    def mount(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            done = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", self.path],
                check=False,
                capture_output=True,
            )
            self._mounted = done.returncode == 0

    def unmount(self) -> None:
        if self._mounted:
            subprocess.run(["umount", "--lazy", self.path], check=True)  # who reads it may still have a file open
            self._mounted = False

    def fill(self) -> bool:
        """Fills it to the last byte."""
        if not self._mounted:
            return False
        self.full = self.was_full = True
        file = os.open(self._ballast, os.O_CREAT | os.O_WRONLY)
        size, step = 0, 64 << 20
        while step >= 4096:
            try:
                os.posix_fallocate(file, size, step)
                size += step
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                step //= 2
        os.close(file)
        return True

    def free(self) -> None:
        self.full = False
        self._ballast.unlink(missing_ok=True)

    @property
    def _ballast(self) -> Path:
        return self.path / "ballast"

    def restore(self) -> None:
        """Puts back what was damaged."""
        self.was_restored = True
        for path, at, data in reversed(self.copies):
            with suppress(FileNotFoundError), path.open("r+b") as file:
                file.seek(at)
                file.write(data)
        self.copies.clear()


def shared_files(site: DirectorySite) -> list[Path]:
    """Returns the files of streams that nodes and drivers share, which their writers may still fill."""
    return [
        path
        for path in sorted(site.directory.glob("shared/stream.*/segment.*/*"))
        if path.name in ("index", "data.messages")
    ]


def stored_records(site: DirectorySite) -> list[Path]:
    """Returns the files of checkpoints."""
    return [path for path in sorted(site.directory.glob("store/**/*")) if path.is_file()]


def all_files(site: DirectorySite) -> list[Path]:
    """Returns all files of a site that hold something."""
    return [path for path in sorted(site.directory.rglob("*")) if path.is_file()]


def flip_a_bit(rng: random.Random, disk: Disk, files: Sequence[Path]) -> str | None:
    """Turns a bit over; returns where."""
    chosen = _chosen(rng, files)
    if chosen is None:
        return None
    path, size = chosen
    at, bit = rng.randrange(size), 1 << rng.randrange(8)
    with suppress(FileNotFoundError), path.open("r+b") as file:
        file.seek(at)
        data = file.read(1)
        disk.copies.append((path, at, data))
        file.seek(at)
        file.write(bytes([data[0] ^ bit]))
        return f"{path.relative_to(disk.path)} at {at} of {size}"
    return None


def truncate(rng: random.Random, disk: Disk, files: Sequence[Path]) -> str | None:
    """Cuts off the end; returns where."""
    chosen = _chosen(rng, files)
    if chosen is None:
        return None
    path, size = chosen
    left = rng.choice([size - 1, size // 2, rng.randrange(size)])
    with suppress(FileNotFoundError), path.open("r+b") as file:
        file.seek(left)
        disk.copies.append((path, left, file.read()))
        file.truncate(left)
        return f"{path.relative_to(disk.path)} to {left} of {size}"
    return None


def _chosen(rng: random.Random, files: Sequence[Path]) -> tuple[Path, int] | None:
    sizes: list[tuple[Path, int]] = []
    for path in files:
        with suppress(FileNotFoundError):
            if size := path.stat().st_size:
                sizes.append((path, size))
    if not sizes:
        return None
    streams = sorted({path.parents[1] for path, _ in sizes})  # so that streams with few files have their turn
    stream = rng.choice(streams)
    return rng.choice([(path, size) for path, size in sizes if path.parents[1] == stream])
