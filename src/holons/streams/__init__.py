"""Logs: named, partitioned, replayable streams of Arrow record batches.

Read `log.py` (the port), then an implementation. `files.py` reads rows from files, `sinks.py` writes them to files.

**Logs know when rows were appended**, and whether as they came into being (`live`) or from a history that was loaded. The
time is that of the writer's clock, made not to go back, and is stored with the rows: so whatever depends on it is the same
for every reader.

**A journal grows with its input.** A new job reads an input from the beginning and must find the marks where they were, so
no journal is trimmed by itself.

**A journal may decline a mark.** Where a row already waits, or another entry won, the mark is not written: `mark` returns
None, and the reader reads on. A row that arrives between the decision and the mark stands before the mark in a log of
our own, and after it in a journaled log (the row was not admitted yet, so nobody has read it). Every owner sees the same.

**Producers are fenced.** A producer takes a partition before it writes to it. From then on what the producer before it adds
is there for no reader, and is not acknowledged. In memory that is one comparison; in folders see `segments/epochs.py`.

**A diverted row is whole.** A chunk of which only some columns were read can return all of its columns (`Chunk.whole`)
from memory that it holds anyway. No log is asked again, so nothing can have been trimmed or become unavailable.
"""

from holons.streams.files import ByColumn, LoadProgress, format_of, load, read_files
from holons.streams.folder import StreamDescription, StreamFolder
from holons.streams.journal import DirectoryJournal, Journal, MemoryJournal
from holons.streams.journaled import JournaledLog
from holons.streams.log import (
    AppendableLog,
    Appended,
    Chunk,
    InputLog,
    MarkableLog,
    PositionedLog,
    ProducerLog,
    ReadableLog,
    TrimmableLog,
    WritableLog,
    joined,
)
from holons.streams.memory import MemoryLog, in_memory
from holons.streams.shared import STOOD_STILL_S, Cursor, MemoryHub, MemorySharedLog, Message, SharedLog
from holons.streams.sinks import ByTime, FileSink, Positioned

__all__ = [
    "STOOD_STILL_S",
    "AppendableLog",
    "Appended",
    "ByColumn",
    "ByTime",
    "Chunk",
    "Cursor",
    "DirectoryJournal",
    "FileSink",
    "InputLog",
    "Journal",
    "JournaledLog",
    "LoadProgress",
    "MarkableLog",
    "MemoryHub",
    "MemoryJournal",
    "MemoryLog",
    "MemorySharedLog",
    "Message",
    "Positioned",
    "PositionedLog",
    "ProducerLog",
    "ReadableLog",
    "SharedLog",
    "StreamDescription",
    "StreamFolder",
    "TrimmableLog",
    "WritableLog",
    "format_of",
    "in_memory",
    "joined",
    "load",
    "read_files",
]
