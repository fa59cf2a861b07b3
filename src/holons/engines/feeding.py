"""Live inputs: partitions that are Python iterators, read by threads of this process while the job runs.

A partition has the order in which its iterator gives rows, so results depend on the rows alone, not on when they came.
An iterator that ends, ends its partition; one that raises fails the run with its error. While the log cannot be written (the
disk is full), the rows wait, and so does the iterator.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from holons.clock import SystemClock
from holons.engines.handle import Nodes
from holons.engines.inputs import PartitionRows, pieces
from holons.engines.status import Status
from holons.errors import LogUnavailable
from holons.streams import ProducerLog
from holons.windows import Mark

_AGAIN_S: Final = 0.1
_WARN_EVERY: Final = 100

logger = logging.getLogger("holons.inputs")


def is_live(partitions: Sequence[PartitionRows]) -> bool:
    """Whether a stream has a partition whose rows are still to come."""
    return any(isinstance(rows, Iterator) for rows in partitions)


class Feeder:
    """Appends what iterators give to logs, one thread for each partition."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._stopped = False
        self._writing = threading.Lock()

    def feed(self, stream: str, log: ProducerLog, partitions: Sequence[PartitionRows]) -> None:
        """Begins to fill a log; returns at once."""
        for number, rows in enumerate(partitions):
            name = f"holons feeds {stream}[{number}]"
            threading.Thread(target=self._fill, args=(log, number, rows), name=name, daemon=True).start()

    def stop(self) -> None:
        """Appends nothing more from now on. An iterator that waits for its next rows is left waiting."""
        with self._writing:
            self._stopped = True

    def _fill(self, log: ProducerLog, partition: int, rows: PartitionRows) -> None:
        live = isinstance(rows, Iterator)  # beside live partitions there may be bounded ones
        try:
            for piece in pieces(rows):
                if not self._written(log, partition, piece, live=live):
                    return
        except BaseException as error:  # noqa: BLE001 - a user's iterator may raise anything: the run fails with it
            self.error = error

    def _written(self, log: ProducerLog, partition: int, piece: pa.RecordBatch | Mark, *, live: bool) -> bool:
        """Writes rows or a mark, as soon as that is possible; returns False if nothing is written any more.

        Nobody knows what became of a write that failed. So it is tried again at the position at which it was tried first.
        """
        offset, tries = None, 0
        while True:
            try:
                with self._writing:  # a log has one writer
                    if self._stopped:
                        return False
                    offset = log.take(partition) if offset is None else offset
                    if isinstance(piece, pa.RecordBatch):
                        log.put(partition, offset, piece, live=live)
                    elif log.end(partition) == offset:
                        log.mark(partition, piece.ts)
                return True
            except LogUnavailable as error:
                if tries % _WARN_EVERY == 0:
                    logger.warning("partition %d of an input waits: %s", partition, error)
                tries += 1
                SystemClock().sleep_s(_AGAIN_S)


class FedNodes:
    """Nodes whose inputs are still being filled."""

    def __init__(self, nodes: Nodes, feeder: Feeder) -> None:
        self._nodes, self._feeder = nodes, feeder
        self.version, self.pause_s = nodes.version, nodes.pause_s

    def tend(self) -> bool:
        if self._feeder.error is not None:
            raise self._feeder.error
        return self._nodes.tend()

    def look(self) -> Status:
        return self._nodes.look()
