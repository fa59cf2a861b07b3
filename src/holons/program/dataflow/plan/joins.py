"""Rows that belong together: of two streams, or of two results of the same windows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import polars as pl

from holons.program.dataflow.columns import packed
from holons.program.dataflow.plan.node import WINDOW_COLUMNS, Place, PlanNode, WindowSet
from holons.program.dataflow.plan.rules import CAST, SAY_THE_SCHEMA, Rule, missing
from holons.windows import AlignedSpec
from holons.windows.duration import duration_text


@dataclass(frozen=True, eq=False)
class Bounds:
    """How far apart two rows may be that belong together: the right one `before` to `after` the left one."""

    before_us: int
    after_us: int

    def __str__(self) -> str:
        reach = {"before": self.before_us, "after": self.after_us}
        parts = [f"{duration_text(micros)} {word}" for word, micros in reach.items() if micros]
        return f"at most {' or '.join(parts)}" if parts else "at the same time"


def _different_types(left: pl.Schema, right: pl.Schema, on: tuple[tuple[str, str], ...]) -> list[tuple[object, ...]]:
    """Returns pairs of columns with different types, each as (left name, left type, right name, right type)."""
    return [(mine, left[mine], other, right[other]) for mine, other in on if left[mine] != right[other]]


@dataclass(frozen=True, eq=False)
class Join(PlanNode):
    """Pairs of rows of two streams: left rows stay with their partition, right ones are replicated."""

    left: PlanNode
    right: PlanNode
    on: tuple[tuple[str, str], ...]
    how: Literal["inner", "left", "semi", "anti"]
    window: AlignedSpec
    bounds: Bounds | None

    rules = (
        Rule(
            lambda node: node.left.counts_rows or node.right.counts_rows or node.window.counted,
            "a join over count windows, whose rows are known only once they are cut",
            "join rows by time, a.join(b, before=...), or windows of time",
        ),
        Rule(
            lambda node: node.left.schema is None or node.right.schema is None,
            "a join keeps rows, so it must know their columns",
            SAY_THE_SCHEMA,
        ),
        Rule(
            lambda node: node.left.next_stage != node.right.next_stage,
            "a join of a stream and of completed windows",
            "join two streams, or two results of the same number of windows",
        ),
        Rule(
            lambda node: node.how not in ("inner", "left", "semi", "anti"),
            "a join has no how={node.how!r}",
            "inner, left, semi or anti",
        ),
        Rule(lambda node: not node.on, "a join on no column", 'name those that are equal: on="auction"'),
        Rule(
            lambda node: missing((mine for mine, _ in node.on), node.left.schema),
            "the left side has no column {0[0]!r}",
            "there are {node.left.column_names}",
        ),
        Rule(
            lambda node: missing((other for _, other in node.on), node.right.schema),
            "the right side has no column {0[0]!r}",
            "there are {node.right.column_names}",
        ),
        Rule(
            lambda node: _different_types(node.left.schema, node.right.schema, node.on),
            "{0[0][0]} is {0[0][1]}, and {0[0][2]} is {0[0][3]}",
            CAST,
        ),
        Rule(
            lambda node: ", ".join(sorted(set(node.left.schema) & set(node.added))),
            "both sides have {0}",
            "select or rename the columns of one side first",
        ),
        Rule(
            lambda node: node.bounds is not None and node.how != "inner",
            "a join within a time has no how={node.how!r}",
            "join windows for that",
        ),
    )

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        return self.left, self.right

    @cached_property
    def schema(self) -> pl.Schema | None:
        left, right = self.left.schema, self.right.schema
        assert left is not None
        assert right is not None
        windows = {} if self.bounds is not None else WINDOW_COLUMNS
        return pl.Schema({**windows, **left, **windows, **{name: right[name] for name in self.added}})

    @property
    def added(self) -> list[str]:
        """The right columns that a pair has."""
        assert self.right.schema is not None
        keys = {right for _, right in self.on} | (set(WINDOW_COLUMNS) if self.bounds is None else set())
        return [] if self.how in ("semi", "anti") else [name for name in self.right.schema if name not in keys]

    @cached_property
    def grain(self) -> AlignedSpec | None:
        return self.window

    @cached_property
    def windows(self) -> WindowSet:
        return WindowSet(self.left.next_stage, self.window)

    @cached_property
    def place(self) -> Place:
        return "local"

    def check(self) -> None:
        super().check()
        for side in (self.left, self.right):
            assert side.schema is not None
            packed(side.schema.to_frame(), tuple(side.schema))  # says which column cannot be kept

    def __str__(self) -> str:
        on = " and ".join(f"{left} = {right}" for left, right in self.on)
        return f"{self.how} join on {on}, {self.window}{'' if self.bounds is None else f', {self.bounds}'}"


@dataclass(frozen=True, eq=False)
class Pair(PlanNode):
    """Results of the same windows side by side: of one row each, or by columns that they share."""

    left: PlanNode
    right: PlanNode
    on: tuple[str, ...]
    how: Literal["inner", "left"]

    rules = (
        Rule(
            lambda node: (node.left.counts_rows or node.right.counts_rows) and node.left.windows != node.right.windows,
            "these count rows each by itself, so they do not have the same windows",
            "name all measures in one agg(...): they are over the same rows",
        ),
        Rule(
            lambda node: not node.same_windows(),
            "these do not have the same windows",
            "both sides need windows of the same size and step; rows of streams are joined by `join`",
        ),
        Rule(
            lambda node: node.right.place == "local" and node.left.place != "local",
            "each partition has a right side of its own",
            "swap the sides",
        ),
        Rule(
            lambda node: node.how not in ("inner", "left"),
            "a join of windows has no how={node.how!r}",
            'how="inner" or how="left"',
        ),
        Rule(
            lambda node: node.how == "left" and node.left.windows.stage < node.right.windows.stage,
            "the right side comes from a later stage, and says nothing of windows that it does not have",
            'how="inner"; or join a left side of the same number of windows',
        ),
        Rule(
            lambda node: node.how == "left" and node.right.schema is None,
            "a left join must know the columns of its right side",
            SAY_THE_SCHEMA,
        ),
        Rule(
            lambda node: node.is_known and missing(node.on, node.left.schema),
            "one side has no column {0[0]!r}",
            "there are {node.left.column_names}",
        ),
        Rule(
            lambda node: node.is_known and missing(node.on, node.right.schema),
            "one side has no column {0[0]!r}",
            "there are {node.right.column_names}",
        ),
        Rule(
            lambda node: (
                node.is_known
                and _different_types(node.left.schema, node.right.schema, tuple(zip(node.on, node.on, strict=True)))
            ),
            "{0[0][0]} is {0[0][1]}, and {0[0][3]} on the right side",
            CAST,
        ),
        Rule(
            lambda node: node.is_known and ", ".join(node.in_both()),
            "both sides have {0}",
            "rename the columns of one side",
        ),
    )

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        return self.left, self.right

    @cached_property
    def schema(self) -> pl.Schema | None:
        if self.left.schema is None or self.right.schema is None:
            return None
        shared = (*self.window_columns, *self.on)
        return pl.Schema({**self.left.schema, **{n: t for n, t in self.right.schema.items() if n not in shared}})

    @cached_property
    def windows(self) -> WindowSet | None:
        left, right = self.left.windows, self.right.windows
        assert left is not None
        assert right is not None
        return left if left.stage >= right.stage else right

    @property
    def window_columns(self) -> tuple[str, ...]:
        """The columns that say which window a result is of: the same on both sides."""
        windows = self.left.windows
        return () if windows is None else tuple(windows.columns)

    @property
    def is_known(self) -> bool:
        """Whether the columns of both sides are known."""
        return self.left.schema is not None and self.right.schema is not None

    def same_windows(self) -> bool:
        """Returns whether both sides are results of windows with the same edges, known before any row comes."""
        left, right = self.left.windows, self.right.windows
        return left is not None and right is not None and left.window == right.window and left.window.known_ahead

    def in_both(self) -> list[str]:
        """Returns the columns that both sides have, beside those by which they are joined."""
        left, right = self.left.schema or pl.Schema(), self.right.schema or pl.Schema()
        return sorted((set(left) & set(right)) - {*self.window_columns, *self.on})

    def __str__(self) -> str:
        return f"{self.how} join of windows on {', '.join(self.on)}" if self.on else "zip"
