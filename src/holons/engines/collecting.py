"""What a job has put out, over all its versions: each took over from the one before where that one left off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from holons.node import Submitted
from holons.program import Collected, Cut
from holons.streams import ReadableLog


def collected(history: Sequence[Submitted], channels: Callable[[str], Mapping[str, ReadableLog]]) -> Collected:
    """All rows that stand, by channel and partition. `channels` gives the output logs of a version."""
    found: Collected = {}
    ends = [newer.cuts for _, newer in pairwise(history)]
    for version, cuts in zip(history, [*ends, None], strict=True):
        collect_logs(channels(version.id), found, cuts)
    return found


def collect_logs(
    logs: Mapping[str, ReadableLog], found: Collected | None = None, cuts: Sequence[Cut] | None = None
) -> Collected:
    """Adds the rows of some channels, up to where a newer version took over, to what was found before."""
    found = {} if found is None else found
    for channel in sorted(logs):
        log = logs[channel]
        for partition in range(log.partitions):
            end = log.end(partition)
            if cuts is not None:
                end = cuts[partition].ordinals.get(channel, 0) if partition < len(cuts) else 0
            if rows := _rows(log, partition, end):
                found.setdefault(channel, {}).setdefault(partition, []).extend(rows)
    return found


def _rows(log: ReadableLog, partition: int, end: int) -> list[dict[str, Any]]:
    chunks = log.read(partition, 0, end)
    return [row for chunk in chunks if chunk.rows is not None for row in chunk.rows.to_pylist()]
