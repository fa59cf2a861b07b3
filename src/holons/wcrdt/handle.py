"""The description of a windowed value: which aggregate, over which windows, in which stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holons.algebra import Aggregate, MaxRegister, MergeMap, MinRegister, Product, Rows
from holons.windows import WindowSpec


@dataclass(frozen=True)
class Handle:
    """A frozen description; running state lives in `Contributions` (writing) and `Replica` (reading).

    `shared` handles are replicated. The values of others stay with their partition: their seals only say that something
    was inserted. `accumulate` carries a partition's state from window to window. Later stages may read a handle too,
    unless it is for its `own_stage` alone: then it is dropped as soon as that stage is past.
    """

    name: str
    aggregate: Aggregate[Any]
    window: WindowSpec
    stage: int = 0
    shared: bool = True
    accumulate: bool = False
    keep_us: int = 0
    own_stage: bool = False

    def read_to(self, emitted_to: Sequence[int]) -> int:
        """Returns how far all stages that may read this handle have emitted, from how far each stage has."""
        return emitted_to[self.stage] if self.own_stage else min(emitted_to[self.stage :])

    @property
    def pane_aggregate(self) -> Aggregate[Any]:
        """What is folded into one pane: where windows are stitched, a fragment (first, last, partial) for each key."""
        return self.aggregate if self.window.known_ahead else MergeMap(self.fragment)

    @property
    def fragment(self) -> Product:
        """What one pane knows of one key's window."""
        return Product(first=MinRegister(), last=MaxRegister(), partial=self.aggregate)

    def pane_rows(self, rows: Rows) -> Rows:
        """Rows as `pane_aggregate` wants them. Where windows are stitched, the element is (key, element)."""
        if self.window.known_ahead:
            return rows
        assert isinstance(rows.element, tuple), "the element of a stitched window comes with its key"
        key, element = rows.element
        return rows.with_element((key, {"first": rows.ts, "last": rows.ts, "partial": element}))
