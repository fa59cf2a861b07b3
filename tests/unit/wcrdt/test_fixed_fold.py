"""Values fold in partition order, then in pane order, whatever order the seals came in (invariant: fixed fold).

No aggregate of ours would show another order, since all of them commute. This one does not.
"""

from __future__ import annotations

import itertools

import pytest

import holons as h
from holons import codec
from holons.algebra import Aggregate
from holons.wcrdt import Delta, Handle, Replica, Seal
from holons.windows import BEGINNING, Window

SECOND = 1_000_000
PARTITIONS = 3


class Joined(Aggregate[str]):
    """Text in the order in which it was merged."""

    def zero(self, n):
        return (codec.object_array([""] * n),)

    def fold(self, groups, rows):
        raise NotImplementedError

    def merge(self, a, b):
        return (a[0] + b[0],)

    def value(self, state, group=0):
        return state[0][group]


def sealed(partition, second):
    """What a partition seals in a second: its own letter, and the second."""
    return Joined().encode((codec.object_array([f"{'abc'[partition]}{second} "]),))


@pytest.mark.parametrize("order", list(itertools.permutations(range(PARTITIONS))))
@pytest.mark.parametrize(
    ("window", "accumulate", "expected"),
    [
        (h.Tumbling("1s"), False, "a1 b1 c1 "),
        (h.Tumbling("1s"), True, "a1 b1 c1 "),
        (h.Sliding("2s", every="1s"), False, "a0 b0 c0 a1 b1 c1 "),
    ],
)
def test_partitions_fold_in_their_order_and_panes_in_theirs(order, window, accumulate, expected):
    replica = Replica([Handle("text", Joined(), window, accumulate=accumulate, keep_us=SECOND)], PARTITIONS)
    for partition in order:
        seals = tuple(Seal(0, second, sealed(partition, second)) for second in range(2))
        replica.apply(Delta(0, partition, BEGINNING, 2 * SECOND, seals))
    assert replica.value(0, Window(2 * SECOND - window.size_us, 2 * SECOND)) == expected
