"""Every aggregate and every lattice of ours obeys its laws, on difficult rows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws.samples import COUNTS, FLAGS, FLOATS, INTS, SIGNED, SMALL, TEXTS, Elements, batches, columns, named

from holons.algebra import (
    Aggregate,
    DistinctCount,
    GCounter,
    Groups,
    GSet,
    Histogram,
    HyperLogLog,
    LWWRegister,
    MaxRegister,
    MinRegister,
    MVRegister,
    ORSet,
    ParetoFront,
    PNCounter,
    Quantiles,
    Ranked,
    Slots,
    TopK,
    TwoPhaseSet,
    laws,
)
from holons.algebra.maps import MergeMap
from holons.algebra.product import Product
from holons.algebra.sums import Average, Sum

EXAMPLES = settings.default.max_examples // 5  # each takes many laws to task

SUBJECTS: list[tuple[Aggregate[object], list[Elements]]] = [
    (GCounter(), [COUNTS]),
    (PNCounter(), [SIGNED]),
    (Sum("int"), [SIGNED]),
    (Sum("float"), [FLOATS]),
    (Average("int"), [SIGNED]),
    (Average("float"), [FLOATS]),
    (MaxRegister("int"), [INTS]),
    (MaxRegister("float"), [FLOATS]),
    (MaxRegister("str"), [TEXTS]),
    (MinRegister("int"), [INTS]),
    (MinRegister("float"), [FLOATS]),
    (MinRegister("str"), [TEXTS]),
    (LWWRegister(), [INTS, FLOATS, TEXTS, FLAGS, columns(FLOATS, SMALL), columns(TEXTS, INTS)]),
    (MVRegister(), [INTS, FLOATS, TEXTS, FLAGS]),
    (GSet(), [INTS, TEXTS]),
    (DistinctCount(), [INTS, TEXTS, FLAGS]),
    (TwoPhaseSet(), [columns(SMALL, FLAGS), columns(TEXTS, FLAGS)]),
    (ORSet(), [columns(INTS, FLAGS), columns(TEXTS, FLAGS)]),
    (TopK(3), [INTS, FLOATS, columns(SMALL, TEXTS), columns(FLOATS, INTS)]),
    (TopK(1, largest=False), [INTS, FLOATS, columns(SMALL, INTS)]),
    (Ranked(("a",)), [INTS, FLOATS, TEXTS, FLAGS]),
    (Ranked(("a", "b"), (True, False)), [columns(SMALL, TEXTS), columns(FLOATS, FLAGS)]),
    (Ranked(("a", "b"), (False,), k=2), [columns(SMALL, TEXTS), columns(TEXTS, FLOATS)]),
    (Histogram([-1, 0, 0.2, 2**53 + 1]), [INTS, FLOATS]),
    (ParetoFront(), [columns(SMALL, SMALL), columns(FLOATS, FLOATS), columns(INTS, FLOATS)]),
    (HyperLogLog(4), [INTS, FLOATS, TEXTS, FLAGS]),
    (Quantiles(0.01), [FLOATS, INTS]),
    (MergeMap(GCounter()), [columns(SMALL, COUNTS), columns(TEXTS, COUNTS)]),
    (MergeMap(Sum("float")), [columns(INTS, FLOATS)]),
    (MergeMap(Average()), [columns(TEXTS, FLOATS)]),
    (MergeMap(MaxRegister("str")), [columns(SMALL, TEXTS)]),
    (MergeMap(MinRegister("float")), [columns(TEXTS, FLOATS)]),
    (MergeMap(LWWRegister()), [columns(SMALL, TEXTS), columns(SMALL, TEXTS, SMALL)]),
    (MergeMap(GSet()), [columns(SMALL, TEXTS)]),
    (MergeMap(ORSet()), [columns(SMALL, SMALL, FLAGS)]),
    (MergeMap(TopK(2)), [columns(TEXTS, FLOATS, TEXTS)]),
    (MergeMap(Histogram([0, 1])), [columns(TEXTS, FLOATS)]),
    (MergeMap(HyperLogLog(4)), [columns(SMALL, TEXTS)]),
    (MergeMap(Quantiles(0.1)), [columns(SMALL, FLOATS)]),
    (MergeMap(MergeMap(PNCounter())), [columns(SMALL, TEXTS, SIGNED)]),
    (Product(n=GCounter(), change=PNCounter()), [named(n=COUNTS, change=SIGNED)]),
    (Product(n=GCounter(), best=MaxRegister("float"), t=LWWRegister()), [named(n=COUNTS, best=FLOATS, t=TEXTS)]),
    (Product(best=MaxRegister(), all=GSet(), top=TopK(2)), [SMALL]),
    (Product(mean=Average(), spread=Quantiles(0.1), last=LWWRegister()), [FLOATS]),
    (MergeMap(Product(n=GCounter(), top=TopK(2))), [columns(TEXTS, COUNTS)]),
    (MergeMap(Product(n=GCounter(), best=MaxRegister())), [columns(TEXTS, named(n=COUNTS, best=INTS))]),
    (MergeMap(Ranked(("a",), (True,), k=2)), [columns(SMALL, TEXTS)]),
    (Product(by=MergeMap(MaxRegister()), front=ParetoFront()), [columns(SMALL, SMALL)]),
]


@pytest.mark.parametrize(("aggregate", "elements"), SUBJECTS, ids=[subject.describe() for subject, _ in SUBJECTS])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_aggregate(aggregate: Aggregate[object], elements: list[Elements], data: st.DataObject):
    for element in elements:
        laws.check(aggregate, data.draw(batches(element)))


@pytest.mark.parametrize(
    ("aggregate", "element"),
    [(GCounter(), COUNTS), (Sum("float"), FLOATS), (MergeMap(Average()), columns(TEXTS, FLOATS)), (GSet(), INTS)],
    ids=lambda value: value.describe() if isinstance(value, Aggregate) else "",
)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_slots_over(aggregate: Aggregate[object], element: Elements, data: st.DataObject):
    slots = Slots(aggregate)
    inputs = data.draw(batches(element, most=3, rows_max=6))
    history = []  # each partition's contribution grows with its version: one-value holds
    for partition, rows in enumerate(inputs):
        for version in range(rows.count + 1):
            part = rows.take((rows.ts >= 0).nonzero()[0][:version])
            history.append((partition, version, aggregate.fold(Groups.single(part.count), part)))
    states = []
    for _ in range(4):
        state = slots.bottom()
        for put in data.draw(st.lists(st.sampled_from(history), max_size=4)):
            state = slots.put(state, *put)
        states.append(state)
    laws.check(slots, states)
