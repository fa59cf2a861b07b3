"""What a finished run gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from holons.program import Collected, canonical


@dataclass(frozen=True)
class Results:
    """Every output of a run, by channel and partition."""

    collected: Collected

    @property
    def channels(self) -> list[str]:
        """The channels that have rows."""
        return sorted(self.collected)

    def rows(self, channel: str = "on_window", partition: int | None = None) -> list[dict[str, Any]]:
        """The rows of a channel, partition after partition, or of one partition."""
        partitions = self.collected.get(channel, {})
        return [row for number in sorted(partitions) if partition in (None, number) for row in partitions[number]]

    def frame(self, channel: str = "on_window") -> pl.DataFrame:
        """The rows of a channel as a table, with their `partition`."""
        partitions = self.collected.get(channel, {})
        rows = [{"partition": number, **row} for number in sorted(partitions) for row in partitions[number]]
        return pl.DataFrame(rows, infer_schema_length=None)

    def canonical(self) -> bytes:
        """Canonical bytes of everything: equal runs, equal bytes."""
        return canonical(self.collected)
