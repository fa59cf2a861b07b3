"""What users' expressions say: whether they look at one row at a time, and how they read.

Rows come in batches whose ends are an accident, and the rows of a window are shared out among partitions. So an expression
must give a row the same value whatever rows are beside it: `shift`, `mean` or `rank` of a column do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import polars as pl

_COLUMN: Final = re.compile(r'col\("([^"]*)"\)')
_LITERAL: Final = re.compile(r"dyn \w+: ")
_BINARY: Final = re.compile(r"\[\(([^\[\]]*)\) ([^\w\s()]+) \(([^\[\]]*)\)\]")


def words(expression: pl.Expr) -> str:
    """Returns an expression for people: polars' own text, with fewer brackets.

    >>> words((pl.col("price") > 10) & pl.col("open")), words((2 * pl.col("price")).alias("twice"))
    ('(price > 10) & open', 'twice = 2 * price')
    """
    text, before = _LITERAL.sub("", _COLUMN.sub(r"\1", str(expression))), ""
    while text != before:
        before, text = text, _BINARY.sub(r"(\1 \2 \3)", text)
    named = re.fullmatch(r'(.*)\.alias\("([^"]*)"\)', text)
    return f"{named[2]} = {_bare(named[1])}" if named else _bare(text)


def _bare(text: str) -> str:
    bare = re.fullmatch(r"\((.*)\)", text)
    return bare[1] if bare and _balanced(bare[1]) else text


def _balanced(text: str) -> bool:
    """Returns whether every bracket in a text is closed, and none before it is opened."""
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


def across_rows(item: object) -> str | None:
    """Returns the part of a step or measure that looks beyond its row, if there is one that polars can tell.

    >>> across_rows(pl.col("price") > pl.col("price").mean())
    'price.mean()'
    >>> across_rows(pl.col("names").list.sort().list.first())
    """
    for expression in _expressions(item):
        for part in (*_inputs(expression), expression):  # inner ones first: they name the reason
            if not _by_row(part):
                return words(part)
    return None


def _expressions(item: object) -> Iterator[pl.Expr]:
    """Yields the expressions in the fields of a step or measure."""
    if isinstance(item, pl.Expr):
        yield item
    elif isinstance(item, tuple):
        for part in item:
            yield from _expressions(part)
    elif hasattr(item, "__dataclass_fields__"):
        for name in item.__dataclass_fields__:
            value = getattr(item, name)
            if isinstance(value, pl.Expr | tuple):
                yield from _expressions(value)


def _inputs(expression: pl.Expr) -> Iterator[pl.Expr]:
    for part in expression.meta.pop():
        yield from _inputs(part)
        yield part


def _by_row(expression: pl.Expr) -> bool:
    if expression.meta.is_literal() or _of_items(expression):
        return True
    try:
        return expression.meta.is_row_separable()
    except (AttributeError, pl.exceptions.PolarsError):  # an older polars; or it cannot be told without the columns
        return True


def _of_items(expression: pl.Expr) -> bool:
    """Returns whether an expression is about the items of a list, as in `list.eval`: these are all in one row."""
    return "element()" in str(expression) and not any(expression.meta.root_names())
