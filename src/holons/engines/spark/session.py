"""The SparkSession that Holons opens when the user has none."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

from pyspark.resource import ResourceProfile, ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import SparkSession

from holons.clock import SystemClock
from holons.engines.scratch import scratch
from holons.errors import BadInput, JavaMissing

JAVA_OLDEST = 17
_SLOTS_LEAST = 10
_ATTEMPTS = 4
"""How often a task is tried, as in a cluster. Nodes that Spark gives up are replaced by the driver; a query just fails."""
_WITHOUT = 'or run without Spark: engine="embedded" (--engine embedded)'
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_EXECUTORS_S = 60.0
_WORKER_CONNECTS_S = "300s"
"""How long Spark waits for a Python process to say who it is; by default 15 s, which a busy machine may need."""
_LOOK_S = 0.05
_ours = ExitStack()  # what this process has to end and remove
atexit.register(_ours.close)


def session(nodes: int = 1, master: str | None = None) -> SparkSession:
    """The active session, or a quiet one of our own: on this machine, with room for the nodes and for Spark's own work."""
    active = SparkSession.getActiveSession()
    if active is not None:
        if master not in (None, active.sparkContext.master):
            raise BadInput(
                f"there is a session already, whose master is {active.sparkContext.master}",
                hint=f"stop it first (spark.stop()), or do not ask for {master}",
            )
        return active
    if "SPARK_REMOTE" in os.environ:
        raise _connect()
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    directory = _ours.enter_context(scratch())
    options = f'-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()} "-Djava.io.tmpdir={directory}"'
    room = f"local[{max(nodes + 2, _SLOTS_LEAST)}, {_ATTEMPTS}]"  # slots cost nothing; later runs may want more
    interrupted = signal.getsignal(signal.SIGINT)
    spark = (
        SparkSession.builder.appName("holons")
        .master(master or room)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.authenticate.socketTimeout", _WORKER_CONNECTS_S)
        .config("spark.local.dir", str(directory))
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.executor.extraJavaOptions", options)
        .getOrCreate()
    )
    if threading.current_thread() is threading.main_thread() and interrupted is not None:
        signal.signal(signal.SIGINT, interrupted)  # Spark's own handler cancels all tasks; ours end with a checkpoint
    _ours.callback(_stop, spark)
    _remove_with(spark, directory)
    return spark


def _stop(spark: SparkSession) -> None:
    with suppress(Exception):  # whoever killed the JVM has stopped it
        spark.stop()


def _remove_with(spark: SparkSession, directory: Path) -> None:
    """Lets Spark remove a directory when it ends: it does so, if this process is killed, as soon as it notices."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(jvm.java.io.File(str(directory)))


def check_session(spark: SparkSession, nodes: int, profile: ResourceProfile | None = None) -> None:
    """Says what is wrong with a session before anything starts: nodes hold their slots for good."""
    if "connect" in type(spark).__module__:
        raise _connect()
    context = spark.sparkContext
    if not str(context.master).startswith("local"):
        raise BadInput(
            f"the streams of a site are on this machine, and Spark's master is {context.master}",
            hint="use master local[N] or local-cluster[...]; streams for several machines are still to come",
        )
    if spark.conf.get("spark.speculation", "false") == "true":
        raise BadInput(
            "Spark would start a second copy of each node, since spark.speculation is on",
            hint='set spark.speculation to "false": nodes take over from each other by themselves',
        )
    there = _slots_within(spark, nodes + 1, profile)
    if there < nodes + 1:
        slots, more = "slots", f'.master("local[{nodes + 2}]")'
        if profile is not None:
            slots, more = "executors", "more executors"
        elif not str(context.master).startswith("local["):
            more = "more executors, or more cores for each"
        raise BadInput(
            f"{nodes} nodes need {nodes + 1} {slots} (one is Spark's own), and there are {there}",
            hint=f"ask for more: {more}, or run at most {there - 1} nodes",
        )


def _connect() -> BadInput:
    return BadInput(
        "Holons cannot run nodes over Spark Connect yet",
        hint="use a classic session: SparkSession.builder.master(...).getOrCreate(), without .remote(...) or SPARK_REMOTE",
    )


def _slots_within(spark: SparkSession, wanted: int, profile: ResourceProfile | None) -> int:
    """How many tasks can run at once; executors have a while to come up, if there are to be any."""
    clock = SystemClock()
    until_s = clock.now_s() + (_EXECUTORS_S if executor_cores(spark) else 0.0)
    while (there := slots(spark, profile)) < wanted and clock.now_s() < until_s:
        clock.sleep_s(_LOOK_S)
    return there


def slots(spark: SparkSession, profile: ResourceProfile | None = None) -> int:
    """How many tasks can run at once on the executors that are there."""
    context = spark.sparkContext._jsc.sc()
    default = context.resourceProfileManager().defaultResourceProfile()
    return int(context.maxNumConcurrentTasks(default if profile is None else profile._java_resource_profile))


def executor_cores(spark: SparkSession) -> int:
    """How many cores each executor has; 0 where Spark runs everything in this process's JVM."""
    cluster = re.match(r"local-cluster\[\s*\d+\s*,\s*(\d+)", str(spark.sparkContext.master))
    return int(cluster[1]) if cluster else 0


def whole_executor(spark: SparkSession) -> ResourceProfile:
    """For tasks that have an executor to themselves: the death of one then costs one node."""
    cores = executor_cores(spark)
    if not cores:
        raise BadInput(
            f"one node on each executor, and master {spark.sparkContext.master} has no executors",
            hint="leave out one_node_per_executor, or use local-cluster[...]",
        )
    profile: ResourceProfile = ResourceProfileBuilder().require(TaskResourceRequests().cpus(cores)).build
    spark.sparkContext._jsc.sc().resourceProfileManager().addResourceProfile(profile._java_resource_profile)
    return profile


def check_java() -> int:
    """The version of Java that Spark will find; raises if there is none that will do."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = f"install Java {JAVA_OLDEST} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless)"
    if not java or not Path(java).exists():
        raise JavaMissing("Spark needs Java, and none was found", hint=f"{hint}, set JAVA_HOME, {_WITHOUT}")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    match = re.search(r'version "(\d+)', told)
    version = int(match.group(1)) if match else 0
    if version < JAVA_OLDEST:
        raise JavaMissing(
            f"Spark needs Java {JAVA_OLDEST}, and {java} is {version or 'not Java'}", hint=f"{hint}, {_WITHOUT}"
        )
    return version
