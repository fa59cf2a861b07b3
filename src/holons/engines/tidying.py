"""What drivers, nodes and versions of jobs leave behind in the directory of a site, and when it goes.

What belongs to a version that has stopped is needed by nobody, but nodes learn of that a moment later: so it goes once that
has been known for a minute. What belongs to one driver goes with its process, which holds a lock as long as it lives; so
does what was being loaded. All else goes when nothing has happened to it for a day.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holons import disk
from holons.clock import Clock
from holons.engines.scratch import HELD, sweep
from holons.node import Jobs
from holons.store import Store
from holons.streams import StreamFolder

LOADING: Final = "loading-"
"""What the names of directories begin with in which streams are loaded, before they are whole."""
_OF_DRIVERS: Final = ("orders", "producers")
_OF_VERSIONS: Final = ("sync", "previews")
_OF_THE_LIVING: Final = {"heartbeats": 600.0, "logs": 86_400.0}
"""What is kept of the dead in these streams, and for how many seconds of silence."""
_KNOWN_S: Final = 60.0
_A_DAY_S: Final = 86_400.0
_LATER_THAN_ALL: Final = (1 << 62,)


@contextmanager
def held(lock: Path, shared: StreamFolder, stream: str) -> Iterator[None]:
    """Holds a stream that belongs to this process: it goes at the end, or after the process was killed."""
    disk.make_folder(lock.parent)
    new = lock.with_name(f".{lock.name}.new")
    with os.fdopen(disk.open_to_write(new), "wb") as file:
        disk.try_lock(file)
        new.rename(lock)  # who sees it sees it locked
        yield
        shared.remove(stream)
        lock.unlink(missing_ok=True)


class Tidier:
    """Removes what nobody needs any more. Any number of processes may do that at the same time."""

    def __init__(
        self, directory: Path, folder: Callable[[str, str], Path], shared: StreamFolder, store: Store, clock: Clock
    ) -> None:
        """`folder` returns the directory of one part of the site, under a name."""
        self._directory = directory
        self._folder = folder
        self._shared = shared
        self._store = store
        self._clock = clock
        self._name = f"tidier-{uuid.uuid4().hex[:8]}#1"
        self._trim_silent: dict[str, Callable[[float], None]] = {}
        self._known_s: dict[str, float] = {}
        """Since when something is known to be needless."""
        self._dropped: set[str] = set()
        """The versions whose checkpoints are gone."""

    def tidy(self, read_jobs: Callable[[], Jobs]) -> None:
        """Looks for what may go; to be called every few seconds or minutes."""
        streams = (
            self._shared.names()
        )  # before the jobs: so no stream of a job that is submitted just now is in the list
        jobs = read_jobs()
        running = {version for version in jobs.versions if version not in jobs.stopped}
        for stream in streams:
            kind, _, name = stream.partition("-")
            ended = kind in _OF_VERSIONS and name not in running and self._known(stream)
            if ended or (kind in _OF_DRIVERS and self._ownerless(stream)):
                self._shared.remove(stream)
        self._drop_records(jobs)
        self._remove_outputs(jobs)
        self._remove_old()
        for stream, silent_s in _OF_THE_LIVING.items():
            if stream in streams:
                if stream not in self._trim_silent:
                    self._trim_silent[stream] = self._shared.trimmer_of_the_silent(stream, self._name)
                self._trim_silent[stream](silent_s)

    def _known(self, what: str) -> bool:
        now_s = self._clock.now_s()
        return now_s - self._known_s.setdefault(what, now_s) >= _KNOWN_S

    def _ownerless(self, stream: str) -> bool:
        """Whether no process holds a stream any more; what was never held, another version of Holons has left."""
        lock = self._folder("held", stream)
        try:
            with lock.open("rb") as file:
                if not disk.try_lock(file):
                    return False
                lock.unlink(missing_ok=True)
                return True
        except FileNotFoundError:
            return self._known(stream)

    def _drop_records(self, jobs: Jobs) -> None:
        """Drops the checkpoints of versions that have stopped."""
        for name in jobs.versions.keys() & jobs.stopped.keys() - self._dropped:
            if self._known(name):
                self._dropped.add(name)
                partitions = range(jobs.versions[name].partitions)
                for part in [f"{partition}/{kind}" for partition in partitions for kind in ("process", "window")]:
                    self._store.drop(f"{name}/{part}", _LATER_THAN_ALL)
                self._store.drop(f"{name}/replica", _LATER_THAN_ALL)

    def _remove_outputs(self, jobs: Jobs) -> None:
        """Removes outputs of versions that do not count any more, if all of their rows were trimmed."""
        standing = {version.id for newest in jobs.versions.values() for version in jobs.history(newest.name)}
        for name in jobs.versions.keys() - standing:
            folder = self._folder("output", name)
            if name in jobs.stopped and folder.exists() and not any(folder.rglob("segment.*")):
                shutil.rmtree(folder, ignore_errors=True)

    def _remove_old(self) -> None:
        """Removes what killed processes were loading; where they held no lock, as of earlier versions, only after a day."""
        sweep(self._directory, LOADING)
        now_s = self._clock.utc_us() / 1e6
        for path in self._directory.glob(f"{LOADING}*"):
            with suppress(FileNotFoundError):
                if (path / HELD).exists():
                    continue
                if now_s - max(file.stat().st_mtime for file in (path, *path.rglob("*"))) > _A_DAY_S:
                    shutil.rmtree(path, ignore_errors=True)
