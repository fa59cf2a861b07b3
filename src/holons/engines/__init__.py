"""Engines run nodes: embedded in this process, or as tasks on Spark. Same program, same bytes.

`run` is the door: it puts bounded inputs into logs, runs a job over them, and returns every output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from holons.engines.inputs import PartitionRows
from holons.engines.results import Results
from holons.errors import BadInput
from holons.program import Job

EngineName = Literal["embedded", "spark"]


def run(
    job: Job, streams: Mapping[str, Sequence[PartitionRows]], *, nodes: int = 1, engine: EngineName = "embedded"
) -> Results:
    """Runs a job over bounded streams: `{"bids": [partition 0, partition 1, …]}`, each a table or a list of batches."""
    missing = [given.stream for given in job.inputs if given.stream not in streams]
    if missing:
        raise BadInput(f"no rows for stream {missing[0]!r}", hint=f"pass {{{missing[0]!r}: [partition, ...]}}")
    if engine == "spark":
        from holons.engines.spark import run as run_on_spark

        return run_on_spark(job, streams, nodes=nodes)
    if engine == "embedded":
        from holons.engines.embedded import run as run_embedded

        return run_embedded(job, streams, nodes=nodes)
    raise BadInput(f"no engine {engine!r}", hint='engine="embedded" or engine="spark"')


__all__ = ["EngineName", "PartitionRows", "Results", "run"]
