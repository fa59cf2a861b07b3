"""Live inputs: partitions that are Python iterators, read by threads of this process while the job runs.

A partition has the order in which its iterator gives rows, so results depend on the rows alone, not on when they came.
An iterator that ends, ends its partition; one that raises fails the run with its error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from holons.engines.handle import Nodes
from holons.engines.inputs import PartitionRows, pieces
from holons.engines.status import Status
from holons.streams import AppendableLog
from holons.windows import Mark


def is_live(partitions: Sequence[PartitionRows]) -> bool:
    """Whether a stream has a partition whose rows are still to come."""
    return any(isinstance(rows, Iterator) for rows in partitions)


class Feeder:
    """Appends what iterators give to logs, one thread for each partition."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._stopped = False
        self._writing = threading.Lock()

    def feed(self, stream: str, log: AppendableLog, partitions: Sequence[PartitionRows]) -> None:
        """Begins to fill a log; returns at once."""
        for number, rows in enumerate(partitions):
            name = f"holons feeds {stream}[{number}]"
            threading.Thread(target=self._fill, args=(log, number, rows), name=name, daemon=True).start()

    def stop(self) -> None:
        """Appends nothing more from now on. An iterator that waits for its next rows is left waiting."""
        with self._writing:
            self._stopped = True

    def _fill(self, log: AppendableLog, partition: int, rows: PartitionRows) -> None:
        live = isinstance(rows, Iterator)  # beside live partitions there may be bounded ones
        try:
            for piece in pieces(rows):
                with self._writing:  # a log has one writer
                    if self._stopped:
                        return
                    if isinstance(piece, Mark):
                        log.mark(partition, piece.ts)
                    else:
                        log.append(partition, piece, live=live)
        except BaseException as error:  # noqa: BLE001 - a user's iterator may raise anything: the run fails with it
            self.error = error


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
