"""What every scheme is: a frozen description that builds two pure state machines, over one transport.

A **local** runs one partition, a **root** puts panes together. Neither does I/O nor reads a clock; they send messages
through a `Transport` and are given those of others. Messages may be lost on the way as long as they are sent again, and may
be repeated and reordered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from holons.algebra import Aggregate, Rows, State
from holons.counting.boundaries import CountWindow
from holons.counting.counted import encode_rows
from holons.counting.keys import FIRST, Key
from holons.counting.ledger import Ledger
from holons.counting.schemes.messages import Aggregated, Frontier, Message, Part, RawRows, Segments

ROOT: Final = -1
ALL: Final = -2
"""Every local, and every root."""


class Transport(Protocol):
    """How machines reach each other."""

    def send(self, to: int, message: Message) -> None:
        """Sends a message to a partition's local, to the `ROOT`, or to `ALL`."""
        ...


class PaneResult(NamedTuple):
    """A pane that is complete: the number of the cut at its end, every partition's rank there, and its state."""

    cut: int
    ranks: tuple[int, ...]
    state: State


class Root(Protocol):
    """Puts panes together."""

    results: list[PaneResult]

    def receive(self, message: Message) -> None:
        """Takes a message."""
        ...

    def replay(self, messages: Sequence[Message]) -> None:
        """Takes all messages that a root before this one was given or has published, in any order."""
        ...


class Local(Protocol):
    """Runs one partition."""

    def insert(self, rows: Rows, watermark: int) -> None:
        """Takes the next counted rows, and the watermark after them."""
        ...

    def mark(self, watermark: int) -> None:
        """Moves the watermark; `ENDING` ends the partition."""
        ...

    def work(self, *, caught_up: bool) -> None:
        """Sends what there is to send. `caught_up`: the log has been read to its end."""
        ...

    def receive(self, message: Message) -> None:
        """Takes a message."""
        ...


@dataclass(frozen=True)
class Scheme(ABC):
    """A way of cutting the rows of all partitions into panes by count."""

    window: CountWindow
    aggregate: Aggregate[Any]
    partitions: int
    decomposable: bool = True
    """Whether partial results are worth sending. A median's are as large as its rows: then Deco's schemes send the rows."""

    @abstractmethod
    def local(self, partition: int, transport: Transport) -> Local:
        """Builds the machine of one partition."""

    @abstractmethod
    def root(self, transport: Transport) -> Root:
        """Builds the machine that puts panes together."""


class LedgerLocal:
    """What locals have in common: a ledger, and how its rows are told."""

    def __init__(self, scheme: Scheme, partition: int, transport: Transport) -> None:
        self.scheme = scheme
        self.partition = partition
        self.transport = transport
        self.ledger = Ledger(partition, scheme.aggregate)

    def insert(self, rows: Rows, watermark: int) -> None:
        self.ledger.insert(rows, watermark)

    def mark(self, watermark: int) -> None:
        self.ledger.mark(watermark)

    def raw(self, start: int, end: int) -> list[Part]:
        """Returns the rows of ranks `(start, end]`; nothing if there are none."""
        if start >= end:
            return []
        return [RawRows(self.partition, start, end, encode_rows(self.ledger.rows.between(start, end)))]

    def folded(self, start: int, end: int) -> list[Part]:
        """Returns the rows of ranks `(start, end]` folded, if that can be done; nothing if there are none."""
        if not self.scheme.decomposable or start >= end:
            return self.raw(start, end)
        rows, aggregate = self.ledger.rows, self.scheme.aggregate
        partial = aggregate.encode(rows.fold(aggregate, np.array([start, end], dtype=np.int64)))
        return [Aggregated(self.partition, start, end, rows.key(start + 1), rows.key(end), partial)]

    def frontier_at(self, rank: int, asked: Key = FIRST) -> Frontier:
        """Returns the key above which all rows beyond a rank are, up to a key that was asked for.

        Who has no rows up to that key is at least as far. To answer with the key of the last row would leave whoever asks
        waiting for ever.
        """
        ledger = self.ledger
        if rank == ledger.settled:
            return Frontier(self.partition, rank, ledger.frontier)
        key = ledger.rows.key(rank) if rank > ledger.rows.start else FIRST
        if ledger.rows.rank_of(asked) <= rank:
            key = max(key, min(asked, ledger.frontier))
        return Frontier(self.partition, rank, key)

    def send_up(self, parts: Sequence[Part], frontier: Frontier | None) -> None:
        """Sends successive rows to the root, and how far this partition is."""
        if parts or frontier is not None:
            self.transport.send(ROOT, Segments(self.partition, tuple(parts), frontier))
