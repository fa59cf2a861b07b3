"""Rows of earlier windows that a join still needs, at hand.

Nothing is lost with it: it only repeats what the handles keep, and is read from them again where it is missing.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from holons.program.handles import Declared, Scope
from holons.windows import AlignedSpec, Window


class History(Declared):
    """The rows of one partition's join, by side and window."""

    def __init__(self) -> None:
        self._windows: dict[str, dict[int, pl.DataFrame]] | None = None

    def bound(self, scope: Scope, name: str) -> History:
        return History()

    def rows(
        self,
        side: str,
        window: Window,
        spec: AlignedSpec,
        reach_us: int,
        read: Callable[[Window], pl.DataFrame],
        like: pl.DataFrame,
    ) -> pl.DataFrame:
        """Returns all rows of earlier windows that may lie within `reach_us` of this one, with the columns of `like`."""
        if self._windows is None:
            self._windows = {}
        known = self._windows.get(side, {})
        earlier = spec.windows_between(window.start - reach_us, window.start)
        self._windows[side] = {past.start: known[past.start] if past.start in known else read(past) for past in earlier}
        some = [rows for rows in self._windows[side].values() if len(rows)]
        return pl.concat(some) if some else like.clear()

    def add(self, side: str, window: Window, rows: pl.DataFrame) -> None:
        """Keeps the rows of a window that is done: it is an earlier one from now on."""
        assert self._windows is not None
        self._windows[side][window.start] = rows
