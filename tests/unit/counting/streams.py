"""Logs of some partitions, made by hand or at random; and what count windows over them must be, by a plain sort."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from holons.algebra import Aggregate, Groups, Origin, Rows, State
from holons.counting import CountWindow, counted_rows
from holons.windows import BEGINNING, ENDING, TIME_LIMIT, EventClock

FILTERED = object()
"""The element of a row that the program does not insert."""


@dataclass(frozen=True)
class Row:
    """A row of a log."""

    ts: int
    element: object = 1


@dataclass(frozen=True)
class MarkAt:
    """A mark in a log; at `ENDING` the log ends."""

    ts: int


Item = Row | MarkAt
END = MarkAt(ENDING)


@dataclass
class Streams:
    """The logs of all partitions."""

    logs: list[list[Item]]
    disorder_us: int = 0

    @property
    def partitions(self) -> int:
        return len(self.logs)


def rows_at(*times: int) -> list[Item]:
    """Rows at some times; each has another element."""
    return [Row(ts, 1 + 7 * index) for index, ts in enumerate(times)]


def marked(*times: int) -> list[Item]:
    """Rows at some times, and a mark far beyond."""
    return [*rows_at(*times), MarkAt(50)]


def with_elements(streams: Streams, element: object) -> Streams:
    """The same logs with other elements: one after the other of an element that describes as many rows."""
    count = 0
    logs: list[list[Item]] = []
    for log in streams.logs:
        logs.append([])
        for item in log:
            logs[-1].append(Row(item.ts, row_of(element, count)) if isinstance(item, Row) else item)
            count += 1
    return Streams(logs, streams.disorder_us)


def row_of(element: object, index: int) -> object:
    """One row of what describes many."""
    if isinstance(element, list):
        return element[index]
    if isinstance(element, tuple):
        return tuple(row_of(part, index) for part in element)
    return {name: row_of(part, index) for name, part in element.items()} if isinstance(element, dict) else element


# --- reading, as a run of a partition does it ----------------------------------------------------------------------


@dataclass
class Reading:
    """One run's way through one log, in cuts of its own."""

    streams: Streams
    partition: int
    clock: EventClock = field(init=False)
    at: int = 0

    def __post_init__(self) -> None:
        self.clock = EventClock(self.streams.disorder_us)

    @property
    def log(self) -> list[Item]:
        return self.streams.logs[self.partition]

    @property
    def finished(self) -> bool:
        return self.at == len(self.log)

    def read(self, count: int) -> Iterator[tuple[Rows | None, int]]:
        """Yields counted rows and the watermark after them; None for a mark."""
        end = min(len(self.log), self.at + count)
        while self.at < end:
            item = self.log[self.at]
            if isinstance(item, MarkAt):
                self.at += 1
                self.clock.mark(item.ts)
                yield None, self.clock.watermark
                continue
            first = self.at
            while self.at < end and isinstance(self.log[self.at], Row):
                self.at += 1
            yield self._counted(first, [row for row in self.log[first : self.at] if isinstance(row, Row)])

    def _counted(self, offset: int, rows: Sequence[Row]) -> tuple[Rows, int]:
        ts = np.array([row.ts for row in rows], dtype=np.int64)
        observed = self.clock.observe(ts)
        keep = np.array([row.element is not FILTERED for row in rows])
        if observed.late is not None:
            keep &= ~observed.late
        kept = np.flatnonzero(keep)
        elements = [rows[index].element for index in kept.tolist()]
        origin = Origin(self.partition, offset, len(rows)).take(kept)
        return counted_rows(columns_of(elements), ts[kept], origin), self.clock.watermark


def columns_of(elements: Sequence[object]) -> object:
    """Elements row by row as the columns that a program inserts."""
    first = elements[0] if elements else None
    if isinstance(first, tuple):
        return tuple(columns_of([element[at] for element in elements]) for at in range(len(first)))  # type: ignore[index]
    if isinstance(first, dict):
        return {name: columns_of([element[name] for element in elements]) for name in first}  # type: ignore[index]
    return list(elements)


# --- the oracle -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """One pane: each partition's rank at its end, and its state."""

    ranks: tuple[int, ...]
    state: State


def expected(streams: Streams, window: CountWindow, aggregate: Aggregate[object]) -> list[Expected]:
    """Sorts all counted rows by key and cuts them by rank: as far as no row can come in between any more."""
    keyed: list[tuple[int, int, int, int, object]] = []
    frontiers, ended = [], True
    for partition, log in enumerate(streams.logs):
        watermark, number = BEGINNING, 0
        for offset, item in enumerate(log):
            if isinstance(item, MarkAt):
                watermark = max(watermark, item.ts)
                continue
            watermark = max(watermark, item.ts - streams.disorder_us)
            if item.ts >= watermark and counts(item.element):
                keyed.append((item.ts, partition, number, offset, item.element))
                number += 1
        frontiers.append((watermark, partition, number - 1))
        ended &= watermark >= ENDING
    keyed.sort(key=lambda row: row[:3])
    safe = len([row for row in keyed if row[:3] <= min(frontiers)])
    panes, ranks, first = [], [0] * streams.partitions, 0
    for end in ends_of_panes(window, len(keyed) if ended else safe, ended=ended):
        state = aggregate.zero(1)
        for ts, partition, _, offset, element in keyed[first:end]:
            ranks[partition] += 1
            columns = columns_of([element])
            rows = counted_rows(columns, np.array([ts]), Origin(partition, offset, 1))
            state = aggregate.merge(state, aggregate.fold(Groups.single(rows.count), rows))
        panes.append(Expected(tuple(ranks), state))
        first = end
    return panes


def counts(element: object) -> bool:
    if element is FILTERED or element is None:
        return False
    if isinstance(element, tuple):
        return None not in element
    return not (isinstance(element, dict) and all(part is None for part in element.values()))


def ends_of_panes(window: CountWindow, total: int, *, ended: bool) -> list[int]:
    """All starts and all ends of windows among the first `total` rows."""
    ends = {number * window.every for number in range(1, total // window.every + 1)}
    ends |= {start + window.size for start in range(0, total + 1, window.every) if start + window.size <= total}
    if window.partial and ended and total:
        ends.add(total)
    return sorted(ends)


# --- at random ------------------------------------------------------------------------------------------------------

SHAPES = (
    "steady", "random", "bursts", "ties", "swap", "silent", "marked", "late start", "stops", "extreme", "disorder",
    "awkward",
)  # fmt: skip


def random_streams(shape: str, rng: random.Random, rows_max: int = 60) -> Streams:
    """Logs of one kind. Elements are small integers; some are null or filtered if rows are `awkward`."""
    disorder = rng.choice((3, 9)) if shape in ("disorder", "awkward") else 0
    partitions = rng.randint(1, 5)
    logs = []
    for partition in range(partitions):
        items = _random_log(shape, rng, partition, rng.randint(0, rows_max), disorder)
        if shape == "marked" and partition == 0:
            items = [MarkAt(ts) for ts in (10, 40, 90)]
        if shape == "silent" and partition and rng.random() < 0.3:
            items = []
        if rng.random() < 0.75:
            items.append(END)
        logs.append(items)
    return Streams(logs, disorder)


def _random_log(shape: str, rng: random.Random, partition: int, count: int, disorder: int) -> list[Item]:
    ts = -(TIME_LIMIT - 1) if shape == "extreme" else 1_000 if shape == "late start" and not partition else -20
    items: list[Item] = []
    for index in range(count):
        if shape == "steady":
            ts += 2
        elif shape == "ties":
            ts += rng.choice((0, 0, 0, 1))
        elif shape == "bursts":
            ts += 0 if index % 15 else 20
        elif shape == "swap":
            ts += 1 if (index > count // 2) == (partition % 2 == 0) else 6
        elif shape == "stops":
            ts += 1 if partition else 7
        elif shape == "extreme":
            ts += rng.choice((1, 2**40, 2**57 // max(count, 1)))
        else:
            ts += rng.randint(0, 4)
        element: object = rng.randint(1, 99)
        if shape == "awkward":
            element = rng.choice((element, element, None, FILTERED))
        items.append(Row(ts - rng.choice((0, 0, 2, disorder, 2 * disorder)) if disorder else ts, element))
        if rng.random() < 0.05:
            items.append(MarkAt(ts + rng.randint(0, 3)))
    return items


def random_window(rng: random.Random) -> CountWindow:
    """Tumbling, and sliding by one, by all but one, and by anything."""
    size = rng.choice((1, 2, 3, 5, 10, 17, 40))
    every = rng.choice((size, size, 1, max(1, size - 1), rng.randint(1, size)))
    return CountWindow(size, every, partial=rng.random() < 0.3)
