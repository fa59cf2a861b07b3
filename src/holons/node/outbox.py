"""What a partition has to write: outputs, then messages of the sync stream, in this order, until their logs have them."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from holons.errors import LogUnavailable
from holons.program import Output, SyncMessage
from holons.streams import WritableLog

if TYPE_CHECKING:
    from holons.node.job_on_node import JobOnNode


class Outbox:
    """Outputs and sync messages of a partition that are not written yet: a log that does not answer delays them, no more."""

    def __init__(self, here: JobOnNode, partition: int) -> None:
        self._here = here
        self._partition = partition
        self._positioned = not here.settings.appends
        self._outputs: deque[Output] = deque()
        self._messages: deque[SyncMessage] = deque()

    def __bool__(self) -> bool:
        """Whether anything waits to be written."""
        return bool(self._outputs or self._messages)

    def add(self, outputs: Iterable[Output], messages: Iterable[SyncMessage]) -> None:
        """Takes over what a run has emitted and sealed."""
        self._outputs.extend(outputs)
        self._messages.extend(messages)

    def write(self) -> bool:
        """Writes what waits: outputs, then messages. False if a log does not answer."""
        try:
            while self._outputs:
                self._put(self._outputs[0])
                self._outputs.popleft()
            while self._messages:
                self._here.sync.append(self._messages[0].encode())
                self._messages.popleft()
        except LogUnavailable:
            return False
        return True

    def _put(self, output: Output) -> None:
        log, at = self._log(output.channel), output.ordinal
        for batch in output.table.to_batches():
            assert isinstance(batch, pa.RecordBatch)
            if self._positioned:
                log.put(output.partition, at, batch)
            else:
                log.append(output.partition, batch)
            at += batch.num_rows

    def written_to(self, channel: str) -> int:
        """Up to which ordinal a channel is written. Where ordinals are no positions, a record is believed."""
        return self._log(channel).end(self._partition) if self._positioned else sys.maxsize

    def _log(self, channel: str) -> WritableLog:
        return self._here.ports.output(self._here.name, channel, len(self._here.places))
