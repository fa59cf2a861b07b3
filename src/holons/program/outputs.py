"""What a job emits: tables of rows, each at a position of its own (invariant: position is identity)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Any, Final, TypeAlias

import msgspec
import polars as pl
import pyarrow as pa

from holons import codec
from holons.arrow import python_rows
from holons.errors import BadElement
from holons.windows import BEGINNING

LATE = "late"
DEAD = "dead"
RESERVED = (LATE, DEAD)


@dataclass(frozen=True)
class Channel:
    """An output of a job: its name, and its columns where the job knows them before any row is written."""

    name: str
    schema: pl.Schema | None = None


@dataclass(frozen=True, eq=False)
class Output:
    """Rows of one channel of one partition, from ordinal `ordinal` on."""

    channel: str
    partition: int
    ordinal: int
    table: pa.Table


Emitted: TypeAlias = tuple[int, int, tuple[int, int | str], int]
"""A window's place in the order of emission: (end, start, key, callback)."""
NOTHING_EMITTED: Final[Emitted] = (BEGINNING, BEGINNING, (0, 0), -1)


class CountedCut(msgspec.Struct, frozen=True, array_like=True):
    """Up to where the count windows of one channel belong to older versions."""

    emitted: Emitted
    emitted_to: int
    begin: int = BEGINNING
    """Windows whose last row came no later belong to versions that did not have the channel yet."""


class Cut(msgspec.Struct, frozen=True, array_like=True):
    """Where one partition of a version of a job begins; of an older version the rows that it emitted stand before that.

    A version that takes over runs from the beginning, so that its state is as if it had always run, but stays silent up
    to here: about rows below `offset`, and about windows that the older one emitted.
    """

    offset: int = 0
    emitted: tuple[Emitted, ...] = ()
    """By stage, the last window that was emitted. Those that count rows are in no stage."""
    emitted_to: tuple[int, ...] = ()
    """By stage, up to where everything was emitted."""
    ordinals: dict[str, int] = {}
    """How many rows of the older version stand, by channel."""
    begin: int = 0
    """The first offset of its input that the version reads: what came before was not kept when it was submitted."""
    counted: dict[str, CountedCut] = {}
    """By channel of count windows, where they end: versions may have other stages and lanes, so numbers say nothing."""

    def covers(self, stage: int, place: Emitted) -> bool:
        """Returns whether a window belongs to the older version; a stage that it did not have follows its last stage."""
        if not self.emitted_to:
            return False
        stage = min(stage, len(self.emitted_to) - 1)
        return place[0] <= self.emitted_to[stage] or place <= self.emitted[stage]

    def covers_counted(self, channel: str, place: Emitted, last_time: int) -> bool:
        """Returns whether a count window belongs to the older version: by rank if it had the channel, else by time.

        A channel that it did not have begins where its first stage left off.
        """
        known = self.counted.get(channel)
        if known is None:
            return last_time <= self.first_stage_to
        return place[0] <= known.emitted_to or place[:3] <= known.emitted[:3] or last_time <= known.begin

    @property
    def first_stage_to(self) -> int:
        """Up to where everything was emitted that is over rows of the input."""
        return self.emitted_to[0] if self.emitted_to else BEGINNING


Rows: TypeAlias = list[dict[str, Any]]
Collected: TypeAlias = dict[str, dict[int, Rows]]
"""Every output of a job: channel, then partition, then rows in order."""


def collect(outputs: Iterable[Output]) -> Collected:
    """Returns all rows by channel and partition; every position occurs exactly once, and none is missing."""
    collected: Collected = {}
    for output in outputs:
        rows = collected.setdefault(output.channel, {}).setdefault(output.partition, [])
        assert output.ordinal == len(rows), f"position is identity: {output.ordinal} after {len(rows)} rows"
        rows.extend(python_rows(output.table))
    return collected


def canonical(collected: Collected) -> bytes:
    """Canonical bytes of all outputs: equal runs, equal bytes."""
    return codec.encode({channel: partitions for channel, partitions in collected.items() if any(partitions.values())})


def tables(rows: Iterable[object]) -> list[pa.Table]:
    """Returns the rows that a program yielded as tables: frames as they are, successive dicts of one shape as one table.

    Types come from each row alone, never from its neighbours: a row must not change because of where a batch ended.
    """
    if isinstance(rows, dict | pl.DataFrame):  # returned, not yielded: one row, or one frame
        rows = [rows]
    made: list[pa.Table] = []
    for shape, run in groupby(rows, key=_shape):
        if shape is None:
            made.extend(frame.to_arrow() for frame in run if isinstance(frame, pl.DataFrame) and len(frame))
        else:
            made.append(_table(list(run)))
    return made


def _table(rows: list[Any]) -> pa.Table:
    try:
        return pa.Table.from_pylist(rows)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise _not_plain(str(error)) from error


def _not_plain(why: str) -> BadElement:
    return BadElement(
        f"a row of output holds something that is no plain value: {why}",
        hint="numbers, text, times, and lists of those; a window as window.start, a set as sorted(...), "
        "values by key one row each (`for key, value in ....items()`) or as `.to_frame()`",
    )


def number(channel: str, partition: int, ordinals: dict[str, int], made: Sequence[pa.Table]) -> list[Output]:
    """Returns the tables with their positions, and moves the ordinal of the channel behind them."""
    outputs = []
    for table in made:
        outputs.append(Output(channel, partition, ordinals.get(channel, 0), table))
        ordinals[channel] = ordinals.get(channel, 0) + table.num_rows
    return outputs


def _shape(row: object) -> object:
    if isinstance(row, pl.DataFrame):
        return None
    if not isinstance(row, dict):
        raise BadElement(f"a row of output cannot be a {type(row).__name__}", hint="yield dicts, or polars frames")
    return tuple((name, _kind(value)) for name, value in row.items())


def _kind(value: object) -> object:
    """Returns what the Arrow type of a value depends on: values of one kind have one type, whichever stand together."""
    if isinstance(value, set | frozenset):
        raise _not_plain("a set has no order")
    if isinstance(value, list | tuple):
        return "list", tuple({_kind(item): None for item in value})
    if isinstance(value, dict):
        return tuple((name, _kind(item)) for name, item in value.items())
    if isinstance(value, datetime):
        return "datetime", str(value.tzinfo)
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        return "Decimal", len(digits), exponent
    return type(value).__name__
