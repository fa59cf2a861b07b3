"""A job over a stream that is still being written, so that a test decides what happens before it ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from tests.workloads import load

from holons.clock import SystemClock
from holons.engines.directory_site import DirectorySite
from holons.node.messages import Heartbeat, decode_claim, decode_heartbeat
from holons.program import Job, canonical
from holons.semantics import run as run_oracle
from holons.streams import Cursor
from holons.windows import END

PARTITIONS = 4
ROWS = 20
PACE_S = 0.1
SECOND = 1_000_000


def until(condition: Callable[[], object], why: str, within_s: float = 600.0) -> None:
    clock = SystemClock()
    until_s = clock.now_s() + within_s
    while not condition():
        assert clock.now_s() < until_s, why
        clock.sleep_s(0.01)


class LiveInput:
    """Bids, a second of event time at a go, for as long as the test wants."""

    def __init__(self, directory: Path) -> None:
        self.site = DirectorySite(directory)
        self.job: Job = load("bid_share")
        self.site.create("bids", PARTITIONS)
        self._log = self.site.producer("bids", PARTITIONS, "producer#1")
        self._rows: list[list[pl.DataFrame]] = [[] for _ in range(PARTITIONS)]
        self._rng = np.random.default_rng(7)
        self._second = 0
        self._clock, self._wrote_s = SystemClock(), float("-inf")

    def more(self) -> None:
        """One more second, unless the last one has only just come."""
        if self._clock.now_s() - self._wrote_s < PACE_S:
            return
        self._wrote_s = self._clock.now_s()
        for partition in range(PARTITIONS):
            ts = self._second * SECOND + np.sort(self._rng.integers(0, SECOND, ROWS))
            frame = pl.DataFrame({"ts": ts, "kind": self._rng.choice(["bid", "x"], ROWS)})
            self._rows[partition].append(frame)
            for batch in frame.to_arrow().to_batches():
                self._log.append(partition, batch)
        self._second += 1

    @property
    def rows(self) -> int:
        """How many rows each partition has by now."""
        return self._second * ROWS

    def end(self) -> None:
        for partition in range(PARTITIONS):
            self._log.mark(partition, END.ts)
        self._log.close()

    def expected(self) -> object:
        return canonical(run_oracle(self.job, {"bids": [[*frames, END] for frames in self._rows]}, rows_per_call=500))

    def found(self) -> object:
        return canonical(self.site.collected(self.job.name))


class Witness:
    """Follows what nodes tell each other. Claims are read first, so that a claim seen without a heartbeat came before it."""

    def __init__(self, site: DirectorySite) -> None:
        self._heartbeats = site.shared("heartbeats", "witness")
        self._control = site.shared("control", "witness")
        self._heartbeats_at: Cursor = {}
        self._control_at: Cursor = {}
        self.owners: dict[int, tuple[int, str]] = {}
        self.newest: dict[str, Heartbeat] = {}
        self.heartbeats: dict[str, list[Heartbeat]] = {}

    def look(self) -> None:
        for message in self._control.read(self._control_at, 100_000):
            claim = decode_claim(message.data)
            known = self.owners.get(claim.partition, (-1, ""))
            self.owners[claim.partition] = max(known, (claim.epoch, claim.node))
        for message in self._heartbeats.read(self._heartbeats_at, 100_000):
            heartbeat = decode_heartbeat(message.data)
            self.newest[heartbeat.node] = heartbeat
            self.heartbeats.setdefault(heartbeat.node, []).append(heartbeat)

    def owned_by(self, node: str) -> set[int]:
        return {partition for partition, (_, owner) in self.owners.items() if owner == node}

    def runs(self, node: str) -> dict[int, int]:
        """What a node said last that it runs, and how far it is."""
        heartbeat = self.newest.get(node)
        return {one.partition: one.offset for one in heartbeat.running} if heartbeat else {}


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def with_environment(name: str, value: str) -> set[int]:
    """All processes that were started with this in their environment, this one excepted."""
    wanted, found = f"{name}={value}".encode(), set()
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and int(place.name) != os.getpid():
            try:
                if wanted in (place / "environ").read_bytes().split(b"\0"):
                    found.add(int(place.name))
            except OSError:
                continue
    return {pid for pid in found if running(pid)}
