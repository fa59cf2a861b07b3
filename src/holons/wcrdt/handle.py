"""The description of a windowed value: which aggregate, over which windows, in which stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from holons.algebra import Aggregate, Groups, MaxRegister, MergeMap, MinRegister, Product, Rows, State, rows_of
from holons.windows import WindowSpec

_TIME: Final = MaxRegister()
_TIME_WIDTH: Final = len(_TIME.zero(0))


@dataclass(frozen=True)
class Handle:
    """A frozen description; running state lives in `Contributions` (writing) and `Replica` (reading).

    `shared` handles are replicated. The values of others stay with their partition: their seals only say that something
    was inserted. `accumulate` carries a partition's state from window to window. Later stages may read a handle too,
    unless it is for its `own_stage` alone: then it is dropped as soon as that stage is past.

    A handle of count windows is a **lane**: a clock of its own beside the stages, on the axis of ranks. `stage` is the
    number of that clock; those of lanes follow on those of the stages.
    """

    name: str
    aggregate: Aggregate[Any]
    window: WindowSpec
    stage: int = 0
    shared: bool = True
    accumulate: bool = False
    keep_us: int = 0
    own_stage: bool = False

    def read_to(self, emitted_to: Sequence[int], stages: int) -> int:
        """Returns how far all of so many stages that may read this handle have emitted, from how far each clock has."""
        return emitted_to[self.stage] if self.own_stage else min(emitted_to[self.stage : stages])

    @property
    def pane_aggregate(self) -> Aggregate[Any]:
        """What is folded into one pane: where windows are stitched, a fragment (first, last, partial) for each key.

        Where rows are counted, the time of the last one beside their aggregate.
        """
        if self.window.counted:
            return Product(last=_TIME, rows=self.aggregate)
        return self.aggregate if self.window.known_ahead else MergeMap(self.fragment)

    @property
    def fragment(self) -> Product:
        """What one pane knows of one key's window."""
        return Product(first=MinRegister(), last=MaxRegister(), partial=self.aggregate)

    def counted_state(self, last: int, state: State) -> State:
        """The state of a pane of counted rows, whose last one is at an instant."""
        return *_TIME.fold(Groups.single(1), rows_of(last)), *state

    @property
    def replicated(self) -> Handle:
        """The handle as replicas know it: of counted rows that stay with their partition, when the last one was."""
        return replace(self, aggregate=_TIME) if self.window.counted and not self.shared else self

    def seal(self, pane_state: State) -> bytes:
        """What others learn of a pane, as bytes; an empty sketch may be large, so it is not sent."""
        known = self.replicated
        if known is not self:
            pane_state = known.counted_state(self.last_time(pane_state), known.aggregate.zero(1))
        return known.pane_aggregate.encode(pane_state)

    def aggregate_state(self, pane_state: State) -> State:
        """The state of the aggregate alone."""
        return pane_state[_TIME_WIDTH:] if self.window.counted else pane_state

    def last_time(self, pane_state: State) -> int:
        """When the last of the counted rows was."""
        return int(_TIME.value(pane_state[:_TIME_WIDTH]) or 0)

    def pane_rows(self, rows: Rows) -> Rows:
        """Rows as `pane_aggregate` wants them. Where windows are stitched, the element is (key, element)."""
        if self.window.known_ahead:
            return rows
        assert isinstance(rows.element, tuple), "the element of a stitched window comes with its key"
        key, element = rows.element
        return rows.with_element((key, {"first": rows.ts, "last": rows.ts, "partial": element}))
