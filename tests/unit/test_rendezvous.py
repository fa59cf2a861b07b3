from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from holons.rendezvous import preference

NODES = st.lists(st.text(), unique=True, min_size=1, max_size=8)


@given(st.text(), NODES, st.data())
def test_a_node_that_goes_changes_the_order_of_no_two_others(key, nodes, data):
    gone = data.draw(st.sampled_from(nodes))
    order = preference(key, nodes)
    assert sorted(order) == sorted(nodes)
    assert preference(key, [node for node in nodes if node != gone]) == [node for node in order if node != gone]


@given(st.text(), NODES, st.randoms())
def test_every_node_finds_the_same_order(key, nodes, random):
    shuffled = list(nodes)
    random.shuffle(shuffled)
    assert preference(key, shuffled) == preference(key, nodes)


def test_keys_are_spread_over_the_nodes():
    first = Counter(preference(f"job/{partition}", "abcd")[0] for partition in range(1_000))
    assert set(first) == set("abcd")
    assert min(first.values()) > 200
