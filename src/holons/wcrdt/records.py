"""Checkpoint records: a tagged, versioned struct that lists what is stored, then the states of users' programs.

A record is two values in MessagePack: the struct, and bytes with the states that it lists, in the same order, in canonical
form. States may be large, so their bytes are put together once and read in place. The tag of a struct names its kind and
its version: whoever changes its fields gives it a new one, and records with the old one are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import msgspec

from holons import codec, wire
from holons.errors import CodecError, DescribedError, UnknownRecordVersion

RecordT = TypeVar("RecordT", bound=msgspec.Struct)

_PAIR = b"\x92"  # how a list of two begins in MessagePack


class RecordFormat(Generic[RecordT]):
    """Writes and reads records of one kind."""

    def __init__(self, kind: type[RecordT]) -> None:
        self._tag = kind.__struct_config__.tag
        self._decoder: Any = msgspec.msgpack.Decoder(tuple[kind, memoryview])  # type: ignore[valid-type]

    def encode(self, record: RecordT, states: object = ()) -> bytes:
        """Returns a record and the states that it lists as bytes."""
        return b"".join([_PAIR, wire.encode(record), *codec.pieces(codec.NestedBytes(states))])

    def decode(self, data: bytes | memoryview) -> tuple[RecordT, Any]:
        """Returns a record and the states that it lists."""
        record, states = self._split(data)
        return record, codec.decode(states)

    def header(self, data: bytes | memoryview) -> RecordT:
        """Returns a record alone: its states are not looked at."""
        return self._split(data)[0]

    def _split(self, data: bytes | memoryview) -> tuple[RecordT, memoryview]:
        try:
            record, states = self._decoder.decode(data)
        except wire.UNREADABLE as error:
            raise self._refused(data, error) from error
        return record, states

    def _refused(self, data: bytes | memoryview, error: Exception) -> CodecError | UnknownRecordVersion:
        try:
            whole = msgspec.msgpack.decode(data)
        except wire.UNREADABLE:
            return CodecError(
                f"these {len(data)} bytes are no whole record of kind {self._tag}: {error}",
                hint="the record is damaged: an older one, or that of another node, may still be whole",
            )
        tag = whole[0][0] if isinstance(whole, list) and whole and isinstance(whole[0], list) and whole[0] else None
        if tag == self._tag:
            return CodecError(f"a damaged record of kind {self._tag}: {error}", hint="an older one may still be whole")
        return UnknownRecordVersion(
            f"a checkpoint record is of kind {tag if isinstance(tag, str) else 'unknown'!r}, and this version of holons "
            f"reads {self._tag!r}",
            hint="another version of holons wrote it: run the job with that version, or submit it under another name",
        )


@contextmanager
def restoring(record: str) -> Iterator[None]:
    """Raises whatever goes wrong while something resumes from a record as a `CodecError`: the record is whole, but wrong."""
    try:
        yield
    except (DescribedError, MemoryError):
        raise
    except Exception as error:
        raise CodecError(
            f"{record} does not fit the program: {type(error).__name__}: {error}",
            hint="it is damaged, or another program wrote it: remove it, and an older one or that of another node is used",
        ) from error


def check_fits(fits: bool) -> None:
    """Raises a `CodecError` unless a record fits the program that resumes from it."""
    if not fits:
        raise CodecError(
            "a record that does not fit the program",
            hint="it is damaged, or another program wrote it: remove it, and an older one or that of another node is used",
        )


class ContributionsRecord(msgspec.Struct, frozen=True, array_like=True, tag="contributions/1"):
    """The open panes of one partition in one stage. Its states are those of `open`, then those of `carried`."""

    watermark: int
    open: dict[int, list[int]]
    """By handle, the panes that are open."""
    carried: list[int]
    """The accumulating handles that have sealed something."""


class PanesRecord(msgspec.Struct, frozen=True, array_like=True):
    """The sealed panes of one handle. Its states are those of `seals`, then those of `bases`, in canonical bytes."""

    trimmed_to: int
    seals: list[tuple[int, int]]
    """Pane and partition."""
    bases: list[int]
    """The partitions of an accumulating handle whose newest trimmed seal is kept."""


class StitchedRecord(msgspec.Struct, frozen=True, array_like=True):
    """The windows of one handle that were stitched and not emitted. Its states are those of `open`, then of `closed`."""

    stitched_to: int
    open: list[tuple[int | str, int, int]]
    """Key, first row, last row."""
    closed: list[tuple[int, int, tuple[int, int | str]]]
    """In the order in which they will be emitted."""


class ReplicaState(msgspec.Struct, frozen=True, array_like=True):
    """All that a replica holds."""

    progress: list[list[int]]
    """By stage, then by partition."""
    panes: list[PanesRecord]
    """By handle."""
    payloads: list[list[bytes]]
    """By handle, the states of its panes."""
    lanes: list[bytes] = []
    """By lane, the samples that are known, and the cuts that were trimmed."""
