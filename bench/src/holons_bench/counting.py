"""A scheme of count windows run in one process over rows in memory: how fast it is, and what it sends.

What is timed is what partitions and the root do, including rows and messages as bytes; not timed is making rows, and
counting. Nothing is late: a message is there before the next rows are read. So it is seen what a scheme costs, not what
waiting for a network does to it.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from holons import wire
from holons.algebra import Sum
from holons.counting import CountWindow, Cuts, Samples
from holons.counting.schemes import (
    ALL,
    ROOT,
    Approx,
    Async,
    Central,
    Local,
    Message,
    Mon,
    MonLocal,
    PaneResult,
    Ruler,
    Scheme,
    Sync,
    misplaced_rows,
)
from holons.counting.schemes.messages import Aggregated, Segments, Slice
from holons.errors import InvariantBroken
from holons.windows import ENDING
from holons_bench.sensors import SensorTrace

NODES: Final = 2  # among which partitions are spread where there is no root
ROWS_READ: Final = 100_000  # at once, by each partition
WINDOWS_BEFORE: Final = 5  # predictions are as good as they get after so many

SCHEMES: Final = ("central", "central, selecting", "approx", "mon", "monlocal", "sync", "async", "ruler")


def scheme_of(name: str, trace: SensorTrace) -> Scheme:
    """Returns a scheme by its name, which sums up a trace."""
    window, total = CountWindow(trace.window), Sum("float" if trace.floats else "int")
    if name == "central, selecting":
        return Central(window, total, trace.partitions, selects=True)
    kinds: dict[str, type[Scheme]] = {
        "central": Central, "approx": Approx, "mon": Mon, "monlocal": MonLocal, "sync": Sync, "async": Async, "ruler": Ruler
    }  # fmt: skip
    return kinds[name](window, total, trace.partitions)


@dataclass
class Traffic:
    """What was sent. What goes to all is read by each node of its own accord: it is counted once, and for each reader."""

    up: int = 0
    down: int = 0
    shared: int = 0
    rows_up: int = 0
    """Rows that were sent one by one."""
    rows_again: int = 0
    """Rows that were sent before, folded or not."""
    recomputed: int = 0
    """Rows that were folded again."""
    keys: int = 0
    """Samples."""

    def less(self, before: Traffic) -> Traffic:
        """What was sent since."""
        return Traffic(**{name: value - vars(before)[name] for name, value in vars(self).items()})


@dataclass
class Outcome:
    """What one run gave, and what it cost after the first windows."""

    results: list[PaneResult]
    rows: int
    seconds: float
    traffic: Traffic
    corrections: int
    windows: int
    misplaced: float = 0.0


@dataclass
class InProcess:
    """A transport, and all machines of a scheme around it."""

    scheme: Scheme
    trace: SensorTrace
    traffic: Traffic = field(default_factory=Traffic)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self._under_way: deque[tuple[int, Message]] = deque()
        self._sent_to = [0] * self.scheme.partitions
        self._gaps: set[int] = set()
        self.root = self.scheme.root(self)
        self._views: list[Cuts] = []
        self.locals: list[Local] = []
        if isinstance(self.scheme, Ruler):
            nodes = min(NODES, self.scheme.partitions)
            self._views = [Cuts(self.scheme.window, self.scheme.partitions) for _ in range(nodes)]
            for partition in range(self.scheme.partitions):
                self.locals.append(self.scheme.local(partition, self, self._views[partition % nodes]))
        else:
            self.locals += [self.scheme.local(partition, self) for partition in range(self.scheme.partitions)]

    def send(self, to: int, message: Message) -> None:
        self._under_way.append((to, message))

    # --- running ----------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Runs until the trace ends; what the first windows cost does not count."""
        before: tuple[float, Traffic, int, int, int] | None = None
        read = 0
        for step in self.trace.steps(ROWS_READ):
            if before is None and read >= WINDOWS_BEFORE * self.trace.window:
                before = self.seconds, Traffic(**vars(self.traffic)), self.corrections, len(self.root.results), read
            for partition, rows in enumerate(step):
                read += rows.count
                start = time.process_time()
                self.locals[partition].insert(rows, int(rows.ts[-1]) if rows.count else 0)
                self.locals[partition].work(caught_up=False)
                self.seconds += time.process_time() - start
            self._deliver()
        assert before is not None, "the trace has too few windows"
        seconds, traffic, corrections, windows, rows_before = before
        after = self.seconds - seconds, self.traffic.less(traffic), self.corrections - corrections
        windows = len(self.root.results) - windows
        self._finish()
        return Outcome(self.root.results, read - rows_before, *after, max(windows, 1))

    def _finish(self) -> None:
        for local in self.locals:
            local.mark(ENDING)
        while True:
            for local in self.locals:
                local.work(caught_up=True)
            if not self._under_way:
                return
            self._deliver()

    def _deliver(self) -> None:
        """Delivers what is under way; then all who received something work, and so on."""
        while self._under_way:
            receivers: dict[int, Local] = {}
            while self._under_way:
                to, message = self._under_way.popleft()
                self._count(to, message)
                start = time.process_time()
                if to in (ROOT, ALL):
                    self.root.receive(message)
                else:
                    self.locals[to].receive(message)
                    receivers[to] = self.locals[to]
                if isinstance(message, Samples) and self._views:
                    for node in range(len(self._views)):
                        if node != message.partition % len(self._views):
                            self.locals[node].receive(message)
                    receivers = dict(enumerate(self.locals))
                self.seconds += time.process_time() - start
            self._gaps |= {view.found_to for view in self._views if view.gap is not None}
            start = time.process_time()
            for local in receivers.values():
                local.work(caught_up=False)
            self.seconds += time.process_time() - start

    # --- counting ---------------------------------------------------------------------------------------------------

    @property
    def corrections(self) -> int:
        """How many windows needed a second round."""
        return (
            len([cut for cut in self._gaps if cut < len(self.root.results)])
            if self._views
            else int(getattr(self.root, "second_rounds", 0))
        )

    def _count(self, to: int, message: Message) -> None:
        size = len(wire.encode(message))
        if to == ALL:
            self.traffic.shared += size
        elif to == ROOT:
            self.traffic.up += size
        else:
            self.traffic.down += size
        if isinstance(message, Samples):
            self.traffic.keys += message.count
        segments = message.segments if isinstance(message, Slice) else message
        if isinstance(segments, Segments):
            reached = self._sent_to[segments.partition]
            for part in segments.parts:
                again = max(min(part.end, reached) - part.start, 0)
                if isinstance(part, Aggregated):
                    self.traffic.recomputed += again
                else:
                    self.traffic.rows_up += part.end - part.start
                    self.traffic.rows_again += again
                self._sent_to[segments.partition] = max(self._sent_to[segments.partition], part.end)


def measure(name: str, trace: SensorTrace, exact: list[PaneResult] | None) -> Outcome:
    """Runs a scheme once; compares its panes with those of `central`, if they are known."""
    outcome = InProcess(scheme_of(name, trace), trace).run()
    if exact is not None and name == "approx":
        outcome.misplaced = misplaced_rows(outcome.results, exact)
    elif exact is not None and [plain(pane) for pane in outcome.results] != [plain(pane) for pane in exact]:
        raise InvariantBroken(f"{name} gives other windows than central")
    return outcome


def plain(pane: PaneResult) -> tuple[int, tuple[int, ...], list[object]]:
    """A pane that can be compared."""
    return pane.cut, pane.ranks, [column.tolist() for column in pane.state]
