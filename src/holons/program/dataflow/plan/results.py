"""Steps over the results of completed windows, and where rows go in the end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import polars as pl

from holons.program.dataflow.plan.node import Place, PlanNode
from holons.program.dataflow.plan.rules import Rule, missing, no_time, time_rule
from holons.program.lines import line_of_user
from holons.windows import AlignedSpec


@dataclass(frozen=True, eq=False)
class Gathered(PlanNode):
    """All rows of a window in one place: the top ones, or each once, or in order."""

    before: PlanNode
    what: Literal["top_k", "unique", "sort"]
    by: tuple[str, ...]
    n: int = 0
    ties: bool = False
    descending: bool = True

    rules = (
        Rule(
            lambda node: node.before.place == "local",
            "{node.what} needs all rows, and each partition has its own",
            "aggregate them in a window first: .window(...).agg(best=h.top_k(...))",
        ),
        Rule(
            lambda node: node.windows is None or not node.by,
            "{node.what} by no column",
            'name some: top_k(3, by="price")',
        ),
        Rule(
            lambda node: node.what == "top_k" and node.n < 1,
            "the top {node.n} rows",
            "ask for one or more: top_k(3, by=...)",
        ),
        Rule(
            lambda node: missing(node.by, node.before.schema),
            "no column {0[0]!r}",
            "there are {node.before.column_names}",
        ),
    )

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        return (self.before,)

    @cached_property
    def schema(self) -> pl.Schema | None:
        return self.before.schema

    @cached_property
    def place(self) -> Place:
        return "gathered"

    def __str__(self) -> str:
        if self.what == "top_k":
            return f"top {self.n} by {', '.join(self.by)}{' with ties' if self.ties else ''}"
        return f"{self.what} {', '.join(self.by)}"


@dataclass(frozen=True, eq=False)
class At(PlanNode):
    """Results counted at another time than that of their window, never an earlier one."""

    before: PlanNode
    time: str

    rules = (
        Rule(
            lambda node: node.windows is None,
            "rows of a stream have their own time",
            "h.source(..., time={node.time!r}), or after a window",
        ),
        Rule(
            lambda node: node.counts_rows,
            "results of {node.windows.window} have ranks, and count in no later window",
            "put them out, .to(...), and begin another job there",
        ),
        Rule(lambda node: missing([node.time], node.schema), "no column {0[0]!r}", "there are {node.column_names}"),
        time_rule(lambda node: no_time(node.time, node.schema)),
    )

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        return (self.before,)

    @cached_property
    def grain(self) -> AlignedSpec | None:
        window = self.windows.window if self.windows is not None else None
        return window.aligned if window is not None and window.known_ahead else None

    @cached_property
    def schema(self) -> pl.Schema | None:
        return self.before.schema

    def __str__(self) -> str:
        return f"at {self.time}"


@dataclass(frozen=True, eq=False)
class Sink:
    """Where rows go: a channel of the job."""

    line: ClassVar[str] = ""
    """Where it was written; no field, as in steps."""

    node: PlanNode
    channel: str
    discard: bool = False
    """Whether the rows are only made, and go nowhere."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "line", line_of_user())
