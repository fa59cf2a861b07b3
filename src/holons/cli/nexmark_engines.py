"""Who can run one of Nexmark's queries, for `holons nexmark verify` and for tests: a name, and a function for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import holons as h
from holons.engines.scratch import scratch
from holons.engines.simulator import Kind, Simulation
from holons.errors import BadInput, InvariantBroken
from holons.nexmark.verify import Runner, Streams, table_of
from holons.program import Collected
from holons.program.dataflow import Flow
from holons.semantics import run as run_oracle
from holons.windows import END

Maker: TypeAlias = Callable[[int, int], Runner]
"""Makes a runner of a number of nodes and a seed; most need but one of them, or neither."""

_ORACLE_ROWS: Final = 1000


def embedded(nodes: int = 2, seed: int = 0) -> Runner:
    """Nodes that take turns in this process."""
    return lambda job, streams: h.run(job, streams, engine="embedded", nodes=nodes).wait().results().collected


def processes(nodes: int = 2, seed: int = 0) -> Runner:
    """Nodes that are processes of their own, over a log on disk."""

    def run(job: Flow, streams: Streams) -> Collected:
        with scratch() as log:
            return h.run(job, streams, engine="embedded", nodes=nodes, log=log).wait().results().collected

    return run


def spark(nodes: int = 2, seed: int = 0) -> Runner:
    """Nodes that are Spark tasks."""
    return lambda job, streams: h.run(job, streams, nodes=nodes).wait().results().collected


def fold(nodes: int = 2, seed: int = 0) -> Runner:
    """The rows as DataFrames, folded by Spark tasks."""

    def run(job: Flow, streams: Streams) -> Collected:
        from holons.engines.spark.session import session

        frames = {name: session().createDataFrame(table_of(name, parts)) for name, parts in streams.items()}
        counts = {name: len(parts) for name, parts in streams.items()}
        return h.fold(job, frames, partitions=counts).results().collected

    return run


def simulator(nodes: int = 3, seed: int = 0) -> Runner:
    """Nodes in virtual time, under the faults that a seed draws; they must also agree with the oracle, byte for byte."""

    def run(job: Flow, streams: Streams) -> Collected:
        expected = {job.name: oracle()(job, streams)}
        simulation = Simulation({job.name: job}, streams, seed, nodes=nodes, kinds=tuple(Kind))
        outcome = simulation.run(expected)
        if outcome.problem:
            raise InvariantBroken(f"nodes under faults differ from the oracle: {outcome}", job=job.name)
        return simulation.world.collected(job.name)

    return run


def oracle(nodes: int = 1, seed: int = 0) -> Runner:
    """No nodes at all: the sequential oracle, which keeps every row and recomputes each window."""

    def run(job: Flow, streams: Streams) -> Collected:
        ended = {name: [[*pieces, END] for pieces in parts] for name, parts in streams.items()}
        return run_oracle(job, ended, rows_per_call=_ORACLE_ROWS)

    return run


ENGINES: Final[dict[str, Maker]] = {
    "embedded": embedded,
    "processes": processes,
    "spark": spark,
    "fold": fold,
    "simulator": simulator,
    "oracle": oracle,
}


def runner(engine: str, nodes: int, seed: int) -> Runner:
    """Who runs a query; says at once if there is nobody of that name, or not what it needs."""
    from holons.engines.choosing import check_spark

    if engine not in ENGINES:
        raise BadInput(f"no engine {engine!r}", hint=f"--engine {', '.join(ENGINES)}")
    if engine in ("spark", "fold"):
        check_spark()
    return ENGINES[engine](nodes, seed)
