"""Which columns a plan reads: of its streams, where the others need not be read at all, and of rows that a join keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import polars as pl

from holons.program.dataflow import measures, steps
from holons.program.dataflow.measure import Column, Measure
from holons.program.dataflow.plan import (
    Aggregation,
    At,
    Gathered,
    Join,
    Pair,
    PlanNode,
    Sink,
    Source,
    Stepped,
    Union,
    nodes,
)
from holons.program.dataflow.using import Using

Names: TypeAlias = frozenset[str] | None
"""Columns; None: all of them, whatever they are."""
Side: TypeAlias = Literal["left", "right"]


@dataclass(frozen=True)
class Needs:
    """What is read of a plan's streams, by name, and of its joins, by their place among all nodes."""

    streams: dict[str, Names]
    joins: dict[int, Names]


def columns_needed(sinks: Sequence[Sink]) -> Needs:
    """Returns the columns that some step or sink reads."""
    wanted: dict[int, Names] = {}

    def want(node: PlanNode, names: Names) -> None:
        wanted[id(node)] = _both(wanted[id(node)], names) if id(node) in wanted else names

    for sink in sinks:
        want(sink.node, _all(sink.node))
    needed = Needs({}, {})
    every = list(enumerate(nodes(*(sink.node for sink in sinks))))
    for place, node in reversed(every):  # whoever needs a node comes first
        names = wanted[id(node)]
        if isinstance(node, Source):
            needed.streams[node.stream] = _both(needed.streams.get(node.stream, frozenset()), names)
        elif isinstance(node, Join):
            needed.joins[place] = names
        for before, read in _reads(node, names):
            want(before, read)
    return needed


def kept_of(node: Join, names: Names, side: Side) -> tuple[str, ...]:
    """Returns the columns of one side that a join has to keep, if `names` are read of the join."""
    before = node.left if side == "left" else node.right
    keys = {left if side == "left" else right for left, right in node.on}
    return tuple(name for name in before.schema or () if names is None or name in names or name in keys)


def line_that_reads(every: Iterable[PlanNode], stream: str, column: str) -> str:
    """Returns the line of the first step that names a column of a stream; else that of the stream's source."""
    line = ""
    for node in every:
        if isinstance(node, Source) and node.stream == stream:
            line = line or node.line
        elif any(names and column in names for _, names in _reads(node, frozenset())):
            return node.line
    return line


def _reads(node: PlanNode, names: Names) -> list[tuple[PlanNode, Names]]:
    """Returns what a step reads of its inputs, if `names` are read of the step."""
    if isinstance(node, Stepped):
        return [(node.before, _step_reads(node.step, node.before, names))]
    if isinstance(node, Union):
        return [(part, names) for part in node.parts]
    if isinstance(node, Aggregation):
        read = [_measure_reads(measure) for _, measure in node.measures]
        return [(node.before, _both(frozenset(node.keys), *read))]
    if isinstance(node, Gathered):
        return [(node.before, _all(node.before))]
    if isinstance(node, At):
        return [(node.before, _both(names, frozenset([node.time])))]
    if isinstance(node, Join):
        return [
            (node.left, frozenset(kept_of(node, names, "left"))),
            (node.right, frozenset(kept_of(node, names, "right"))),
        ]
    assert isinstance(node, Source | Pair)
    return [(before, _all(before)) for before in node.inputs]


def _step_reads(step: steps.Step, before: PlanNode, names: Names) -> Names:
    if isinstance(step, steps.Filter):
        return _both(names, _roots(step.conditions))
    if isinstance(step, steps.Columns):
        made = {column.meta.output_name() for column in step.columns if not column.meta.has_multiple_outputs()}
        kept = frozenset() if not step.more else None if names is None else names - made
        return _both(kept, _roots(step.columns))
    if isinstance(step, steps.Lookup):
        added = frozenset(step.table.frame.columns)
        return _both(None if names is None else names - added, _roots([step.on]))
    if isinstance(step, steps.Explode) and isinstance(step.items, str | pl.Expr):
        items = pl.col(step.items) if isinstance(step.items, str) else step.items
        return _both(None if names is None else names - {step.name}, _roots([items]))
    return _all(before)  # a function may look at any column


def _measure_reads(measure: Measure) -> Names:
    where = frozenset() if measure.where is None else _roots([measure.where])
    if isinstance(measure, measures.Top):
        return _both(frozenset((*measure.by, *measure.columns)), where)
    if isinstance(measure, Using):
        return _both(_columns(measure.columns), where)
    column = getattr(measure, "column", None)
    return _both(frozenset() if column is None else _columns([column]), where)


def _columns(columns: Iterable[Column]) -> Names:
    return _roots(pl.col(column) if isinstance(column, str) else column for column in columns)


def _roots(expressions: Iterable[pl.Expr]) -> Names:
    names: set[str] = set()
    for expression in expressions:
        if expression.meta.has_multiple_outputs():
            return None
        names.update(expression.meta.root_names())
    return frozenset(names)


def _all(node: PlanNode) -> Names:
    return None if node.schema is None else frozenset(node.schema)


def _both(*several: Names) -> Names:
    union: frozenset[str] = frozenset()
    for names in several:
        if names is None:
            return None
        union |= names
    return union
