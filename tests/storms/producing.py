"""A producer of a storm: appends rows until it is asked to end, is fenced off, or dies, and notes what was acknowledged.

Its notes are lines of a file, which survive it: what it is about to append, and where that was acknowledged. It does what
the documentation says: if a log does not answer, it puts the same rows at the same place until it does.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.storms.market import STREAM, Batch

from holons.engines.directory_site import DirectorySite
from holons.errors import LogUnavailable, ProducerFenced

FENCED = 3
_PERIOD_S = 0.05


class Notes:
    """Lines that are in the file as soon as they are written."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def line(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def main(order: dict[str, Any]) -> int:
    seed, producer, notes = order["seed"], order["producer"], Notes(Path(order["notes"]))
    ending: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ending.append(number))
    rng = random.Random(f"{seed} {producer}")
    log = DirectorySite(order["site"]).producer(STREAM, order["partitions"], f"producer-{producer}")
    offsets: dict[int, int] = {}
    number = 0
    storm = os.getppid()
    while not ending and os.getppid() == storm:
        for partition in order["own"]:
            batch = Batch(seed, producer, number, partition, time.time_ns() // 1_000, rng.randint(1, order["rows_max"]))
            number += 1
            try:
                offsets[partition] = _append(log, batch, notes, offsets)
            except ProducerFenced:
                notes.line("fenced", partition)
                return FENCED
        time.sleep(rng.uniform(0, 2 * _PERIOD_S))
    log.close()
    return 0


def _append(log, batch: Batch, notes: Notes, offsets: dict[int, int]) -> int:
    """Appends a batch; returns where it ends."""
    partition, rows = batch.partition, batch.record_batch()
    while True:
        try:
            offset = offsets.get(partition)
            offset = offsets[partition] = log.take(partition) if offset is None else offset
            notes.line("begin", batch.number, partition, batch.at, batch.rows, offset)
            log.put(partition, offset, rows)
            notes.line("acknowledged", batch.number, partition, offset)
            return offset + batch.rows
        except LogUnavailable as error:
            notes.line("unavailable", batch.number, partition, repr(str(error)))
            time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
