"""Batches of rows that are difficult: extremes, NaN, ties, nulls, empty batches, rows that write twice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from holons.algebra import Origin, Rows
from holons.algebra.rows import prepare

INT64_MAX = 2**63 - 1

Elements = Callable[[int], st.SearchStrategy[object]]
"""An element for a number of rows: a list, a scalar, or a tuple or mapping of such."""


def column(values: st.SearchStrategy[object], *, nulls: bool = True) -> Elements:
    """Mostly a list, with nulls; sometimes one scalar for all rows."""
    maybe = st.one_of(values, values, values, st.none()) if nulls else values
    return lambda count: st.one_of(*[st.lists(maybe, min_size=count, max_size=count)] * 4, values)


def columns(*parts: Elements) -> Elements:
    return lambda count: st.tuples(*(part(count) for part in parts))


def named(**parts: Elements) -> Elements:
    return lambda count: st.fixed_dictionaries({name: part(count) for name, part in parts.items()})


small = st.integers(-3, 3)
any_int = st.one_of(small, st.sampled_from([-INT64_MAX - 1, -INT64_MAX, INT64_MAX, 2**53, 2**53 + 1]))
count = st.one_of(st.integers(0, 3), st.sampled_from([2**31, 2**54, 2**56 + 1]))
signed = st.one_of(small, st.sampled_from([-(2**56), 2**56 + 1]))
plain_float = st.one_of(
    st.integers(-3, 3).map(float), st.sampled_from([0.1, 0.2, 0.3, 1e16, -1e16, 1e-308, 5e-324, -1.7e308, 1.7e308])
)
any_float = st.one_of(plain_float, st.sampled_from([-0.0, np.nan, np.inf, -np.inf]))
text = st.sampled_from(["", "a", "b", "ab", "é", "\x00", "a\x00", "\U0001f600", "\uffff"])
flag = st.booleans()

INTS = column(any_int)
COUNTS = column(count)
SIGNED = column(signed)
FLOATS = column(any_float)
TEXTS = column(text)
FLAGS = column(flag)
SMALL = column(small)


@st.composite
def batches(draw: st.DrawFn, elements: Elements, *, most: int = 4, rows_max: int = 9) -> list[Rows]:
    """A few batches from a few partitions. Offsets within a batch may repeat: one row may insert more than once."""
    return [draw(rows(elements, batch, rows_max)) for batch in range(draw(st.integers(1, most)))]


@st.composite
def rows(draw: st.DrawFn, elements: Elements, batch: int, rows_max: int) -> Rows:
    n = draw(st.integers(0, rows_max))
    ts = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), dtype=np.int64)
    index = np.array(draw(st.lists(st.integers(0, rows_max), min_size=n, max_size=n)), dtype=np.int64)
    origin = Origin(partition=draw(st.integers(0, 2)), base=1000 * batch, count=n, index=index)
    return prepare(draw(elements(n)), ts, origin)
