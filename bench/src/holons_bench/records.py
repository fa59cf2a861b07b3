"""What benchmarks have in common: flat records, one for each figure, and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias, TypedDict

from rich.console import Console
from rich.table import Table

from holons.errors import BadInput


class Record(TypedDict):
    """One figure."""

    bench: str
    case: str
    system: str
    metric: str
    value: float
    unit: str


Figures: TypeAlias = dict[tuple[str, str], float]
"""Values by system and metric."""


def recorder(bench: str, case: str) -> Callable[[str, str, float, str], Record]:
    """Makes a function of (system, metric, value, unit) that makes the records of one case.

    >>> recorder("node", "maximum")("holons", "rate", 5.0, "events/s")["case"]
    'maximum'
    """

    def record(system: str, metric: str, value: float, unit: str) -> Record:
        return Record(bench=bench, case=case, system=system, metric=metric, value=value, unit=unit)

    return record


def by_case(records: Sequence[Record]) -> dict[str, Figures]:
    """Returns the figures of each case, in the order of the records."""
    cases: dict[str, Figures] = {}
    for record in records:
        cases.setdefault(record["case"], {})[record["system"], record["metric"]] = record["value"]
    return cases


def by_metric(records: Sequence[Record], system: str = "holons") -> dict[str, dict[str, float]]:
    """Returns the figures of one system by case and metric."""
    return {
        case: {metric: value for (owner, metric), value in figures.items() if owner == system}
        for case, figures in by_case(records).items()
    }


def print_table(
    title: str,
    headings: Sequence[str],
    lines: Sequence[Sequence[str]],
    *,
    left: int = 1,
    caption: str | None = None,
    console: Console | None = None,
) -> None:
    """Prints a table. The first `left` columns are words, all others are figures, which are never cut."""
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for number, heading in enumerate(headings):
        figures = number >= left
        table.add_column(heading, justify="right" if figures else "left", no_wrap=figures)
    for line in lines:
        table.add_row(*line)
    (console or Console()).print(table)


def check_known(names: Collection[str], known: Collection[str], what: str) -> None:
    """Raises `BadInput` if one of the names is not known.

    >>> check_known(["q3"], ["q0", "q1"], "a query that is measured")
    Traceback (most recent call last):
    holons.errors.BadInput: 'q3' is not a query that is measured
      hint: use one of: q0, q1
    """
    for name in names:
        if name not in known:
            raise BadInput(f"{name!r} is not {what}", hint=f"use one of: {', '.join(known)}")
