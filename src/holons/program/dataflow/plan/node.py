"""What all steps of a plan have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, Literal, TypeAlias

import polars as pl

from holons.program.dataflow.plan.rules import Rules, check_rules
from holons.program.lines import line_of_user, written_at
from holons.windows import AlignedSpec, WindowSpec

Place: TypeAlias = Literal["rows", "local", "spread", "gathered"]

START: Final = "window_start"
END: Final = "window_end"
INSTANT: Final = pl.Datetime("us", "UTC")
WINDOW_COLUMNS: Final = {START: INSTANT, END: INSTANT}
LAST_TIME: Final = "window_time"
COUNTED_COLUMNS: Final = {START: pl.Int64(), END: pl.Int64(), LAST_TIME: INSTANT}
"""Of count windows: ranks, and when the last row was."""


@dataclass(frozen=True)
class WindowSet:
    """Windows that are completed together: of one stage and one specification; sessions and count windows by themselves."""

    stage: int
    window: WindowSpec
    apart: PlanNode | None = None

    @property
    def columns(self) -> Mapping[str, pl.DataType]:
        """The columns that say which window a result is of."""
        return window_columns(self.window)


def window_columns(window: WindowSpec) -> Mapping[str, pl.DataType]:
    """Returns the columns that say which window a result is of."""
    return COUNTED_COLUMNS if window.counted else WINDOW_COLUMNS


@dataclass(frozen=True, eq=False)
class PlanNode(ABC):
    """A step of a plan. Knows where it was written, and what would be wrong with it."""

    line: ClassVar[str] = ""
    """Where it was written. No field: it does not count for what a job does."""
    rules: ClassVar[Rules] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "line", line_of_user())
        with written_at(self.line, self, building=True):
            self.check()
            _ = self.schema

    @property
    @abstractmethod
    def inputs(self) -> tuple[PlanNode, ...]: ...

    @cached_property
    @abstractmethod
    def schema(self) -> pl.Schema | None:
        """The columns, if they are known."""

    @property
    def column_names(self) -> str:
        """The names of the known columns: for messages."""
        return ", ".join(self.schema or ())

    @cached_property
    def windows(self) -> WindowSet | None:
        """Which windows it belongs to; None for rows of a stream."""
        return self.inputs[0].windows

    @cached_property
    def place(self) -> Place:
        return self.inputs[0].place

    @cached_property
    def grain(self) -> AlignedSpec | None:
        """Windows within which times of results are not told apart; None: each result has its window's."""
        return self.inputs[0].grain if self.inputs else None

    @cached_property
    def next_stage(self) -> int:
        """The stage of windows over this."""
        return 0 if self.windows is None else self.windows.stage + 1

    @property
    def counts_rows(self) -> bool:
        """Whether these are results of count windows."""
        return self.windows is not None and self.windows.window.counted

    def check(self) -> None:
        """Raises unless it can be done."""
        check_rules(self, self.line, self.rules)

    @abstractmethod
    def __str__(self) -> str: ...


def nodes(*ends: PlanNode) -> Iterator[PlanNode]:
    """Yields all steps that lead to some, each once, inputs first."""
    seen: set[int] = set()

    def visit(node: PlanNode) -> Iterator[PlanNode]:
        if id(node) not in seen:
            seen.add(id(node))
            for before in node.inputs:
                yield from visit(before)
            yield node

    for end in ends:
        yield from visit(end)
