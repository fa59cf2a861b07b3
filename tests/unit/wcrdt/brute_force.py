"""Raw rows and what they must come to: plain Python over plain lists, for all tests of this room.

A row is (time, number). Every handle takes the same rows: counters add the number, maxima keep the largest, maps
count it under the key `number % 3`, sessions under a word.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from holons.algebra import GCounter, MaxRegister, MergeMap, Rows, rows_of
from holons.wcrdt import Contributions, Delta, Handle, Seal
from holons.windows import BEGINNING, ENDING, FixedSpec, Session, Window

Row = tuple[int, int]
START = -20
"""Where the watermark of every partition begins to move."""


class Step(NamedTuple):
    """Rows that come in (times from the watermark on), then how far the watermark moves."""

    rows: list[Row]
    advance: int


ROWS = st.lists(st.tuples(st.integers(0, 25), st.integers(0, 9)), max_size=4)
HISTORY = st.lists(st.builds(Step, ROWS, st.integers(1, 12)), max_size=6)


def element(handle: Handle, numbers: list[int]) -> object:
    """What a handle is given for some numbers."""
    if isinstance(handle.window, Session):
        return [word(number) for number in numbers], numbers
    if isinstance(handle.aggregate, MergeMap):
        return [number % 3 for number in numbers], numbers
    return numbers


def word(number: int) -> str:
    return "abc"[number % 3]


def rows_for(handle: Handle, rows: list[Row], partition: int = 0) -> Rows:
    return rows_of(element(handle, [n for _, n in rows]), [ts for ts, _ in rows], partition=partition)


def value_of(handle: Handle, numbers: list[int]) -> object:
    """What a window with these numbers must be worth."""
    if isinstance(handle.aggregate, GCounter):
        return sum(numbers)
    if isinstance(handle.aggregate, MaxRegister):
        return max(numbers, default=None)
    assert isinstance(handle.aggregate, MergeMap)
    counts: dict[int, int] = {}
    for number in numbers:
        counts[number % 3] = counts.get(number % 3, 0) + number
    return counts


def plain(value: object) -> object:
    """A value as `value_of` gives it."""
    return dict(value.items()) if hasattr(value, "items") else value


def numbers_in(handle: Handle, rows: list[Row], window: Window) -> list[int]:
    start = BEGINNING if handle.accumulate else window.start
    return [number for ts, number in rows if start <= ts < window.end]


def windows_ending(spec: FixedSpec, after: int, upto: int) -> list[Window]:
    """Every window that ends in `(after, upto]`, empty or not."""
    ends = [end for end in range(after + 1, upto + 1) if (end - spec.size_us) % spec.every_us == 0]
    return [Window(end - spec.size_us, end) for end in ends]


class Partition:
    """One partition's life in one stage: its raw rows, and the deltas that it sent."""

    def __init__(self, handles: list[Handle], stage: int, number: int, history: list[Step], *, ends: bool) -> None:
        self.stage, self.number = stage, number
        self.rows: list[Row] = []
        self.deltas: list[Delta] = []
        indices = [index for index, handle in enumerate(handles) if handle.stage == stage]
        contributions = Contributions(handles, indices)
        sent_to, watermark = BEGINNING, START
        for step in [*history, Step([], ENDING - START)] if ends else history:
            rows = [(watermark + after, number) for after, number in step.rows]
            for index in indices if rows else []:
                contributions.insert(index, rows_for(handles[index], rows, number))
            self.rows += rows
            watermark = min(watermark + step.advance, ENDING)
            seals = [Seal(i, pane, contributions.encode(i, state)) for i, pane, state in contributions.seal(watermark)]
            self.deltas.append(Delta(stage, number, sent_to, watermark, tuple(seals)))
            sent_to = watermark

    @property
    def sealed_to(self) -> int:
        return self.deltas[-1].end if self.deltas else BEGINNING


def merged(deltas: list[Delta]) -> Delta:
    """Adjoining deltas as one."""
    whole = deltas[0]
    for delta in deltas[1:]:
        whole = whole.then(delta)
    return whole
