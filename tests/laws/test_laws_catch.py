"""A law that cannot be broken is not checked: one planted bug for each law, caught under its name."""

from __future__ import annotations

import struct
import threading
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

from holons import codec
from holons.algebra import Aggregate, GCounter, Groups, GSet, Joined, Law, MaxRegister, Rows, State, laws, rows_of
from holons.algebra.aggregate import IdempotentAggregate, size, take
from holons.algebra.rows import floats
from holons.errors import HolonsError, LawBroken

BATCHES = [rows_of([3, 1, 4, 1, 5]), rows_of([9, 2, 6], partition=1), rows_of([], partition=2), rows_of([7], offset=50)]


# --- aggregates -----------------------------------------------------------------------------------------------------


class Difference(GCounter):
    """Commutative and with a zero, but |a - |b - c|| is not ||a - b| - c|."""

    invertible: ClassVar[bool] = False

    def merge(self, a: State, b: State) -> State:
        return (np.abs(a[0] - b[0]),)


class KeepsTheLeft(GCounter):
    def merge(self, a: State, b: State) -> State:
        return (np.where(a[0] != 0, a[0], b[0]),)


class CountsFromOne(GCounter):
    def zero(self, n: int) -> State:
        return (np.ones(n, dtype=np.int64),)


class SaysIdempotent(GCounter, IdempotentAggregate[int]):
    idempotent: ClassVar[bool] = True


@dataclass(frozen=True)
class NaiveSum(Aggregate[float]):
    """Float addition: (0.1 + 0.2) + 0.3 is not 0.1 + (0.2 + 0.3)."""

    def zero(self, n: int) -> State:
        return (np.zeros(n),)

    def fold(self, groups: Groups, rows: Rows) -> State:
        return (np.bincount(groups.ids(), weights=floats(rows.element, rows.count, "NaiveSum"), minlength=groups.n),)

    def merge(self, a: State, b: State) -> State:
        return (a[0] + b[0],)

    def value(self, state: State, group: int = 0) -> float:
        return float(state[0][group])


class CountsBatches(GCounter):
    def fold(self, groups: Groups, rows: Rows) -> State:
        return (np.minimum(groups.counts(), 1),)


class CountsStepsBack(GCounter):
    """Also counts the rows that stand before a row with a smaller offset."""

    def fold(self, groups: Groups, rows: Rows) -> State:
        offsets = rows.origin.offsets()
        back = np.append(offsets[1:] < offsets[:-1], np.zeros(min(rows.count, 1), dtype=np.bool_))
        return (super().fold(groups, rows)[0] + groups.sums(back.astype(np.int64)),)


class ForgetsScattered(GCounter):
    """A kernel that is right for runs, and forgets the last row of scattered groups."""

    def fold(self, groups: Groups, rows: Rows) -> State:
        if groups.scattered is not None and groups.n > 1 and rows.count > 1:
            return super().fold(groups.take(np.arange(rows.count - 1)), rows.take(np.arange(rows.count - 1)))
        return super().fold(groups, rows)


class SubtractsTooMuch(GCounter):
    def subtract(self, a: State, b: State) -> State:
        return (np.maximum(a[0] - b[0] - 1, 0),)


class MergesInPlace(GCounter):
    def merge(self, a: State, b: State) -> State:
        a[0][:] += b[0]
        return a


class SubtractsInPlace(GCounter):
    def subtract(self, a: State, b: State) -> State:
        a[0][:] -= b[0]
        return a


class SortsItsInput(GCounter):
    def fold(self, groups: Groups, rows: Rows) -> State:
        folded = super().fold(groups, rows)
        if isinstance(rows.element, np.ndarray) and rows.count > 2:
            rows.element.sort()
        return folded


class LosesPresence(MaxRegister):
    """Encodes the value, but not whether there is one."""

    def encode(self, state: State) -> bytes:
        return codec.encode(state[0])

    def decode(self, data: bytes) -> State:
        values = codec.decode(data)
        return values, np.ones(len(values), dtype=np.bool_)


@dataclass(frozen=True)
class RawBytes(Aggregate[float]):
    """A maximum whose bytes are those in memory: NaN has many, zero has two."""

    def zero(self, n: int) -> State:
        return (np.full(n, -np.inf),)

    def fold(self, groups: Groups, rows: Rows) -> State:
        values = floats(rows.element, rows.count, "RawBytes")
        signs = np.where(values == 0, -0.0, values) if rows.count == 1 else values
        return (groups.maxima(signs, np.full(groups.n, -np.inf)),)

    def merge(self, a: State, b: State) -> State:
        return (np.maximum(a[0], b[0]),)

    def value(self, state: State, group: int = 0) -> float:
        return float(state[0][group])

    def encode(self, state: State) -> bytes:
        return state[0].tobytes()

    def decode(self, data: bytes) -> State:
        return (np.frombuffer(data),)


class NewBytesEachTime(GCounter):
    def decode(self, data: bytes) -> State:
        return (super().decode(data)[0].astype(np.int32),)


class CachedZero(GCounter):
    kept: ClassVar[dict[int, State]] = {}

    def zero(self, n: int) -> State:
        return self.kept.setdefault(n, (np.zeros(n, dtype=np.int64),))


class ValuesInOtherOrder(GCounter):
    def values(self, state: State) -> np.ndarray:
        return take(state, np.arange(size(state))[::-1])[0]


class TouchesEverything(GCounter):
    def touched(self, state: State) -> np.ndarray:
        return np.ones(size(state), dtype=np.bool_)


@dataclass(frozen=True)
class HoldsALock(GCounter):
    lock: object = field(default_factory=threading.Lock)


class JoinsLess(GSet):
    def join(self, a: State, b: State) -> Joined[State]:
        return Joined(a, changed=False)


class BadChanged(GSet):
    def join(self, a: State, b: State) -> Joined[State]:
        return Joined(self.merge(a, b), changed=True)

    def leq(self, a: State, b: State) -> bool:
        return self.encode(self.merge(b, a)) == self.encode(b)


class BackwardOrder(GSet):
    def leq(self, a: State, b: State) -> bool:
        return super().leq(b, a)


@pytest.mark.parametrize(
    ("subject", "law"),
    [
        (Difference(), Law.ASSOCIATIVE),
        (KeepsTheLeft(), Law.COMMUTATIVE),
        (CountsFromOne(), Law.NEUTRAL),
        (SaysIdempotent(), Law.IDEMPOTENT),
        (CountsBatches(), Law.CUTS),
        (CountsStepsBack(), Law.ORDER_OF_ROWS),
        (ForgetsScattered(), Law.SINGLE_ROWS),
        (SubtractsTooMuch(), Law.SUBTRACT),
        (MergesInPlace(), Law.INPUTS_UNTOUCHED),
        (SubtractsInPlace(), Law.INPUTS_UNTOUCHED),
        (SortsItsInput(), Law.INPUTS_UNTOUCHED),
        (LosesPresence(), Law.LOSSLESS),
        (NewBytesEachTime(), Law.LOSSLESS),
        (CachedZero(), Law.GROUPS),
        (ValuesInOtherOrder(), Law.VALUES),
        (TouchesEverything(), Law.VALUES),
        (HoldsALock(), Law.TRAVELS),
        (JoinsLess(), Law.JOIN),
        (BadChanged(), Law.CHANGED),
        (BackwardOrder(), Law.ORDER),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Aggregate) else "",
)
def test_aggregate(subject: Aggregate[object], law: Law):
    assert caught(subject, BATCHES) == law


def test_naive_float_sums_depend_on_cuts():
    assert caught(NaiveSum(), [rows_of([0.1, 0.2, 0.3, 1e16, 1.0, -1e16])]) == Law.CUTS


def test_bytes_of_memory_are_not_canonical():
    assert caught(RawBytes(), [rows_of([0.0, -1.0]), rows_of([0.0])]) == Law.CANONICAL


def test_groups_that_leak_into_each_other():
    assert caught(LeaksBetweenGroups(), BATCHES) == Law.GROUPS


class LeaksBetweenGroups(GCounter):
    """Right for every pair and triple, unless a is the very mirror image of b: then the first group gets the last."""

    invertible: ClassVar[bool] = False

    def merge(self, a: State, b: State) -> State:
        merged = a[0] + b[0]
        if size(a) > 2 and np.array_equal(a[0], b[0][::-1]) and not np.array_equal(a[0], b[0]):
            merged = merged + merged[-1] - merged
        return (merged,)


# --- lattices -------------------------------------------------------------------------------------------------------


class Highest:
    """A lattice of integers under maximum, in eight bytes, with nothing wrong."""

    def bottom(self) -> int:
        return 0

    def join(self, a: int, b: int) -> Joined[int]:
        return Joined(max(a, b), b > a)

    def leq(self, a: int, b: int) -> bool:
        return a <= b

    def encode(self, state: int) -> bytes:
        return struct.pack("<q", state)

    def decode(self, data: bytes) -> int:
        return struct.unpack("<q", data)[0]


class NotAssociative(Highest):
    """A maximum, but 1 and 3 make 4."""

    def join(self, a: int, b: int) -> Joined[int]:
        joined = 4 if {a, b} == {1, 3} else max(a, b)
        return Joined(joined, joined != a)

    def leq(self, a: int, b: int) -> bool:
        return self.join(b, a).state == b


class NotCommutative(Highest):
    def join(self, a: int, b: int) -> Joined[int]:
        return Joined(a or b, a == 0 and b != 0)


class NotIdempotent(Highest):
    def join(self, a: int, b: int) -> Joined[int]:
        return Joined(a + b, b != 0)


class WrongBottom(Highest):
    def bottom(self) -> int:
        return 2


class AlwaysChanged(Highest):
    def join(self, a: int, b: int) -> Joined[int]:
        return Joined(max(a, b), True)


class BackwardsOnce(Highest):
    def leq(self, a: int, b: int) -> bool:
        return a <= b or (a, b) == (3, 1)


class LossyCodec(Highest):
    def encode(self, state: int) -> bytes:
        return struct.pack("<q", min(state, 2))


class RememberedCodec(Highest):
    """A state that has been decoded is encoded with a mark."""

    def encode(self, state: int) -> bytes:
        return struct.pack("<q?", state, type(state) is not int)

    def decode(self, data: bytes) -> int:
        return np.int64(struct.unpack("<q?", data)[0])  # type: ignore[return-value]


class UnsortedSets:
    """Sets as tuples in the order in which members came: equal states, different bytes."""

    def bottom(self) -> tuple[int, ...]:
        return ()

    def join(self, a: tuple[int, ...], b: tuple[int, ...]) -> Joined[tuple[int, ...]]:
        return Joined(a + tuple(x for x in b if x not in a), not self.leq(b, a))

    def leq(self, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        return set(a) <= set(b)

    def encode(self, state: tuple[int, ...]) -> bytes:
        return codec.encode(state)

    def decode(self, data: bytes) -> tuple[int, ...]:
        return codec.decode(data)


class JoinsInPlace(UnsortedSets):
    def bottom(self) -> list[int]:  # type: ignore[override]
        return []

    def join(self, a: list[int], b: list[int]) -> Joined[list[int]]:  # type: ignore[override]
        before = len(a)
        a.extend(x for x in b if x not in a)
        a.sort()
        return Joined(a, len(a) > before)


@pytest.mark.parametrize(
    ("subject", "samples", "law"),
    [
        (NotAssociative(), [1, 2, 3], Law.ASSOCIATIVE),
        (NotCommutative(), [1, 2, 3], Law.COMMUTATIVE),
        (NotIdempotent(), [1, 2, 3], Law.IDEMPOTENT),
        (WrongBottom(), [1, 2, 3], Law.NEUTRAL),
        (AlwaysChanged(), [1, 2, 3], Law.CHANGED),
        (BackwardsOnce(), [1, 2, 3], Law.ORDER),
        (LossyCodec(), [1, 2, 3], Law.LOSSLESS),
        (RememberedCodec(), [1, 2, 3], Law.CANONICAL),
        (UnsortedSets(), [(1,), (2,), (1, 2)], Law.CANONICAL),
        (JoinsInPlace(), [[1], [2], [1, 2]], Law.INPUTS_UNTOUCHED),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "join") else "",
)
def test_lattice(subject: object, samples: list[object], law: Law):
    assert caught(subject, samples) == law


def test_a_good_lattice_passes():
    laws.check(Highest(), [1, 2, 3])


def test_the_error_names_law_subject_and_witnesses():
    with pytest.raises(LawBroken) as raised:
        laws.check(KeepsTheLeft(), BATCHES)
    assert raised.value.where == {"law": "commutative", "subject": "KeepsTheLeft"}
    assert "a = " in str(raised.value)
    assert "14" in str(raised.value)
    assert isinstance(raised.value, HolonsError)
    assert isinstance(raised.value, AssertionError)


def caught(subject: object, samples: list[object]) -> str:
    """The law that the check says is broken."""
    with pytest.raises(LawBroken) as raised:
        laws.check(subject, samples)  # type: ignore[arg-type]
    return str(raised.value.where["law"])
