"""Small inputs made from a seed: in order but for some disorder, with late and broken rows, marks, and leaps in time.

What a seed gives never changes: recorded seeds of the simulator depend on every draw here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import polars as pl

from holons.clock import Random, seeded
from holons.program import Job
from holons.windows import END, Mark

SECOND: Final = 1_000_000
YEAR: Final = 365 * 24 * 3600 * SECOND

Partition: TypeAlias = list[pl.DataFrame | Mark]
Make: TypeAlias = Callable[[Random], dict[str, Any]]
"""Draws one row, all but its time."""

_TYPES: Final[dict[type, Any]] = {int: pl.Int64, float: pl.Float64, str: pl.String}


def partition(rng: Random, make: Make, *, span_s: float, rows: int = 30, disorder_us: int = 0) -> Partition:
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
    schema = {"ts": pl.Int64, **{name: _TYPES[type(value)] for name, value in make(seeded(0)).items()}}
    while made:
        cut = rng.randint(1, len(made))
        pieces.append(pl.DataFrame(made[:cut], schema=schema))
        if rng.random() < 0.2:
            known = [row["ts"] for row in made[:cut] if row["ts"] is not None]
            pieces.append(Mark(max(known, default=start) + rng.choice([-SECOND, 0, SECOND])))
        made = made[cut:]
    return [*pieces, END]


def streams(job: Job, make: Make, span_s: float, seed: int, rows: int = 30) -> dict[str, list[Partition]]:
    """One to three partitions for each input of a job."""
    rng = seeded(seed)
    return {
        given.stream: [
            partition(rng, make, span_s=span_s, rows=rows, disorder_us=given.disorder_us)
            for _ in range(rng.randint(1, 3))
        ]
        for given in job.inputs
    }


def bid(rng: Random) -> dict[str, Any]:
    """A row of an auction house; many prices are equal."""
    kind = "bid" if rng.random() < 0.8 else "auction"
    return {"kind": kind, "price": rng.choice([5, 20, 20, 70]), "auction": rng.randint(1, 4)}


def visit(rng: Random) -> dict[str, Any]:
    """How many visitors a server saw."""
    return {"server": rng.choice(["a", "b"]), "visitors": rng.randint(50, 150)}


def sale(rng: Random) -> dict[str, Any]:
    """A sale, or money back."""
    return {"seller": rng.randint(1, 5), "price": rng.randint(-3, 9)}


def click(rng: Random) -> dict[str, Any]:
    """A user's click; the floats are chosen so that their order would show in a careless sum."""
    return {
        "user": rng.choice(["ann", "bob", "cem", "δ"]),
        "page": rng.choice(["/", "/buy", "/help"]),
        "spent": rng.choice([0.1, 0.2, 0.3, 1e16, -1e16, 1e-9]),
    }
