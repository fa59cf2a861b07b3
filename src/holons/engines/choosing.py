"""Which engine runs the nodes of a site: Spark unless one says otherwise."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeAlias

from holons.engines.driver import Driver
from holons.engines.embedded.processes import ProcessNodes
from holons.errors import BadInput, MissingExtra
from holons.node import Settings, Site

if TYPE_CHECKING:
    from holons.engines.spark.frames import SparkSession

EngineName: TypeAlias = Literal["spark", "embedded"]


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
    missing = [package for package in ("pyspark", "pandas") if find_spec(package) is None]
    if missing:
        raise MissingExtra(
            f"nodes run on Spark unless one says otherwise, and {' and '.join(missing)} is not installed",
            hint="pip install 'holons[spark]', and Java 17 or newer; or run without Spark: "
            'engine="embedded" (--engine embedded)',
        )
