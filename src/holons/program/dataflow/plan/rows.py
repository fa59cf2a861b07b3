"""Steps over the rows of streams: where they come from, what is done to each, several streams as one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from holons.program.dataflow.plan.node import Place, PlanNode, WindowSet
from holons.program.dataflow.plan.rules import Rule, missing, no_time, row_rules, time_rule
from holons.program.dataflow.steps import Step
from holons.program.digest import LATER
from holons.windows import Duration, micros
from holons.windows.duration import duration_text


@dataclass(frozen=True, eq=False)
class Source(PlanNode):
    """The rows of a stream."""

    stream: str
    time: str
    disorder: Duration
    max_future: Duration | None
    columns: pl.Schema | None
    whole: bool = field(default=False, metadata={LATER: True})

    rules = (
        Rule(
            lambda node: missing([node.time], node.columns),
            "stream {node.stream!r} has no time column {0[0]!r}",
            "name one of {node.column_names}: h.source({node.stream!r}, time=...)",
        ),
        time_rule(lambda node: no_time(node.time, node.columns)),
    )

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        return ()

    @cached_property
    def schema(self) -> pl.Schema | None:
        return self.columns

    @cached_property
    def windows(self) -> WindowSet | None:
        return None

    @cached_property
    def place(self) -> Place:
        return "rows"

    @property
    def clock(self) -> tuple[str, Duration, Duration | None]:
        """What moves its clock."""
        return self.time, self.disorder, self.max_future

    def check(self) -> None:
        for duration in (self.disorder, self.max_future):  # says what is wrong with it
            if duration not in ("auto", None):
                micros(duration, zero_allowed=True)
        super().check()

    def __str__(self) -> str:
        disorder_us = micros(self.disorder, zero_allowed=True)
        disorder = f", disorder {duration_text(disorder_us)}" if disorder_us else ""
        max_future = "" if self.max_future == "auto" else f", max_future {self.max_future or 'none'}"
        return f"source {self.stream} (time {self.time}{disorder}{max_future}{', whole' if self.whole else ''})"


@dataclass(frozen=True, eq=False)
class Stepped(PlanNode):
    """Rows after something was done to each: rows of a stream, or results."""

    before: PlanNode
    step: Step

    rules = row_rules(lambda node: [node.step])

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        return (self.before,)

    @cached_property
    def schema(self) -> pl.Schema | None:
        return None if self.before.schema is None else self.step.schema(self.before.schema)

    def __str__(self) -> str:
        return str(self.step)


@dataclass(frozen=True, eq=False)
class Union(PlanNode):
    """The rows of several streams."""

    parts: tuple[PlanNode, ...]

    rules = (
        Rule(
            lambda node: any(part.windows is not None for part in node.parts),
            "union takes streams",
            "union before the window, or use several sinks",
        ),
        Rule(
            lambda node: node.different(),
            "union of different columns: there are {0[0].column_names}, and there are {0[1].column_names}",
            "select the same columns of both, in the same types and order",
        ),
    )

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        return self.parts

    @cached_property
    def schema(self) -> pl.Schema | None:
        return self.parts[0].schema

    def different(self) -> tuple[PlanNode, PlanNode] | None:
        """Returns two parts that are known to have different columns."""
        known = [part for part in self.parts if part.schema is not None]
        return next(((known[0], part) for part in known if part.schema != known[0].schema), None)

    def __str__(self) -> str:
        return f"union of {len(self.parts)}"
