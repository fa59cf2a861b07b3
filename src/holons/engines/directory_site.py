"""A site: one directory with everything that the nodes of one machine share.

    <directory>/input/      streams that jobs read, each with a producer of its own
    <directory>/output/     what jobs put out: a stream for each (job, channel)
    <directory>/shared/     heartbeats, the control log, what nodes log, and a sync stream for each job
    <directory>/journal/    where idle marks are among the rows of inputs
    <directory>/store/      checkpoints
    <directory>/batches/    what Spark is about to append to inputs
    <directory>/folds/      programs that are folded over DataFrames

Everything in it survives the death of any process. Nodes come and go; the directory is the job.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote

from holons.clock import SystemClock
from holons.engines.collecting import Outputs, outputs_in_logs, outputs_of
from holons.engines.inputs import PartitionRows, fill
from holons.errors import BadInput
from holons.node import Jobs, Ports, read_jobs
from holons.program import Collected
from holons.store import DirectoryStore
from holons.streams import (
    DirectoryJournal,
    InputLog,
    JournaledLog,
    LmdbLog,
    LmdbSharedLog,
    partitions_in,
    streams_in,
)
from holons.windows import BEGINNING

_SEGMENT_BYTES = 32 << 20
_SMALL_SEGMENT_BYTES = 1 << 20


class DirectorySite:
    """The directory of a site. A plain value: it can travel to other processes, which open what they need."""

    def __init__(self, directory: Path | str, store: str | None = None) -> None:
        self.directory = Path(directory)
        self.store = store or str(self.directory / "store")

    # --- streams -----------------------------------------------------------------------------------------------------

    def streams(self) -> dict[str, int]:
        """The input streams, and how many partitions each has."""
        found = {
            stream: partitions_in(self.directory / "input", stream) for stream in streams_in(self.directory / "input")
        }
        return {stream: partitions for stream, partitions in found.items() if partitions}

    def create(self, stream: str, partitions: int) -> None:
        """Makes an empty input stream, so that jobs can be submitted before its producer has come."""
        with self.producer(stream, partitions, "creator") as log:
            log.mark(0, BEGINNING)  # says nothing, but is there

    def producer(self, stream: str, partitions: int, writer: str, *, resume: bool = False) -> LmdbLog:
        """An input stream, to be written; `writer` is used once, by one process, or with `resume` by one at a time."""
        return LmdbLog(self.directory / "input", stream, partitions, writer, resume=resume)

    @contextmanager
    def loading(self, stream: str, partitions: int) -> Iterator[LmdbLog]:
        """An input stream to be filled as a whole: it appears only once that is done, or not at all."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="loading-", dir=self.directory) as aside:
            with LmdbLog(aside, stream, partitions, "loader") as log:
                yield log
            target = self.directory / "input"
            target.mkdir(exist_ok=True)
            for filled in Path(aside).iterdir():
                filled.rename(target / filled.name)

    def load(self, streams: Mapping[str, Sequence[PartitionRows]], writer: str = "producer#1") -> None:
        """Appends bounded inputs to input streams, and ends them."""
        for stream, partitions in streams.items():
            with self.producer(stream, len(partitions), writer) as log:
                fill(log, partitions)

    # --- what nodes see ----------------------------------------------------------------------------------------------

    def ports(self, writer: str, *, idle_marks: bool = False) -> Ports:
        """The site as one process sees it, under a name that was never used before; call this in that very process.

        Inputs have producers of their own, so with `idle_marks` they are read through a journal, and from then on always.
        """
        logs: dict[tuple[str, str], LmdbLog] = {}

        def log(folder: str, stream: str, partitions: int) -> LmdbLog:
            if (folder, stream) not in logs:
                logs[folder, stream] = LmdbLog(self.directory / folder, stream, partitions, writer)
            return logs[folder, stream]

        return Ports(
            clock=SystemClock(),
            heartbeats=self.shared("heartbeats", writer),
            control=self.shared("control", writer),
            sync=lambda job: self.shared(f"sync-{job}", writer),
            previews=lambda job: self.shared(f"previews-{job}", writer),
            input=lambda stream: self.journaled(stream, log("input", stream, self._partitions(stream)), idle_marks),
            output=lambda job, channel, partitions: log("output", f"{job}/{channel}", partitions),
            store=DirectoryStore(self.store),
        )

    def shared(self, stream: str, writer: str) -> LmdbSharedLog:
        """A stream that nodes and drivers share."""
        size = _SMALL_SEGMENT_BYTES if stream in ("heartbeats", "logs") else _SEGMENT_BYTES
        return LmdbSharedLog(self.directory / "shared", stream, writer, segment_bytes=size)

    def journaled(self, stream: str, log: LmdbLog, idle_marks: bool = False) -> InputLog:
        """An input stream with the marks that nodes have put among its rows."""
        journal = self.directory / "journal" / quote(stream, safe="")
        return JournaledLog(log, DirectoryJournal(journal)) if idle_marks or journal.exists() else log

    def _partitions(self, stream: str) -> int:
        partitions = partitions_in(self.directory / "input", stream)
        if partitions is None:
            known = ", ".join(self.streams()) or "none"
            raise BadInput(
                f"there is no stream {stream!r} in {self.directory}",
                hint=f"load it, or start its producer first; there are: {known}",
            )
        return partitions

    # --- folds over DataFrames ---------------------------------------------------------------------------------------

    def fold_directory(self, name: str) -> Path:
        """Where a fold keeps what is its own."""
        return self.directory / "folds" / quote(name, safe="")

    def fold_id(self, name: str) -> str:
        """Under what its outputs are kept."""
        return f"fold-{name}"

    # --- what came of it ---------------------------------------------------------------------------------------------

    def jobs(self) -> Jobs:
        """All jobs that were ever submitted here."""
        with LmdbSharedLog(self.directory / "shared", "control", "reader") as control:
            return read_jobs(control)

    def outputs(self, job: str) -> dict[str, LmdbLog]:
        """The output logs of one version of a job, by channel, to be read."""
        return {channel: opened() for channel, opened in self._output_logs(job).items()}

    def emitted(self, name: str) -> Outputs:
        """The rows that a job has emitted so far, over all its versions, to be read when they are needed."""
        if self.fold_directory(name).exists():
            return outputs_in_logs(self._output_logs(self.fold_id(name)))
        return outputs_of(self.jobs().history(name), self._output_logs)

    def collected(self, name: str) -> Collected:
        """All rows that a job has emitted so far."""
        return self.emitted(name).collected()

    def _output_logs(self, job: str) -> dict[str, Callable[[], LmdbLog]]:
        """How to open the output logs of one version of a job, by channel."""
        folder, logs = self.directory / "output", dict[str, Callable[[], LmdbLog]]()
        for stream in streams_in(folder):
            owner, _, channel = stream.rpartition("/")
            partitions = partitions_in(folder, stream) if owner == job else None
            if partitions is not None:
                logs[channel] = partial(LmdbLog, folder, stream, partitions, "reader")
        return logs
