"""Decoders of values: the codec's, those of locals, the states of aggregates, samples of ranks."""

from __future__ import annotations

import datetime
from contextlib import suppress
from decimal import Decimal

import numpy as np
from tests.fuzz.fuzzing import Decoder
from tests.fuzz.register import decoder

import holons as h
from holons import algebra, codec, wire
from holons.algebra import Origin, Slots
from holons.algebra.groups import Groups
from holons.algebra.rows import prepare
from holons.counting.samples import RankLattice, Samples
from holons.errors import CodecError, IntegerOverflow
from holons.program.locals import freeze, thaw

MESSAGE = (CodecError,)


@decoder("holons.codec:_restore", "holons.codec:_lengthened", "holons.codec:_decoder")
def values() -> Decoder:
    many = np.arange(40_000, dtype=np.int64)
    samples = [
        codec.encode(value)
        for value in (
            {"a": (2.0, None, -(2**70)), b"b": {1, 2}, "c": frozenset(["x"]), 4: [True]},
            [np.arange(9.0), np.arange(6, dtype="<u2").reshape(2, 3), np.array([True]), many[:20], many * 3 + 2**40],
            [np.array(["a", "zoë"], dtype=np.dtypes.StringDType()), codec.object_array([(1, "a"), None])],
            [
                datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC),
                datetime.date(1, 1, 1),
                datetime.time(4),
                datetime.timedelta(-3, 2, 1),
            ],
            [Decimal("1.50"), Decimal("NaN"), Decimal("-1e300"), datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)],
            freeze({"users": ["ann", ("b", 2.5)], "at": np.float32(3), "set": {1}, "when": np.arange(3)}),
        )
    ]

    def read(data: bytes) -> None:
        value = codec.decode(data)
        codec.encode(value)

    return Decoder("values", samples, read, MESSAGE, cost=2)


@decoder()
def values_of_locals() -> Decoder:
    frozen = {"users": ["ann", ("b", 2.5)], "at": np.float32(3), "set": {1}, "when": np.arange(3), "d": {1: (2,)}}
    read = lambda data: thaw(codec.decode(data))  # noqa: E731
    return Decoder("values of locals", [codec.encode(freeze(frozen))], read, MESSAGE)


@decoder("holons.algebra.slots:Slots.decode")
def states_of_slots() -> Decoder:
    slots = Slots(h.GCounter())
    state = slots.bottom()
    for part in range(3):
        state = slots.put(state, part, 1, h.GCounter().zero(1))
    return Decoder("states of slots", [slots.encode(state)], slots.decode, MESSAGE)


AGGREGATES: tuple[tuple[algebra.Aggregate[object], object], ...] = (
    (h.GCounter(), [1, 2, 3]),
    (h.PNCounter(), [1, -2, 3]),
    (h.Sum("int"), [1, -2, 3]),
    (h.Sum("float"), [0.5, float("inf"), -3e300]),
    (h.Average("float"), [0.5, 1.0, 3.0]),
    (h.MaxRegister("int"), [1, 2, 3]),
    (h.MinRegister("str"), ["a", "b", "zoë"]),
    (h.LWWRegister(), [1, 2, 3]),
    (h.MVRegister(), ["a", "b", "c"]),
    (h.GSet(), ["a", "b", "c"]),
    (h.DistinctCount(), [1, 2, 3]),
    (h.TopK(2), [1, 2, 3]),
    (h.HyperLogLog(7), [1, 2, 3]),
    (h.Quantiles(0.01), [0.5, 1.0, 300.0]),
    (h.Histogram([-1.0, 0.0, 1.0]), [-3.0, 0.5, 3.0]),
    (h.Product(n=h.GCounter(), best=h.TopK(1)), {"n": 1, "best": [1, 2, 3]}),
    (h.MergeMap(h.Average("float")), (["a", "b", "a"], [0.5, 1.0, 3.0])),
    (h.MergeMap(h.TopK(2)), ([1, 2, 1], [5, 6, 7])),
)


@decoder("holons.algebra.aggregate:Aggregate.decode")
def states_of_aggregates() -> Decoder:
    samples, subjects = [], []
    for aggregate, elements in AGGREGATES:
        rows = prepare(elements, np.arange(3), Origin(partition=0, base=0, count=3, index=np.arange(3)))
        state = aggregate.fold(Groups.single(3), rows)
        samples.append(aggregate.encode(state))
        subjects.append(aggregate)

    def read(data: bytes) -> None:
        for aggregate in subjects:
            with suppress(CodecError, IntegerOverflow):  # most states are those of another aggregate
                state = aggregate.decode(data)
                if not any(column.dtype.hasobject for column in state):
                    aggregate.merge(aggregate.zero(len(state[0])), state)

    return Decoder("states of aggregates", samples, read, MESSAGE, cost=4)


@decoder("holons.counting.samples:_unpacked")
def counting_samples() -> Decoder:
    lattice = RankLattice(0)
    decode = wire.decoder(Samples, "samples", "the sync stream")
    known = Samples.of(
        0,
        0,
        lattice.decode(codec.encode([np.array([1, 5]), np.array([0, 4]), np.array([1, 3]), np.array([True, True])])),
    )

    def read(data: bytes) -> None:
        decode(data).known()

    return Decoder("counting samples", [wire.encode(known)], read, MESSAGE)
