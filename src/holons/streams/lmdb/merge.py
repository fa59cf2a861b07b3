"""One sequence out of what several writers hold (invariant: position is identity).

Where two writers hold the same position, they must hold the same row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from holons.errors import InvariantBroken
from holons.streams.log import Chunk


class SegmentChunk(NamedTuple):
    """A chunk, and who wrote it."""

    chunk: Chunk
    writer: str

    @property
    def end(self) -> int:
        """The offset behind its last row."""
        return self.chunk.offset + self.chunk.length


def merged(pieces: Sequence[SegmentChunk], low: int, high: int) -> list[SegmentChunk]:
    """The pieces of `[low, high)` without overlap, from `low` up to the first gap."""
    taken: list[SegmentChunk] = []
    at = low
    for piece in sorted(pieces, key=lambda piece: (piece.chunk.offset, piece.end)):
        first = max(piece.chunk.offset, low)
        if first > at:
            break
        for other in reversed(taken):
            if other.end <= first:
                break
            check_same(other, piece)
        if piece.end > at and at < high:
            taken.append(SegmentChunk(cut(piece.chunk, at, high), piece.writer))
            at = min(piece.end, high)
    return taken


def cut(chunk: Chunk, low: int, high: int) -> Chunk:
    """The part of a chunk that lies in `[low, high)`."""
    skip = max(low - chunk.offset, 0)
    length = min(chunk.offset + chunk.length, high) - chunk.offset - skip
    if chunk.rows is None or (skip == 0 and length == chunk.length):
        return chunk
    return chunk.part(skip, length)


def check_same(one: SegmentChunk, other: SegmentChunk) -> None:
    """Raises if they differ where they overlap."""
    low, high = max(one.chunk.offset, other.chunk.offset), min(one.end, other.end)
    if low < high and not same(cut(one.chunk, low, high), cut(other.chunk, low, high)):
        raise InvariantBroken(
            f"position is identity: writers {one.writer!r} and {other.writer!r} hold different rows "
            f"at or after offset {low}",
            hint="two runs of one partition put out different rows: look for nondeterminism in the program",
        )


def same(one: Chunk, other: Chunk) -> bool:
    """Whether two chunks of the same length hold the same."""
    if one.rows is None or other.rows is None:
        return one.rows is other.rows and one.mark == other.mark
    return same_rows(one.rows, other.rows)


def same_rows(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Whether they hold the same values; NaN is the same as NaN."""
    return one.equals(other) or repr(one.to_pylist()) == repr(other.to_pylist())
