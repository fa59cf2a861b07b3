"""Shared streams: each of many writers has positions of its own, and there is no order between writers.

The sync, heartbeat and control streams are shared streams. Their readers merge the messages, so their order does not matter.
No writer can delay another, and a reader that was away finds everything that was written and not trimmed.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol, TypeAlias

STOOD_STILL_S: Final = 30.0
"""A reader that has not read a shared stream for so long, by its own clock, must start from a snapshot."""

Cursor: TypeAlias = dict[str, int]
"""For each writer, the position to read next."""


class Message(NamedTuple):
    """A message, its writer, and its position among the messages of that writer."""

    writer: str
    position: int
    data: bytes


class SharedLog(Protocol):
    """A shared stream, opened by one incarnation of a writer."""

    @property
    def writer(self) -> str:
        """The name under which messages are appended through this object."""
        ...

    def append(self, data: bytes) -> int:
        """Appends a message; returns its position among those of this writer."""
        ...

    def read(self, cursor: Cursor, count_max: int) -> list[Message]:
        """Returns messages at or after the cursor, in order for each writer, and moves the cursor behind them.

        A writer leaves the cursor once it is forgotten: everything of it was trimmed long ago.
        """
        ...

    def start(self, writer: str) -> int:
        """Returns the first position of a writer that was not trimmed."""
        ...

    def starts(self) -> Cursor:
        """Returns the first position that was not trimmed, for every known writer."""
        ...

    def trim(self, below: Cursor) -> None:
        """Drops messages below these positions; a reader that has not read them must start from a snapshot.

        A writer of which nothing is left is forgotten after some minutes, with its start. So a reader that stood still for
        longer than `STOOD_STILL_S` cannot know what it has missed; and the writer, if it comes back, gets `WriterForgotten`.
        """
        ...

    def close(self) -> None:
        """Closes the files or connections that the stream holds."""
        ...


class MemoryHub:
    """The messages of all writers of one shared stream, in the memory of this process."""

    def __init__(self) -> None:
        self._messages: dict[str, list[bytes]] = {}
        self._starts: dict[str, int] = {}

    def open(self, writer: str) -> MemorySharedLog:
        """Returns the stream as one writer sees it."""
        return MemorySharedLog(self, writer)

    def append(self, writer: str, data: bytes) -> int:
        messages = self._messages.setdefault(writer, [])
        messages.append(data)
        return self._starts.get(writer, 0) + len(messages) - 1

    def read(self, cursor: Cursor, count_max: int) -> list[Message]:
        messages: list[Message] = []
        for writer in sorted(self._messages):
            start, held = self._starts.get(writer, 0), self._messages[writer]
            first = max(cursor.get(writer, 0), start)
            if first - start < len(held):
                unread = held[first - start : first - start + count_max - len(messages)]
                messages += [Message(writer, position, data) for position, data in enumerate(unread, first)]
                first += len(unread)
            cursor[writer] = first
        return messages

    def start(self, writer: str) -> int:
        return self._starts.get(writer, 0)

    def starts(self) -> Cursor:
        return {writer: self._starts.get(writer, 0) for writer in self._messages}

    def trim(self, below: Cursor) -> None:
        for writer, position in below.items():
            drop = position - self._starts.get(writer, 0)
            if drop > 0 and writer in self._messages:
                del self._messages[writer][:drop]
                self._starts[writer] = position

    def ends(self) -> Cursor:
        """Returns the position that the next message of each writer will get."""
        return {writer: self.start(writer) + len(messages) for writer, messages in self._messages.items()}

    def lose(self, writer: str, end: int) -> None:
        """Loses a writer's messages from a position on, as a machine that dies does with what it has not synced."""
        del self._messages[writer][max(end - self.start(writer), 0) :]

    def bytes_held(self) -> int:
        """Returns the size of all messages that were not trimmed."""
        return sum(len(data) for messages in self._messages.values() for data in messages)


class MemorySharedLog:
    """A `MemoryHub` as one writer sees it."""

    def __init__(self, hub: MemoryHub, writer: str) -> None:
        self._hub = hub
        self._writer = writer

    @property
    def writer(self) -> str:
        return self._writer

    def append(self, data: bytes) -> int:
        return self._hub.append(self._writer, data)

    def read(self, cursor: Cursor, count_max: int) -> list[Message]:
        return self._hub.read(cursor, count_max)

    def start(self, writer: str) -> int:
        return self._hub.start(writer)

    def starts(self) -> Cursor:
        return self._hub.starts()

    def trim(self, below: Cursor) -> None:
        self._hub.trim(below)

    def close(self) -> None:
        """Does nothing: memory needs no closing."""
