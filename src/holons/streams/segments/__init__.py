"""Logs between the processes of one machine, in files that only grow.

Read `directory.py` (what lies where, and why nobody can block anybody), then `log.py` and `shared.py`.
"""

from holons.streams.segments.description import StreamDescription, describe
from holons.streams.segments.directory import partitions_in, remove, streams_in
from holons.streams.segments.log import SegmentLog
from holons.streams.segments.shared import SegmentSharedLog

__all__ = [
    "SegmentLog",
    "SegmentSharedLog",
    "StreamDescription",
    "describe",
    "partitions_in",
    "remove",
    "streams_in",
]
