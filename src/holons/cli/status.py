"""The status of a run as a table for terminals."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from holons.engines.status import NodeStatus, Status, watermark_text

_NUMBERS = ("rows read", "rows/s", "waiting")
_PATIENCE_S = 2.0
"""What a run waits for is shown once it has waited for so long."""
_AGAIN = 4
"""Where there is no terminal, it is said again once it has lasted so many times as long."""


def status_table(status: Status) -> RenderableType:
    """A line of figures, a row for each node, and what the run waits for."""
    heading = Text.assemble(
        (status.job, "bold"),
        f"  {status.seconds:.0f} s   {status.rows_read:,} rows, {status.rows_per_s:,.0f} a second, "
        f"{status.rows_waiting:,} waiting   {status.windows:,} windows   watermark {watermark_text(status.watermark)}",
    )
    if status.deaths:
        heading.append(f"   replaced after death: {status.deaths}", "yellow")
    table = Table()
    for column in ("node", "process", "partitions", *_NUMBERS, "watermark"):
        table.add_column(column, justify="right" if column in _NUMBERS else "left")
    parked = {
        (part.partition, owner) for part in status.partitions if part.activity == "waiting" for owner in part.owners
    }
    for node in status.nodes:
        table.add_row(*map(Text, _cells(node, parked)))
    shown: list[RenderableType] = [heading, table] if status.nodes else [heading]
    if status.waiting_for is not None and status.waiting_for.since_s >= _PATIENCE_S:
        shown.append(Text(f"waits for {status.waiting_for}", "yellow"))
    return Group(*shown)


def _cells(node: NodeStatus, parked: set[tuple[int, str]]) -> tuple[str, ...]:
    """The cells of a node's row; a star marks partitions that wait for a window."""
    partitions = (f"{number}{'*' if (number, node.name) in parked else ''}" for number in node.partitions)
    return (
        node.label,
        str(node.process or ""),
        " ".join(partitions) or "-",
        f"{node.rows_read:,}",
        f"{node.rows_per_s:,.0f}",
        f"{node.lag:,}",
        watermark_text(node.watermark),
    )


class WaitingLines:
    """What a run waits for, in lines, where no terminal shows a table: once for each reason, and again if it lasts."""

    def __init__(self) -> None:
        self._reason = ""
        self._said_s = 0.0

    def new_line(self, status: Status) -> str:
        """Returns the line to print now; empty if there is nothing new."""
        waiting = status.waiting_for
        if waiting is None or waiting.since_s < _PATIENCE_S:
            return ""
        if waiting.reason == self._reason and self._said_s <= waiting.since_s < _AGAIN * self._said_s:
            return ""
        self._reason, self._said_s = waiting.reason, waiting.since_s
        return f"{status.job}: {status.rows_read:,} rows, {status.windows:,} windows; waits for {waiting}"
