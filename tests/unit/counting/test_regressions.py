"""Rules without which a scheme is wrong or waits for ever: each is taken out here, and the error is seen.

`test_schemes.py` shows that nothing goes wrong with all of them.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.unit.counting.network import Faults, Network, Stuck
from tests.unit.counting.streams import SHAPES, Streams, expected, marked, random_streams, random_window

from holons.algebra import GCounter, rows_of
from holons.counting import CountedPartition, CountWindow, Cuts, KnownRanks, Ledger, Samples
from holons.counting.schemes import Message, Ruler, Scheme
from holons.errors import DescribedError

SEEDS = range(15)


def goes_wrong(
    scheme: type[Scheme], streams: Streams | None = None, window: CountWindow | None = None, **faults: object
) -> bool:
    """Whether some of a few runs gives wrong panes, too few, or an error: over given logs, or over any."""
    for seed in SEEDS:
        rng = random.Random(seed)
        logs = random_streams(rng.choice(SHAPES), rng) if streams is None else streams
        description = scheme(window or random_window(rng), GCounter(), logs.partitions)
        panes = [(pane.ranks, GCounter().encode(pane.state)) for pane in expected(logs, description.window, GCounter())]
        try:
            if Network(description, logs, rng, Faults(**faults)).run() != panes:  # type: ignore[arg-type]
                return True
        except (DescribedError, Stuck):
            return True
    return False


# --- ruler ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("all_frontiers", [True, False])
def test_a_frontier_is_told_and_kept_even_if_it_is_superseded(monkeypatch, all_frontiers):
    """Whoever decided by it has let go of the rows, and could not say their ranks again to those who have not read it."""
    monkeypatch.setattr("holons.counting.partition.spacing", lambda window, partitions: 100)
    ahead, behind = Cuts(CountWindow(4), 2), Cuts(CountWindow(4), 2)
    parts = [CountedPartition(ahead, partition, GCounter()) for partition in range(2)]
    published: list[Samples] = []
    for partition, times in ((0, [1, 2]), (1, [3, 4]), (0, [8]), (1, [6, 7])):
        parts[partition].insert(rows_of(1, times, partition=partition), times[-1])
        for part in parts * 3:
            published += filter(None, [part.samples()])
            part.contributions()
    assert ahead.found_to == 1
    last = [max(index for index, samples in enumerate(published) if samples.partition == part) for part in range(2)]
    for index, samples in enumerate(published):
        known = samples.known()
        behind.unite(samples.partition, known if all_frontiers or index in last else known.take(known.rows))
    assert behind.found_to == (1 if all_frontiers else 0)


def test_the_rank_at_the_frontier_is_published_too(monkeypatch):
    """Four partitions have 3, 3, 2 and 2 rows: with every g-th key alone a window of 10 is never complete."""
    streams = Streams([marked(1, 2, 3), marked(1, 2, 3), marked(1, 2), marked(1, 2)])
    assert not goes_wrong(Ruler, streams, CountWindow(10))
    monkeypatch.setattr(CountedPartition, "_with_frontier", lambda self, known: known)
    monkeypatch.setattr("holons.counting.partition.spacing", lambda window, partitions: 5)
    assert goes_wrong(Ruler, streams, CountWindow(10))


def test_what_is_missing_between_two_samples_is_published_unasked(monkeypatch):
    monkeypatch.setattr(Cuts, "gap", None)
    assert goes_wrong(Ruler)


def test_a_cut_waits_until_this_run_has_read_as_far(monkeypatch):
    """Runs of other nodes are ahead: a cut that they found is none for rows that this run has not read."""
    monkeypatch.setattr(Ledger, "reached", lambda self, ranks: len(ranks))
    assert goes_wrong(Ruler, partitions_again=0.05)


@pytest.mark.parametrize("by", [1, -1])
def test_a_sample_of_a_rank_that_is_off_by_one(monkeypatch, by):
    publish = Samples.of

    def published(lane: int, partition: int, known: KnownRanks) -> Samples:
        ranks = np.where(known.rows, np.maximum(known.ranks + by, 0), known.ranks)
        return publish(lane, partition, KnownRanks(known.times, known.numbers, ranks, known.rows))

    monkeypatch.setattr(Samples, "of", staticmethod(published))
    assert goes_wrong(Ruler)


def test_equal_times_are_in_the_order_of_partitions_and_not_of_arrival(monkeypatch):
    def as_it_comes(times: np.ndarray, numbers: object, partition: int, key: object) -> int:
        return int(np.searchsorted(times, key.time, side="right"))  # type: ignore[attr-defined]

    monkeypatch.setattr("holons.counting.samples.rank_in", as_it_comes)
    assert goes_wrong(Ruler)


def test_samples_that_are_lost_for_good_are_missed():
    def lost(message: Message) -> bool:
        return isinstance(message, Samples) and message.count > 1

    assert goes_wrong(Ruler, lost=lost)
