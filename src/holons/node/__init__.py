"""The node: runs partitions, keeps replicas, finds and replaces the dead. No coordinator.

Read `node.py` (the loop), `membership.py` and `ownership.py` (who does what), `tasklets.py` (the work), `recovery.py`.
"""

from holons.node.messages import Stopped
from holons.node.node import Node
from holons.node.ports import Ports, partitions_of
from holons.node.settings import Settings

__all__ = ["Node", "Ports", "Settings", "Stopped", "partitions_of"]
