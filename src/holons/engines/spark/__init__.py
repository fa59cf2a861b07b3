"""Nodes on Spark: each one a long-lived task of its own."""

from holons.engines.spark.nodes import run

__all__ = ["run"]
