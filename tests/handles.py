"""A job that takes a while, and what to wait for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

import holons as h
from holons.clock import SystemClock
from holons.engines.directory_site import DirectorySite
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import END

SLOWLY = h.Settings(rows_max=20, checkpoint_s=0.05, failure_timeout_s=0.5)
PARTITIONS = 3
ROWS = 2_000


class Count(h.Program):
    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.n.insert(1, events.ts)

    def on_window(self, window):
        yield {"window": window.start, "n": self.n[window]}


JOB = h.job(Count(), "visits")


def visits(rows: int = ROWS) -> dict[str, list[pl.DataFrame]]:
    """A minute of rows for each partition."""
    generators = map(np.random.default_rng, range(PARTITIONS))
    return {"visits": [pl.DataFrame({"ts": np.sort(one.integers(0, 60_000_000, rows))}) for one in generators]}


def expected(streams: dict[str, list[pl.DataFrame]]) -> bytes:
    logs = {name: [[frame, END] for frame in frames] for name, frames in streams.items()}
    return canonical(run_oracle(JOB, logs, rows_per_call=500))


def endless(directory: Path) -> DirectorySite:
    """A site whose stream has a minute of rows, and no end."""
    site = DirectorySite(directory)
    with site.producer("visits", PARTITIONS, "producer#1") as log:
        for partition, frame in enumerate(visits()["visits"]):
            for batch in frame.to_arrow().to_batches():
                log.append(partition, batch)
    return site


def finish(site: DirectorySite) -> None:
    """Ends the stream of such a site."""
    with site.producer("visits", PARTITIONS, "producer#2") as log:
        for partition in range(PARTITIONS):
            log.mark(partition, END.ts)


def until(condition: Callable[[], object], why: str, within_s: float = 600.0) -> None:
    clock = SystemClock()
    until_s = clock.now_s() + within_s
    while not condition():
        assert clock.now_s() < until_s, why
        clock.sleep_s(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
