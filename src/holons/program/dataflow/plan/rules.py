"""What must not hold of a step of a plan, as data: a condition, and what the error says if it holds.

Messages and hints are format strings over the step (`{node}`) and what the condition returned (`{0}`): the missing column,
say. A rule may rely on the rules before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl

from holons.errors import BadProgram
from holons.program.dataflow.expressions import across_rows

CAST = "cast one of them to the other's type"
SAY_THE_SCHEMA = "say what they are: h.source(..., schema=...)"


@dataclass(frozen=True)
class Rule:
    """One mistake: `broken` returns something true of a step that has it."""

    broken: Callable[[Any], object]
    message: str
    hint: str


Rules: TypeAlias = tuple[Rule, ...]


def check_rules(node: object, line: str, rules: Iterable[Rule]) -> None:
    """Raises `BadProgram` for the first mistake that a step has, with the line where the step was written."""
    for rule in rules:
        mistake = rule.broken(node)
        if mistake:
            raise BadProgram(
                f"{line}: {rule.message.format(mistake, node=node)}", hint=rule.hint.format(mistake, node=node)
            )


def missing(names: Iterable[str], schema: pl.Schema | None) -> list[str]:
    """Returns the names that a schema does not have; none if it is not known."""
    return [] if schema is None else [name for name in names if name not in schema]


def no_time(name: str, schema: pl.Schema | None) -> str:
    """Returns the type of a column if it is known and cannot be a time."""
    dtype = None if schema is None else schema[name]
    is_time = dtype is None or isinstance(dtype, pl.Datetime) or dtype == pl.Date or dtype.is_integer()
    return "" if is_time else str(dtype)


def time_rule(broken: Callable[[Any], object]) -> Rule:
    """Returns the rule for a time column whose type cannot be a time."""
    hint = "it must be a timestamp, a date, or integer microseconds since 1970"
    return Rule(broken, "time column {node.time!r} is {0}", hint)


def row_rules(items: Callable[[Any], Sequence[object]]) -> Rules:
    """Returns the rules for expressions that look beyond their row where a partition does not have all rows of a window."""

    def beyond(node: Any, of_a_stream: bool) -> str | None:  # noqa: ANN401
        before = node.before
        if before.place == "gathered" or (before.windows is None) != of_a_stream:
            return None
        return next((part for item in items(node) if (part := across_rows(item)) is not None), None)

    return (
        Rule(
            lambda node: beyond(node, True),
            "{0} looks beyond its row, so it would depend on where a batch ends",
            "what is about many rows is an aggregate of a window",
        ),
        Rule(
            lambda node: beyond(node, False),
            "{0} looks beyond its row, and each partition has only some of the window's rows",
            "sort(...) or top_k(...) first: they bring all rows of a window to one place",
        ),
    )
