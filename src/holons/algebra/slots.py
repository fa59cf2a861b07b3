"""Slots: how any aggregate becomes a CRDT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from holons import codec
from holons.algebra.aggregate import Aggregate, Joined, State, size
from holons.errors import BadElement, CodecError, NondeterministicProgram

V = TypeVar("V")


class Slot(NamedTuple):
    """What one partition contributed, and how new that is."""

    version: int
    contribution: State


Slotted: TypeAlias = Mapping[int, Slot]
"""Partition to slot. Never changed in place."""


@dataclass(frozen=True)
class Slots(Generic[V]):
    """One slot per partition: the lattice over any aggregate's one-group states.

    A counter is no lattice: merging it twice counts twice. But if each partition only replaces its own slot by a newer
    one, keeping the newer of two slots is a join, and the value merges the slots when it is read. The version says
    which is newer (for us the offset up to which the partition was folded).

    Invariant one-value: a partition has one contribution for each version. Different bytes under one version mean that
    two runs of the partition disagree, and raise `NondeterministicProgram`. Invariant fixed fold: values merge the
    slots in the order of the partitions.

    >>> import numpy as np
    >>> from holons.algebra import GCounter
    >>> bids = Slots(GCounter())
    >>> left = bids.put(bids.bottom(), partition=0, version=10, contribution=(np.array([3]),))
    >>> right = bids.put(bids.bottom(), partition=1, version=7, contribution=(np.array([4]),))
    >>> both = bids.join(left, right).state
    >>> bids.value(bids.join(both, left).state)
    7
    """

    aggregate: Aggregate[V]

    def bottom(self) -> Slotted:
        return MappingProxyType({})

    def put(self, state: Slotted, partition: int, version: int, contribution: State) -> Slotted:
        """The state with a contribution of `partition`, unless it has a newer one."""
        if size(contribution) != 1:
            raise BadElement(f"a slot holds one group, not {size(contribution)}", hint="use `pick` to take one out")
        return self.join(state, {partition: Slot(version, contribution)}).state

    def join(self, a: Slotted, b: Slotted) -> Joined[Slotted]:
        newer = {partition: slot for partition, slot in b.items() if self._is_newer(partition, a.get(partition), slot)}
        return Joined(MappingProxyType({**a, **newer}), True) if newer else Joined(a, False)

    def leq(self, a: Slotted, b: Slotted) -> bool:
        return not any(self._is_newer(partition, b.get(partition), slot) for partition, slot in a.items())

    def _is_newer(self, partition: int, mine: Slot | None, theirs: Slot) -> bool:
        if mine is None or theirs.version > mine.version:
            return True
        if theirs.version == mine.version and theirs.contribution is not mine.contribution:
            ours, other = self.aggregate.encode(mine.contribution), self.aggregate.encode(theirs.contribution)
            if ours != other:
                raise NondeterministicProgram(
                    f"two runs of one partition contributed different values to {self.aggregate.describe()}",
                    hint="make the program a function of its input: no clock, no randomness, no state from outside",
                    partition=partition,
                    version=theirs.version,
                )
        return False

    def merged(self, state: Slotted) -> State:
        """The merge of all contributions, in the order of the partitions."""
        total = self.aggregate.zero(1)
        for partition in sorted(state):
            total = self.aggregate.merge(total, state[partition].contribution)
        return total

    def value(self, state: Slotted) -> V:
        """What a user reads."""
        return self.aggregate.value(self.merged(state))

    def encode(self, state: Slotted) -> bytes:
        slots = sorted(state.items())
        return codec.encode([(partition, version, self.aggregate.encode(part)) for partition, (version, part) in slots])

    def decode(self, data: bytes) -> Slotted:
        try:
            known = [(int(part), int(version), body) for part, version, body in codec.decode(data)]
            return MappingProxyType({part: Slot(version, self.aggregate.decode(body)) for part, version, body in known})
        except (TypeError, ValueError, OverflowError) as error:
            raise CodecError(f"not a state of {self.describe()}", hint="the data is damaged") from error

    def describe(self) -> str:
        return f"Slots({self.aggregate.describe()})"
