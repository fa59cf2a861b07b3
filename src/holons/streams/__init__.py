"""Logs: named, partitioned, replayable streams of Arrow record batches.

Read `log.py` (the port), then an implementation. `files.py` reads rows from files, `sinks.py` writes them to files.

**Logs know when rows were appended**, and whether as they came into being (`live`) or from a history that was loaded. The
time is that of the writer's clock, made not to go back, and is stored with the rows: so whatever depends on it is the same
for every reader.

**A journal grows with its input.** A new job reads an input from the beginning and must find the marks where they were, so
no journal is trimmed by itself.

**A mark is asked for, and answered.** In a journaled log rows are read freely, and cost no entry. A mark costs two: a
question ("may a mark stand before row 17?") and an answer. Who answers looks for the row once all can see the question;
readers look for questions once they have read. Where a row already waits, or another entry won, there is no mark: `mark`
returns None, and the reader reads on. A row that arrives between the answer and its entry stands after the mark, and one
that arrives before a mark in a log of our own before it. Every owner sees the same (`journaled.py`, decision 0018).

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
