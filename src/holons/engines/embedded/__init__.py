"""Nodes in this process, over memory logs. No JVM."""

from holons.engines.embedded.nodes import run

__all__ = ["run"]
