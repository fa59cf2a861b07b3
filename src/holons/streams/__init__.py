"""Logs: named, partitioned, replayable streams of Arrow record batches.

Read `log.py` (the port), then an implementation. `files.py` brings rows in, `sinks.py` brings them out.
"""

from holons.streams.deduplicating import DeduplicatingReader
from holons.streams.files import ByColumn, Progress, load, read_csv, read_json_lines, read_parquet
from holons.streams.lmdb import LmdbLog, LmdbSharedLog, streams_in
from holons.streams.log import Chunk, Log, joined
from holons.streams.memory import MemoryLog
from holons.streams.shared import Cursor, MemoryHub, MemorySharedLog, Message, SharedLog
from holons.streams.sinks import ConsoleSink, FileSink, Positioned

__all__ = [
    "ByColumn",
    "Chunk",
    "ConsoleSink",
    "Cursor",
    "DeduplicatingReader",
    "FileSink",
    "LmdbLog",
    "LmdbSharedLog",
    "Log",
    "MemoryHub",
    "MemoryLog",
    "MemorySharedLog",
    "Message",
    "Positioned",
    "Progress",
    "SharedLog",
    "joined",
    "load",
    "read_csv",
    "read_json_lines",
    "read_parquet",
    "streams_in",
]
