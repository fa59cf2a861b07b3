"""One program, any engine: the oracle's bytes.

Programs that do not await run everywhere. Those that do need nodes; a fold says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl
import pytest
from tests.conformance.programs import Accumulating, EverythingExact, SomeColumns, ThreeStages, TwoFilters
from tests.workloads import EXAMPLES, load, streams

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.engines.simulator import Simulation
from holons.engines.spark.session import session
from holons.errors import NotFoldable
from holons.program import Job, canonical
from holons.semantics import run as run_oracle
from holons.windows import END, EventClock

Logs: TypeAlias = list[pl.DataFrame]
Engine: TypeAlias = Callable[[Job, Logs], bytes]

PROGRAMS: Mapping[str, Job] = {
    **{name: load(name) for name in EXAMPLES},
    "everything exact": h.job(EverythingExact(), "clicks"),
    "accumulating": h.job(Accumulating(), "clicks"),
    "two filters": h.job(TwoFilters(), "bids"),
    "some columns": h.job(SomeColumns(), "bids", columns=["price"]),
    "three stages": h.job(ThreeStages(), "clicks"),
}
QUICKLY = ("alert_rule", "user_sessions", "three stages")
"""Folded as a stream also by `make test`: an await, sessions, several stages. A query takes seconds to start."""
LIKE = {
    "everything exact": "user_sessions",
    "accumulating": "user_sessions",
    "two filters": "bid_share",
    "some columns": "bid_share",
    "three stages": "user_sessions",
}


def ended(job: Job, logs: Logs) -> dict[str, list[list[object]]]:
    return {job.inputs[0].stream: [[log, END] for log in logs]}


def embedded(job: Job, logs: Logs, _: Path) -> bytes:
    return h.run(job, ended(job, logs), nodes=2, engine="embedded").wait().results().canonical()


def simulator(job: Job, logs: Logs, _: Path) -> bytes:
    simulation = Simulation({job.name: job}, ended(job, logs), seed=len(logs[0]))
    outcome = simulation.run({job.name: run_oracle(job, ended(job, logs))})
    assert not outcome.problem, outcome
    return canonical(simulation.world.collected(job.name))


def spark_nodes(job: Job, logs: Logs, _: Path) -> bytes:
    return h.run(job, ended(job, logs), nodes=2).wait().results().canonical()


def batch_fold(job: Job, logs: Logs, _: Path) -> bytes:
    spark, rows = session(), numbered(logs)
    has_locals = any(local.scope == "process" for local in job.layout.locals.values())
    frame = spark.createDataFrame(rows.to_arrow(compat_level=pl.CompatLevel.oldest()))
    frame = frame.coalesce(1) if has_locals or job.program.__class__ is TwoFilters else frame.repartition(3)
    return h.fold(job, frame, partitions=len(logs)).results().canonical()


def streaming_fold(job: Job, logs: Logs, tmp_path: Path) -> bytes:
    """The log as a stream, read in small rounds, and stopped on the way."""
    spark, source = session(), DirectorySite(tmp_path / "in")
    source.load({"rows": [[log] for log in logs]})
    for rows in ("17", "40"):
        frame = (
            spark.readStream.format("holons")
            .options(stream="rows", positions="true", maxRowsPerTrigger=rows)
            .load(str(source.directory))
        )
        query = h.fold(job, frame, partitions=len(logs), log=tmp_path / "out", trigger={"availableNow": True})
        query.wait(600)
    return query.finish().results().canonical()


def numbered(logs: Logs) -> pl.DataFrame:
    return pl.concat(
        log.with_columns(pl.lit(place, dtype=pl.Int32).alias("_partition"), pl.Series("_offset", np.arange(len(log))))
        for place, log in enumerate(logs)
    )


def logs_of(name: str, seed: int) -> Logs:
    """Some partitions' rows; broken ones among them, but none that is late: over a batch no row is."""
    job, like = PROGRAMS[name], LIKE.get(name, name)
    given = streams(PROGRAMS[like], *EXAMPLES[like], seed=seed, rows=60)[PROGRAMS[like].inputs[0].stream]
    logs = []
    for parts in given:
        frame = pl.concat(piece for piece in parts if isinstance(piece, pl.DataFrame))
        valid = np.flatnonzero(frame["ts"].is_not_null().to_numpy())
        observed = EventClock(job.inputs[0].disorder_us).observe(frame["ts"].drop_nulls().to_numpy())
        keep = np.ones(len(frame), dtype=bool)
        if observed.late is not None:
            keep[valid[observed.late]] = False
        logs.append(frame.filter(keep))
    return logs


@pytest.fixture(
    params=[
        embedded,
        simulator,
        pytest.param(spark_nodes, marks=pytest.mark.spark),
        pytest.param(batch_fold, marks=pytest.mark.spark),
        pytest.param(streaming_fold, marks=pytest.mark.spark),
    ],
    ids=lambda engine: engine.__name__,
)
def engine(request, tmp_path) -> Engine:
    return lambda job, logs: request.param(job, logs, tmp_path)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_engine_gives_the_oracles_bytes(name, engine, request):
    job, logs = PROGRAMS[name], logs_of(name, seed=11)
    folds = "fold" in request.node.callspec.id
    if "streaming_fold" in request.node.callspec.id and name not in QUICKLY and os.environ.get("HOLONS_VERIFY") != "1":
        pytest.skip("slow: runs with HOLONS_VERIFY=1 (make verify)")
    if folds and (job.layout.asynchronous or job.layout.lanes):
        with pytest.raises(NotFoldable, match=r"awaits|known only when all partitions are"):
            engine(job, logs)
        return
    expected = canonical(run_oracle(job, ended(job, logs)))
    assert engine(job, logs) == expected


def test_the_rows_exercise_what_they_should():
    """The comparison means something: there are several partitions, and every program puts rows out."""
    for name, job in PROGRAMS.items():
        logs = logs_of(name, seed=11)
        assert len(logs) > 1
        assert any(run_oracle(job, ended(job, logs)).values()), name


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("name", "nodes"), zip(EXAMPLES, [1, 3] * len(EXAMPLES)))
def test_nodes_in_spark_tasks_give_the_oracles_bytes(name, nodes):
    job = load(name)
    given = streams(job, *EXAMPLES[name], seed=7)
    assert h.run(job, given, nodes=nodes).wait().results().canonical() == canonical(run_oracle(job, given))


@pytest.mark.spark
def test_a_program_of_this_very_module_travels_to_spark():
    class Here(h.Program):
        n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

        def process(self, events):
            self.n.insert(1, events.ts)

        def on_window(self, window):
            yield {"n": self.n[window]}

    job = h.job(Here(), "visits")
    given = streams(load("alert_rule"), *EXAMPLES["alert_rule"], seed=1)
    assert h.run(job, given).wait().results().canonical() == canonical(run_oracle(job, given))


def test_an_unknown_engine_is_named():
    with pytest.raises(h.HolonsError, match="'flink'"):
        h.run(load("bid_share"), streams(load("bid_share"), *EXAMPLES["bid_share"], seed=1), engine="flink")
