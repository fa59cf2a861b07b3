"""The status of a run as a table for terminals."""

from __future__ import annotations

from typing import Literal

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from holons.engines.status import NO_WATERMARK, NodeStatus, Status, WaitingFor, partitions_text, watermark_text

_NUMBERS = {"rows read": 10, "rows/s": 7, "waiting": 7}
"""Columns of numbers, each so wide that it seldom changes."""
_PATIENCE_S = 2.0
"""What a run waits for is shown once it has waited for so long."""
_AGAIN = 4
"""Where there is no terminal, it is said again once it has lasted so many times as long."""


def status_table(status: Status) -> RenderableType:
    """Two lines of figures, a row for each node, and what the run waits for; in 80 columns, if names are not long."""
    heading = Text.assemble((status.job, "bold"), f"   {status.state} for {status.seconds:,.0f} s")
    if (watermark := _seconds(status.watermark)) != NO_WATERMARK:
        heading.append(f"   watermark {watermark}")
    if status.deaths:
        heading.append(f"   replaced after death: {status.deaths}", "yellow")
    figures = Text(
        f"{status.rows_read:,} rows, {status.rows_per_s:,.0f} a second, {status.rows_waiting:,} waiting   "
        f"{status.windows:,} windows"
    )
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for column in ("node", "process", "partitions", *_NUMBERS, "watermark"):
        width = _NUMBERS.get(column)
        justify: Literal["left", "right"] = "right" if width else "left"
        table.add_column(column, justify=justify, min_width=width, no_wrap=column != "partitions")
    for node in status.nodes:
        table.add_row(*map(Text, _cells(node)))
    shown: list[RenderableType] = [heading, figures, Text(), table] if status.nodes else [heading]
    shown += [Text(), Text(f"waits for {waiting}", "yellow") if (waiting := long_wait(status)) else Text()]
    return Group(*shown, Text("Ctrl-C stops it", "dim"))


def long_wait(status: Status) -> WaitingFor | None:
    """Returns what a run waits for, if it has for a while."""
    waiting = status.waiting_for
    return waiting if waiting is not None and waiting.since_s >= _PATIENCE_S else None


def _cells(node: NodeStatus) -> tuple[str, ...]:
    return (
        node.label,
        str(node.process or ""),
        partitions_text(node.partitions),
        f"{node.rows_read:,}",
        f"{node.rows_per_s:,.0f}",
        f"{node.lag:,}",
        _seconds(node.watermark),
    )


def _seconds(watermark: int | None) -> str:
    """Returns a watermark without parts of a second, which would never stand still."""
    return watermark_text(watermark).partition(".")[0]


class WaitingLines:
    """What a run waits for, in lines, where no terminal shows a table: once for each reason, and again if it lasts."""

    def __init__(self) -> None:
        self._reason = ""
        self._said_s = 0.0

    def new_line(self, status: Status) -> str:
        """Returns the line to print now; empty if there is nothing new."""
        waiting = long_wait(status)
        if waiting is None:
            return ""
        if waiting.reason == self._reason and self._said_s <= waiting.since_s < _AGAIN * self._said_s:
            return ""
        self._reason, self._said_s = waiting.reason, waiting.since_s
        return f"{status.job}: {status.rows_read:,} rows, {status.windows:,} windows; waits for {waiting}"
