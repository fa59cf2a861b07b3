"""Which jobs there are: the versions that were submitted, and which of them run.

All that is decided about jobs is in one journal, and each entry is a whole decision: a version is submitted, or takes over
from another one, or stops. Whoever decides proposes the next entry. If another decision was faster, it is read, and the
rest is decided again. So everybody knows the same decisions in the same order, whoever dies in between.

Each version has an id of its own, under which everything durable is kept, so a reused name or changed code never meets old
positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from holons.errors import BadInput, JobRunning, StoreUnavailable
from holons.node.messages import Decision, Stopped, Submitted, Summary, Trimmed, decode_decision
from holons.node.ports import Ports, partitions_of
from holons.node.recovery import Checkpoints
from holons.program import Cut, Job
from holons.streams import Journal, ReadableLog
from holons.wire import encode

_ENDED_KEPT = 100  # so many versions are remembered that have ended, and whose outputs do not count
_SUMMARISED_MIN = 32  # so many decisions are replaced by their summary
_LOOKS_FOR_START = 32  # once in so many looks that find nothing, a reader asks whether what it looks for was summarised
_ALL = 0  # the decisions about all jobs are one partition of the journal


class Jobs:
    """What is known about jobs, from their decisions in order."""

    def __init__(self) -> None:
        self.versions: dict[str, Submitted] = {}
        """By id, in the order in which they were submitted."""
        self.stopped: dict[str, Stopped] = {}
        """The versions that run no more, by id, each with the reason."""
        self.trimmed: dict[str, Trimmed] = {}
        """By input stream, below where it is not needed any more."""
        self._current: dict[str, Submitted] = {}

    def add(self, decision: Decision) -> None:
        """Takes in the next decision."""
        if isinstance(decision, Stopped):
            self.stopped.setdefault(decision.job, decision)
            return
        if isinstance(decision, Trimmed):
            self.trimmed[decision.stream] = decision
            return
        if isinstance(decision, Summary):
            self._replace(decision)
            return
        self.versions[decision.id] = self._current[decision.name] = decision
        if decision.after:
            self.add(Stopped(decision.after, "Upgraded", f"{decision.id} takes over, submitted by {decision.writer}"))

    def _replace(self, summary: Summary) -> None:
        """Takes in a summary. Whoever has read all that came before it learns nothing, and forgets what it leaves out."""
        for stopped in summary.stopped:
            self.stopped.setdefault(stopped.job, stopped)
        known = {version.id: version for version in summary.versions}
        for name in self.versions.keys() - known.keys():
            self.stopped.setdefault(name, Stopped(name, "Upgraded", "long ago: newer versions have come and gone"))
        self.versions = known
        self._current = {version.name: version for version in summary.versions}
        self.trimmed = {trimmed.stream: trimmed for trimmed in summary.trimmed}

    def current(self, name: str) -> Submitted | None:
        """The newest version of a name, stopped or not."""
        return self._current.get(name)

    def running(self, name: str) -> Submitted | None:
        """The newest version of a name, unless it was stopped."""
        version = self.current(name)
        return version if version is not None and version.id not in self.stopped else None

    def readers(self, stream: str) -> list[tuple[Submitted, int]]:
        """The versions that read a stream and have not stopped, each with its number of the stream's partition 0."""
        readers = []
        for version in self.versions.values():
            first = 0
            for name, partitions in version.inputs:
                if name == stream and version.id not in self.stopped:
                    readers.append((version, first))
                first += partitions
        return readers

    def history(self, name: str) -> list[Submitted]:
        """The versions whose outputs stand, oldest first: each took over from the one before.

        `name` is that of a job, whose newest version comes last; or the id of the version that comes last.
        """
        version = self.versions.get(name) or self.current(name)
        versions: list[Submitted] = []
        while version is not None:
            versions.append(version)
            version = self.versions.get(version.after)
        return versions[::-1]

    def summary(self) -> Summary:
        """Returns what is still of use: the versions whose outputs stand, and of the others the newest."""
        standing = {version.id for name in self._current for version in self.history(name)}
        others = [name for name in self.versions if name not in standing]
        kept = [version for name, version in self.versions.items() if name not in others[:-_ENDED_KEPT]]
        stopped = [self.stopped[version.id] for version in kept if version.id in self.stopped]
        return Summary(tuple(kept), tuple(stopped), tuple(self.trimmed.values()))


class Decisions:
    """The journal of jobs, as far as one reader has read it."""

    def __init__(self, journal: Journal) -> None:
        self.jobs = Jobs()
        self._journal = journal
        self._next = journal.start(_ALL)
        self._looks = 0

    def read(self) -> bool:
        """Takes in what has been decided since; says whether that was anything. Costs about one look if it was not."""
        first = self._next
        while True:
            while (entry := self._journal.get(_ALL, self._next)) is not None:
                self._add(entry)
            self._looks += 1
            if self._looks % _LOOKS_FOR_START or (start := self._journal.start(_ALL)) <= self._next:
                return self._next > first
            self._behind(start)

    def decide(self, choose: Callable[[Jobs], Decision | None]) -> None:
        """Adds what `choose` says once it knows all decisions; asks it again after each one, until it says None."""
        self.read()
        while (decision := choose(self.jobs)) is not None:
            entry = self._journal.propose(_ALL, self._next, encode(decision))
            if entry is None:
                self._behind(self._journal.start(_ALL))
                self.read()
            else:
                self._add(entry)

    def summarise(self) -> None:
        """Replaces many decisions by what is left of them, so that the journal stays short."""
        self.read()
        start = self._journal.start(_ALL)
        if self._next - start < _SUMMARISED_MIN:
            return
        number = self._next
        entry = self._journal.propose(_ALL, number, encode(self.jobs.summary()))
        if entry is not None and isinstance(decode_decision(entry), Summary):
            self._journal.trim(_ALL, number)

    def _behind(self, start: int) -> None:
        """Goes on where the journal begins now: at a summary of what came before."""
        self._next = start

    def _add(self, entry: bytes) -> None:
        self.jobs.add(decode_decision(entry))
        self._next += 1


def read_jobs(journal: Journal) -> Jobs:
    """Everything that was decided about jobs up to now."""
    decisions = Decisions(journal)
    decisions.read()
    return decisions.jobs


def _at_once(error: StoreUnavailable) -> None:
    raise error


def submit(
    job: Job, ports: Ports, *, upgrade: bool = False, wait: Callable[[StoreUnavailable], None] = _at_once
) -> Submitted:
    """Makes a job known to all nodes; they still need its code.

    A job that is running already is returned, not begun a second time. Another job under the same name takes
    over if `upgrade` says so: it computes everything anew from the inputs' beginning, and emits what the old version
    has not; what the old version still writes, if a node goes on running it, no longer counts. Of two that are submitted
    at the same moment one is first, and the other one finds it running. While the store does not answer, `wait` is called,
    which may raise its error.
    """
    decisions = Decisions(ports.decisions)
    decisions.decide(partial(_submitted, job, ports, upgrade, wait))
    running = decisions.jobs.running(job.name)
    assert running is not None
    return running


def _submitted(
    job: Job, ports: Ports, upgrade: bool, wait: Callable[[StoreUnavailable], None], jobs: Jobs
) -> Submitted | None:
    """The version that a job makes necessary; None if it is running."""
    last, running = jobs.current(job.name), jobs.running(job.name)
    if running is not None and running.digest == job.digest:
        return None
    if running is not None and not upgrade:
        raise JobRunning(
            f"{job.name} is there already, with other code, settings or inputs",
            hint="upgrade it (--upgrade), cancel it (holons cancel), or give the new one another name: h.job(..., name=...)",
        )
    begins = _begins(job, ports, jobs)
    after, cuts = ("", begins) if running is None else (running.id, _cuts(running, job, ports, begins, wait))
    generation = 0 if last is None else last.generation + 1
    return Submitted(job.name, generation, job.digest, ports.control.writer, _inputs(job, ports), after, cuts)


def _begins(job: Job, ports: Ports, jobs: Jobs) -> tuple[Cut, ...]:
    """Where a job begins that is submitted now: where its streams begin; no cuts if they were never trimmed."""
    begins = []
    for index, place in partitions_of(job, ports.input):
        source = job.inputs[index]
        decided = jobs.trimmed.get(source.stream)
        begin = max(ports.input(source.stream).start(place), 0 if decided is None else decided.starts[place])
        if begin and source.whole:
            raise BadInput(
                f"{job.name} needs the whole of {source.stream!r}, and partition {place} only begins at {begin}",
                hint="restore the stream from a copy, or let the job begin where the stream does: leave out whole=True",
            )
        begins.append(Cut(begin=begin))
    return tuple(begins) if any(cut.begin for cut in begins) else ()


class Beginning(NamedTuple):
    """Where a job begins to read a partition of an input, if rows before that are no longer kept."""

    stream: str
    partition: int
    offset: int


def late_beginnings(version: Submitted, jobs: Jobs) -> list[Beginning]:
    """Returns the partitions of which a version does not have the first rows, and whose results do not go on from an older
    version, which had them.
    """
    older = jobs.versions.get(version.after)
    places = [(stream, place) for stream, partitions in version.inputs for place in range(partitions)]
    return [
        Beginning(stream, place, begin)
        for partition, (stream, place) in enumerate(places)
        if (begin := version.cut(partition).begin) and (older is None or partition >= older.partitions)
    ]


def cancel(name: str, ports: Ports) -> Submitted:
    """Stops a job everywhere. What it has emitted stays; its name is free again."""
    decisions = Decisions(ports.decisions)
    decisions.read()
    running = decisions.jobs.running(name)
    if running is None:
        names = {version.name for version in decisions.jobs.versions.values()}
        known = ", ".join(sorted(filter(decisions.jobs.running, names))) or "none"
        raise BadInput(f"no job {name!r} is running", hint=f"running: {known}")
    stop(Stopped(running.id, "Cancelled", "on request"), decisions)
    return running


def stop(stopped: Stopped, decisions: Decisions) -> None:
    """Stops a version everywhere, unless it runs no more."""
    decisions.decide(lambda jobs: None if stopped.job in jobs.stopped else stopped)


def _cuts(
    old: Submitted, job: Job, ports: Ports, begins: Sequence[Cut], wait: Callable[[StoreUnavailable], None]
) -> tuple[Cut, ...]:
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
        start = begins[partition].begin if begins else 0
        if start > old.cut(partition).begin:
            raise BadInput(
                f"{job.name} cannot be upgraded: partition {place} of {stream!r} only begins at {start}",
                hint="the new version needs all that the old one has read; cancel the job, and submit it as a new one",
            )
        bounds, ends = partial(_bounds, log, place), partial(_output_end, ports, old, partition)
        checkpoints = Checkpoints(ports.store, old.id, partition, job)
        while True:  # what was read of other partitions stays read: their nodes go on, and replace it
            try:
                records = checkpoints.load(bounds, ends)
                break
            except StoreUnavailable as error:
                wait(error)
        cuts.append(job.cut_after(records, old.cut(partition)))
    return (*cuts, *begins[old.partitions :])


def _inputs(job: Job, ports: Ports) -> tuple[tuple[str, int], ...]:
    return tuple((source.stream, ports.input(source.stream).partitions) for source in job.inputs)


def _streams(inputs: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{stream} ({partitions} partitions)" for stream, partitions in inputs)


def _bounds(log: ReadableLog, partition: int) -> tuple[int, int]:
    return 0, log.end(partition)


def _output_end(ports: Ports, version: Submitted, partition: int, channel: str) -> int:
    return ports.output(version.id, channel, version.partitions).end(partition)
