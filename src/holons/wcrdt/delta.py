"""Deltas: what replicas exchange.

A delta of (stage, partition) covers the watermark interval `(start, end]` and holds every non-empty seal in it
(invariant: contiguous). So a replica that has progressed to `start` may move on to `end`, and knows that whatever is
not there is empty. Merging two adjoining deltas gives a delta.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holons import wire
from holons.errors import InvariantBroken


class Seal(msgspec.Struct, frozen=True, array_like=True):
    """One partition's final contribution to one pane, in canonical bytes."""

    handle: int
    pane: int
    payload: bytes


class Delta(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Everything that one partition sealed in `(start, end]` of one stage."""

    stage: int
    partition: int
    start: int
    end: int
    seals: tuple[Seal, ...] = ()

    def encode(self) -> bytes:
        return wire.encode(self)

    @staticmethod
    def decode(data: bytes) -> Delta:
        return _decode(data)

    def then(self, later: Delta) -> Delta:
        """This delta and one that follows it without a gap, as one."""
        if (self.stage, self.partition) != (later.stage, later.partition) or self.end != later.start:
            raise InvariantBroken("contiguous: only adjoining deltas of one partition can be merged")
        return msgspec.structs.replace(self, end=later.end, seals=self.seals + later.seals)


_decode: Callable[[bytes], Delta] = wire.decoder(Delta, "a delta", "the sync stream")
