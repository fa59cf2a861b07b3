"""The console on which all commands print: what is not ours cannot command the terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable

from rich.console import Console
from rich.segment import Segment

from holons.visible import show_error, visible


class Terminal(Console):
    """A console that shows control characters, in whatever it prints, instead of obeying them."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        """Renders what is about to be written, all of it: tables, errors and live displays end here."""
        return super()._render_buffer(
            segment if segment.control else segment._replace(text=visible(segment.text)) for segment in buffer
        )


class _VisibleFormatter(logging.Formatter):
    """Formats a record so that nothing in it is obeyed."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def guard_terminal() -> None:
    """Makes visible also what goes past any console: tracebacks, and what a program logs that configures no logging."""
    sys.excepthook = show_error
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_VisibleFormatter())
