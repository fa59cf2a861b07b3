"""Runs a job on a node that lives in a Spark task.

The task is a job of one task (`spark.range(1).mapInArrow`): it holds its slot until it is done, and hands back what
the node put out, as canonical bytes. The program travels in Spark's closure; nothing else is ever unpickled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from holons import codec
from holons.engines.inputs import PartitionRows, pieces
from holons.engines.spark.session import session
from holons.errors import BadInput
from holons.program import Collected, Job
from holons.windows import Mark

_SCHEMA = "channel string, partition int, rows binary"
_Shipped = dict[str, list[list[bytes | int]]]


def run(
    job: Job,
    streams: Mapping[str, Sequence[PartitionRows]],
    *,
    nodes: int = 1,
    spark: SparkSession | None = None,
) -> Collected:
    """Runs a job over bounded streams on one Spark task."""
    if nodes != 1:
        raise BadInput(
            f"{nodes} nodes on Spark over memory logs", hint="memory is not shared: use nodes=1, or embedded"
        )
    spark = spark or session()
    travels_by_value(type(job.program).__module__)
    task = node_task(job, {name: [_ship(rows) for rows in partitions] for name, partitions in streams.items()})
    collected: Collected = {}
    for row in spark.range(1).mapInArrow(task, _SCHEMA).collect():
        collected.setdefault(row.channel, {})[row.partition] = codec.decode(bytes(row.rows))
    return collected


def node_task(job: Job, shipped: _Shipped) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What Spark runs: a whole node, from its inputs to its outputs."""

    def run_node(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from holons.engines.embedded import run as run_embedded

        for _ in batches:
            streams = {name: [_unship(rows) for rows in partitions] for name, partitions in shipped.items()}
            for channel, partitions in run_embedded(job, streams).items():
                for partition, rows in partitions.items():
                    yield pa.record_batch(
                        {
                            "channel": pa.array([channel]),
                            "partition": pa.array([partition], pa.int32()),
                            "rows": pa.array([codec.encode(rows)], pa.binary()),
                        }
                    )

    return run_node


def travels_by_value(module_name: str) -> None:
    """Lets a program's module travel inside the closure, unless it is installed on the other side as well."""
    module: ModuleType | None = sys.modules.get(module_name)
    path = getattr(module, "__file__", None) or ""
    installed = module_name.partition(".")[0] == "holons" or "site-packages" in path
    if module is not None and module_name != "__main__" and not installed:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _ship(rows: PartitionRows) -> list[bytes | int]:
    """A partition as Arrow's own bytes; marks as their time."""
    shipped: list[bytes | int] = []
    for piece in pieces(rows):
        if isinstance(piece, Mark):
            shipped.append(piece.ts)
        else:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, piece.schema) as writer:
                writer.write_batch(piece)
            shipped.append(sink.getvalue().to_pybytes())
    return shipped


def _unship(shipped: list[bytes | int]) -> list[pa.RecordBatch | Mark]:
    return [Mark(piece) if isinstance(piece, int) else pa.ipc.open_stream(piece).read_next_batch() for piece in shipped]
