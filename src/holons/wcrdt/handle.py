"""The description of a windowed value: which aggregate, over which windows, in which stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holons.algebra import Aggregate, MaxRegister, MergeMap, MinRegister, Product, Rows
from holons.windows import FixedSpec, Session, WindowSpec


@dataclass(frozen=True)
class Handle:
    """A frozen description; running state lives in `Contributions` (writing) and `Replica` (reading).

    `shared` handles are replicated. The others stay with their partition: of them, a seal only says that something
    was inserted. `accumulate` carries a partition's state from window to window. Later stages may read a handle too,
    unless it is for its `own_stage` alone: then it is let go of as soon as that one is past.
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
        """How far all who may read it have emitted, given that of each stage."""
        return emitted_to[self.stage] if self.own_stage else min(emitted_to[self.stage :])

    @property
    def pane_aggregate(self) -> Aggregate[Any]:
        """What is folded into one pane: for sessions, a fragment (first, last, partial) for each key."""
        if isinstance(self.window, Session):
            return MergeMap(self.fragment)
        return self.aggregate

    @property
    def fragment(self) -> Product:
        """What one pane knows of one key's session."""
        return Product(first=MinRegister(), last=MaxRegister(), partial=self.aggregate)

    @property
    def fixed(self) -> FixedSpec:
        """The window specification of a handle that is not a session."""
        assert isinstance(self.window, FixedSpec), f"{self.name} has session windows"
        return self.window

    def pane_rows(self, rows: Rows) -> Rows:
        """Rows as `pane_aggregate` wants them. For sessions the element is (key, element)."""
        if not isinstance(self.window, Session):
            return rows
        assert isinstance(rows.element, tuple), "a session's element comes with its key"
        key, element = rows.element
        return rows.with_element((key, {"first": rows.ts, "last": rows.ts, "partial": element}))
