"""Logs: named, partitioned, replayable streams of Arrow record batches.

Read `log.py` (the port), then an implementation. `files.py` brings rows in, `sinks.py` brings them out.
"""

from holons.streams.deduplicating import DeduplicatingReader
from holons.streams.files import ByColumn, Progress, format_of, load, read_csv, read_json_lines, read_parquet
from holons.streams.journal import DirectoryJournal, Journal, MemoryJournal
from holons.streams.journaled import JournaledLog
from holons.streams.lmdb import LmdbLog, LmdbSharedLog, StreamDescription, describe, partitions_in, streams_in
from holons.streams.log import Chunk, Log, joined
from holons.streams.memory import MemoryLog
from holons.streams.shared import Cursor, MemoryHub, MemorySharedLog, Message, SharedLog
from holons.streams.sinks import ByTime, ConsoleSink, FileSink, Positioned

__all__ = [
    "ByColumn",
    "ByTime",
    "Chunk",
    "ConsoleSink",
    "Cursor",
    "DeduplicatingReader",
    "DirectoryJournal",
    "FileSink",
    "Journal",
    "JournaledLog",
    "LmdbLog",
    "LmdbSharedLog",
    "Log",
    "MemoryHub",
    "MemoryJournal",
    "MemoryLog",
    "MemorySharedLog",
    "Message",
    "Positioned",
    "Progress",
    "SharedLog",
    "StreamDescription",
    "describe",
    "format_of",
    "joined",
    "load",
    "partitions_in",
    "read_csv",
    "read_json_lines",
    "read_parquet",
    "streams_in",
]
