"""Shared streams: many writers, each with positions of its own, and no order between them.

The sync, heartbeat and control streams are like that. What travels on them is joined, so order does not matter; what
matters is that no writer can hold up another, and that a reader who was away finds everything that was written.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

Cursor: TypeAlias = dict[str, int]
"""For each writer, the position to read next."""


class Message(NamedTuple):
    """One message: who wrote it, at which of its positions."""

    writer: str
    position: int
    data: bytes


class SharedLog(Protocol):
    """A shared stream, opened by one writer incarnation."""

    @property
    def writer(self) -> str:
        """Who appends through this object."""
        ...

    def append(self, data: bytes) -> int:
        """Adds a message; returns its position among this writer's own."""
        ...

    def read(self, cursor: Cursor, count_max: int) -> list[Message]:
        """Messages at or beyond the cursor, in order for each writer. The cursor moves along with what is returned."""
        ...

    def start(self, writer: str) -> int:
        """The first position of a writer that is still there."""
        ...

    def starts(self) -> Cursor:
        """The first position that is still there, for every writer known."""
        ...

    def trim(self, below: Cursor) -> None:
        """Drops messages below these positions; a reader behind them must start from a snapshot."""
        ...

    def close(self) -> None:
        """Closes the files or connections that the stream holds."""
        ...


class MemoryHub:
    """All writers' messages of one shared stream, in this process."""

    def __init__(self) -> None:
        self._messages: dict[str, list[bytes]] = {}
        self._starts: dict[str, int] = {}

    def open(self, writer: str) -> MemorySharedLog:
        """The stream, as one writer sees it."""
        return MemorySharedLog(self, writer)

    def append(self, writer: str, data: bytes) -> int:
        messages = self._messages.setdefault(writer, [])
        messages.append(data)
        return self._starts.get(writer, 0) + len(messages) - 1

    def read(self, cursor: Cursor, count_max: int) -> list[Message]:
        found: list[Message] = []
        for writer in sorted(self._messages):
            start = self._starts.get(writer, 0)
            at = max(cursor.get(writer, 0), start)
            data = self._messages[writer][at - start : at - start + count_max - len(found)]
            found.extend(Message(writer, at + place, one) for place, one in enumerate(data))
            cursor[writer] = at + len(data)
        return found

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

    def bytes_held(self) -> int:
        """The size of everything that is still there."""
        return sum(len(data) for messages in self._messages.values() for data in messages)


class MemorySharedLog:
    """One writer's door to a `MemoryHub`."""

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
