"""The SparkSession that Holons opens when the user has none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from holons.errors import JavaMissing

JAVA_OLDEST = 17
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


def session(nodes: int = 1) -> SparkSession:
    """The active session, or a quiet local one with room for the nodes and for Spark's own work."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return (
        SparkSession.builder.appName("holons")
        .master(f"local[{nodes + 2}, 1000]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}")
        .getOrCreate()
    )


def check_java() -> int:
    """The version of Java that Spark will find; raises if there is none that will do."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = f"install Java {JAVA_OLDEST} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless)"
    if not java or not Path(java).exists():
        raise JavaMissing("Spark needs Java, and none was found", hint=f"{hint}, or set JAVA_HOME")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    match = re.search(r'version "(\d+)', told)
    version = int(match.group(1)) if match else 0
    if version < JAVA_OLDEST:
        raise JavaMissing(f"Spark needs Java {JAVA_OLDEST}, and {java} is {version or 'not Java'}", hint=hint)
    return version
