"""What failures cost stock Structured Streaming: the highest bid of each window, with executors killed or stopped.

The query runs on `local-cluster`: a driver, and executors in processes of their own, which are killed with SIGKILL, as
nodes of ours are. Spark replaces dead executors by itself; a query that fails is started again from its checkpoint at
once. Micro-batches follow each other without a pause. A window is due at its end on the producer's clock, and readable
when the batch that emits it has handed its rows to a consumer (before it is even committed). The load begins once the
query is warm: it has emitted some windows, one by one, and then for some seconds at the load's own pace.

Tuned as one who knows Spark would: as many shuffle partitions as cores, few scan tasks for many small files, no Spark
job just to list them, quick retries where an executor is gone. Real-time mode is not for this: it emits updates, not
windows that are final, and reads Kafka.

Everything happens in a process of its own with a group of its own (one JVM has one master), in a directory of its own.
Both are gone in the end, whatever happened. Linux only: nobody else tells who the executors are.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

from holons.engines.spark.session import check_java
from holons.errors import BadInput, HolonsError, InvariantBroken
from holons_bench.processes import in_group
from holons_bench.stock.feed import PacedFiles, produce

PAUSE_S: Final = 10.0
APART_S: Final = 5.0
WARM_UP_S: Final = 5.0
ROUNDS: Final = 20
_UP_S: Final = 300.0
_END_S: Final = 300.0
_GONE_S: Final = 20.0
_LOOK_S: Final = 0.02
_WORKER_MB: Final = 1024
_EXECUTOR_MB: Final = 700
_EXECUTOR: Final = re.compile(r"CoarseGrainedExecutorBackend.* --executor-id (\d+)")


@dataclass(frozen=True)
class Deed:
    """What is done to executors at some time: to so many of them."""

    at_s: float
    what: str
    """`kill`: Spark brings another. `remove`: it may not. `pause` and `resume`: SIGSTOP, SIGCONT."""
    count: int = 1


def script(scenario: str, at_s: float) -> list[Deed]:
    """Returns what happens in a scenario; `at_s` is when it begins."""
    scripts = {
        "no failure": [],
        "two killed together": [Deed(at_s, "kill", 2)],
        "two killed 5 s apart": [Deed(at_s, "kill"), Deed(at_s + APART_S, "kill")],
        "two killed for good": [Deed(at_s, "remove", 2)],
        "one stopped for 10 s": [Deed(at_s, "pause"), Deed(at_s + PAUSE_S, "resume")],
    }
    if scenario not in scripts:
        raise BadInput(f"no scenario {scenario!r}", hint=f"one of: {', '.join(scripts)}")
    return scripts[scenario]


@dataclass(frozen=True)
class Recorded:
    """One run: all times in seconds since the load began, after a warm-up. Every window's value was checked."""

    scenario: str
    due_s: np.ndarray
    """When each window ended."""
    readable_s: np.ndarray
    """When a consumer had its result."""
    faults_s: np.ndarray
    """When something was done to executors."""
    restarts: int
    """How often the query had failed, and was started again."""
    executors_left: int
    """How many executors there were in the end."""


@dataclass(frozen=True)
class StockPlan:
    """What a run needs to know."""

    scenario: str
    feed: PacedFiles
    rounds: int
    """So many windows come one by one, each once the one before is out."""
    warm_up: int
    """So many more come at the load's pace, but are not counted."""
    deeds: list[Deed]
    executors: int
    directory: Path

    @property
    def warm_up_s(self) -> float:
        return self.warm_up * self.feed.window_us / 1e6

    @property
    def paced_s(self) -> float:
        """How long events come at the load's pace."""
        return (self.feed.windows - self.rounds) * self.feed.window_us / 1e6


def run_stock(
    scenario: str,
    *,
    rate_per_s: int = 50_000,
    partitions: int = 10,
    window_us: int = 100_000,
    seconds: float = 60.0,
    executors: int = 5,
    warm_up_s: float = WARM_UP_S,
    rounds: int = ROUNDS,
) -> Recorded:
    """Runs a scenario: the faults begin after a quarter of the time. Results are checked."""
    deeds = script(scenario, seconds / 4)
    if sum(deed.count for deed in deeds if deed.what in ("kill", "remove", "pause")) >= executors:
        raise BadInput(f"{executors} executors are too few for {scenario!r}", hint="executors=5")
    check_java()
    warm_up = -(-round(warm_up_s * 1e6) // window_us)
    feed = PacedFiles(rate_per_s, partitions, window_us, rounds + warm_up + round(seconds * 1e6) // window_us)
    with tempfile.TemporaryDirectory(prefix="holons-stock-", ignore_cleanup_errors=True) as folder:
        plan = StockPlan(scenario, feed, rounds, warm_up, deeds, executors, Path(folder))
        outcome = _apart(plan)
    return _recorded(outcome, plan)


def _apart(plan: StockPlan) -> StockRun:
    """Runs a plan in a process and a group of its own, and ends both."""
    spawn = multiprocessing.get_context("spawn")
    receiving, sending = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_live, args=(plan, os.getpid(), sending), name="holons stock")
    process.start()
    sending.close()
    try:
        if receiving.poll(3 * _UP_S + plan.paced_s + _END_S):
            outcome: StockRun | str = receiving.recv()
        else:
            outcome = "it took too long"
    except EOFError:
        outcome = "it died"
    finally:
        process.join(_GONE_S)
        _end_group(process.pid or 0)
        process.join()
    if isinstance(outcome, str):
        raise HolonsError(f"stock Structured Streaming failed, {plan.scenario}: {outcome}{_last_words(plan.directory)}")
    return outcome


def _end_group(group: int) -> None:
    """Kills what is left of a process group, and waits until it is gone."""
    until_s = time.perf_counter() + _GONE_S
    while (left := in_group(group)) and time.perf_counter() < until_s:
        for process in left:
            _signal(process.pid, signal.SIGKILL)
        time.sleep(_LOOK_S)


def _last_words(directory: Path) -> str:
    log = directory / "log"
    lines = log.read_text(errors="replace").splitlines()[-20:] if log.exists() else []
    return "".join(f"\n    {line}" for line in lines)


def _recorded(outcome: StockRun, plan: StockPlan) -> Recorded:
    """Checks every window, and counts from the end of the warm-up."""
    feed = plan.feed
    values = [outcome.windows.get(number, (None, 0.0))[0] for number in range(feed.windows)]
    wrong = [number for number, value in enumerate(feed.expected()) if values[number] != value]
    if wrong:
        raise InvariantBroken(
            f"stock Structured Streaming, {plan.scenario}: {len(wrong)} of {feed.windows} windows are wrong or missing",
            hint="if they are missing, the machine cannot keep up: a lower rate",
        )
    counted = range(plan.rounds + plan.warm_up, feed.windows)
    began_s = outcome.start_s + plan.warm_up_s
    readable_s = np.array([outcome.windows[number][1] for number in counted])
    return Recorded(
        plan.scenario,
        np.arange(1, len(counted) + 1) * feed.window_us / 1e6,
        readable_s - began_s,
        np.array(outcome.faults_s) - began_s,
        outcome.restarts,
        outcome.executors_left,
    )


# --- in the process of its own -----------------------------------------------------------------------------------------


@dataclass
class StockRun:
    """What a run has seen, on the machine's monotonic clock."""

    start_s: float = 0.0
    windows: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Value of each window, and when it was readable first."""
    faults_s: list[float] = field(default_factory=list)
    restarts: int = 0
    executors_left: int = 0


def _live(plan: StockPlan, parent: int, sending: Connection) -> None:
    """Runs stock Spark in a process of its own."""
    os.setsid()
    orphan = threading.Thread(target=_end_with, args=(parent, plan.directory), daemon=True)
    orphan.start()
    log = os.open(plan.directory / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ["TMPDIR"] = str(plan.directory)
    try:
        spark = _cluster(plan)
        sending.send(_Run(plan, spark).to_end())
        spark.stop()
    except Exception as error:  # noqa: BLE001 - whatever it was, whoever waits must know
        with suppress(OSError):
            sending.send(f"{type(error).__name__}: {error}")
    if os.getppid() != parent:
        orphan.join()  # cleans up, and ends this process


def _end_with(parent: int, directory: Path) -> None:
    """Ends this process group when the process that started it is killed."""
    while os.getppid() == parent:
        time.sleep(1.0)
    while others := [process for process in in_group(os.getpgrp()) if process.pid != os.getpid()]:
        for process in others:
            _signal(process.pid, signal.SIGKILL)
        time.sleep(_LOOK_S)
    shutil.rmtree(directory, ignore_errors=True)
    os._exit(1)


def _cluster(plan: StockPlan) -> SparkSession:
    """Returns a local cluster whose files are all below the run's directory."""
    home = plan.directory / "spark"
    home.mkdir()
    for entry in Path(_find_spark_home()).iterdir():
        if entry.name != "work":  # where executors' logs go, below Spark's home
            (home / entry.name).symlink_to(entry)
    os.environ["SPARK_HOME"] = str(home)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    java = f"-Djava.io.tmpdir={plan.directory} -XX:-UsePerfData"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(plan.directory),
        "spark.sql.warehouse.dir": str(plan.directory / "warehouse"),
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
        "spark.executor.memory": f"{_EXECUTOR_MB}m",
        "spark.executor.cores": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(plan.executors),
        "spark.sql.files.openCostInBytes": "65536",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.shuffle.io.retryWait": "200ms",
    }
    builder: Any = SparkSession.builder.appName("stock").master(f"local-cluster[{plan.executors},1,{_WORKER_MB}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    _until(lambda: len(executors()) == plan.executors, f"{plan.executors} executors did not come up")
    return spark


def executors() -> dict[int, int]:
    """Returns the executors of this process's group: their numbers, and their pids."""
    pids = {}
    for process in in_group(os.getpgrp()):
        if match := _EXECUTOR.search(process.command):
            pids[int(match.group(1))] = process.pid
    return dict(sorted(pids.items()))


class _Run:
    """The query, whoever restarts it, and what is done to its executors."""

    def __init__(self, plan: StockPlan, spark: SparkSession) -> None:
        self._plan = plan
        self._spark = spark
        self._outcome = StockRun()
        self._bids = plan.directory / "bids"
        self._bids.mkdir()
        self._deeds = list(plan.deeds)
        self._paused: list[int] = []
        self._wrong: list[int] = []

    def to_end(self) -> StockRun:
        """Warms up, then runs the load until all windows are emitted."""
        plan, spawn = self._plan, multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe()
        first = plan.rounds * plan.feed.files_per_window
        spawn.Process(target=produce, args=(plan.feed, first, self._bids, theirs), daemon=True).start()
        self._query = self._start()
        for window in range(plan.rounds):
            self._round(window)
        ours.send("begin")
        if not ours.poll(_UP_S):
            raise HolonsError("nothing from the producer", hint="is the machine too busy?")
        self._outcome.start_s = ours.recv()
        self._wait_for(plan.feed.windows, plan.paced_s + _END_S)
        if self._wrong:
            raise InvariantBroken(f"window {self._wrong[0]} was emitted twice, with different values")
        self._outcome.executors_left = len(executors())
        self._query.stop()
        return self._outcome

    def _round(self, window: int) -> None:
        """Lets one window's files appear, and waits until it is emitted."""
        for number in range(window * self._plan.feed.files_per_window, (window + 1) * self._plan.feed.files_per_window):
            self._plan.feed.write(number, self._bids)
        self._wait_for(window + 1, _UP_S)

    def _wait_for(self, windows: int, limit_s: float) -> None:
        """Waits until so many windows are out, does what is due to executors, and starts a query that failed again."""
        until_s = time.perf_counter() + limit_s
        while len(self._outcome.windows) < windows and time.perf_counter() < until_s:
            if self._outcome.start_s:
                self._do_what_is_due()
            if not self._query.isActive:
                self._outcome.restarts += 1
                self._query = self._start()
            time.sleep(_LOOK_S)

    def _start(self) -> StreamingQuery:
        """Returns the query, from its checkpoint if there is one."""
        schema = "ts timestamp, partition long, price long"
        bids = self._spark.readStream.schema(schema).parquet(str(self._bids)).withWatermark("ts", "0 seconds")
        window = F.window("ts", f"{self._plan.feed.window_us} microseconds")
        highest = bids.groupBy(window).agg(F.max("price").alias("price"))
        rows = highest.select(F.unix_micros("window.start").alias("start"), "price")
        sink = rows.writeStream.outputMode("append").foreachBatch(self._consume)
        query: StreamingQuery = sink.option("checkpointLocation", str(self._plan.directory / "checkpoint")).start()
        return query

    def _consume(self, rows: DataFrame, _: int) -> None:
        """Takes the rows of a batch, as a consumer does. A batch that is run again brings them again."""
        collected = rows.collect()
        now_s = time.perf_counter()
        for row in collected:
            number = row["start"] // self._plan.feed.window_us
            first = self._outcome.windows.setdefault(number, (row["price"], now_s))
            if first[0] != row["price"]:
                self._wrong.append(number)

    def _do_what_is_due(self) -> None:
        now_s = time.perf_counter() - self._outcome.start_s - self._plan.warm_up_s
        while self._deeds and self._deeds[0].at_s <= now_s:
            deed = self._deeds.pop(0)
            if deed.what == "resume":
                for pid in self._paused:
                    _signal(pid, signal.SIGCONT)
                continue
            victims = list(executors().values())[: deed.count]
            if deed.what == "remove":
                self._allow_only(len(executors()) - deed.count)
            self._paused = victims if deed.what == "pause" else []
            for pid in victims:
                _signal(pid, signal.SIGSTOP if deed.what == "pause" else signal.SIGKILL)
            self._outcome.faults_s.append(time.perf_counter())

    def _allow_only(self, count: int) -> None:
        """Tells the cluster manager to start no executor beyond so many: those that die stay dead."""
        context: Any = self._spark.sparkContext
        none = context._jvm.PythonUtils.toScalaMap({})
        context._jsc.sc().requestTotalExecutors(count, 0, none)


def _until(condition: Callable[[], bool], otherwise: str) -> None:
    until_s = time.perf_counter() + _UP_S
    while not condition():
        if time.perf_counter() > until_s:
            raise HolonsError(otherwise, hint="is the machine too busy, or short of memory?")
        time.sleep(_LOOK_S)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
