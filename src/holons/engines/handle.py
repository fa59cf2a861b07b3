"""A run's handle: what `h.run` returns while nodes work, and after they are done.

A thread looks after the nodes: it replaces those that die, keeps the status, and ends them. It has no reference to the
handle, so a handle that is dropped ends its run.
"""

from __future__ import annotations

import atexit
import math
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar, Protocol, Self

from holons.arrow import python_rows
from holons.clock import SystemClock
from holons.engines import html
from holons.engines.collecting import Outputs
from holons.engines.driver import Driver
from holons.engines.results import DeadRows, LateRows, Results
from holons.engines.status import State, Status
from holons.engines.tracebacks import for_people
from holons.errors import RowsTrimmed, StillRunning
from holons.node import Beginning
from holons.program import Job
from holons.program.lines import stacklevel_of_user
from holons.program.outputs import DEAD, LATE

_LOOK_S = 0.1
_TEND_S = 0.01
_FOLLOW_S = 0.02
_START_S = 2.0  # a driver is asked why nodes have not started only then: that costs
_WAKE_S = 0.5  # who waits wakes up now and then: a Ctrl-C that comes just before a long wait would not end it

# --- nodes at work ---------------------------------------------------------------------------------------------------


class Nodes(Protocol):
    """The nodes that run one job, as a handle uses them."""

    version: str
    """The id of the job's version, under which a site keeps what is the version's own."""
    pause_s: float
    """How many seconds may pass between two calls of `tend`."""

    def tend(self) -> bool:
        """Looks after the nodes; returns True once everything is emitted, and raises what the job failed with."""
        ...

    def look(self) -> Status:
        """Returns how far the nodes are."""
        ...


class DriverNodes:
    """The nodes of a driver, running one job."""

    pause_s = _TEND_S

    def __init__(self, driver: Driver, job: Job, nodes: int, *, upgrade: bool = False) -> None:
        self._driver = driver
        self._submitted = driver.submit(job, upgrade=upgrade)
        self.version = self._submitted.id
        self.beginnings = driver.late_beginnings(self._submitted)
        for _ in range(nodes):
            driver.start()

    def tend(self) -> bool:
        return self._driver.tend(self._submitted)

    def look(self) -> Status:
        status = self._driver.watcher.look(self.version, self._submitted.inputs)
        waiting = status.waiting_for
        if (
            status.state == "starting"
            and waiting
            and waiting.since_s > _START_S
            and (why := self._driver.not_started())
        ):
            status = replace(status, waiting_for=replace(waiting, reason=why))
        return replace(status, deaths=self._driver.deaths)


class Work:
    """Nodes, and the thread that looks after them until everything is emitted, something fails, or the run is unwanted."""

    unended: ClassVar[set[Work]] = set()

    def __init__(
        self, job: Job, nodes: Nodes, outputs: Callable[[], Outputs], ending: ExitStack, *, kept: bool
    ) -> None:
        """`ending` ends the nodes and removes what is theirs; `kept`: whether output logs can still be read after that."""
        self.progress = Status(job=job.name)
        self.version = nodes.version
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self._unwanted = threading.Event()
        self._outputs = outputs if kept else lambda: outputs().in_memory()
        self._outputs_now = outputs
        self._reading = threading.Lock()
        self._clock = SystemClock()
        self._began_s = self._clock.now_s()
        self._thread = threading.Thread(
            target=self._supervise, args=(nodes, ending, kept), daemon=True, name=f"holons run {job.name}"
        )
        Work.unended.add(self)
        atexit.unregister(_end_all)
        atexit.register(_end_all)  # last in, first out: nodes end before the session that they run on
        self._thread.start()

    def outputs(self) -> Outputs:
        """Returns the rows that were emitted so far; waits while rows that are not kept are being copied to memory."""
        with self._reading:
            return self._outputs()

    def new_rows(self, channel: str, ordinals: dict[int, int]) -> list[dict[str, Any]]:
        """Returns the rows of a channel from these ordinals on, by partition, and moves the ordinals behind them."""
        rows: list[dict[str, Any]] = []
        with self._reading:
            outputs = self._outputs_now()
            for partition in outputs.partitions(channel):
                start = outputs.start(channel, partition)
                if start > ordinals.setdefault(partition, start):
                    raise RowsTrimmed(
                        f"rows from {ordinals[partition]} on are not kept any more, and were not read yet",
                        hint="follow faster, or keep the outputs for longer: holons retain",
                        partition=partition,
                    )
                for batch in outputs.batches(channel, partition, ordinals[partition]):
                    rows += python_rows(batch)
                    ordinals[partition] += batch.num_rows
        return rows

    def unwanted(self) -> None:
        """Asks the run to end. It does not wait for that, since a garbage collector may call it anywhere."""
        self._unwanted.set()

    def stop(self) -> None:
        """Ends the run, and waits until it has ended."""
        self.unwanted()
        self._thread.join()

    def _supervise(self, nodes: Nodes, ending: ExitStack, kept: bool) -> None:
        state: State = "failed"
        try:
            with ending:
                try:
                    state = self._tend(nodes)
                finally:
                    self._note(nodes, over=True)
                    if not kept:
                        self._save()
        except BaseException as error:  # noqa: BLE001 - whatever it is, whoever waits shall see it
            state, self.error = "failed", error
        self.progress = replace(self.progress, state=state)
        Work.unended.discard(self)
        self.ended.set()

    def _tend(self, nodes: Nodes) -> State:
        looked_s = self._began_s
        while not self._unwanted.wait(nodes.pause_s):
            if nodes.tend():
                return "finished"
            if self._clock.now_s() - looked_s >= _LOOK_S:
                looked_s = self._clock.now_s()
                self._note(nodes)
        return "stopped"

    def _note(self, nodes: Nodes, *, over: bool = False) -> None:
        """Keeps the newest status. Rows per second are those of the last second; once the run is over, of the whole time."""
        status, seconds = nodes.look(), self._clock.now_s() - self._began_s
        if over:
            read = status.rows_read - status.rows_before
            status = replace(status, rows_per_s=read / max(seconds, 1e-9), waiting_for=None)
        state = "running" if status.nodes else self.progress.state
        self.progress = replace(status, job=self.progress.job, state=state, seconds=seconds)

    def _save(self) -> None:
        """Copies all rows to memory, since the logs are about to be removed."""
        with self._reading:
            saved = self._outputs()
            self._outputs = self._outputs_now = lambda: saved


def _end_all() -> None:
    for work in list(Work.unended):
        work.unwanted()
    for work in list(Work.unended):
        work.stop()


def _what_is_gone(beginnings: Sequence[Beginning]) -> str:
    """Returns a sentence about the partitions that begin late; no text if there are none."""
    if not beginnings:
        return ""
    first = ", ".join(
        f"partition {at.partition} of {at.stream} begins at offset {at.offset:,}" for at in beginnings[:3]
    )
    more = f", and {len(beginnings) - 3:,} others begin late too" if len(beginnings) > 3 else ""
    return (
        f"{first}{more}: rows before are no longer kept, so the first windows may be partial; "
        "h.source(..., whole=True) or h.Input(..., whole=True) refuses that"
    )


# --- the handle ------------------------------------------------------------------------------------------------------


class Run:
    """A job that runs. Keep it: a handle that is dropped ends its run, and so does the end of a `with` block.

    `run.wait().results()` is everything; `run.progress` and `run.results()` can be looked at any time.
    """

    def __init__(self, job: Job, work: Work, beginnings: Sequence[Beginning] = ()) -> None:
        self.job = job
        self.trimmed_inputs = _what_is_gone(beginnings)
        """Of which inputs the first rows are no longer kept, for people, if this run has begun the job; else nothing."""
        self._work = work
        self._warned: set[str] = set()
        weakref.finalize(self, work.unwanted)

    @property
    def progress(self) -> Status:
        """The status of the run as of a moment ago: a value that does not change."""
        return self._work.progress

    def wait(self, timeout_s: float | None = None) -> Self:
        """Waits until the run has ended, and returns the handle; raises what the job failed with. Ctrl-C stops the run."""
        clock = SystemClock()
        until_s = clock.now_s() + (math.inf if timeout_s is None else timeout_s)
        try:
            while not self._work.ended.wait(min(_WAKE_S, max(0.0, until_s - clock.now_s()))):
                if clock.now_s() >= until_s:
                    break
        except KeyboardInterrupt:
            self.stop()
            raise
        if not self._work.ended.is_set():
            raise StillRunning(
                f"{self.job.name} has not ended in {timeout_s:g} s: {self.progress!r}",
                hint="it goes on: wait longer, look at run.progress, or end it with run.stop()",
            )
        if self._work.error is not None:
            raise for_people(self._work.error)
        return self

    def ended_within(self, seconds: float) -> bool:
        """Waits so long at most; returns whether the run has ended, in whatever way. It raises no error of the job."""
        return self._work.ended.wait(seconds)

    @property
    def version(self) -> str:
        """The id of the version of the job that runs, under which a site keeps what is the version's own."""
        return self._work.version

    def results(self) -> Results:
        """Returns the rows that were emitted so far: the first ones of each partition, in order; at the end all of them."""
        results = Results(self._work.outputs(), self.job.channels)
        self._warn(results)
        return results

    def _warn(self, results: Results) -> None:
        """Warns of rows that were diverted, once of each kind, at the line of the user who asked for rows."""
        if LATE not in self._warned and (late := results.count(LATE)):
            self._warned.add(LATE)
            streams = results.late_by_stream() if len(self.job.inputs) > 1 else {}
            of = f" ({', '.join(f'{n} of {stream}' for stream, n in streams.items())})" if streams else ""
            warnings.warn(
                f"{late} rows were late and diverted{of}: see results.rows('late'), or allow more: disorder=...",
                LateRows,
                stacklevel=stacklevel_of_user(),
            )
        if DEAD not in self._warned and results.count(DEAD):
            self._warned.add(DEAD)
            reasons = (f"{n} of {stream}, first: {why}" for stream, (n, why) in results.dead_by_stream().items())
            warnings.warn(
                f"rows were dead and diverted: {'; '.join(reasons)}. See results.rows('dead')",
                DeadRows,
                stacklevel=stacklevel_of_user(),
            )

    def follow(self, channel: str | None = None) -> Iterator[dict[str, Any]]:
        """Yields the rows of a channel as they are emitted, until the run has ended; raises what the job failed with.

        The rows of each partition come in their order. Where the job has one channel, its name may be left out.
        """
        name, ordinals = channel or self.results().name_of(None, "run.follow({})"), dict[int, int]()
        try:
            while not self._work.ended.wait(_FOLLOW_S):
                yield from self._work.new_rows(name, ordinals)
        except KeyboardInterrupt:
            self.stop()
            raise
        yield from self._work.new_rows(name, ordinals)
        self.wait().results().name_of(name)  # a channel that does not exist is an error

    def stop(self) -> None:
        """Ends the nodes, with a checkpoint, and waits for that; a second call does nothing. A new run may go on."""
        self._work.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Run({self.progress!r})"

    def _repr_html_(self) -> str:
        error = self._work.error
        failure = "" if error is None else html.trouble(f"{type(error).__name__}: {error}")
        results = Results(self._work.outputs(), self.job.channels)
        return html.block(self.progress._repr_html_(), failure, results._repr_html_())
