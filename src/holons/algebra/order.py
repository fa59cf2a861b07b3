"""Total orders on numbers, as integers.

IEEE comparison leaves NaN out and calls -0.0 and 0.0 different bits; a tie broken by such an order would depend on
who asks. Here every number has an int64 key, and keys are compared as integers.

Law: `ascending(x) < ascending(y)` exactly if x comes before y, where -inf < ... < inf < NaN and -0.0 is 0.0;
`descending` is the reverse, except that NaN still comes last: not a number is never the best.

>>> ascending(np.array([-np.inf, -1.5, 0.0, 2.0, np.inf, np.nan])).argsort().tolist()
[0, 1, 2, 3, 4, 5]
>>> descending(np.array([1, 3, 2])).argsort().tolist()
[1, 2, 0]
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from holons.algebra.aggregate import IntArray
from holons.algebra.rows import Element, column
from holons.errors import BadElement

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


def numbers(element: Element, count: int, who: str) -> npt.NDArray[np.generic]:
    """An element as int64 or float64, whichever it is; booleans are 0 and 1."""
    values = column(element, count)
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "bif":
        raise BadElement(f"{who} takes numbers, not {values.dtype}", hint="select a numeric column")
    return values.astype(np.int64) if values.dtype.kind == "b" else values


def ascending(values: npt.NDArray[np.generic]) -> IntArray:
    """Keys in the order of the values, NaN after everything."""
    if values.dtype.kind != "f":
        return values.astype(np.int64, copy=False)
    bits: IntArray = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)  # type: ignore[operator]
    return bits ^ ((bits >> 63) & INT64_MAX)


def descending(values: npt.NDArray[np.generic]) -> IntArray:
    """Keys in the reverse order of the values, NaN after everything. `~x` reverses without overflow."""
    keys = ~ascending(values)
    if values.dtype.kind == "f":
        keys[np.isnan(values)] = INT64_MAX
    return keys
