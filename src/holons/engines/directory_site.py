"""A site in one directory, with everything that the nodes of one machine share.

    <directory>/input/      streams that jobs read, each with a producer of its own
    <directory>/output/     what jobs emit: for each version of a job a directory, with a stream for each channel
    <directory>/appended/   what they emit at least once: a directory for each version and channel
    <directory>/jobs/       what was decided about jobs: submitted, upgraded, cancelled, failed
    <directory>/shared/     heartbeats, the control log, what nodes log, and a sync stream for each job
    <directory>/journal/    where idle marks are among the rows of inputs
    <directory>/store/      checkpoints
    <directory>/batches/    what Spark is about to append to inputs
    <directory>/folds/      programs that are folded over DataFrames
    <directory>/retention/  for how long inputs and outputs are kept; consumers/: who reads them beside jobs

Everything in it survives the death of any process, and with `durability="disk"` that of the machine. Nodes come and go; the
directory is the job. Nobody else knows these names: whoever wants a stream or a directory of the site asks the site for it.

A site is its owner's: its directory is 0700, and so is all that is made in it (files: 0600), whatever the umask. Whoever
writes to a site that is open to others closes it: the directory itself if nothing else is in it, else the parts. What
belongs to another user, or where others could put a part of their own, is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from holons import disk
from holons.clock import Clock, SystemClock
from holons.disk import Durability
from holons.engines.collecting import Outputs, emitted
from holons.engines.inputs import PartitionRows, fill
from holons.engines.rules import DirectoryRetention
from holons.engines.scratch import scratch
from holons.engines.tidying import LOADING, Tidier, held
from holons.errors import BadInput
from holons.names import check_name, decoded, encoded
from holons.node import Ports, Settings, SiteWithFolders, no_such_input
from holons.program import Collected
from holons.store import DirectoryStore, GridStore, MemoryStore, Store
from holons.streams import DirectoryJournal
from holons.streams.appended import AppendedLog, appended_partitions
from holons.streams.folder import StoredLog, StoredSharedLog, StreamFolder
from holons.windows import BEGINNING

IN_MEMORY: Final = "memory"
"""Where a site keeps checkpoints that only live in the memory of nodes."""
_PARTS: Final = (
    *("input", "output", "appended", "jobs", "shared", "journal", "store", "batches", "folds"),
    *("retention", "consumers", "held"),
)
_SMALL_STREAMS: Final = ("heartbeats", "logs", "grid")
_SMALL_SEGMENT_BYTES: Final = 1 << 20
_IF_DAMAGED: Final = {
    "sync": "it holds what partitions have sealed: restore it from a copy of the site, or submit the job once more, which "
    "computes everything anew",
}
"""By what a shared stream is for, what to do with its directory if it is damaged."""
_NEEDLESS: Final = "nothing in it is needed once no node runs: end all nodes, remove it, and run again"


class DirectorySite(SiteWithFolders):
    """The directory of a site. A plain value: it can travel to other processes, which open what they need."""

    def __init__(
        self,
        directory: Path | str,
        store: str | None = None,
        durability: Durability = "process",
        clock: Clock | None = None,
    ) -> None:
        """`store` is where checkpoints are kept, if not in the directory: a path, an address such as `s3://bucket/path`, or
        `"memory"`, that of the nodes. `clock` is another than the machine's, in tests of one process.
        """
        disk.check_durability(durability)
        if store == IN_MEMORY and durability == "disk":
            raise BadInput(
                'with store="memory" no checkpoint survives the machine, and durability="disk" was asked for',
                hint="leave one of them out, or name a directory or an address for checkpoints",
            )
        self.directory = Path(directory)
        self._store = store
        self._durability: Durability = durability
        self._clock = clock
        self._inputs = StreamFolder(self.directory / "input", durability, clock)
        self._shared = StreamFolder(self.directory / "shared", durability, clock)
        self._closed_to_others = False

    def __reduce__(self) -> tuple[type[DirectorySite], tuple[Path, str | None, Durability]]:
        directory = self.directory.resolve()  # other processes may be in another directory
        return DirectorySite, (directory, self._store, self._durability)

    @classmethod
    def around(cls, folder: StreamFolder) -> DirectorySite:
        """Returns the site to which a folder of streams belongs."""
        return cls(folder.path.parent)

    @property
    def clock(self) -> Clock:
        return self._clock or SystemClock()

    @property
    def name(self) -> str:
        return str(self.directory)

    @property
    def durability(self) -> Durability:
        return self._durability

    def at_least(self, durability: Durability) -> DirectorySite:
        disk.check_durability(durability)
        if durability == "process" or self._durability == durability:
            return self
        return DirectorySite(self.directory, self._store, durability)

    def ports(self, writer: str, settings: Settings | None = None) -> Ports:
        if self.directory.exists():  # whoever only looks makes none
            self.close_to_others()
        return super().ports(writer, settings)

    def close_to_others(self) -> None:
        """Makes the directory its owner's; raises `BadInput` if that is somebody else, or others could replace a part."""
        if self._closed_to_others:
            return
        disk.make_folder(self.directory, durable=self._durability == "disk")
        names = {path.name for path in self.directory.iterdir()}
        mode = self.directory.stat().st_mode
        if all(name in _PARTS or name.startswith(LOADING) for name in names) and not mode & stat.S_ISVTX:
            _close(self.directory)
        elif mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise BadInput(
                f"anybody may replace what is in {self.directory}, and other things than a site are in it",
                hint=f"choose a directory for the site alone, or close this one: chmod go-w {self.directory}",
            )
        for part in names.intersection(_PARTS):
            _close(self.directory / part)
        self._closed_to_others = True

    # --- inputs ------------------------------------------------------------------------------------------------------

    def streams(self) -> dict[str, int]:
        return self._inputs.with_rows()

    def create(self, stream: str, partitions: int) -> None:
        with self.producer(stream, partitions, "creator") as log:
            log.mark(0, BEGINNING)  # says nothing, but makes the stream

    def producer(self, stream: str, partitions: int, writer: str, *, resume: bool = False) -> StoredLog:
        check_name("stream", stream)
        self.close_to_others()
        return self._inputs.open(stream, partitions, writer, resume=resume, fenced=True)

    @contextmanager
    def loading(self, stream: str, partitions: int) -> Iterator[StoredLog]:
        check_name("stream", stream)
        self.close_to_others()
        with scratch(self.directory, LOADING) as aside:
            disk.restrict(aside)
            with StreamFolder(aside).open(stream, partitions, "loader") as log:
                yield log
            durable = self._durability == "disk"
            disk.make_folder(self._inputs.path, durable=durable)
            for filled in [path for path in aside.iterdir() if path.is_dir()]:
                if durable:
                    disk.sync_all(filled)
                filled.rename(self._inputs.path / filled.name)
            if durable:
                disk.sync(self._inputs.path)

    def load(self, streams: Mapping[str, Sequence[PartitionRows]], writer: str = "producer#1") -> None:
        """Appends bounded inputs to input streams, and ends them."""
        for stream, partitions in streams.items():
            with self.producer(stream, len(partitions), writer) as log:
                fill(log, partitions)

    def input(self, stream: str, reader: str) -> StoredLog:
        partitions = self._inputs.partitions(stream)
        if partitions is None:
            raise no_such_input(self.name, stream, self.streams())
        return self._inputs.open(stream, partitions, reader, fenced=True)

    def holds_inputs(self, folder: StreamFolder) -> bool:
        """Returns whether a folder is that of this site's input streams."""
        return folder.path == self._inputs.path

    def share_inputs(self, other: DirectorySite) -> None:
        """Makes the input streams of another site those of this one, which must have none yet."""
        self.close_to_others()
        self._inputs.path.symlink_to(other._inputs.path.absolute())

    def journal(self, stream: str, *, create: bool = False) -> DirectoryJournal:
        return DirectoryJournal(self.folder("journal", stream), self._durability)

    # --- what nodes write ---------------------------------------------------------------------------------------------

    def output(
        self, job: str, channel: str, partitions: int, writer: str, *, resume: bool = False, appended: bool = False
    ) -> StoredLog | AppendedLog:
        directory = self.folder("appended", job) / encoded(check_name("channel", channel))
        if appended or directory.is_dir():
            return AppendedLog(directory, partitions, writer, durability=self._durability)
        return self._outputs(job).open(channel, partitions, writer, resume=resume)

    def channels(self, job: str) -> dict[str, int]:
        appended = {decoded(path.name): appended_partitions(path) for path in self._appended(job)}
        return self._outputs(job).with_rows() | {
            channel: known for channel, known in appended.items() if channel and known
        }

    def _outputs(self, job: str) -> StreamFolder:
        return StreamFolder(self.folder("output", job), self._durability, self._clock)

    def appends(self, job: str) -> bool:
        return bool(self._appended(job))

    def _appended(self, job: str) -> list[Path]:
        """Returns the directories of the channels of a version to which was appended."""
        return sorted(self.folder("appended", job).glob("*"))

    def shared(self, stream: str, writer: str) -> StoredSharedLog:
        what = _IF_DAMAGED.get(stream.partition("-")[0], _NEEDLESS)
        if stream in _SMALL_STREAMS:
            return self._shared.open_shared(stream, writer, segment_bytes=_SMALL_SEGMENT_BYTES, if_damaged=what)
        return self._shared.open_shared(stream, writer, if_damaged=what)

    def shared_streams(self) -> list[str]:
        return self._shared.names()

    def retention(self) -> DirectoryRetention:
        return DirectoryRetention(self.folder)

    def hold(self, stream: str) -> AbstractContextManager[None]:
        return held(self.folder("held", stream), self._shared, stream)

    def tidier(self) -> Callable[[], None]:
        store = self.store("tidier") if self._store != IN_MEMORY else MemoryStore()
        tidier = Tidier(self.directory, self.folder, self._shared, store, self.clock)
        return lambda: tidier.tidy(self.jobs)

    def decisions(self) -> DirectoryJournal:
        return DirectoryJournal(self.directory / "jobs", self._durability)

    def store(self, writer: str, copies: int = 1) -> Store:
        if self._store == IN_MEMORY:
            return GridStore(self.shared("grid", writer), self.clock, copies)
        return DirectoryStore(self._store or self.directory / "store", durability=self._durability)

    def folder(self, part: str, name: str) -> Path:
        return self.directory / part / encoded(name)

    def emitted(self, name: str) -> Outputs:
        """Returns the rows that a job has emitted so far, over all its versions, to be read when they are needed."""
        return emitted(self, name)

    def collected(self, name: str) -> Collected:
        """Returns all rows that a job has emitted so far, as dicts."""
        return emitted(self, name).collected()


def _close(folder: Path) -> None:
    """Makes a folder its owner's; raises `BadInput` if that is another user, and others may read it."""
    disk.restrict(folder)
    known = folder.stat()
    if known.st_uid != os.geteuid() and stat.S_IMODE(known.st_mode) != disk.FOLDER_MODE:
        raise BadInput(
            f"{folder} belongs to another user, and is open to others",
            hint="a site is its owner's: run as that user, or choose another directory",
        )
