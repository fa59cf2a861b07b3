"""Inputs for the example programs and for the awkward cases, made from a seed."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from typing import Any

import polars as pl

from holons.program import Job
from holons.windows import END, Mark

SECOND = 1_000_000
YEAR = 365 * 24 * 3600 * SECOND

Partition = list[pl.DataFrame | Mark]
Make = Callable[[random.Random], dict[str, Any]]


def partition(rng: random.Random, make: Make, *, span_s: float, rows: int = 30, disorder_us: int = 0) -> Partition:
    """Rows in order of time but for the given disorder and a few that are late or broken; perhaps marks; then the end."""
    start = rng.choice([0, -3 * SECOND, 17 * SECOND])
    times = sorted(start + rng.randrange(int(span_s * SECOND)) for _ in range(rng.randint(0, rows)))
    if rng.random() < 0.3:
        times = [ts // SECOND * SECOND for ts in times]  # exactly on the edges
    if times and rng.random() < 0.15:
        times[-1] += YEAR
    times = [ts - rng.randint(0, disorder_us) if rng.random() < 0.4 else ts for ts in times]
    made: list[dict[str, Any]] = []
    for ts in times:
        late = rng.random() < 0.07
        missing = rng.random() < 0.04
        made.append({"ts": None if missing else ts - (disorder_us + SECOND) * late, **make(rng)})
    pieces: Partition = []
    schema = {"ts": pl.Int64, **{name: _dtype(value) for name, value in make(random.Random(0)).items()}}
    while made:
        cut = rng.randint(1, len(made))
        pieces.append(pl.DataFrame(made[:cut], schema=schema))
        if rng.random() < 0.2:
            known = [row["ts"] for row in made[:cut] if row["ts"] is not None]
            pieces.append(Mark(max(known, default=start) + rng.choice([-SECOND, 0, SECOND])))
        made = made[cut:]
    return [*pieces, END]


def _dtype(value: object) -> Any:
    return {int: pl.Int64, float: pl.Float64, str: pl.String}[type(value)]


def _bid(rng: random.Random) -> dict[str, Any]:
    kind = "bid" if rng.random() < 0.8 else "auction"
    return {"kind": kind, "price": rng.choice([5, 20, 20, 70]), "auction": rng.randint(1, 4)}


def _visit(rng: random.Random) -> dict[str, Any]:
    return {"server": rng.choice(["a", "b"]), "visitors": rng.randint(50, 150)}


def _sale(rng: random.Random) -> dict[str, Any]:
    return {"seller": rng.randint(1, 5), "price": rng.randint(-3, 9)}


def _click(rng: random.Random) -> dict[str, Any]:
    return {
        "user": rng.choice(["ann", "bob", "cem", "δ"]),
        "page": rng.choice(["/", "/buy", "/help"]),
        "spent": rng.choice([0.1, 0.2, 0.3, 1e16, -1e16, 1e-9]),
    }


def load(name: str) -> Job:
    """The job of an example."""
    return importlib.import_module(f"examples.{name}").job


EXAMPLES: dict[str, tuple[Make, float]] = {
    "bid_share": (_bid, 4),
    "alert_rule": (_visit, 240),
    "top_sellers": (_sale, 15),
    "distinct_users": (_click, 150),
    "nested_market": (_bid, 5),
    "user_sessions": (_click, 60),
    "two_stages": (_visit, 150),
}
"""Which rows an example wants, and over how many seconds."""


def streams(job: Job, make: Make, span_s: float, seed: int, rows: int = 30) -> dict[str, list[Partition]]:
    """One to three partitions for each input of a job."""
    rng = random.Random(seed)
    return {
        given.stream: [
            partition(rng, make, span_s=span_s, rows=rows, disorder_us=given.disorder_us)
            for _ in range(rng.randint(1, 3))
        ]
        for given in job.inputs
    }
