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
    """Returns the pairs with equal keys, in the order of the left rows, then of the right ones."""
    left_keys, right_keys = zip(*node.on, strict=True)
    return left.join(right, left_on=left_keys, right_on=right_keys, how=node.how, maintain_order="left_right")


def close_pairs(node: Join, bounds: Bounds, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Returns the pairs whose times (`TIME` of a left row, `RIGHT_TIME` of a right row) are within the bounds."""
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
    pairs = filtered(_without(left, TIME), pl.Series(chosen))
    added = _without(right, RIGHT_TIME, *(name for _, name in node.on))
    return pairs.hstack(added[places[chosen]]) if added.width else pairs


def _without(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    return pl.DataFrame([column for column in frame if column.name not in names])


def _only_matches(node: Join, left: pl.DataFrame, right: pl.DataFrame) -> IntArray | None:
    """Returns the place of each left row's right row, -1 for none; None if a row may have several, or keys are no integers.

    To look places up is many times as fast as to join, and most joins are of many facts with one thing each.
    """
    left_key, right_key = (side[name] for side, name in zip((left, right), node.on[0], strict=True))
    if len(node.on) > 1 or not left_key.dtype.is_signed_integer() or not len(right):
        return None
    if left_key.null_count() or right_key.null_count():
        return None
    return only_places(right_key.to_numpy(), left_key.to_numpy())
