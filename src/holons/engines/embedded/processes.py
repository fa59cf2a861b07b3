"""Nodes in processes of their own, over LMDB logs and a directory of checkpoints. No JVM.

The parent starts, kills and restarts nodes; it coordinates nothing. Each start is a new incarnation with a new name.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path

import cloudpickle

from holons.clock import SystemClock
from holons.engines.inputs import PartitionRows, pieces
from holons.errors import BadInput
from holons.node import Node, Ports, Settings
from holons.program import Collected, Job
from holons.store import DirectoryStore
from holons.streams import LmdbLog, LmdbSharedLog, streams_in
from holons.windows import Mark

_IDLE_S = 0.001
_spawn = multiprocessing.get_context("spawn")


class Site:
    """A directory with everything that the nodes of one machine share."""

    def __init__(self, directory: Path, streams: Mapping[str, int], job_partitions: int) -> None:
        self.directory = directory
        self._streams = dict(streams)
        self._job_partitions = job_partitions

    def ports(self, name: str) -> Ports:
        """The site as one node incarnation sees it; call this in the node's own process."""
        logs: dict[str, LmdbLog] = {}

        def log(folder: str, stream: str, partitions: int) -> LmdbLog:
            key = f"{folder}/{stream}"
            if key not in logs:
                logs[key] = LmdbLog(self.directory / folder, stream, partitions, name)
            return logs[key]

        def shared(stream: str) -> LmdbSharedLog:
            return LmdbSharedLog(self.directory / "shared", stream, name)

        return Ports(
            clock=SystemClock(),
            beats=shared("beats"),
            control=shared("control"),
            sync=lambda job: shared(f"sync-{job}"),
            previews=lambda job: shared(f"previews-{job}"),
            input=lambda stream: log("input", stream, self._streams[stream]),
            output=lambda job, channel: log(f"output-{job}", channel, self._job_partitions),
            store=DirectoryStore(self.directory / "store"),
        )

    def load(self, streams: Mapping[str, Sequence[PartitionRows]]) -> None:
        """Appends bounded inputs to the input logs."""
        for stream, partitions in streams.items():
            with LmdbLog(self.directory / "input", stream, len(partitions), "producer#1") as log:
                for partition, rows in enumerate(partitions):
                    for piece in pieces(rows):
                        if isinstance(piece, Mark):
                            log.mark(partition, piece.ts)
                        else:
                            log.append(partition, piece)

    def collected(self, job: Job) -> Collected:
        """All outputs of a job so far, merged over all writers by position."""
        collected: Collected = {}
        folder = self.directory / f"output-{job.name}"
        for channel in streams_in(folder):
            with LmdbLog(folder, channel, self._job_partitions, "reader#1") as log:
                for partition in range(self._job_partitions):
                    chunks = log.read(partition, 0, log.end(partition) + 1)
                    rows = [row for chunk in chunks if chunk.rows is not None for row in chunk.rows.to_pylist()]
                    if rows:
                        collected.setdefault(channel, {})[partition] = rows
        return collected


class ProcessNodes:
    """Node processes over one site."""

    def __init__(self, site: Site, job: Job, settings: Settings | None = None) -> None:
        self._site = site
        self._job = cloudpickle.dumps(job)
        self._settings = settings or Settings()
        if self._settings.guarantee != "exactly-once":
            raise BadInput(
                "LMDB logs take appends of one writer only", hint='they check positions: keep guarantee="exactly-once"'
            )
        self._incarnations = 0
        self.running: dict[str, tuple[SpawnProcess, Event]] = {}
        self._stop = _spawn.Event()

    def start(self) -> str:
        """Starts one more node; returns its name."""
        self._incarnations += 1
        name, settled = f"node-{self._incarnations}#1", _spawn.Event()
        arguments = (self._site, name, self._job, self._settings, settled, self._stop)
        process = _spawn.Process(target=run_node, args=arguments, daemon=True, name=name)
        process.start()
        self.running[name] = (process, settled)
        return name

    def kill(self, name: str) -> None:
        """SIGKILL: no goodbye."""
        process, _ = self.running.pop(name)
        process.kill()
        process.join()

    def wait(self, timeout_s: float) -> bool:
        """Waits until every node says that everything is out; False if that takes too long."""
        clock = SystemClock()
        until_s = clock.now_s() + timeout_s
        return all(settled.wait(max(0.0, until_s - clock.now_s())) for _, settled in self.running.values())

    def stop(self) -> None:
        """Asks all nodes to end, and ends those that do not."""
        self._stop.set()
        for process, _ in self.running.values():
            process.join(5.0)
            if process.is_alive():
                process.kill()
                process.join()
        self.running.clear()


def run_node(site: Site, name: str, job: bytes, settings: Settings, settled: Event, stop: Event) -> None:
    """The whole life of a node process. The job comes from the parent process, never from a log."""
    the_job: Job = cloudpickle.loads(job)
    ports = site.ports(name)
    node = Node(name, ports, settings)
    node.add_job(the_job.name, the_job)
    while not stop.is_set():
        if not node.tick():
            if node.settled and not settled.is_set():
                settled.set()
            ports.clock.sleep_s(_IDLE_S)
