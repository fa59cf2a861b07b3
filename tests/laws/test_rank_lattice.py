"""What is known of a partition's ranks is a lattice."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holons.algebra import laws
from holons.counting import KnownRanks, RankLattice


@given(seed=st.integers(0, 2**32))
def test_samples_of_one_partition_obey_the_laws_of_lattices(seed: int):
    rng = random.Random(seed)
    times = np.sort(np.array([rng.randint(-3, 8) for _ in range(12)], dtype=np.int64))
    states = [samples_of(times, rng) for _ in range(5)]
    laws.check(RankLattice(partition=1), states)


def samples_of(times: np.ndarray, rng: random.Random) -> KnownRanks:
    """Some keys of rows, and some frontiers: of rows that are in order the number is the rank less one."""
    chosen = np.array([index for index in range(len(times)) if rng.random() < 0.4], dtype=np.int64)
    rows = np.array([rng.random() < 0.7 for _ in chosen], dtype=np.bool_)
    return KnownRanks(times[chosen], chosen, chosen + 1, rows)
