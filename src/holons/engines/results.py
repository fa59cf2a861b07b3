"""What a run gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from holons.engines import html
from holons.errors import BadInput
from holons.program import Collected, canonical
from holons.program.outputs import DEAD, LATE
from holons.streams import ByTime, FileSink, MemoryLog
from holons.streams.sinks import SinkFormat, Unit

if TYPE_CHECKING:
    import pandas as pd

    from holons.engines.spark.frames import SparkFrame, SparkSession

_ROWS_SHOWN = 8
_PLACES = {
    LATE: {"_stream": pl.String, "_offset": pl.Int64},
    DEAD: {"_stream": pl.String, "_offset": pl.Int64, "_reason": pl.String},
}
"""What rows that are set aside always have: who looks at them finds these columns also while there are none."""


class LateRows(UserWarning):
    """Rows came below their partition's watermark. They are in the channel `late`."""


@dataclass(frozen=True, repr=False)
class Results:
    """Every output of a run, by channel and partition. `channel` is optional where there is but one `on_window`."""

    collected: Collected = field(repr=False)
    declared: tuple[str, ...] = ()
    """The channels of the job's callbacks, with or without rows."""

    @property
    def channels(self) -> list[str]:
        """All channels: those of `on_window` methods, `process` and others written by it, `late`, `dead`."""
        return list(dict.fromkeys([*self.declared, *sorted(self.collected), "process", LATE, DEAD]))

    def rows(self, channel: str | None = None, partition: int | None = None) -> list[dict[str, Any]]:
        """The rows of a channel, partition after partition, or of one partition."""
        partitions = self._partitions(channel)
        return [row for number in sorted(partitions) if partition in (None, number) for row in partitions[number]]

    def _partitions(self, channel: str | None) -> dict[int, list[dict[str, Any]]]:
        channel = channel or self._only_channel()
        if channel not in self.channels:
            raise BadInput(f"there is no channel {channel!r}", hint=f"there are {', '.join(self.channels)}")
        return self.collected.get(channel, {})

    def _only_channel(self) -> str:
        candidates = self.declared or ("process",)
        if len(candidates) > 1:
            raise BadInput("which channel?", hint=f"name one of {', '.join(self.channels)}")
        return candidates[0]

    # --- tables ------------------------------------------------------------------------------------------------------

    def to_polars(self, channel: str | None = None) -> pl.DataFrame:
        """The rows of a channel as a table, with their `partition`."""
        partitions = self._partitions(channel)
        rows = [{"partition": number, **row} for number in sorted(partitions) for row in partitions[number]]
        known = {"partition": pl.Int64, **_PLACES.get(channel or "", {})}
        return pl.DataFrame(rows, None if rows else known, infer_schema_length=None)

    def to_arrow(self, channel: str | None = None) -> pa.Table:
        """The same as an Arrow table."""
        return self.to_polars(channel).to_arrow(compat_level=pl.CompatLevel.oldest())

    def to_pandas(self, channel: str | None = None) -> pd.DataFrame:
        """The same as a pandas frame; needs pandas."""
        return self.to_polars(channel).to_pandas()

    def to_spark(self, channel: str | None = None, spark: SparkSession | None = None) -> SparkFrame:
        """The same as a Spark DataFrame, of the given session or of the active one; opens one if there is none."""
        from holons.engines.choosing import check_spark

        check_spark()
        from holons.engines.spark.frames import spark_frame

        return spark_frame(self.to_arrow(channel), spark)

    def to_files(
        self,
        directory: Path | str,
        channel: str | None = None,
        *,
        format: SinkFormat = "parquet",  # noqa: A002 - what everybody calls it
        by: str | None = None,
        unit: Unit = "hour",
    ) -> int:
        """Writes the rows of a channel to files, each row once: what is there already is not written again.

        With `by`, a column of times, they go to folders: `year=2015/month=07/day=15/hour=00`. Returns how many are new.
        """
        channel = channel or self._only_channel()
        partitions = self._partitions(channel)
        log = MemoryLog(1 + max(partitions, default=0))
        for number, rows in partitions.items():
            if rows:
                table = pl.DataFrame(rows, infer_schema_length=None).to_arrow(compat_level=pl.CompatLevel.oldest())
                log.append(number, table.combine_chunks().to_batches()[0])
        return FileSink(directory, channel, format, by=None if by is None else ByTime(by, unit)).drain(log)

    def canonical(self) -> bytes:
        """Canonical bytes of everything: equal runs, equal bytes."""
        return canonical(self.collected)

    # --- for people --------------------------------------------------------------------------------------------------

    def _counts(self) -> dict[str, int]:
        return {channel: sum(map(len, self.collected.get(channel, {}).values())) for channel in self.channels}

    def __repr__(self) -> str:
        return f"Results({', '.join(f'{channel}: {count} rows' for channel, count in self._counts().items() if count)})"

    def _repr_html_(self) -> str:
        shown = {name: count for name, count in self._counts().items() if count or name in self.declared}
        return html.block(*(self._last_rows(channel, count) for channel, count in shown.items()))

    def _last_rows(self, channel: str, count: int) -> str:
        partitions = self.collected.get(channel, {})
        each = max(1, _ROWS_SHOWN // max(1, len(partitions)))
        rows = [{"partition": number, **row} for number in sorted(partitions) for row in partitions[number][-each:]]
        told = f"{channel}: {count:,} rows" + (", the last:" if count > len(rows) else "")
        return html.table(rows[:_ROWS_SHOWN], told)
