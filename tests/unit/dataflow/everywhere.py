"""Runs a pipeline in every way there is: partitions, cuts, the oracle, two nodes, and a rig that crashes. All must agree."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl
from tests.rig import Rig

import holons as h
from holons.program import Collected, canonical
from holons.semantics import run as run_oracle
from holons.windows import END

Row = dict[str, Any]
SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BEGIN = datetime(2024, 5, 1, tzinfo=UTC)

BIDS = {
    "at": pl.Datetime("us", "UTC"),
    "auction": pl.Int64,
    "bidder": pl.String,
    "price": pl.Int64,
    "rate": pl.Float64,
    "vip": pl.Boolean,
    "day": pl.Date,
    "text": pl.String,
}
ASKS = {"at": pl.Datetime("us", "UTC"), "item": pl.Int64, "seller": pl.String, "limit": pl.Int64}


def bids(rows: int = 60, seed: int = 1, seconds: int = 6) -> pl.DataFrame:
    """Rows with ties, nulls and NaN, at most 300 ms out of order."""
    rng = random.Random(seed)

    def maybe(value: object) -> object:
        return None if rng.random() < 0.15 else value

    made = [
        {
            "at": BEGIN + timedelta(milliseconds=rng.randrange(seconds * 10) * 100),
            "auction": rng.randrange(5),
            "bidder": rng.choice(["ann", "bob", "cy", "d\"é'"]),
            "price": maybe(rng.randrange(-5, 30)),
            "rate": maybe(rng.choice([0.1, 0.2, -1.5, 2.5])),
            "vip": maybe(rng.random() < 0.5),
            "day": date(2024, 5, rng.randrange(1, 4)),
            "text": maybe(rng.choice(["a b", "b", "", "c c a"])),
        }
        for _ in range(rows)
    ]
    made.sort(key=lambda row: row["at"] + timedelta(milliseconds=rng.randrange(300)))
    return pl.DataFrame(made, schema=BIDS)


def asks(rows: int = 30, seed: int = 2, seconds: int = 6) -> pl.DataFrame:
    rng = random.Random(seed)
    made = [
        {
            "at": BEGIN + timedelta(milliseconds=rng.randrange(seconds * 10) * 100),
            "item": rng.choice([None, 0, 1, 2, 3, 9]),
            "seller": rng.choice(["eve", "flo"]),
            "limit": rng.choice([None, 5, 10]),
        }
        for _ in range(rows)
    ]
    return pl.DataFrame(sorted(made, key=lambda row: row["at"]), schema=ASKS)


def bid_stream(**options: Any) -> Any:
    return h.source("bids", **{"time": "at", "disorder": "300ms", "schema": BIDS, **options})


def ask_stream(**options: Any) -> Any:
    return h.source("asks", **{"time": "at", "schema": ASKS, **options})


def cut(frame: pl.DataFrame, partitions: int, rows_max: int) -> list[list[Any]]:
    """The rows of a stream, dealt out to partitions, each in batches."""
    parts = [frame.gather_every(partitions, start) for start in range(partitions)]
    return [[*(part.slice(low, rows_max) for low in range(0, len(part), rows_max)), END] for part in parts]


def everywhere(
    job: h.Job, streams: Mapping[str, pl.DataFrame], partitions: Sequence[int] = (1, 3)
) -> Callable[..., list[Row]]:
    """All rows of a channel, after every engine said the same. With each number of partitions they are the same rows."""
    found: dict[int, Collected] = {}
    for count in partitions:
        whole = {name: cut(frame, count, 1_000) for name, frame in streams.items()}
        small = {name: cut(frame, count, 7) for name, frame in streams.items()}
        found[count] = run_oracle(job, whole)
        expected = canonical(found[count])
        assert canonical(run_oracle(job, whole, rows_per_call=25)) == expected, "the oracle, many rows at a time"
        results = h.run(job, whole if count == 1 else small, engine="embedded", nodes=2).wait().results()
        assert results.canonical() == expected, f"two nodes, {count} partitions"
        if count > 1:
            assert canonical(Rig(job, whole, seed=count).run(rows_max=20)) == expected, f"crashes, {count} partitions"

    def rows(channel: str = "out") -> list[Row]:
        every = [all_rows(collected, channel) for collected in found.values()]
        for other in every[1:]:
            assert other == every[0], f"channel {channel} depends on the number of partitions"
        return every[0]

    return rows


def all_rows(collected: Collected, channel: str) -> list[Row]:
    """The rows of a channel, of whatever partition, sorted."""
    return in_order(row for rows in collected.get(channel, {}).values() for row in rows)


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: repr([_timeless(value) for value in row.values()]))


def _timeless(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


def span(start: datetime, seconds: float) -> Row:
    """The columns of a window."""
    return {"window_start": start, "window_end": start + timedelta(seconds=seconds)}


def by_window(rows: Iterable[Row], size: int, every: int | None = None) -> dict[datetime, list[Row]]:
    """Rows by the start of each window that they fall into, in seconds; by the definition."""
    step, found = every or size, defaultdict(list)
    for row in rows:
        second = (row["at"] - EPOCH) // SECOND
        for start in range(second - size + 1, second + 1):
            if start % step == 0:
                found[EPOCH + start * SECOND].append(row)
    return dict(found)


def by(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by some columns; those with a null among them are nowhere."""
    found = defaultdict(list)
    for row in rows:
        key = tuple(row[name] for name in names)
        if None not in key:
            found[key].append(row)
    return dict(found)
