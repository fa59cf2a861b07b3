"""A pipeline as a plan: what comes from where, with its columns, its windows, and who computes it.

Each partition handles the rows of a stream for itself, in `process`. What follows a window is computed when the window is
completed, in `on_window`, and then its **place** says by whom:

- `local`: each partition has rows of its own (an aggregate per partition, a join);
- `spread`: every partition could read all of it, and takes its share of the keys;
- `gathered`: one partition speaks for all.

Read `node.py` (what all steps have in common) and `rules.py` (how a step says what is wrong with it), then the steps.
"""

from holons.program.dataflow.plan.aggregation import Aggregation
from holons.program.dataflow.plan.joins import Bounds, Join, Pair
from holons.program.dataflow.plan.node import (
    END,
    INSTANT,
    LAST_TIME,
    START,
    Place,
    PlanNode,
    WindowSet,
    nodes,
    window_columns,
)
from holons.program.dataflow.plan.results import At, Gathered, Sink
from holons.program.dataflow.plan.rows import Source, Stepped, Union

__all__ = [
    "END",
    "INSTANT",
    "LAST_TIME",
    "START",
    "Aggregation",
    "At",
    "Bounds",
    "Gathered",
    "Join",
    "Pair",
    "Place",
    "PlanNode",
    "Sink",
    "Source",
    "Stepped",
    "Union",
    "WindowSet",
    "nodes",
    "window_columns",
]
