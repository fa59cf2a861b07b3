"""Logs: named, partitioned, replayable streams of Arrow record batches.

Read `log.py` (the port), then an implementation.
"""

from holons.streams.log import Chunk, Log
from holons.streams.memory import MemoryLog

__all__ = ["Chunk", "Log", "MemoryLog"]
