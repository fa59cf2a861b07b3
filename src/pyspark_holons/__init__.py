"""Lets Spark find the format `holons` by itself: it looks for installed packages whose names begin with `pyspark_`."""

from holons.engines.spark.source import HolonsSource as DefaultSource

__all__ = ["DefaultSource"]
