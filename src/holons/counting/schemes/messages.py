"""What locals and roots tell each other. Positions are absolute, so repeated, late and reordered messages are harmless.

A message is a fact about the input, or asks for one. Only predictions are replaced: the one for the highest cut counts.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holons.counting.keys import Key
from holons.counting.samples import Samples


class RawRows(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """The rows of ranks `(start, end]` of one partition, in the order of their keys."""

    partition: int
    start: int
    end: int
    data: bytes


class Aggregated(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """The rows of ranks `(start, end]` of one partition, folded; their first and their last key."""

    partition: int
    start: int
    end: int
    first: Key
    last: Key
    partial: bytes


class Frontier(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Rows beyond `rank` are above `key`. It counts where all rows up to that rank have arrived."""

    partition: int
    rank: int
    key: Key


Part: TypeAlias = RawRows | Aggregated
"""Rows of successive ranks, one by one or folded."""


class Segments(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """Successive rows of one partition without a gap, and how far it is."""

    partition: int
    parts: tuple[Part, ...]
    frontier: Frontier | None


class Slice(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """What a partition sends of one pane without being asked: rows that surely belong to it, and contiguous rows behind."""

    cut: int
    segments: Segments


class Poll(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """Asks a partition to close what is open, and to report how far it is, as far as it is not past a key."""

    key: Key


class Split(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """Asks for the rows of ranks `(start, end]` in three: up to the key `lo` folded, up to `hi` as rows, the rest folded."""

    start: int
    end: int
    lo: Key
    hi: Key


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """Asks for the rows of a pane beyond the rank `start`, up to a key and up to a rank, as soon as they are there."""

    cut: int
    start: int
    key: Key
    rank: int


class Bracket(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """Asks for the rows of a pane beyond the rank `start`: up to the key `lo` folded, and those in `(lo, hi]` as rows."""

    cut: int
    start: int
    lo: Key
    hi: Key


class Cut(msgspec.Struct, frozen=True, array_like=True, tag=19):
    """A cut that a root has found: a fact."""

    cut: int
    key: Key
    ranks: tuple[int, ...]


class Predicted(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """What a root tells one partition after a cut: its rank there, and the size and the error of the next pane."""

    cut: int
    rank: int
    size: int
    error: int


class Contributed(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """One partition's contributions to successive panes, the first of them before the cut of number `cut`.

    `ranks` has the partition's rank at the cut before them, and then at each of them; empty bytes stand for no rows.
    """

    cut: int
    partition: int
    ranks: tuple[int, ...]
    partials: tuple[bytes, ...]


Message: TypeAlias = Segments | Slice | Poll | Split | Ask | Bracket | Cut | Predicted | Contributed | Samples
