"""The node: runs partitions, keeps a replica, and exchanges deltas through the sync stream."""

from holons.node.node import Node, Ports

__all__ = ["Node", "Ports"]
