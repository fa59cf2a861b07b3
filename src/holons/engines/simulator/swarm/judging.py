"""Whether outputs are what they must be: all of it, or the beginning of it; each row once, or at least once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holons import codec
from holons.engines.collecting import Outputs
from holons.program import Collected


@dataclass(frozen=True)
class Kept:
    """The rows of a job that are kept, as somebody read them at one moment."""

    rows: Collected
    starts: Mapping[tuple[str, int], int]
    """By channel and partition, how many rows went before these and are not kept any more; 0 is left out."""

    @staticmethod
    def of(outputs: Outputs) -> Kept:
        """Reads all rows that stand in some outputs."""
        places = [(channel, partition) for channel, parts in outputs.spans.items() for partition in parts]
        starts = {place: start for place in places if (start := outputs.start(*place))}
        return Kept(outputs.collected(), starts)


def wrong_rows(expected: Collected, kept: Kept, *, complete: bool, repeated: bool) -> str:
    """Returns the first thing that is wrong with what was emitted and is kept, or nothing.

    Unless it must be `complete`, each partition of a channel may lack its last rows. With `repeated` rows may come again;
    their first occurrences are in order.
    """
    collected = kept.rows
    for channel in sorted(set(expected) | set(collected)):
        theirs, ours = expected.get(channel, {}), collected.get(channel, {})
        for partition in sorted(set(theirs) | set(ours)):
            start = kept.starts.get((channel, partition), 0)
            wanted, rows = theirs.get(partition, []), ours.get(partition, [])
            if start > len(wanted):
                return f"channel {channel}, partition {partition}, {start} rows went, of {len(wanted)}"
            wanted = wanted[start:]
            problem = (_wrong_at_least_once if repeated else _wrong)(wanted, rows, complete)
            if problem:
                return f"channel {channel}, partition {partition}, {problem}"
    return ""


def repetitions(expected: Collected, collected: Collected) -> int:
    """Returns how many more rows there are than there must be."""
    return _rows(collected) - _rows(expected)


def _rows(collected: Collected) -> int:
    return sum(len(rows) for partitions in collected.values() for rows in partitions.values())


def _wrong(wanted: Sequence[Any], rows: Sequence[Any], complete: bool) -> str:
    for place, row in enumerate(rows):
        want = wanted[place] if place < len(wanted) else "nothing"
        if row is not want and codec.encode(row) != codec.encode(want):
            return f"row {place}: {row}, not {want}"
    if complete and len(rows) < len(wanted):
        return f"row {len(rows)}: nothing, not {wanted[len(rows)]}"
    return ""


def _wrong_at_least_once(wanted: Sequence[Any], rows: Sequence[Any], complete: bool) -> str:
    theirs, ours = [codec.encode(row) for row in wanted], [codec.encode(row) for row in rows]
    firsts, first_wanted = list(dict.fromkeys(ours)), list(dict.fromkeys(theirs))
    if firsts != first_wanted[: len(firsts)]:
        return "rows are out of order, or should not be there"
    if complete and (len(firsts) < len(first_wanted) or Counter(theirs) - Counter(ours)):
        return "a row is missing"
    return ""
