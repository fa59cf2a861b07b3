"""Kinds of windows that are defined here and nowhere else run wherever programs run, and give the oracle's bytes.

Nothing in `wcrdt`, `program`, `node`, `engines` or `semantics` knows them: a new kind of window is one class.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest
from tests.conformance.trimming import TrimmingRig
from tests.workloads import partition

import holons as h
from holons.engines.simulator import Simulation
from holons.engines.simulator.faults import Kind
from holons.engines.simulator.random_jobs import row
from holons.engines.why import why
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.streams import MemoryLog
from holons.windows import AlignedSpec, RegularPanes, StitchedSpec, Window

SECOND = 1_000_000
DAY_US = 3 * SECOND
"""A day that is short enough for a test."""


@dataclass(frozen=True, init=False)
class Shifts(AlignedSpec):
    """Windows side by side whose lengths repeat, from some instant on: an early shift, a late one, a night."""

    phase_us: int
    lengths_us: tuple[int, ...]

    def __init__(self, phase_us: int, *lengths_us: int) -> None:
        object.__setattr__(self, "phase_us", phase_us)
        object.__setattr__(self, "lengths_us", lengths_us)

    @property
    def starts_us(self) -> list[int]:
        """Where the shifts of a day begin, and where it ends."""
        return [0, *np.cumsum(self.lengths_us).tolist()]

    def number_at(self, ts: int) -> int:
        days, within = divmod(ts - self.phase_us, self.starts_us[-1])
        return days * len(self.lengths_us) + bisect_right(self.starts_us, within) - 1

    def start_of(self, number: int) -> int:
        days, shift = divmod(number, len(self.lengths_us))
        return self.phase_us + days * self.starts_us[-1] + self.starts_us[shift]

    def panes_of(self, ts: np.ndarray) -> np.ndarray:
        days, within = np.divmod(ts - self.phase_us, self.starts_us[-1])
        return days * len(self.lengths_us) + np.searchsorted(self.starts_us, within, side="right") - 1

    @property
    def default_keep_us(self) -> int:
        return max(self.lengths_us)


@dataclass(frozen=True, init=False)
class Paired(AlignedSpec):
    """Sliding windows from some instant on, of two panes for each step: up to where a window ends, and up to the next."""

    size_us: int
    every_us: int
    phase_us: int

    def __init__(self, size_us: int, every_us: int, phase_us: int) -> None:
        assert size_us % every_us
        for name, value in (("size_us", size_us), ("every_us", every_us), ("phase_us", phase_us)):
            object.__setattr__(self, name, value)

    slides = True

    @property
    def default_keep_us(self) -> int:
        return self.size_us

    def number_at(self, ts: int) -> int:
        return (ts - self.phase_us) // self.every_us

    def start_of(self, number: int) -> int:
        return self.phase_us + number * self.every_us

    def end_of(self, number: int) -> int:
        return self.start_of(number) + self.size_us

    def last_ended(self, ts: int) -> int:
        return (ts - self.phase_us - self.size_us) // self.every_us

    def pane_at(self, ts: int) -> int:
        step, within = divmod(ts - self.phase_us, self.every_us)
        return 2 * step + (within >= self.size_us % self.every_us)

    def pane_start(self, pane: int) -> int:
        return self.start_of(pane // 2) + (self.size_us % self.every_us if pane % 2 else 0)

    def panes_of(self, ts: np.ndarray) -> np.ndarray:
        steps, within = np.divmod(ts - self.phase_us, self.every_us)
        return 2 * steps + (within >= self.size_us % self.every_us)

    def pane_needed_until(self, pane: int) -> int:
        return self.end_of(pane // 2)

    def grid(self, ts: np.ndarray) -> np.ndarray:
        return (ts - self.phase_us - self.size_us) // self.every_us


@dataclass(frozen=True, init=False)
class Uneven(RegularPanes, AlignedSpec):
    """A window every second, of three and of four panes in turn."""

    slides = True
    default_keep_us = 2 * SECOND

    def __init__(self) -> None:
        object.__setattr__(self, "pane_us", SECOND // 2)

    def number_at(self, ts: int) -> int:
        return ts // SECOND

    def start_of(self, number: int) -> int:
        return number * SECOND

    def end_of(self, number: int) -> int:
        return self.start_of(number) + (3 + number % 2) * self.pane_us

    def last_ended(self, ts: int) -> int:
        number = ts // SECOND - 1
        return number if self.end_of(number) <= ts else number - 1

    def grid(self, ts: np.ndarray) -> np.ndarray:
        numbers = ts // SECOND - 1
        return np.where(numbers * SECOND + (3 + numbers % 2) * self.pane_us <= ts, numbers, numbers - 1)


@dataclass(frozen=True, init=False)
class DailySession(RegularPanes, StitchedSpec):
    """A key's activity without a pause, and at most until midnight."""

    noun = "a daily session"

    gap_us: int

    def __init__(self, gap_us: int) -> None:
        assert DAY_US % (gap_us // 2) == 0
        object.__setattr__(self, "gap_us", gap_us)
        object.__setattr__(self, "pane_us", gap_us // 2)

    def continues(self, last: int, first: int) -> bool:
        return first < self.end_after(last)

    def end_after(self, last: int) -> int:
        return min(last + self.gap_us, (last // DAY_US + 1) * DAY_US)

    def panes(self, window: Window) -> range:
        return range(self.pane_at(window.start), self.pane_at(window.end - 1) + 1)

    def _boundary(self, ts: int) -> int:
        return ts // self.pane_us * self.pane_us

    def grid(self, ts: np.ndarray) -> np.ndarray:
        return self.panes_of(ts)

    def windows_holding(self, rows: Iterable[tuple[object, int]]) -> set[Window]:
        times_by_key: dict[object, list[int]] = {}
        found = set()
        for key, ts in sorted(rows, key=lambda row: row[1]):
            times = times_by_key.setdefault(key, [])
            if times and (ts - times[-1] >= self.gap_us or ts // DAY_US > times[-1] // DAY_US):
                found.add(self._window(times, key))
                times.clear()
            times.append(ts)
        return found | {self._window(times, key) for key, times in times_by_key.items()}

    def _window(self, times: list[int], key: object) -> Window:
        midnight = times[-1] - times[-1] % DAY_US + DAY_US
        return Window(times[0], min(times[-1] + self.gap_us, midnight), key)


SHIFTS = Shifts(250_000, 700_000, 1_300_000, 400_000)
PAIRED = Paired(1_700_000, 500_000, 30_000)
UNEVEN = Uneven()
DAILY = DailySession(1_000_000)


class InShifts(h.Program):
    """Irregular windows: shared, local, accumulating, awaited one back, and counted once more by longer ones."""

    n = h.WCRDT(h.GCounter(), SHIFTS)
    by_user = h.WCRDT(h.MergeMap(h.Sum("float")), SHIFTS)
    mine = h.WLocal(h.GCounter(), SHIFTS)
    ever = h.WCRDT(h.GCounter(), SHIFTS, accumulate=True)
    longer = h.WCRDT(h.Sum("int"), Shifts(0, 3 * SECOND, 5 * SECOND), stage=1)

    async def process(self, events):
        self.n.insert(1, events.ts)
        self.by_user.insert((events["user"], events["x"]), events.ts)
        self.mine.insert(1, events.ts)
        self.ever.insert(1, events.ts)
        for window, run in events.by_window(self.n):
            before = await self.n.completed(SHIFTS.before(SHIFTS.before(window)))
            self.output(run.select("n", before=pl.lit(before)))

    @h.on_window(n)
    def in_shift(self, window):
        self.longer.insert(self.n[window], window)
        before = self.n[SHIFTS.before(window)]
        counts = {"n": self.n[window], "before": before, "mine": self.mine[window], "ever": self.ever[window]}
        yield {"start": window.start, "end": window.end, "by": str(self.by_user[window].to_dict()), **counts}

    @h.on_window(longer)
    def in_longer(self, window):
        yield {"start": window.start, "n": self.longer[window]}


class InPairs(h.Program):
    """Sliding windows of unequal panes, beside tumbling ones in the same stage."""

    n = h.WCRDT(h.GCounter(), PAIRED)
    best = h.WCRDT(h.TopK(3), PAIRED)
    uneven = h.WCRDT(h.Product(n=h.GCounter(), most=h.MaxRegister("int")), UNEVEN)
    tumbling = h.WCRDT(h.GCounter(), h.Tumbling("700ms"))

    def process(self, events):
        self.n.insert(1, events.ts)
        self.best.insert((events["n"], events["user"]), events.ts)
        self.uneven.insert({"n": 1, "most": events["n"]}, events.ts)
        self.tumbling.insert(1, events.ts)

    @h.on_window(n)
    def slid(self, window):
        yield {"start": window.start, "n": self.n[window], "best": [str(best) for best in self.best[window]]}

    @h.on_window(uneven)
    def in_turn(self, window):
        yield {"start": window.start, "end": window.end, **self.uneven[window]}

    @h.on_window(tumbling)
    def tumbled(self, window):
        yield {"start": window.start, "n": self.tumbling[window]}


class Daily(h.Program):
    """Sessions that midnight ends, and how many of them end in each second."""

    rows = h.WCRDT(h.Product(n=h.GCounter(), x=h.Sum("float")), DAILY)
    ended = h.WCRDT(h.GCounter(), h.Tumbling("1s"), stage=1)

    def process(self, events):
        self.rows.insert({"n": 1, "x": events["x"]}, events.ts, key=events["user"])

    @h.on_window(rows)
    def session(self, window):
        self.ended.insert(1, window)
        yield {"user": window.key, "start": window.start, "end": window.end, **self.rows[window]}

    @h.on_window(ended)
    def each_second(self, window):
        yield {"start": window.start, "ended": self.ended[window]}


def pipeline() -> h.Job:
    """The same kinds in a pipeline: by key, joined, and one over the results of another."""
    rows = h.source("in", time="ts", disorder="300ms", schema=SCHEMA)
    counted = rows.window(SHIFTS).group_by("user").agg(n=h.count(), best=h.max("n"))
    sums = rows.window(PAIRED).agg(total=h.sum("n"))
    pairs = rows.window(SHIFTS).join(rows.select("k", other="n").window(SHIFTS), on="k")
    daily = rows.window(DAILY).group_by("user").agg(n=h.count())
    every = counted.window(h.Tumbling("4s")).agg(n=h.sum("n"))
    parts = {"counted": counted, "sums": sums, "pairs": pairs, "daily": daily, "every": every}
    return h.job(*(made.to(name) for name, made in parts.items()), name="parts")


SCHEMA = {"ts": pl.Int64, "user": pl.String, "k": pl.Int64, "n": pl.Int64, "x": pl.Float64}
JOBS: dict[str, Callable[[], h.Job]] = {
    "shifts": lambda: h.job(InShifts(), "in", disorder="300ms"),
    "paired": lambda: h.job(InPairs(), "in", disorder="300ms"),
    "daily": lambda: h.job(Daily(), "in", disorder="300ms"),
    "pipeline": pipeline,
}


def workload(seed: int) -> dict[str, list]:
    rng = random.Random(seed)
    return {"in": [partition(rng, row, span_s=8, rows=25, disorder_us=300_000) for _ in range(3)]}


@pytest.fixture(params=JOBS)
def job(request) -> h.Job:
    return JOBS[request.param]()


@pytest.mark.filterwarnings("ignore::holons.engines.LateRows")
def test_nodes_and_recovery_give_the_oracles_bytes(job):
    dropped = 0
    for seed in range(3):
        streams = workload(seed)
        expected = run_oracle(job, streams)
        assert min(len(rows) for rows in expected.values()) > 0
        rig = TrimmingRig(job, streams, seed, replicas=2)
        assert canonical(rig.run(rows_max=5, mischief=0.3)) == canonical(expected), "cut, broken, restored and shuffled"
        run = h.run(job, streams, nodes=2, engine="embedded").wait()
        assert run.results().canonical() == canonical(expected), "on nodes"
        dropped += rig.dropped
    assert dropped > 0, "nothing was trimmed"


@pytest.mark.parametrize("seed", range(2))
def test_nodes_that_crash_give_the_oracles_bytes(job, seed):
    streams = workload(seed)
    expected = run_oracle(job, streams)
    simulation = Simulation({job.name: job}, streams, seed=seed)
    assert any(fault.kind is Kind.CRASH for fault in simulation.faults) or seed > 0
    outcome = simulation.run({job.name: expected})
    assert not outcome.problem, outcome


# --- the kinds are what they say ---------------------------------------------------------------------------------------


def edges(first: int) -> Iterator[tuple[int, int]]:
    """The shifts from one on, by adding up."""
    start = SHIFTS.phase_us
    for number in range(60):
        length = SHIFTS.lengths_us[number % 3]
        if number >= first:
            yield start, start + length
        start += length


def test_every_row_is_counted_in_its_own_shift():
    streams = workload(0)
    made = run_oracle(JOBS["shifts"](), streams)
    windows = {(row["start"], row["end"]): row["n"] for row in made["in_shift"][0]}
    near = {edge: count for edge, count in windows.items() if 0 < edge[0] < 20 * SECOND}
    assert near
    assert set(near) <= set(edges(0))


def test_no_daily_session_goes_on_after_midnight():
    made = run_oracle(JOBS["daily"](), workload(1))["session"][0]
    assert any(row["end"] % DAY_US == 0 for row in made), "midnight ended none"
    assert all(row["start"] // DAY_US == (row["end"] - 1) // DAY_US for row in made)


@pytest.mark.parametrize("name", ["shifts", "paired", "daily"])
def test_why_explains_such_windows(name):
    job, streams = JOBS[name](), workload(2)
    log = MemoryLog(3)
    for number, pieces in enumerate(streams["in"]):
        for piece in pieces:
            if isinstance(piece, pl.DataFrame):
                log.append(number, piece.to_arrow().combine_chunks().to_batches()[0])
            else:
                log.mark(number, piece.ts)
    channel = {"shifts": "in_shift", "paired": "slid", "daily": "session"}[name]
    made = run_oracle(job, streams)[channel][0][3]
    explained = why(job, {"in": log}, made["start"], channel=channel, key=made.get("user"))
    assert sum(part.rows for part in explained[0].contributions if part.handle in ("n", "rows")) == made["n"]
