"""Which engine runs the nodes of a site: Spark unless one says otherwise."""

from __future__ import annotations

import os
import shutil
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from holons.engines.driver import Driver
from holons.engines.embedded.processes import ProcessNodes
from holons.errors import BadInput, MissingExtra
from holons.node import Settings, Site

if TYPE_CHECKING:
    from holons.engines.spark.frames import SparkSession

EngineName: TypeAlias = Literal["spark", "embedded"]

_SPARK_PACKAGES = ("pyspark", "pandas")


def nodes_of(
    engine: str,
    site: Site,
    settings: Settings,
    nodes: int,
    *,
    spark_session: SparkSession | None = None,
    master: str | None = None,
) -> Driver:
    """A driver for so many nodes over a site: in Spark tasks, or in processes of their own."""
    check_engine(engine, spark=spark_session is not None or master is not None)
    if engine == "embedded":
        return ProcessNodes(site, settings)
    from holons.engines.spark.nodes import SparkNodes

    return SparkNodes(site, settings, nodes=nodes, spark_session=spark_session, master=master)


class SparkMissing(UserWarning):
    """Spark or Java is not installed, so nodes run without them."""


def chosen_engine(engine: EngineName | None, *, spark: bool = False) -> EngineName:
    """The engine that was named, once checked; if none was, Spark where it can run. `spark`: a session was passed."""
    if engine is None and not spark and (missing := _missing_for_spark()):
        warnings.warn(
            f"{' and '.join(missing)} not installed: nodes run without Spark, in processes of this machine. "
            'Say engine="embedded" if that is meant',
            SparkMissing,
            stacklevel=3,
        )
        return "embedded"
    engine = engine or "spark"
    check_engine(engine, spark=spark)
    return engine


def _missing_for_spark() -> list[str]:
    """What Spark needs and is not installed. Which version Java has is looked at when a session is opened."""
    missing = [package for package in _SPARK_PACKAGES if find_spec(package) is None]
    home = os.environ.get("JAVA_HOME")
    java = (Path(home) / "bin" / "java").exists() if home else shutil.which("java") is not None
    return missing if java else [*missing, "Java"]


def check_engine(engine: str, *, spark: bool = False) -> None:
    """Says at once if there is no such engine, or not what it needs. `spark`: whether Spark was asked for besides."""
    if engine not in ("spark", "embedded"):
        raise BadInput(f"no engine {engine!r}", hint='engine="spark" or engine="embedded" (--engine)')
    if engine == "spark":
        check_spark()
    elif spark:
        raise BadInput("embedded nodes use no Spark", hint='leave out spark_session= (--master), or say engine="spark"')


def check_spark() -> None:
    """Raises if the packages for Spark are not there; its session looks for Java."""
    missing = [package for package in _SPARK_PACKAGES if find_spec(package) is None]
    if missing:
        raise MissingExtra(
            f"nodes run on Spark unless one says otherwise, and {' and '.join(missing)} is not installed",
            hint="pip install 'holons[spark]', and Java 17 or newer; or run without Spark: "
            'engine="embedded" (--engine embedded)',
        )
