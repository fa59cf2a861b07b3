"""Engines run nodes: embedded in this process, or as tasks on Spark. Same program, same bytes.

`run` is the door: it puts bounded inputs into logs, runs a job over them, and returns every output.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Literal

from holons.engines.inputs import PartitionRows, check_partitions
from holons.engines.results import Results
from holons.errors import BadInput
from holons.program import Job

EngineName = Literal["embedded", "spark"]


def run(
    job: Job, streams: Mapping[str, Sequence[PartitionRows]], *, nodes: int = 1, engine: EngineName = "embedded"
) -> Results:
    """Runs a job over bounded streams: `{"bids": [partition 0, partition 1, …]}`, each a table or a list of batches."""
    check_inputs(job, streams, nodes)
    if engine == "spark":
        from holons.engines.spark import run as run_on_spark

        collected = run_on_spark(job, streams, nodes=nodes)
    elif engine == "embedded":
        from holons.engines.embedded import run as run_embedded

        collected = run_embedded(job, streams, nodes=nodes)
    else:
        raise BadInput(f"no engine {engine!r}", hint='engine="embedded" or engine="spark"')
    results = Results(collected, tuple(callback.channel for callback in job.layout.callbacks))
    if late := len(results.rows("late")):
        warnings.warn(
            f"{late} rows were late and set aside: see results.rows('late'), or allow more disorder in h.job(...)",
            LateRows,
            stacklevel=2,
        )
    return results


class LateRows(UserWarning):
    """Rows came below their partition's watermark. They are in the channel `late`."""


def check_inputs(job: Job, streams: Mapping[str, Sequence[PartitionRows]], nodes: int) -> None:
    """Says what is wrong with what was passed to `run`, before anything starts."""
    if not isinstance(job, Job):
        raise BadInput(f"a {type(job).__name__} is not a job", hint='bind it first: h.job(MyProgram(), "stream")')
    if not isinstance(streams, Mapping):
        raise BadInput("streams are passed by name", hint=f"{{{job.inputs[0].stream!r}: [partition, ...]}}")
    if nodes < 1:
        raise BadInput(f"{nodes} nodes cannot run anything", hint="nodes=1 or more")
    for given in job.inputs:
        if given.stream not in streams:
            raise BadInput(f"no rows for stream {given.stream!r}", hint=f"pass {{{given.stream!r}: [partition, ...]}}")
        partitions = streams[given.stream]
        if not isinstance(partitions, list | tuple) or not partitions:
            raise BadInput(
                f"stream {given.stream!r} needs a list of partitions, not {type(partitions).__name__}",
                hint=f"{{{given.stream!r}: [rows]}} for a single one",
            )
        check_partitions(given.stream, partitions)
    unknown = [name for name in streams if name not in {given.stream for given in job.inputs}]
    if unknown:
        raise BadInput(f"the job does not read {unknown[0]!r}", hint=f"name it in h.job(program, ..., {unknown[0]!r})")


__all__ = ["EngineName", "LateRows", "PartitionRows", "Results", "run"]
