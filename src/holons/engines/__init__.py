"""Engines run nodes: on Spark, or embedded in this process and its children. Same program, same bytes.

`run` is the door: it starts nodes on a job, and returns a handle.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holons.clock import SystemClock
from holons.disk import Durability
from holons.engines.choosing import EngineName, chosen_engine, nodes_of
from holons.engines.collecting import emitted_by
from holons.engines.directory_site import IN_MEMORY, DirectorySite
from holons.engines.feeding import FedNodes, Feeder, is_live
from holons.engines.handle import DriverNodes, Nodes, Run, Work
from holons.engines.inputs import PartitionRows, check_job, check_names, check_partitions, fill
from holons.engines.results import DeadRows, LateRows, Results
from holons.engines.scratch import scratch
from holons.engines.status import NodeStatus, PartitionStatus, Status, WaitingFor
from holons.errors import BadInput, InputTrimmed
from holons.node import Beginning, Settings, Site, no_disk
from holons.program import Job

if TYPE_CHECKING:
    from holons.engines.spark.frames import SparkSession

Streams = Mapping[str, Sequence[PartitionRows]]


def run(
    job: Job,
    streams: Streams | None = None,
    *,
    nodes: int = 2,
    engine: EngineName | None = None,
    log: Path | str | None = None,
    store: str | None = None,
    upgrade: bool = False,
    spark_session: SparkSession | None = None,
    settings: Settings | None = None,
    durability: Durability | None = None,
) -> Run:
    """Starts a job on nodes, and returns its handle at once: `h.run(job, streams).wait().results()`.

    `streams` are `{"bids": [partition 0, partition 1, …]}`. A partition is a table, a list of batches, or an iterator of
    batches, which is read while the job runs. With `log`, a directory, everything is kept there: the streams are loaded into
    it first; without streams the job goes on with those that are in it, from where an earlier run of it was, however that
    ended. Without `log` nothing is left at the end. Checkpoints may be elsewhere: `store` is a path, a URI, or
    `"memory"`: nodes hold them for each other. With `upgrade` the job takes over from its older version. What is in the
    directory survives the death of any process, and with `durability="disk"` that of the machine.

    With `engine="spark"` each node is a task of `spark_session`, of the active session, or of one that is opened. With
    `"embedded"` there is no Spark: nodes take turns in this process, or with a `log` are processes of their own. If `engine`
    is left out, it is Spark where Spark and Java are installed; elsewhere a warning says that it is not.
    """
    check_inputs(job, streams, nodes, log)
    engine = chosen_engine(engine, spark=spark_session is not None)
    settings = settings or Settings()
    if durability is not None:
        settings = replace(settings, durability=durability)
    check_settings(settings, nodes, store)
    if log is None and settings.durability == "disk":
        raise no_disk()
    live = {stream: partitions for stream, partitions in (streams or {}).items() if is_live(partitions)}
    bounded = {stream: partitions for stream, partitions in (streams or {}).items() if stream not in live}
    feeder = Feeder()
    with ExitStack() as begun:
        at_work: Nodes
        beginnings: Sequence[Beginning] = ()
        site: Site
        if engine == "embedded" and log is None:
            from holons.engines.embedded.nodes import TurnNodes
            from holons.engines.memory_site import MemorySite, logs_of

            site = memory = MemorySite(logs_of(bounded), SystemClock() if live else None)
            _feed(memory, live, feeder, begun)
            at_work = TurnNodes(job, memory, nodes, settings)
        else:
            site = DirectorySite(begun.enter_context(scratch()) if log is None else log, store, settings.durability)
            _check_streams(site, job, streams)
            driver = begun.enter_context(nodes_of(engine, site, settings, nodes, spark_session=spark_session))
            with ExitStack() as loading:  # all or none
                for stream, partitions in bounded.items():
                    fill(loading.enter_context(site.loading(stream, len(partitions))), partitions)
            for stream, partitions in live.items():
                site.create(stream, len(partitions))
            _feed(site, live, feeder, begun)
            at_work = driver_nodes = DriverNodes(driver, job, nodes, upgrade=upgrade)
            beginnings = driver_nodes.beginnings
        if live:
            at_work = FedNodes(at_work, feeder)
        emitted = partial(emitted_by, site, job, at_work.version)
        handle = Run(job, Work(job, at_work, emitted, begun.pop_all(), kept=log is not None), beginnings)
    if handle.trimmed_inputs:
        warnings.warn(handle.trimmed_inputs, InputTrimmed, stacklevel=2)
    return handle


def _feed(site: Site, streams: Streams, feeder: Feeder, ending: ExitStack) -> None:
    """Begins to fill live streams; `ending` stops that and closes their logs."""
    for stream, partitions in streams.items():
        log = site.producer(stream, len(partitions), f"feeder-{uuid.uuid4().hex[:8]}")
        ending.callback(log.close)
        feeder.feed(stream, log, partitions)
    ending.callback(feeder.stop)


def _check_streams(site: Site, job: Job, streams: Streams | None) -> None:
    """Streams that are given must not be in the site yet; without any, those that the job reads must be there."""
    known = site.streams()
    for source in job.inputs:
        if streams is None and source.stream not in known:
            raise BadInput(
                f"the job reads {source.stream!r}, and there is no such stream in {site.name}",
                hint=f"pass its rows: h.run(job, {{{source.stream!r}: [partition, ...]}}, log=...)",
            )
        if streams is not None and source.stream in known:
            raise BadInput(
                f"stream {source.stream!r} is in {site.name} already",
                hint="leave out the streams to go on with it, h.run(job, log=...), or choose another directory",
            )


def check_settings(settings: Settings, nodes: int, store: str | None) -> None:
    """Raises `BadInput` for settings that so many nodes cannot follow."""
    if settings.replicas > nodes:
        raise BadInput(
            f"Settings(replicas={settings.replicas}) asks for more nodes than nodes={nodes}",
            hint=f"nodes={settings.replicas} or more",
        )
    if store == IN_MEMORY and settings.copies >= nodes:
        others = f"{settings.copies} other node{'s' if settings.copies > 1 else ''}"
        raise BadInput(
            f"with checkpoints in memory each is held by {others}, and nodes={nodes}",
            hint=f"nodes={settings.copies + 1} or more, or leave store out",
        )


def check_inputs(job: Job, streams: Streams | None, nodes: int, log: Path | str | None = None) -> None:
    """Says what is wrong with what was passed to `run`, before anything starts."""
    check_job(job)
    if nodes < 1:
        raise BadInput(f"{nodes} nodes cannot run anything", hint="nodes=1 or more")
    if streams is None and log is not None:
        return
    if not isinstance(streams, Mapping):
        raise BadInput("streams are passed by name", hint=f"{{{job.inputs[0].stream!r}: [partition, ...]}}")
    check_names(job, streams, "[partition, ...]")
    for stream, partitions in streams.items():
        if not isinstance(partitions, list | tuple) or not partitions:
            passed = "an empty one" if isinstance(partitions, list | tuple) else type(partitions).__name__
            raise BadInput(
                f"stream {stream!r} needs a list of partitions, not {passed}",
                hint=f"{{{stream!r}: [rows]}} for a single one, which may have no rows",
            )
        check_partitions(stream, partitions)


__all__ = [
    "DeadRows",
    "EngineName",
    "LateRows",
    "NodeStatus",
    "PartitionRows",
    "PartitionStatus",
    "Results",
    "Run",
    "Status",
    "WaitingFor",
    "run",
]
