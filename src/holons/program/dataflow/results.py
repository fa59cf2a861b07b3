"""What is done to the rows of completed windows: in which order they come, at which times they count, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from holons.algebra import IntArray, Keyed
from holons.errors import BadInput, BadProgram
from holons.program.dataflow.plan import END, INSTANT, LAST_TIME, START, At, Gathered, Pair, PlanNode, Stepped
from holons.program.dataflow.steps import Part
from holons.program.events import event_times
from holons.windows import Window


def stamped(frame: pl.DataFrame, window: Window, last: int | None = None) -> pl.DataFrame:
    """Returns the rows with their window in front; of a count window with ranks, and when its `last` row was."""
    edges = [pl.Series(name, [at], dtype=pl.Int64) for name, at in ((START, window.start), (END, window.end))]
    if last is None:
        edges = [edge.cast(INSTANT) for edge in edges]
    else:
        edges.append(pl.Series(LAST_TIME, [last], dtype=pl.Int64).cast(INSTANT))
    return pl.DataFrame([*(edge.new_from_index(0, len(frame)) for edge in edges), *frame])


def is_untyped(part: Part, node: PlanNode) -> bool:
    """Returns whether there is no row, and the types that it would have are not known: then no step can be tried."""
    return not len(part.frame) and node.schema is None


def after_step(node: Stepped | Gathered | At, part: Part, window: Window) -> Part:
    """Returns the rows after a step that needs nothing but them."""
    if isinstance(node, Stepped):
        return node.step.apply(part)
    if isinstance(node, Gathered):
        return _gathered(node, part)
    return Part(part.frame, later_times(part.frame[node.time], window, node.line))


def later_times(column: pl.Series, window: Window, line: str) -> IntArray:
    """Returns the times at which results of a window count: within it, all are the same to the windows that follow."""
    times = event_times(column, "results")
    if times.null_count() or (len(times) and int(times.min()) < window.start):  # type: ignore[arg-type]
        raise BadInput(
            f"{line}: {column.name!r} is null in some rows, or before {window}, which is completed",
            hint="filter such rows out before at(...)",
        )
    return np.maximum(times.to_numpy(), window.last)


def _gathered(node: Gathered, part: Part) -> Part:
    frame = part.frame
    if node.what == "unique":
        chosen = frame.select(pl.struct(node.by).is_first_distinct()).to_series().to_numpy()
        return part.take(chosen)
    numbered = frame.with_row_index("row!")
    if node.what == "top_k":
        numbered = _near_the_top(numbered, node.by[0], node.n)
    others = [name for name in frame.columns if name not in node.by and not frame.schema[name].is_nested()]
    down = [node.descending] * len(node.by) + [False] * len(others)
    by = [pl.col(name).fill_nan(None) if frame[name].dtype.is_float() else pl.col(name) for name in node.by]
    order = numbered.sort(*by, *others, descending=down, nulls_last=True, maintain_order=True)
    if node.what == "top_k" and len(order) > node.n:
        place = order.select(pl.struct(by).rle_id()).to_series()
        order = order.filter(place <= place[node.n - 1]) if node.ties else order.head(node.n)
    return part.take(order["row!"].to_numpy())


def _near_the_top(frame: pl.DataFrame, by: str, n: int) -> pl.DataFrame:
    """Drops most of the rows that are not among the top ones: all that are at least as large as the n-th are kept."""
    largest = frame[by].drop_nulls().top_k(n)
    return frame.filter(pl.col(by) >= largest.min()) if len(largest) == n and not frame[by].dtype.is_float() else frame


def largest(value: Keyed[Any], column: npt.NDArray[np.generic], n: int) -> Keyed[Any]:
    """Returns the keys that may be among the top ones: all with at least as much as the n-th, if that is an integer."""
    if column.dtype.kind != "i" or len(column) <= n:
        return value
    return value.where(column >= (column.max() if n == 1 else np.partition(column, -n)[-n]))


def paired(node: Pair, left: Part, right: Part) -> Part:
    """Returns the rows of both sides that belong together."""
    frame = right.frame.drop(node.window_columns, strict=False)
    if not node.on:
        if len(left.frame) > 1 or len(frame) > 1:
            raise BadProgram(
                f"{node.line}: zip of several rows", hint="name the columns that they share: join(..., on=...)"
            )
        both = min(len(left.frame), len(frame))
        return Part(pl.concat([left.frame.head(both), frame.head(both)], how="horizontal"), left.micros[:both])
    numbered = left.frame.with_row_index("row!")
    joined = numbered.join(frame, on=list(node.on), how=node.how, maintain_order="left_right")
    return Part(joined.drop("row!"), left.micros[joined["row!"].to_numpy()])
