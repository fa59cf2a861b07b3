"""Measures over windows: where rows become results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from holons.program.dataflow.measure import Measure
from holons.program.dataflow.plan.node import Place, PlanNode, WindowSet, window_columns
from holons.program.dataflow.plan.rules import Rule, missing, row_rules
from holons.windows import AlignedSpec, WindowSpec


@dataclass(frozen=True, eq=False)
class Aggregation(PlanNode):
    """Measures over windows: of everything, of each partition, or by key."""

    before: PlanNode
    window: WindowSpec
    keys: tuple[str, ...]
    measures: tuple[tuple[str, Measure], ...]
    accumulate: bool = False
    local: bool = False

    rules = (
        Rule(
            lambda node: node.before.counts_rows,
            "{node.window} over results of {node.before.windows.window}: these have ranks, and no time of their own",
            "a count window is the last one of a pipeline: put its rows out, .to(...), and begin another job there",
        ),
        Rule(
            lambda node: node.window.counted and node.before.windows is not None,
            "{node.window} over results of {node.before.windows.window}: rows of streams are counted",
            "count before the window, or use h.Tumbling or h.Sliding here",
        ),
        Rule(
            lambda node: node.window.counted and node.local,
            "per partition over {node.window}, most of which a partition may have no row of",
            "group_by a column that says where a row is from; or write a program with h.WLocal",
        ),
        Rule(
            lambda node: sorted({*window_columns(node.window), *node.keys} & dict(node.measures).keys()),
            "there would be two columns {0[0]!r}",
            "choose another name",
        ),
        Rule(
            lambda node: missing(node.keys, node.before.schema),
            "no column {0[0]!r} to group by",
            "there are {node.before.column_names}",
        ),
        Rule(
            lambda node: node.unfit_keys(),
            "{0[0]} cannot be a key",
            "round it, or format it as a string",
        ),
        Rule(lambda node: node.local and node.keys, "per partition and by key at once", "choose one of them"),
        Rule(
            lambda node: node.window.keyed and (node.accumulate or node.local or len(node.keys) > 1),
            "sessions are over all partitions, by at most one key, and do not accumulate",
            "with_columns a single key, or use h.Tumbling",
        ),
        Rule(
            lambda node: node.accumulate and not node.window.may_accumulate,
            "only tumbling windows accumulate",
            "h.Tumbling(...), accumulate=True",
        ),
        Rule(
            lambda node: node.window.keyed and not node.fits_grain(),
            "{node.window} over results of {node.before.grain}, which do not fit into it",
            "their times are known in steps of {node.before.grain} only, and a gap needs exact ones: "
            "h.Tumbling or h.Sliding",
        ),
        Rule(
            lambda node: not node.fits_grain(),
            "{node.window} over results of {node.before.grain}, which do not fit into it",
            "let it be whole multiples, or join(..., every=...) with a divisor of it",
        ),
        *row_rules(lambda node: [measure for _, measure in node.measures]),
    )

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        return (self.before,)

    @cached_property
    def schema(self) -> pl.Schema | None:
        before = self.before.schema
        measured = {name: measure.dtype(before) for name, measure in self.measures}
        if before is None or any(dtype is None for dtype in measured.values()):
            return None
        keys = {name: before[name] for name in self.keys}
        return pl.Schema({**window_columns(self.window), **keys, **measured})  # type: ignore[arg-type]

    @cached_property
    def grain(self) -> AlignedSpec | None:
        return None

    @cached_property
    def windows(self) -> WindowSet:
        together = self.window.known_ahead and not self.window.counted
        return WindowSet(self.before.next_stage, self.window, None if together else self)

    @cached_property
    def place(self) -> Place:
        return "local" if self.local else "spread" if self.keys else "gathered"

    def unfit_keys(self) -> list[pl.DataType]:
        """Returns the types of key columns that cannot be keys."""
        schema = self.before.schema
        dtypes = [] if schema is None else [schema[key] for key in self.keys]
        return [dtype for dtype in dtypes if dtype.is_float() or dtype.is_nested()]

    def fits_grain(self) -> bool:
        """Returns whether all times that are not told apart fall into the same windows."""
        return self.before.grain is None or self.window.is_made_of(self.before.grain)

    def check(self) -> None:
        super().check()
        for _, measure in self.measures:
            measure.check(self.before.schema)

    def __str__(self) -> str:
        by = f" by {', '.join(self.keys)}" if self.keys else " per partition" if self.local else ""
        measures = ", ".join(f"{name} = {measure}" for name, measure in self.measures)
        using = [name for name, measure in self.measures if measure.uses_columns and self.window.counted]
        counting = f" of rows that are not null for {' and '.join(using)}" if using else ""
        return f"{self.window}{counting}{' accumulating' if self.accumulate else ''}{by}: {measures}"
