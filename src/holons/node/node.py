"""A node: one replica, any number of partitions, one loop.

`tick()` gives every partition a slice of work and never blocks. Nodes talk through logs alone: they read inputs and
the sync stream, and write deltas and outputs. So any number of nodes may run, and they may run the same partition
(invariant: overlap is harmless).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from holons.program import Job, Output, PartitionRun
from holons.streams import Log
from holons.wcrdt import Delta, Replica

_SYNC_SCHEMA = pa.schema([("delta", pa.binary())])
_READ_ROWS = 100_000


@dataclass
class Ports:
    """What a node is connected to: a log for each input stream, the sync stream, and one log for each channel."""

    inputs: dict[str, Log]
    sync: Log
    new_output: Callable[[str], Log]
    outputs: dict[str, Log] = field(default_factory=dict)

    def output(self, channel: str) -> Log:
        """The log of a channel; made when its first row is written."""
        if channel not in self.outputs:
            self.outputs[channel] = self.new_output(channel)
        return self.outputs[channel]


def partitions_of(job: Job, inputs: dict[str, Log]) -> list[tuple[int, int]]:
    """The partitions of a job: for each, which input it reads and which of that stream's partitions."""
    return [
        (index, partition)
        for index, given in enumerate(job.inputs)
        for partition in range(inputs[given.stream].partitions)
    ]


class Node:
    """Runs some of a job's partitions."""

    def __init__(self, job: Job, ports: Ports, owned: Sequence[int], rows_max: int = _READ_ROWS) -> None:
        self.job = job
        self.ports = ports
        self._rows_max = rows_max
        self._places = partitions_of(job, ports.inputs)
        self.replica = Replica(job.layout.handles, len(self._places))
        self._runs = {
            number: PartitionRun(job, number, len(self._places), input_index=self._places[number][0])
            for number in owned
        }
        self._synced_to = 0

    def tick(self) -> bool:
        """One slice of work for everybody; says whether anything happened."""
        happened = self._sync()
        for number, run in self._runs.items():
            happened |= self._read(number, run)
            happened |= run.work(self.replica)
            self._write(run)
        return happened

    def _read(self, number: int, run: PartitionRun) -> bool:
        if run.parked or run.process.busy:
            return False
        index, partition = self._places[number]
        log = self.ports.inputs[self.job.inputs[index].stream]
        chunks = log.read(partition, run.process.read_to, self._rows_max)
        for chunk in chunks:
            if chunk.rows is None:
                assert chunk.mark is not None
                run.mark(chunk.mark, chunk.offset)
            else:
                run.feed(chunk.rows, chunk.offset)
        return bool(chunks)

    def _write(self, run: PartitionRun) -> None:
        outputs, deltas = run.drain()
        for output in outputs:
            self._put(output)
        for delta in deltas:
            self.ports.sync.append(0, pa.record_batch([[delta.encode()]], schema=_SYNC_SCHEMA))

    def _put(self, output: Output) -> None:
        log, at = self.ports.output(output.channel), output.ordinal
        for batch in output.table.to_batches():
            log.put(output.partition, at, batch)
            at += batch.num_rows

    def _sync(self) -> bool:
        chunks = self.ports.sync.read(0, self._synced_to, self._rows_max)
        for chunk in chunks:
            assert chunk.rows is not None
            for data in chunk.rows.column(0):
                self.replica.apply(Delta.decode(data.as_py()))
            self._synced_to = chunk.offset + chunk.length
        return bool(chunks)
