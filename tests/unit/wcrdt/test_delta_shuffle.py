"""Whatever happens to deltas on their way, every replica ends with what the raw rows say.

Deltas are lost and sent again, repeated, reordered, and merged with their neighbours in any grouping; replicas are
resumed from snapshots and trimmed in between, and windows are read in any order.
"""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wcrdt.brute_force import (
    HISTORY,
    START,
    Partition,
    Step,
    merged,
    numbers_in,
    plain,
    value_of,
    windows_ending,
)

from holons.algebra import GCounter, MaxRegister, MergeMap
from holons.errors import WindowNotCompleted, WindowTrimmed
from holons.wcrdt import Applied, Delta, Gap, Handle, Replica
from holons.windows import BEGINNING, Sliding, Tumbling

WORLDS: dict[str, list[Handle]] = {
    "tumbling": [Handle("n", GCounter(), Tumbling("5us"))],
    "several sizes": [Handle("n", MaxRegister(), Tumbling("5us")), Handle("m", GCounter(), Tumbling("7us"))],
    "sliding": [Handle("n", GCounter(), Sliding("9us", every="3us"))],
    "sliding, not dividing": [
        Handle("n", MaxRegister(), Sliding("10us", every="4us")),
        Handle("m", MergeMap(GCounter()), Sliding("7us", every="3us"), keep_us=6),
    ],
    "accumulate": [
        Handle("n", GCounter(), Tumbling("5us"), accumulate=True),
        Handle("m", MergeMap(GCounter()), Tumbling("3us"), accumulate=True, keep_us=4),
    ],
    "two stages": [
        Handle("n", GCounter(), Tumbling("5us")),
        Handle("m", MergeMap(GCounter()), Sliding("6us", every="4us"), stage=1),
        Handle("o", GCounter(), Tumbling("4us"), stage=1, accumulate=True),
    ],
}
LIMIT = 130
"""Later than all rows: START, all advances and all offsets together."""


class Model:
    """Which intervals of one partition have come, and how far they reach without a gap."""

    def __init__(self) -> None:
        self.came: set[tuple[int, int]] = set()

    def progress(self) -> int:
        reached = BEGINNING
        while any(start <= reached < end for start, end in self.came):
            reached = max(end for start, end in self.came if start <= reached < end)
        return reached

    def take(self, delta: Delta) -> Applied:
        before = self.progress()
        self.came.add((delta.start, delta.end))
        if delta.start > before:
            return Applied.WAITING
        return Applied.NEW if delta.end > before else Applied.REPEATED

    def waits(self) -> bool:
        return any(start > self.progress() for start, _ in self.came)

    def forget_waiting(self) -> None:
        reached = self.progress()
        self.came = {(start, end) for start, end in self.came if start <= reached}


class Case:
    """Some partitions' lives, one replica of them, and a model of what it knows."""

    def __init__(self, handles: list[Handle], histories: list[list[list[Step]]], ends: bool) -> None:
        self.handles = handles
        self.lives = [
            [Partition(handles, stage, number, history, ends=ends) for number, history in enumerate(row)]
            for stage, row in enumerate(histories)
        ]
        self.begin()

    def begin(self) -> None:
        self.replica = Replica(self.handles, len(self.lives[0]))
        self.models = [[Model() for _ in row] for row in self.lives]
        self.trimmed = [BEGINNING] * len(self.handles)

    def apply(self, delta: Delta) -> None:
        delta = Delta.decode(delta.encode())
        assert self.replica.apply(delta) == self.models[delta.stage][delta.partition].take(delta)
        assert self.replica.progress == [[model.progress() for model in row] for row in self.models]
        waiting = [(s, p) for s, row in enumerate(self.models) for p, model in enumerate(row) if model.waits()]
        assert self.replica.gaps() == [Gap(s, p, self.models[s][p].progress()) for s, p in waiting]

    def resume(self) -> None:
        self.replica = Replica(self.handles, len(self.lives[0]), self.replica.snapshot())
        for row in self.models:
            for model in row:
                model.forget_waiting()

    def trim(self, rng: random.Random) -> None:
        """Up to what everybody is past, or less; later stages may lag."""

        def some(watermark: int) -> int:
            return rng.randint(START, watermark) if watermark >= START else BEGINNING

        emitted = [some(self.watermark(stage)) for stage in range(len(self.lives))]
        processed = [some(self.watermark(stage)) for stage in range(len(self.lives))]
        self.replica.trim(processed, emitted)
        for index, handle in enumerate(self.handles):
            needed = min(processed[handle.stage] - 1, *emitted[handle.stage :])
            if needed > BEGINNING:
                self.trimmed[index] = max(self.trimmed[index], needed - handle.keep_us)

    def watermark(self, stage: int) -> int:
        return min(min(model.progress() for model in self.models[stage]), LIMIT)

    def check(self, rng: random.Random) -> None:
        """Every window: its value, or why not."""
        for index, handle in enumerate(self.handles):
            rows = [row for life in self.lives[handle.stage] for row in life.rows]
            windows = windows_ending(handle.window, START - 10, LIMIT)
            if rng.random() < 0.5:
                rng.shuffle(windows)
            for window in windows:
                if window.end > self.watermark(handle.stage):
                    with pytest.raises(WindowNotCompleted):
                        self.replica.value(index, window)
                elif window.end <= self.trimmed[index]:
                    with pytest.raises(WindowTrimmed):
                        self.replica.value(index, window)
                else:
                    expected = value_of(handle, numbers_in(handle, rows, window))
                    assert plain(self.replica.value(index, window)) == expected, (handle.name, window)


@st.composite
def histories(draw: st.DrawFn, stages: int) -> list[list[list[Step]]]:
    """The same number of partitions in each stage; one of them is silent now and then."""
    partitions = draw(st.integers(1, 3))
    made = [[draw(HISTORY) for _ in range(partitions)] for _ in range(stages)]
    if draw(st.booleans()):
        silent = draw(st.integers(0, partitions - 1))
        for row in made:
            row[silent] = [Step([], step.advance) for step in row[silent]]
    return made


@pytest.mark.parametrize("world", WORLDS)
def test_replicas_converge_to_what_the_rows_say(world: str):
    handles = WORLDS[world]
    stages = 1 + max(handle.stage for handle in handles)

    @given(histories(stages), st.booleans(), st.integers(0, 2**32))
    def check(made: list[list[list[Step]]], ends: bool, seed: int):
        case, ends_in = Case(handles, made, ends), set()
        for replica in range(2):
            rng = random.Random(seed + replica)
            case.begin()
            misadventures(case, rng)
            everything = [delta for row in case.lives for life in row for delta in life.deltas]
            rng.shuffle(everything)
            for delta in everything:
                case.apply(delta)
            assert case.replica.gaps() == []
            assert case.replica.progress == [[life.sealed_to for life in row] for row in case.lives]
            case.check(rng)
            if rng.random() < 0.5:
                case.trim(rng)
                case.check(rng)
            if not any(limit > BEGINNING for limit in case.trimmed):
                ends_in.add(msgspec.msgpack.encode(case.replica.snapshot()))
        assert len(ends_in) < 2, "two replicas that know the same have different bytes"

    check()


def misadventures(case: Case, rng: random.Random) -> None:
    """Some deltas, repeated, merged, in any order; and resumptions, trims and reads in between."""
    lives = [life for row in case.lives for life in row if life.deltas]
    for _ in range(rng.randint(0, 12) if lives else 0):
        life = rng.choice(lives)
        first = rng.randrange(len(life.deltas))
        last = rng.randint(first + 1, min(first + 4, len(life.deltas)))
        case.apply(merged(life.deltas[first:last]))
        if rng.random() < 0.1:
            case.resume()
        if rng.random() < 0.1:
            case.trim(rng)
        if rng.random() < 0.15:
            case.check(rng)
