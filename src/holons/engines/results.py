"""What a finished run gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from holons.errors import BadInput
from holons.program import Collected, canonical
from holons.program.outputs import DEAD, LATE


@dataclass(frozen=True, repr=False)
class Results:
    """Every output of a run, by channel and partition."""

    collected: Collected = field(repr=False)
    declared: tuple[str, ...] = ()
    """The channels of the job's callbacks, with or without rows."""

    @property
    def channels(self) -> list[str]:
        """All channels: those of `on_window` methods, `process` and others written by it, `late`, `dead`."""
        return list(dict.fromkeys([*self.declared, *sorted(self.collected), "process", LATE, DEAD]))

    def rows(self, channel: str | None = None, partition: int | None = None) -> list[dict[str, Any]]:
        """The rows of a channel, partition after partition, or of one partition. Default: the only `on_window`."""
        partitions = self._partitions(channel)
        return [row for number in sorted(partitions) if partition in (None, number) for row in partitions[number]]

    def _partitions(self, channel: str | None) -> dict[int, list[dict[str, Any]]]:
        if channel is None:
            candidates = self.declared or ("process",)
            if len(candidates) > 1:
                raise BadInput("which channel?", hint=f"name one of {', '.join(self.channels)}")
            channel = candidates[0]
        if channel not in self.channels:
            raise BadInput(f"there is no channel {channel!r}", hint=f"there are {', '.join(self.channels)}")
        return self.collected.get(channel, {})

    def __repr__(self) -> str:
        counts = {channel: sum(map(len, self.collected.get(channel, {}).values())) for channel in self.channels}
        return f"Results({', '.join(f'{channel}: {count} rows' for channel, count in counts.items() if count)})"

    def frame(self, channel: str | None = None) -> pl.DataFrame:
        """The rows of a channel as a table, with their `partition`. Default: the only `on_window`."""
        partitions = self._partitions(channel)
        rows = [{"partition": number, **row} for number in sorted(partitions) for row in partitions[number]]
        return pl.DataFrame(rows, infer_schema_length=None)

    def canonical(self) -> bytes:
        """Canonical bytes of everything: equal runs, equal bytes."""
        return canonical(self.collected)
