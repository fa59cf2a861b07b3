"""Sliding against merging the panes from scratch, byte for byte."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.algebra import GCounter, Groups, rows_of, slide
from holons.algebra.histogram import Histogram
from holons.algebra.maps import MergeMap
from holons.algebra.product import Product
from holons.algebra.registers import MaxRegister
from holons.algebra.slide import Slide
from holons.algebra.sums import Average, Sum
from holons.errors import BadWindow, IntegerOverflow

KEYS = st.one_of(st.integers(0, 6), st.sampled_from([-(2**60), 2**60]))
TEXTS = st.sampled_from(["", "b", "bb", *(f"NumPy keeps longer ones elsewhere: {number}" for number in range(4))])
BOTH = Product(a=MergeMap(Average("float")), b=MergeMap(MaxRegister("int")))
CASES = {
    "counter": (GCounter(), st.integers(0, 9)),
    "average": (Average("float"), st.floats(-1e9, 1e9)),
    "maximum": (MaxRegister("int"), st.integers(-99, 99)),
    "map of counters": (MergeMap(GCounter()), st.tuples(KEYS, st.integers(0, 3))),
    "map of words": (MergeMap(Sum("int")), st.tuples(st.sampled_from("abcdef"), st.integers(-3, 3))),
    "map of texts": (MergeMap(GCounter()), st.tuples(TEXTS, st.integers(0, 3))),
    "map of averages": (MergeMap(Average("int")), st.tuples(KEYS, st.integers(-3, 3))),
    "map of exact averages": (MergeMap(Average("float")), st.tuples(KEYS, st.floats(-1e9, 1e9))),
    "map of histograms": (MergeMap(Histogram([0, 2])), st.tuples(KEYS, st.integers(-3, 3))),
    "map of products": (MergeMap(Product(n=GCounter(), sum=Sum("int"))), st.tuples(KEYS, st.integers(0, 3))),
    "map of maxima": (MergeMap(MaxRegister("int")), st.tuples(KEYS, st.integers(0, 3))),
    "map of maps": (MergeMap(MergeMap(GCounter())), st.tuples(KEYS, KEYS, st.integers(0, 3))),
    "product": (BOTH, st.tuples(KEYS, st.integers(0, 3))),
}


def pane_of(aggregate, elements):
    if elements and isinstance(elements[0], tuple):
        return aggregate.fold(Groups.single(len(elements)), rows_of(tuple(map(list, zip(*elements, strict=True)))))
    return aggregate.fold(Groups.single(len(elements)), rows_of(list(elements)))


def slides_like_from_scratch(aggregate, panes, history):
    """Slide over `history`, pairs of a gap and a pane (or None), and compare every window."""
    sliding, index, held, seen = Slide(aggregate, panes), 0, {}, []
    for gap, pane in history:
        index += gap
        sliding.push(index, pane)
        held[index] = pane if pane is not None else aggregate.zero(1)
        window = [held[at] for at in sorted(held) if index - panes < at <= index]
        expected = aggregate.encode(reduce(aggregate.merge, window, aggregate.zero(1)))
        state = sliding.state()
        assert aggregate.encode(state) == expected
        seen.append((state, expected))
    for state, expected in seen:  # nothing handed out was changed afterwards
        assert aggregate.encode(state) == expected


@pytest.mark.parametrize("name", CASES)
def test_a_slide_has_the_bytes_of_merging_from_scratch(name, monkeypatch):
    monkeypatch.setattr(slide, "_SPARE_KEYS", 0)
    aggregate, element = CASES[name]
    steps = st.tuples(st.sampled_from([1, 1, 1, 2, 3, 10**15]), st.lists(element, max_size=4))

    @given(st.integers(1, 5), st.lists(steps, max_size=14))
    def check(panes, history):
        history = [(gap, pane_of(aggregate, elements) if elements else None) for gap, elements in history]
        slides_like_from_scratch(aggregate, panes, history)

    check()


@pytest.mark.parametrize("name", [name for name, (aggregate, _) in CASES.items() if isinstance(aggregate, MergeMap)])
def test_so_it_has_when_panes_share_most_of_their_keys(name, monkeypatch):
    """Wide panes, spread over the table; which grows, shrinks and forgets keys that come back while they are held."""
    monkeypatch.setattr(slide, "_SPARE_KEYS", 0)
    aggregate, element = CASES[name]
    rest = element.map(lambda parts: parts[1:])
    step = st.tuples(
        st.sampled_from([1, 1, 1, 1, 2, 6]),
        st.sampled_from([range(8), range(8), range(4), range(2, 12), range(-3, 20), range(100, 103)]),
        st.sets(st.integers(-3, 20), max_size=3),
        rest,
        st.none() | rest,
    )

    def pane(keys, missing, most, one):
        elements = [((f"{key:+}" if name == "map of words" else key), *most) for key in keys if key not in missing]
        if elements and one is not None:
            elements[0] = (elements[0][0], *one)
        return pane_of(aggregate, elements) if elements else None

    @given(st.integers(1, 5), st.lists(step, max_size=14))
    def check(panes, history):
        slides_like_from_scratch(aggregate, panes, [(gap, pane(*parts)) for gap, *parts in history])

    check()


def test_wide_panes_are_spread_and_narrow_or_hidden_ones_are_not():
    aggregate = MergeMap(GCounter())
    sliding = Slide(aggregate, 10)
    everything, half, few = list(range(8)), [0, 2, 4, 7], [3]
    for index, (keys, count) in enumerate([(everything, 1), (half, 1), (few, 1), (half, 0), (everything, 0)]):
        sliding.push(index, pane_of(aggregate, [(key, count) for key in keys]))
    assert [len(pane.keys) for pane in sliding._sum._held] == [8, 8, 1, 4, 8]
    assert [pane.hidden is None for pane in sliding._sum._held] == [True, True, True, False, False]


def test_a_key_counted_zero_times_stays_until_its_last_pane_leaves():
    aggregate = MergeMap(GCounter())
    sliding = Slide(aggregate, 2)
    seen = []
    for index, elements in enumerate([[(1, 0), (2, 5)], [(2, 1)], [(2, 1), (3, 0)], [(2, 0)], []]):
        sliding.push(index, pane_of(aggregate, elements) if elements else None)
        seen.append(dict(aggregate.value(sliding.state()).items()))
    assert seen == [{1: 0, 2: 5}, {1: 0, 2: 6}, {2: 2, 3: 0}, {2: 1, 3: 0}, {2: 0}]


def test_overflow_is_noticed_in_spread_panes_too():
    aggregate = MergeMap(GCounter())
    sliding = Slide(aggregate, 3)
    sliding.push(0, pane_of(aggregate, [(1, 2**62), (2, 1), (3, 1)]))
    with pytest.raises(IntegerOverflow):
        sliding.push(1, pane_of(aggregate, [(1, 2**62), (2, 1)]))


def test_panes_handed_in_are_not_changed():
    aggregate = MergeMap(GCounter())
    panes = [pane_of(aggregate, [(key, 1) for key in keys]) for keys in ([1, 2], [1, 2], [2, 3], [1, 2])]
    before = [aggregate.encode(pane) for pane in panes]
    sliding = Slide(aggregate, 2)
    for index, pane in enumerate(panes):
        sliding.push(index, pane)
        sliding.state()
    assert [aggregate.encode(pane) for pane in panes] == before


def test_every_way_is_taken():
    kinds = {name: type(Slide(aggregate, 1)._sum).__name__ for name, (aggregate, _) in CASES.items()}
    assert set(kinds.values()) == {"_Subtracting", "_TwoStacks", "_CountingKeys", "_FieldByField"}
    assert kinds["map of words"] == "_CountingKeys"


def test_dense_keys_stay_in_place():
    aggregate = MergeMap(GCounter())
    sliding = Slide(aggregate, 3)
    for index in range(6):
        keys = np.arange(1000) if index % 2 else np.arange(0, 1000, 2)
        sliding.push(index, aggregate.fold(Groups.single(len(keys)), rows_of((keys, 1))))
    value = aggregate.value(sliding.state())
    assert value[0] == 3
    assert value[1] == 2


def test_a_window_has_panes():
    with pytest.raises(BadWindow):
        Slide(GCounter(), 0)
