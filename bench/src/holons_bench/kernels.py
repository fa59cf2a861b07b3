"""How fast columns become window states, on one core.

What is timed is what a partition does with a batch that it has read: give each row its window, fold the batch, merge
the result into the windows that are still open, and close those that are done. What is not timed: making the events.
Everything runs in one thread; a figure is the best, or the median, of some repetitions over the same events.

Sliding windows are measured in the steady state: before the clock starts, the window is filled with panes, so that
every slide puts one pane in and takes one out. Each slide yields a whole window state. What sliding costs is given as
a multiple of tumbling windows of the same length over the same events; it depends on how many events share a pane,
hence on the density of events in event time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from rich.console import Console
from rich.progress import Progress

from holons.algebra import Aggregate, Average, GCounter, Groups, MaxRegister, MergeMap, Slide, State
from holons.algebra.aggregate import pick, size
from holons.algebra.rows import Element, Origin, Rows
from holons_bench.records import Record, by_metric, print_table, recorder

SECOND_US: Final = 1_000_000
SLIDE_US: Final = 10_000
WINDOW_US: Final = 10 * SECOND_US
CATEGORIES: Final = 5
DENSE_PER_S: Final = 10_000_000
SPARSE_PER_S: Final = 1_000_000


@dataclass(frozen=True)
class EventFeed:
    """Events to be folded: `events` of them in batches, `density_per_s` in each second of event time."""

    events: int
    batch: int
    density_per_s: int
    keys: int
    disorder_us: int = 0

    def times(self) -> Iterator[np.ndarray]:
        """Yields the event times of each batch, in microseconds."""
        noise = np.random.default_rng(7).integers(0, self.disorder_us + 1, self.batch)
        for first in range(0, self.events, self.batch):
            index = np.arange(first, min(first + self.batch, self.events), dtype=np.int64)
            times = index * SECOND_US // self.density_per_s
            yield times - noise[: len(times)] + self.disorder_us if self.disorder_us else times


Elements = Callable[[np.ndarray, np.ndarray], Element]
"""From a batch's keys and values to what is inserted."""


@dataclass(frozen=True)
class KernelCase:
    """One thing to measure: an aggregate of some elements in windows of one length."""

    name: str
    aggregate: Aggregate[object]
    elements: Elements
    window_us: int
    feed: EventFeed
    slide_us: int | None = None


def run(
    events: int = 20_000_000,
    *,
    repeat: int = 5,
    batch: int = 1_000_000,
    keys: int = 10_000,
    density_per_s: int = DENSE_PER_S,
    progress: bool = False,
) -> list[Record]:
    """Measures every case; `density_per_s` is that of the densest sliding case (a sparser one is measured too)."""
    records: list[Record] = []
    cases = _cases(EventFeed(events, min(batch, events), density_per_s, keys))
    with Progress(disable=not progress, transient=True) as bar:
        task = bar.add_task("kernels", total=len(cases) * repeat)
        rates: dict[str, float] = {}
        for case in cases:
            seconds = []
            for _ in range(repeat):
                seconds.append(_measure(case))
                bar.advance(task)
            records += _records(case, seconds)
            rates[case.name] = min(seconds)
    return records + _ratios(cases, rates)


def show(records: Sequence[Record], console: Console | None = None) -> None:
    """Prints a table of records, one line for each case."""
    print_table(
        "Kernels on one core: million events a second; what sliding costs as a multiple of tumbling",
        ("case", "best", "median", "cost"),
        [
            [
                case,
                *(f"{figures[name] / 1e6:.0f}" if name in figures else "" for name in ("rate", "rate_median")),
                f"{figures['cost']:.2f}" if "cost" in figures else "",
            ]
            for case, figures in by_metric(records).items()
        ],
        console=console,
    )


# --- the cases ------------------------------------------------------------------------------------------------------


def _cases(feed: EventFeed) -> list[KernelCase]:
    counts, mean = MergeMap(GCounter()), MergeMap(Average("int"))

    def keyed(name: str, density: int, slide_us: int | None) -> KernelCase:
        slower = EventFeed(feed.events, feed.batch, density, feed.keys)
        label = f"{name}, {density / 1e6:g} M events/s"
        return KernelCase(label, counts, lambda keys, _: (keys, 1), WINDOW_US, slower, slide_us)

    shuffled = EventFeed(feed.events, feed.batch, feed.density_per_s, feed.keys, disorder_us=5_000)
    cases = [
        KernelCase("maximum, tumbling 1 s", MaxRegister("int"), lambda _, values: values, SECOND_US, feed),
        KernelCase(
            f"average of {CATEGORIES} categories, tumbling 1 s",
            mean,
            lambda keys, values: (keys % CATEGORIES, values),
            SECOND_US,
            feed,
        ),
        KernelCase(f"count of {feed.keys:,} keys, tumbling 1 s", counts, lambda keys, _: (keys, 1), SECOND_US, feed),
        KernelCase(
            "the same, 5 ms of disorder, windows of 10 ms", counts, lambda keys, _: (keys, 1), SLIDE_US, shuffled
        ),
    ]
    for density in dict.fromkeys((feed.density_per_s, SPARSE_PER_S)):
        cases.append(keyed("the same, tumbling 10 s", density, None))
        cases.append(keyed("the same, sliding 10 s by 10 ms", density, SLIDE_US))
    return cases


def _batches(case: KernelCase) -> Iterator[Rows]:
    """Yields the batches of a case. Keys and values repeat after a few batches; times go on."""
    rng = np.random.default_rng(42)
    pool = [
        case.elements(rng.integers(0, case.feed.keys, case.feed.batch), rng.integers(0, 10_000, case.feed.batch))
        for _ in range(4)
    ]
    offset = 0
    for number, times in enumerate(case.feed.times()):
        rows = Rows(pool[number % len(pool)], times, Origin(0, offset, len(times)))
        full = len(times) == case.feed.batch
        yield rows if full else Rows(rows.between(0, len(times)).element, times, rows.origin)
        offset += len(times)


# --- what is timed --------------------------------------------------------------------------------------------------


def _measure(case: KernelCase) -> float:
    """Returns the seconds that all events of a case took; making them does not count."""
    windows = _Windows(case)
    windows.warm_up()
    elapsed = 0.0
    for rows in _batches(case):
        start = time.perf_counter()
        windows.fold(rows)
        elapsed += time.perf_counter() - start
    start = time.perf_counter()
    windows.close(None)
    elapsed += time.perf_counter() - start
    assert windows.closed > 0
    return elapsed


class _Windows:
    """The open windows (or panes) of one partition, and the slide over those that are done."""

    def __init__(self, case: KernelCase) -> None:
        self._aggregate = case.aggregate
        self._case = case
        self._pane_us = case.slide_us or case.window_us
        self._open: dict[int, State] = {}
        self._slide = Slide(case.aggregate, case.window_us // case.slide_us) if case.slide_us else None
        self.closed = 0

    def warm_up(self) -> None:
        """Folds a first batch and forgets it, and fills the slide with a window's worth of panes."""
        aggregate, panes = self._aggregate, self._case.window_us // self._pane_us
        rows = next(iter(_batches(self._case)))
        _, groups = Groups.by_label(rows.ts // self._pane_us)
        state = aggregate.fold(groups, rows)
        if self._slide is not None:
            for index in range(-panes, 0):
                self._slide.push(index, pick(state, index % size(state)))

    def fold(self, rows: Rows) -> None:
        labels, groups = Groups.by_label(rows.ts // self._pane_us)
        state = self._aggregate.fold(groups, rows)
        for group, label in enumerate(labels.tolist()):
            part, before = pick(state, group), self._open.get(label)
            self._open[label] = part if before is None else self._aggregate.merge(before, part)
        self.close(int(rows.ts[-1]) - self._case.feed.disorder_us)

    def close(self, watermark: int | None) -> None:
        """Closes what ends at or before the watermark; everything, if there is none."""
        last = None if watermark is None else watermark // self._pane_us
        for label in sorted(self._open):
            if last is not None and label >= last:
                break
            state = self._open.pop(label)
            if self._slide is not None:
                self._slide.push(label, state)
                state = self._slide.state()
            self._aggregate.value(state)
            self.closed += 1


# --- records --------------------------------------------------------------------------------------------------------


def _records(case: KernelCase, seconds: list[float]) -> list[Record]:
    events, record = case.feed.events, recorder("kernels", case.name)
    return [
        record("holons", "rate", events / min(seconds), "events/s/core"),
        record("holons", "rate_median", events / statistics.median(seconds), "events/s/core"),
    ]


def _ratios(cases: list[KernelCase], seconds: dict[str, float]) -> list[Record]:
    """Returns what sliding costs, as a multiple of tumbling: the case before."""
    return [
        recorder("kernels", case.name)("holons", "cost", seconds[case.name] / seconds[before.name], "x tumbling")
        for before, case in pairwise(cases)
        if case.slide_us
    ]
