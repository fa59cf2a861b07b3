"""Flink as a system that can be measured: a process that is started, asked for jobs, and ended.

Tuned as one who knows Flink would: as many tasks as cores, object reuse, two-phase aggregation, mini-batches for what is
not windowed, state on the heap, checkpoints every second, exactly once. A run is measured by Flink's own clock, from the
moment at which all tasks run until the job has finished: planning, submitting and deploying are left out, and so is the
last checkpoint, which Flink would take up to a second later. Processor time is that of the JVM and of the script that
drives it, for the same span.

Everything listens on loopback only, has a limit in time, and is in a process group of its own, which is gone in the end.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

from holons.errors import BadInput, HolonsError, JavaMissing, JobFailed, StillRunning
from holons.nexmark import BIDS, PERIOD
from holons_bench.flink import queries
from holons_bench.flink.environment import FlinkEnvironment, environment
from holons_bench.flink.files import count_rows
from holons_bench.processes import Tree, in_group, spent_s, tree

_START_S: Final = 120.0
_END_S: Final = 10.0
_LOOK_S: Final = 0.2
_TAIL: Final = 2_000
_WARM_UP_S: Final = 5.0
_HEAD_START_US: Final = 3_000_000
_PACED: Final = Path(__file__).with_name("Paced.java")
_SCRIPT: Final = Path(__file__).with_name("job.py")
_OPENS: Final = ("lang", "lang.reflect", "net", "io", "nio", "text", "time", "util", "util.concurrent")
_LOG: Final = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %-5p %c - %m%n
"""

Row = list[Any]
"""The kind of a change (`+I`, `-U`, `+U`, `-D`), and its values; times in microseconds."""


@dataclass(frozen=True)
class Measured:
    """One run of a query."""

    events: int
    wall_s: float
    cpu_s: float | None
    rows: list[Row] | None = None

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.wall_s


class Flink:
    """Flink with a directory of its own, for as long as it is entered.

    `with Flink(path) as flink: flink.run("q5", files, repeat=5)`, where `files` holds a folder for each table that
    the query reads (`holons_bench.flink.files` writes them). The parallel garbage collector is
    for throughput; it stops everything for longer than G1 does, which is for latencies.
    """

    def __init__(
        self,
        directory: Path,
        *,
        cores: int | None = None,
        heap_mb: int = 4_096,
        collector: Literal["Parallel", "G1"] = "Parallel",
        checkpoint_ms: int = 1_000,
        patience_s: float = 600.0,
        cache: Path | None = None,
    ) -> None:
        self.cores = cores or os.cpu_count() or 1
        self._directory = directory.absolute()
        self._heap_mb = heap_mb
        self._collector = collector
        self._checkpoint_ms = checkpoint_ms
        self._patience_s = patience_s
        self._cache = cache
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._classes: list[Path] = []
        self._warm_live: set[str] = set()
        self._warm: set[tuple[str, Path]] = set()

    # --- measuring --------------------------------------------------------------------------------------------------

    def run(self, query: str, files: Path, repeat: int = 1) -> list[Measured]:
        """Runs a query so often, with results thrown away; once more before that, unless it has run before."""
        if (query, files) not in self._warm:
            self._run(query, files, collect=False)
        return [self._run(query, files, collect=False) for _ in range(repeat)]

    def collect(self, query: str, files: Path) -> list[Row]:
        """Runs a query, and gives all that comes out: for few rows, to compare them with what is expected."""
        rows = self._run(query, files, collect=True).rows
        assert rows is not None
        return rows

    def _run(self, name: str, files: Path, *, collect: bool) -> Measured:
        query = queries.named(name)
        events = sum(count_rows(files / table) for table in query.tables)
        self._check_files(files, query.tables)
        define = [queries.define(table, files / table) for table in query.tables]
        before = self._tree()
        self._ask({"define": define, "sql": query.sql, "collect": collect, "options": batch_options(query)})
        answer = self._answer(self._patience_s)
        if answer["state"] == "running":
            before = self._tree()
            answer = self._answer(self._patience_s)
        cpu_s = spent_s(before, self._tree()) if before else None
        self._warm.add((name, files))
        return Measured(events, max(answer["wall_s"], 1e-3), cpu_s, answer["rows"])

    def latencies(
        self, query: str, bids_per_s: int, seconds: float, *, length_ms: int = 10_000, every_ms: int = 10, seed: int = 0
    ) -> list[tuple[int, int]]:
        """Returns when windows ended and when their result was emitted, both in microseconds, for bids at a steady rate.

        Of every window the first row counts, when it reaches the sink: what is committed is visible only after the next
        checkpoint. Windows end by the clock by which bids are due. A short run before it warms Flink up; the first
        seconds are the caller's to leave out. Nothing is there of windows that end after the last bid.
        """
        sql = queries.live(query, length_ms, every_ms)
        if self._process is not None and not self._classes:
            raise JavaMissing("a paced source of bids has to be compiled", hint="install a JDK, not only a JRE")
        options = live_options(every_ms if query == "q5" else length_ms)
        if sql not in self._warm_live:  # a cold start takes seconds, and would be the first windows' delay
            self._live(sql, options, bids_per_s, min(seconds, _WARM_UP_S), seed)
            self._warm_live.add(sql)
        return self._live(sql, options, bids_per_s, seconds, seed)

    def _live(
        self, sql: str, options: Mapping[str, str], bids_per_s: int, seconds: float, seed: int
    ) -> list[tuple[int, int]]:
        start_us = time.time_ns() // 1_000 + _HEAD_START_US
        bids_per_reader = max(1, int(bids_per_s * seconds) // self.cores)
        paced = {
            "start_us": start_us,
            "rate": max(1, bids_per_s * PERIOD // BIDS),
            "bids_per_reader": bids_per_reader,
            "seed": seed,
        }
        self._ask({"define": [], "sql": sql, "collect": True, "paced": paced, "options": options})
        rows = self._answer(self._patience_s)["rows"]
        end_us = start_us + bids_per_reader * self.cores * 1_000_000 // bids_per_s
        first: dict[int, int] = {}
        for _, window_us, emitted_us, *_ in rows:
            if window_us <= end_us:
                first[window_us] = min(emitted_us, first.get(window_us, emitted_us))
        return sorted(first.items())

    def _check_files(self, files: Path, tables: Sequence[str]) -> None:
        """Raises if there are more files than readers: rows of a second file would be late, and dropped in silence."""
        for table in tables:
            count = len(list((files / table).glob("*.parquet")))
            if count > self.cores:
                raise BadInput(
                    f"{count} files in {files / table}, and {self.cores} tasks to read them",
                    hint=f"write them for {self.cores} readers: a second file would be late, all of it",
                )

    def _tree(self) -> Tree:
        return {} if self._process is None else tree(self._process.pid)

    # --- the process ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            self._start(environment(self._cache))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _start(self, flink: FlinkEnvironment) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix="flink-", dir=self._directory))
        (aside / "log4j2.properties").write_text(_LOG)
        try:
            self._classes = [flink.compile(_PACED)]
        except JavaMissing:
            self._classes = []  # only latencies need them
        with self.log.open("w") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [str(flink.python), "-E", "-s", str(_SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=aside,
                start_new_session=True,
            )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        self._ask(
            {
                "java": str(flink.java),
                "jars": [str(path) for path in (*self._classes, *flink.jars)],
                "options": java_options(self._heap_mb, self._collector, aside),
                "cluster": cluster_options(aside),
                "table": table_options(self.cores, self._checkpoint_ms, aside),
                "cores": self.cores,
            }
        )
        self._answer(_START_S)

    @property
    def log(self) -> Path:
        """What Flink says of itself."""
        return self._directory / "flink.log"

    def close(self) -> None:
        """Ends the process and all that it started: asks, waits, and then insists."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            with suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()
            self._wait_until_gone(process)
        finally:
            with suppress(ProcessLookupError):
                if in_group(process.pid):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._wait_until_gone(process)
            self._warm.clear()
            self._warm_live.clear()

    def _wait_until_gone(self, process: subprocess.Popen[str]) -> None:
        until_s = time.perf_counter() + _END_S
        while in_group(process.pid) and time.perf_counter() < until_s:
            process.poll()
            time.sleep(_LOOK_S / 10)

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def _ask(self, what: Mapping[str, Any]) -> None:
        if self._process is None:
            raise HolonsError("Flink is not running", hint="with Flink(directory) as flink: ...")
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the answer, or its absence, says more
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()

    def _answer(self, patience_s: float) -> dict[str, Any]:
        answer = self._next_answer(patience_s)
        if answer is None or answer["state"] == "failed":
            said = self.log.read_text(errors="replace")[-_TAIL:] if self.log.exists() else ""
            self.close()
            raise JobFailed(
                f"Flink failed: {answer['why'] if answer else 'it is gone'}", hint=f"it said: {said.strip()}"
            )
        return answer

    def _next_answer(self, patience_s: float) -> dict[str, Any] | None:
        """Returns the next answer; None if there is nobody left to give it."""
        until_s, alive = time.perf_counter() + patience_s, True
        while alive or not self._answers.empty():
            alive = self._process is not None and self._process.poll() is None
            with suppress(queue.Empty):
                return self._answers.get(timeout=_LOOK_S)
            if time.perf_counter() > until_s:
                self.close()
                raise StillRunning(
                    f"no answer of Flink in {patience_s:g} s, so it was ended", hint=f"fewer events? see {self.log}"
                )
        return None


# --- how Flink is set up ----------------------------------------------------------------------------------------------


def java_options(heap_mb: int, collector: str, aside: Path) -> list[str]:
    """Flink's own options for its JVM, a heap of a fixed size, and all its leftovers aside."""
    opens = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in (*_OPENS, "util.concurrent.atomic")]
    return [
        *opens,
        "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED",
        "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
        f"-XX:+Use{collector}GC",
        f"-Xms{heap_mb}m",
        f"-Xmx{heap_mb}m",
        f"-Djava.io.tmpdir={aside}",
        f"-Dlog4j.configurationFile={aside / 'log4j2.properties'}",
        "-Djava.net.preferIPv4Stack=true",
    ]


def cluster_options(aside: Path) -> dict[str, str]:
    """Returns the options of a cluster that nobody else can reach."""
    return {
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "rest.port": "0",
        "rest.bind-port": "0",
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.bind-host": "127.0.0.1",
        "taskmanager.host": "127.0.0.1",
        "taskmanager.bind-host": "127.0.0.1",
        "taskmanager.memory.network.min": "256mb",
        "taskmanager.memory.network.max": "256mb",
        "taskmanager.memory.managed.size": "512mb",
        "io.tmp.dirs": str(aside),
        "web.tmpdir": str(aside),
    }


def table_options(cores: int, checkpoint_ms: int, aside: Path) -> dict[str, str]:
    """Returns the options by which jobs are planned and run."""
    return {
        "execution.runtime-mode": "STREAMING",
        "parallelism.default": str(cores),
        "pipeline.object-reuse": "true",
        "restart-strategy.type": "none",
        "execution.checkpointing.interval": f"{checkpoint_ms} ms",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.dir": (aside / "checkpoints").as_uri(),
        "execution.checkpointing.checkpoints-after-tasks-finish": "false",
        "state.backend.type": "hashmap",
        "table.local-time-zone": "UTC",
        "table.optimizer.agg-phase-strategy": "TWO_PHASE",
        "table.optimizer.distinct-agg.split.enabled": "true",
    }


def batch_options(query: queries.Query) -> dict[str, str]:
    """Returns the options for mini-batches. Queries with windows have none: each row would pass one more operator."""
    if not query.mini_batch:
        return {}
    return {
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "1 s",
        "table.exec.mini-batch.size": "50000",
    }


def live_options(every_ms: int) -> dict[str, str]:
    """Returns the options of a job that shall answer soon: watermarks and buffers do not wait for more to come."""
    return {
        "pipeline.auto-watermark-interval": f"{max(1, min(50, every_ms // 5))} ms",
        "execution.buffer-timeout.interval": "1 ms",
    }
