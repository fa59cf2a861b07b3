"""Rows as a table that fits the screen, one line for each."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from holons.visible import visible
from holons.windows import instant, instant_text

_TEXT_LEAST = 12
_TIME_LEAST = len("2026-07-01 12:00:00…")
_AROUND = 3
"""What a column takes beside its cells."""


@dataclass
class _Column:
    """A column, how wide it is, and how narrow it may get: its heading stays whole."""

    name: str
    cells: list[str]
    width: int
    least: int
    right: bool = False


def rows_table(title: str, rows: Sequence[Mapping[str, object]], width: int) -> Table:
    """A line for each row: long texts end in an ellipsis, and if that is not enough, columns in the middle are left out.

    Numbers are never cut, since what is left of one would read as another.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [_column(visible(name), [row.get(name) for row in rows]) for name in names]
    shown = columns
    for count in range(len(columns) - 1, 1, -1):
        if _total([column.least for column in shown]) <= width:
            break
        gap = _Column("…", ["…"] * len(rows), 1, 1)
        shown = [*columns[: (count + 1) // 2], gap, *columns[len(columns) - count // 2 :]]
    _narrow(shown, width)
    left_out = [column.name for column in columns if column not in shown]
    table = Table(title=Text(visible(title)), title_justify="left", caption_justify="left")
    if left_out:
        columns_left_out = "1 column" if len(left_out) == 1 else f"{len(left_out)} columns"
        table.caption = Text(f"{columns_left_out} left out: {', '.join(left_out)}")
    for column in shown:
        justify = "right" if column.right else "left"
        table.add_column(Text(column.name), justify=justify, no_wrap=True, width=column.width)  # type: ignore[arg-type]
    for number in range(len(rows)):
        table.add_row(*(Text(column.cells[number]) for column in shown))
    return table


def _column(name: str, values: Sequence[object]) -> _Column:
    cells = [_cell(value) for value in values]
    width = max(map(cell_len, (name, *cells)))
    least = width
    if any(isinstance(value, datetime.datetime) for value in values):
        least = min(width, max(cell_len(name), _TIME_LEAST))
    elif not any(isinstance(value, int | float) for value in values):
        least = min(width, max(cell_len(name), _TEXT_LEAST))
    return _Column(name, cells, width, least, all(isinstance(value, int | float) for value in values))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _AROUND * len(widths) + 1


def _narrow(columns: Sequence[_Column], width: int) -> None:
    """Takes from the columns with most to give until all fit."""
    for _ in range(_total([column.width for column in columns]) - width):
        most = max(columns, key=lambda column: column.width - column.least)
        most.width = max(most.least, most.width - 1)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"
    if isinstance(value, datetime.datetime) and value.utcoffset() == datetime.timedelta(0):
        return instant_text(instant(value))
    return "" if value is None else visible(str(value)).replace("\n", " ")
