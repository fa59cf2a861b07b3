"""Logs: named, partitioned, replayable streams of Arrow record batches.

Read `log.py` (the port), then an implementation.
"""

from holons.streams.lmdb import LmdbLog, LmdbSharedLog
from holons.streams.log import Chunk, Log
from holons.streams.memory import MemoryLog
from holons.streams.shared import Cursor, MemoryHub, MemorySharedLog, Message, SharedLog

__all__ = [
    "Chunk",
    "Cursor",
    "LmdbLog",
    "LmdbSharedLog",
    "Log",
    "MemoryHub",
    "MemoryLog",
    "MemorySharedLog",
    "Message",
    "SharedLog",
]
