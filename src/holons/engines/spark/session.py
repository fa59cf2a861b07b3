"""The SparkSession that Holons opens when the user has none."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession

from holons.errors import BadInput, JavaMissing

JAVA_OLDEST = 17
_SLOTS_LEAST = 10
_WITHOUT = 'or run without Spark: engine="embedded" (--engine embedded)'
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


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
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    interrupted = signal.getsignal(signal.SIGINT)
    opened = (
        SparkSession.builder.appName("holons")
        .master(
            master or f"local[{max(nodes + 2, _SLOTS_LEAST)}, 1000]"
        )  # slots cost nothing; later runs may want more
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}")
        .getOrCreate()
    )
    if threading.current_thread() is threading.main_thread() and interrupted is not None:
        signal.signal(signal.SIGINT, interrupted)  # Spark's own handler cancels all tasks; ours end with a checkpoint
    return opened


def check_session(spark: SparkSession, nodes: int) -> None:
    """Says what is wrong with a session before anything starts: nodes hold their slots for good."""
    if "connect" in type(spark).__module__:
        raise BadInput(
            "Holons cannot run nodes over Spark Connect yet",
            hint="use a classic session: SparkSession.builder.master(...).getOrCreate(), without .remote(...)",
        )
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
    slots = context.defaultParallelism
    if slots < nodes + 1:
        raise BadInput(
            f"{nodes} nodes need {nodes + 1} slots (one is Spark's own), and there are {slots}",
            hint=f'ask for more: .master("local[{nodes + 2}]"), or run at most {slots - 1} nodes',
        )


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
