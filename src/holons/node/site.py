"""The port of a site: where inputs, outputs, shared streams and checkpoints are, and which logs it hands out.

A site hands out logs by what they are for. How a stream is stored, in a directory, in memory or elsewhere, is known to its
implementation alone: nobody else makes the name of a file or of a topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Protocol, Self

from holons.clock import Clock
from holons.disk import Durability
from holons.errors import BadInput
from holons.node.jobs import Jobs, read_jobs
from holons.node.ports import Ports
from holons.node.rules import RetentionRules
from holons.node.settings import Settings
from holons.store import Store
from holons.streams import InputLog, Journal, JournaledLog, ProducerLog, SharedLog, WritableLog


class NodeSite(Protocol):
    """The part of a site that a node uses. The parts of one node are opened under one name, which is used once."""

    @property
    def clock(self) -> Clock:
        """The time by which nodes of this site wait and measure."""
        ...

    @property
    def durability(self) -> Durability:
        """What survives of what was written to a log or store that this site hands out, once that is acknowledged."""
        return "process"

    def at_least(self, durability: Durability) -> Self:
        """Returns this site with that durability, or a better one that it has; raises `BadInput` if it cannot give it."""
        if durability == "disk" and self.durability != "disk":
            raise no_disk()
        return self

    def input(self, stream: str, reader: str) -> InputLog:
        """Returns an input stream without the marks of its journal; raises `BadInput` if there is no such stream."""
        ...

    def journal(self, stream: str, *, create: bool = False) -> Journal | None:
        """Returns the journal through which an input is read; None if it is read without one.

        With `create` it is read through a journal from now on, by everybody.
        """
        ...

    def output(
        self, job: str, channel: str, partitions: int, writer: str, *, resume: bool = False, appended: bool = False
    ) -> WritableLog:
        """Returns the output of a version of a job in a channel; it exists once the first row is written.

        `writer` is used once, by one process, or with `resume` by one process at a time. If it is `appended` to, rows get
        the next free positions, whoever writes them; else they are put at positions.
        """
        ...

    def channels(self, job: str) -> Mapping[str, int]:
        """Returns the channels to which a version of a job has written, and how many partitions each has."""
        ...

    def retention(self) -> RetentionRules:
        """Returns for how long inputs and outputs are kept, and who reads them beside jobs."""
        ...

    def shared(self, stream: str, writer: str) -> SharedLog:
        """Returns a stream that nodes and drivers share."""
        ...

    def decisions(self) -> Journal:
        """Returns the journal of what was decided about jobs."""
        ...

    def store(self, writer: str, copies: int = 1) -> Store:
        """Returns the store of checkpoints; if nodes keep them in memory, each by its writer and `copies` others."""
        ...

    def ports(self, writer: str, settings: Settings | None = None) -> Ports:
        """Returns the site as one node or driver uses it, in whose process this is called.

        Inputs have producers of their own, so that what marks idle partitions is a journal, through which they are read.
        """
        chosen = settings or Settings()
        rows = cache(lambda stream: self.input(stream, writer))

        def journaled(stream: str) -> InputLog:
            log, journal = rows(stream), self.journal(stream, create=chosen.idle_s is not None)
            return log if journal is None else JournaledLog(log, journal, ours=log)

        return Ports(
            clock=self.clock,
            heartbeats=self.shared("heartbeats", writer),
            control=self.shared("control", writer),
            decisions=self.decisions(),
            sync=lambda job: self.shared(sync_stream(job), writer),
            previews=lambda job: self.shared(f"previews-{job}", writer),
            input=journaled,
            output=cache(
                lambda job, channel, partitions: self.output(job, channel, partitions, writer, appended=chosen.appends)
            ),
            store=self.store(writer, chosen.copies),
            channels=self.channels,
            retention=self.retention(),
        )


class Site(NodeSite, Protocol):
    """Everything that outlives the nodes of a job. A site of several processes is a plain value, which can be pickled."""

    @property
    def name(self) -> str:
        """What the site is called in messages: its directory, or its address."""
        ...

    def streams(self) -> dict[str, int]:
        """Returns the input streams, and how many partitions each has."""
        ...

    def create(self, stream: str, partitions: int) -> None:
        """Makes an empty input stream, so that jobs can be submitted before its producer has come."""
        ...

    def producer(self, stream: str, partitions: int, writer: str, *, resume: bool = False) -> ProducerLog:
        """Returns an input stream for one of its producers, which is made if there is none; for `writer` see `output`."""
        ...

    def loading(self, stream: str, partitions: int) -> AbstractContextManager[WritableLog]:
        """Returns a new input stream to be filled: at the end of the context it is there as a whole, or not at all."""
        ...

    def appends(self, job: str) -> bool:
        """Returns whether a version's outputs were appended to (at least once), so that rows may be there again."""
        ...

    def hold(self, stream: str) -> AbstractContextManager[None]:
        """Holds a shared stream that belongs to this process: it goes at the end of the context, or after its death."""
        ...

    def tidier(self) -> Callable[[], None]:
        """Returns what removes the remains of nodes, drivers and versions that are gone; to be called now and then."""
        ...

    def shared_streams(self) -> list[str]:
        """Returns the names of the shared streams to which somebody has written."""
        ...

    def jobs(self) -> Jobs:
        """Returns what is known about all jobs that were ever submitted here."""
        return read_jobs(self.decisions())


class SiteWithFolders(Site, Protocol):
    """A site that also keeps files which are no streams."""

    def folder(self, part: str, name: str) -> Path:
        """Returns the directory of one part of the site, such as a fold, under a name; it need not exist yet."""
        ...


def sync_stream(job: str) -> str:
    """Returns the name of the shared stream in which the nodes of a job exchange deltas."""
    return f"sync-{job}"


def no_disk() -> BadInput:
    """Returns the error of a run that is to survive the machine, and keeps nothing on its disk."""
    return BadInput(
        'durability="disk" was asked for, and nothing is kept on a disk',
        hint="name a directory where everything is kept: log=... (--log DIR); or leave the durability out",
    )


def no_such_input(site: str, stream: str, streams: Mapping[str, int]) -> BadInput:
    """Returns the error of an input stream that a site does not have."""
    return BadInput(
        f"there is no stream {stream!r} in {site}",
        hint=f"load it, or start its producer first; there are: {', '.join(streams) or 'none'}",
    )
