"""Which jobs there are: versions that were submitted, and which of them stand.

The control log says it all: a job's name may be submitted again after it was cancelled, or taken over by a new version.
Each is a version with an id of its own, under which everything durable is kept, so a reused name or changed code never
meets old positions. Versions of one name are merged by maximum of (generation, writer), as claims are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holons.errors import BadInput, JobRunning
from holons.node.messages import Control, Stopped, Submitted, decode_control
from holons.node.ports import Ports, partitions_of
from holons.node.recovery import Checkpoints
from holons.program import Cut, Job
from holons.streams import Cursor, SharedLog
from holons.wire import encode


class Jobs:
    """All that was read about jobs, in any order, any number of times."""

    def __init__(self) -> None:
        self.versions: dict[str, Submitted] = {}
        self.stopped: dict[str, Stopped] = {}

    def merge(self, message: Control) -> None:
        """Takes a message of the control log; claims say nothing about jobs."""
        if isinstance(message, Submitted):
            self.versions[message.id] = message
        elif isinstance(message, Stopped):
            self.stopped.setdefault(message.job, message)

    def current(self, name: str) -> Submitted | None:
        """The newest version of a name, stopped or not."""
        versions = [version for version in self.versions.values() if version.name == name]
        return max(versions, key=lambda version: (version.generation, version.writer), default=None)

    def running(self, name: str) -> Submitted | None:
        """The newest version of a name, unless it was stopped."""
        version = self.current(name)
        return version if version is not None and version.id not in self.stopped else None

    def outdated(self, job: str) -> bool:
        """Whether a newer version has taken a job's name."""
        version = self.versions.get(job)
        return version is not None and self.current(version.name) is not version

    def over(self) -> set[str]:
        """The ids of all versions that run no more: stopped, or outdated."""
        return set(self.stopped) | {job for job in self.versions if self.outdated(job)}

    def history(self, name: str) -> list[Submitted]:
        """The versions whose outputs stand, oldest first: each took over from the one before."""
        version = self.current(name)
        versions: list[Submitted] = []
        while version is not None:
            versions.append(version)
            version = self.versions.get(version.after)
        return versions[::-1]


def read_jobs(control: SharedLog) -> Jobs:
    """Everything that the control log says about jobs now."""
    jobs, cursor = Jobs(), Cursor()
    while messages := control.read(cursor, 10_000):
        for message in messages:
            jobs.merge(decode_control(message.data))
    return jobs


def submit(job: Job, ports: Ports, *, upgrade: bool = False) -> Submitted:
    """Makes a job known to all nodes; they still need its code.

    A job that is running already is returned, not begun a second time. Another job under the same name takes
    over if `upgrade` says so: it computes everything anew from the inputs' beginning, and emits what the old version
    has not; what the old version still writes, if a node goes on running it, no longer counts.
    """
    jobs = read_jobs(ports.control)
    last, running = jobs.current(job.name), jobs.running(job.name)
    if running is not None and running.digest == job.digest:
        return running
    if running is not None and not upgrade:
        raise JobRunning(
            f"{job.name} is there already, with other code, settings or inputs",
            hint="upgrade it (--upgrade), cancel it (holons cancel), or give the new one another name: h.job(..., name=...)",
        )
    after, cuts = ("", ()) if running is None else (running.id, _cuts(running, job, ports))
    generation = 0 if last is None else last.generation + 1
    version = Submitted(job.name, generation, job.digest, ports.control.writer, _inputs(job, ports), after, cuts)
    ports.control.append(encode(version))
    if running is not None:
        ports.control.append(encode(Stopped(running.id, "Upgraded", f"{version.id} takes over")))
    return version


def cancel(name: str, ports: Ports) -> Submitted:
    """Stops a job everywhere. What it has emitted stays; its name is free again."""
    jobs = read_jobs(ports.control)
    running = jobs.running(name)
    if running is None:
        known = (
            ", ".join(sorted({version.name for version in jobs.versions.values() if jobs.running(version.name)}))
            or "none"
        )
        raise BadInput(f"no job {name!r} is running", hint=f"running: {known}")
    ports.control.append(encode(Stopped(running.id, "Cancelled", "on request")))
    return running


def _cuts(old: Submitted, job: Job, ports: Ports) -> tuple[Cut, ...]:
    """Where the old version leaves off, partition by partition: at its newest records."""
    inputs = _inputs(job, ports)
    if inputs[: len(old.inputs)] != old.inputs:
        raise BadInput(
            f"{job.name} cannot be upgraded: it read {_streams(old.inputs)}, and would now read {_streams(inputs)}",
            hint="keep the inputs as they are, in their order; more may follow",
        )
    cuts = []
    for partition, (index, place) in enumerate(partitions_of(job, ports.input)[: old.partitions]):
        stream = job.inputs[index].stream
        log = ports.input(stream)
        if start := log.start(place):
            raise BadInput(
                f"{job.name} cannot be upgraded: partition {place} of {stream!r} only begins at {start}",
                hint="the new version needs the whole input; cancel the job, and submit it as a new one",
            )
        ends = partial(_output_end, ports, old, partition)
        records = Checkpoints(ports.store, old.id, partition, job).load((0, log.end(place)), ends)
        cuts.append(job.cut_after(records, old.cut(partition)))
    return tuple(cuts)


def _inputs(job: Job, ports: Ports) -> tuple[tuple[str, int], ...]:
    return tuple((source.stream, ports.input(source.stream).partitions) for source in job.inputs)


def _streams(inputs: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{stream} ({partitions} partitions)" for stream, partitions in inputs)


def _output_end(ports: Ports, version: Submitted, partition: int, channel: str) -> int:
    return ports.output(version.id, channel, version.partitions).end(partition)
