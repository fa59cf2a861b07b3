"""The node: runs partitions, keeps replicas, finds and replaces the dead. No coordinator.

Read `node.py` (the loop), `membership.py` and `ownership.py` (who does what), `tasklets.py` (the work), `recovery.py`.
"""

from holons.node.jobs import Jobs, cancel, read_jobs, submit
from holons.node.messages import Beat, Running, Stopped, Submitted, decode_beat
from holons.node.node import Node
from holons.node.ports import Ports, partitions_of
from holons.node.settings import Settings

__all__ = [
    "Beat",
    "Jobs",
    "Node",
    "Ports",
    "Running",
    "Settings",
    "Stopped",
    "Submitted",
    "cancel",
    "decode_beat",
    "partitions_of",
    "read_jobs",
    "submit",
]
