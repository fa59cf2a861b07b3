"""One sequence made of what several writers hold (invariant: position is identity).

Where two writers hold the same position, they must hold the same row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from holons.arrow import python_rows
from holons.errors import InvariantBroken
from holons.streams.log import Chunk


class SegmentChunk(NamedTuple):
    """A chunk, and who wrote it."""

    chunk: Chunk
    writer: str


def merged(pieces: Sequence[SegmentChunk], low: int, high: int) -> list[Chunk]:
    """Returns what the pieces hold of `[low, high)`, without overlap, from `low` up to the first gap."""
    taken: list[SegmentChunk] = []
    at = low
    for piece in sorted(pieces, key=lambda piece: (piece.chunk.offset, piece.chunk.end, piece.chunk.appended)):
        first = max(piece.chunk.offset, low)
        if first > at:
            break
        for earlier in reversed(taken):
            if earlier.chunk.end <= first:
                break
            _check_same(earlier, piece)
        if piece.chunk.end > at and at < high:
            taken.append(SegmentChunk(cut(piece.chunk, at, high), piece.writer))
            at = min(piece.chunk.end, high)
    return [piece.chunk for piece in taken]


def cut(chunk: Chunk, low: int, high: int) -> Chunk:
    """Returns the part of a chunk that lies in `[low, high)`."""
    skip = max(low - chunk.offset, 0)
    length = min(chunk.end, high) - chunk.offset - skip
    if chunk.rows is None or (skip == 0 and length == chunk.length):
        return chunk
    return chunk.part(skip, length)


def same_rows(left: pa.RecordBatch, right: pa.RecordBatch) -> bool:
    """Returns whether two batches hold the same values; NaN is the same as NaN."""
    return left.equals(right) or repr(python_rows(left)) == repr(python_rows(right))


def _check_same(left: SegmentChunk, right: SegmentChunk) -> None:
    """Raises an error if two pieces differ where they overlap."""
    low, high = max(left.chunk.offset, right.chunk.offset), min(left.chunk.end, right.chunk.end)
    if low < high and not _same(cut(left.chunk, low, high), cut(right.chunk, low, high)):
        raise InvariantBroken(
            f"position is identity: writers {left.writer!r} and {right.writer!r} hold different rows "
            f"at or after offset {low}",
            hint="two runs of one partition emitted different rows: look for nondeterminism in the program",
        )


def _same(left: Chunk, right: Chunk) -> bool:
    if left.rows is None or right.rows is None:
        return left.rows is right.rows and left.mark == right.mark
    return same_rows(left.rows, right.rows)
