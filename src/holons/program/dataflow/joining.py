"""Pairs of rows that belong together. All of the right side is at hand wherever a left row is, so nothing travels."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from holons.algebra import IntArray
from holons.algebra.keys import only_places
from holons.algebra.ranked import TIME
from holons.program.dataflow.plan import Bounds, Join
from holons.program.dataflow.steps import filtered

RIGHT_TIME: Final = "right time!"


def joined(node: Join, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """The pairs with equal keys, in the order of the left rows, then of the right ones."""
    mine, theirs = zip(*node.on, strict=True)
    return left.join(right, left_on=mine, right_on=theirs, how=node.how, maintain_order="left_right")


def close_pairs(node: Join, bounds: Bounds, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """The same, of rows that are not too far apart: `TIME` of a left row, `RIGHT_TIME` of a right one. Both are dropped."""
    places = _only_matches(node, left, right)
    if places is None:
        distance = pl.col(RIGHT_TIME) - pl.col(TIME)
        close = (distance >= -bounds.before_us) & (distance <= bounds.after_us)
        return joined(node, left, right).filter(close).drop(TIME, RIGHT_TIME)
    apart = right[RIGHT_TIME].to_numpy()[places]
    apart -= left[TIME].to_numpy()
    apart += bounds.before_us
    chosen = apart.view(np.uint64) <= np.uint64(bounds.before_us + bounds.after_us)  # what is negative is far beyond
    chosen &= places >= 0
    mine = filtered(_without(left, TIME), pl.Series(chosen))
    theirs = _without(right, RIGHT_TIME, *(name for _, name in node.on))
    return mine.hstack(theirs[places[chosen]]) if theirs.width else mine


def _without(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    return pl.DataFrame([column for column in frame if column.name not in names])


def _only_matches(node: Join, left: pl.DataFrame, right: pl.DataFrame) -> IntArray | None:
    """Where the right row of each left one is, -1: nowhere; None if there may be several, or keys are no integers.

    To look places up is many times as fast as to join, and most joins are of many facts with one thing each.
    """
    mine, theirs = (side[name] for side, name in zip((left, right), node.on[0], strict=True))
    if len(node.on) > 1 or not mine.dtype.is_signed_integer() or not len(right):
        return None
    if mine.null_count() or theirs.null_count():
        return None
    return only_places(theirs.to_numpy(), mine.to_numpy())
