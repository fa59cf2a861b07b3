"""Samples on the wire, samples that contradict each other, and which cuts follow from them."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.counting.network import Network
from tests.unit.counting.streams import expected, random_streams, random_window

from holons import wire
from holons.algebra import GCounter
from holons.counting import CountedPartition, CountWindow, Cuts, Key, KnownRanks, Samples
from holons.counting.partition import _messages, spacing
from holons.counting.schemes import Ruler
from holons.errors import CheckpointLost, CodecError, NondeterministicProgram
from holons.windows import BEGINNING, ENDING, TIME_LIMIT


def known(*samples: tuple[int, int, int, bool]) -> KnownRanks:
    """Samples as (time, number, rank, whether it is a row's key)."""
    times, numbers, ranks, rows = zip(*samples, strict=True) if samples else ((), (), (), ())
    columns = [np.array(column, dtype=np.int64) for column in (times, numbers, ranks)]
    return KnownRanks(*columns, np.array(rows, dtype=np.bool_))


def plain(samples: KnownRanks) -> list[tuple[int, int, int, bool]]:
    columns = samples.times.tolist(), samples.numbers.tolist(), samples.ranks.tolist(), samples.rows.tolist()
    return list(zip(*columns, strict=True))


@given(
    times=st.lists(st.sampled_from([-TIME_LIMIT, -5, 0, 3, 300, 70_000, 2**40, TIME_LIMIT]), unique=True, max_size=6),
    frontier=st.sampled_from([None, ENDING, BEGINNING]),
)
def test_samples_come_back_from_the_wire(times, frontier):
    rows = [(ts, 3 * index, index + 1, True) for index, ts in enumerate(sorted(times))]
    if frontier == ENDING:
        rows.append((ENDING, 99, 40, False))
    if frontier == BEGINNING:
        rows.insert(0, (BEGINNING, -1, 0, False))
    data = wire.encode(Samples.of(2, 1, known(*rows)))
    assert plain(msgspec.msgpack.decode(data, type=Samples).known()) == rows


def test_regular_samples_cost_two_bytes_each():
    ranks = np.arange(288, 288 * 401, 288)
    steady = KnownRanks(ranks * 1000 + ranks % 97, ranks - 1, ranks, np.ones(400, dtype=np.bool_))
    assert len(wire.encode(Samples.of(0, 0, steady))) < 400 * 2 + 60


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: msgspec.structs.replace(s, count=4),
        lambda s: msgspec.structs.replace(s, count=-1),
        lambda s: msgspec.structs.replace(s, times=msgspec.structs.replace(s.times, data=b"")),
        lambda s: msgspec.structs.replace(s, times=msgspec.structs.replace(s.times, width=3)),
        lambda s: msgspec.structs.replace(s, times=msgspec.structs.replace(s.times, least=-1000)),
        lambda s: msgspec.structs.replace(s, ranks=msgspec.structs.replace(s.ranks, first=-7)),
        lambda s: msgspec.structs.replace(s, lane=1),
        lambda s: msgspec.structs.replace(s, partition=2),
    ],
)
def test_damaged_or_foreign_samples_are_a_clear_error(damage):
    samples = Samples.of(0, 0, known((10, 0, 1, True), (900, 1, 2, True), (1000, 2, 3, True)))
    cuts = Cuts(CountWindow(10), partitions=2)
    with pytest.raises(CodecError, match="hint: "):
        cuts.learn(damage(samples))
    assert cuts.learn(samples)
    assert not cuts.learn(samples)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((10, 4, 5, True), (10, 4, 6, True)),  # one key with two ranks
        ((10, 4, 5, True), (11, 5, 5, True)),  # two rows with one rank
        ((10, 4, 5, False), (11, 5, 4, False)),  # fewer rows up to a later key
        ((10, 4, 5, False), (10, 5, 5, True)),  # a row that adds nothing
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_samples_that_contradict_each_other_name_partition_and_key(one, other, turned):
    cuts = Cuts(CountWindow(10), partitions=3)
    first, second = (other, one) if turned else (one, other)
    cuts.unite(2, known(first))
    with pytest.raises(NondeterministicProgram, match=r"partition 2, key \(1"):
        cuts.unite(2, known(second))


def test_a_key_is_a_rows_key_if_anybody_says_so():
    cuts = Cuts(CountWindow(10), partitions=1)
    cuts.unite(0, known((10, 4, 5, False)))
    assert cuts.unite(0, known((10, 4, 5, True)))
    assert not cuts.unite(0, known((10, 4, 5, False)))
    assert plain(cuts.known[0]) == [(10, 4, 5, True)]


def test_the_ends_of_time_lie_further_apart_than_an_integer_tells_and_come_back():
    whole = known((BEGINNING, -1, 0, False), (ENDING, -1, 0, False))
    assert plain(Samples.of(0, 0, whole).known()) == plain(whole)


def test_a_huge_count_of_samples_that_take_no_bytes_is_refused():
    samples = Samples.of(0, 0, known((10, 0, 1, True), (20, 1, 2, True), (30, 2, 3, True)))
    assert not samples.times.data, "three times that lie equally far apart"
    with pytest.raises(CodecError, match="samples of 0 bytes each"):
        msgspec.structs.replace(samples, count=2**40).known()
    with pytest.raises(CodecError, match="hint: "):
        msgspec.structs.replace(samples, times=msgspec.structs.replace(samples.times, least=2**63)).known()


def test_what_a_view_knows_of_a_partition_is_said_again_by_whoever_takes_over():
    cuts = Cuts(CountWindow(10), partitions=2)
    cuts.unite(0, known((10, 0, 1, True)))  # learned by a run that died before it could send it
    taken_over = CountedPartition(cuts, 0, GCounter())
    samples = taken_over.samples()
    assert samples is not None
    assert plain(samples.known()) == [(10, 0, 1, True)]
    assert taken_over.samples() is None


# --- cuts -----------------------------------------------------------------------------------------------------------


def test_a_cut_is_found_where_least_and_greatest_ranks_add_up():
    cuts = Cuts(CountWindow(10), partitions=2)
    cuts.unite(0, known((10, 2, 3, True), (50, 3, 4, True)))
    cuts.unite(1, known((12, 6, 7, True), (60, 9, 9, False)))
    (cut,) = cuts.after(0)
    assert (cut.number, cut.ranks.tolist(), cut.key) == (1, [3, 7], Key(12, 1, 6))


def test_a_gap_names_the_ranks_that_are_missing():
    cuts = Cuts(CountWindow(10), partitions=2)
    cuts.unite(0, known((10, 2, 3, True), (50, 9, 10, True)))
    cuts.unite(1, known((12, 3, 4, True), (60, 9, 10, True)))
    assert cuts.after(0) == []
    assert cuts.gap is not None
    assert (cuts.gap.lo, cuts.gap.hi) == (Key(10, 0, 2), Key(50, 0, 9))
    assert (cuts.gap.least.tolist(), cuts.gap.greatest.tolist()) == ([3, 0], [10, 9])
    assert cuts.certain.tolist() == [3, 0]


def test_a_frontier_counts_as_much_as_a_row():
    cuts = Cuts(CountWindow(4), partitions=2)
    cuts.unite(0, known((10, 2, 3, False)))
    cuts.unite(1, known((10, 0, 1, True), (11, 0, 1, False)))
    assert cuts.after(0) == []  # another row of partition 0 at 10 is below the row of partition 1
    cuts.unite(0, known((11, 2, 3, False)))
    assert [cut.ranks.tolist() for cut in cuts.after(0)] == [[3, 1]]


@settings(max_examples=settings.default.max_examples // 6)
@given(seed=st.integers(0, 2**32), every=st.integers(1, 5))
def test_samples_of_all_rows_give_all_cuts_also_after_trimming_and_a_snapshot(seed, every):
    rng = random.Random(seed)
    streams, window = random_streams("awkward", rng), random_window(rng)
    panes = expected(streams, window, GCounter())
    network = Network(Ruler(window, GCounter(), streams.partitions), streams, rng)
    network.run()
    cuts = Cuts(window, streams.partitions)
    for message in network.messages(Samples):
        cuts.learn(message)
    assert [tuple(cut.ranks.tolist()) for cut in cuts.after(0)] == [pane.ranks for pane in panes]
    middle = len(panes) // every
    cuts.trim(middle)
    again = Cuts(window, streams.partitions, resume=cuts.snapshot())
    assert [tuple(cut.ranks.tolist()) for cut in again.after(middle)] == [pane.ranks for pane in panes[middle:]]
    assert again.snapshot() == cuts.snapshot()
    if middle:
        with pytest.raises(CheckpointLost):
            again.after(middle - 1)


@given(seed=st.integers(0, 2**32))
def test_to_know_how_many_rows_there_are_is_not_to_know_all_cuts(seed):
    rng = random.Random(seed)
    window = CountWindow(2, partial=rng.random() < 0.5)
    cuts = Cuts(window, partitions=2)
    ends = (
        known((10, 0, 1, True), (30, 1, 2, True), (ENDING, 1, 2, False)),
        known((20, 0, 1, True), (ENDING, 0, 1, False)),
    )
    samples = [
        (partition, ends[partition].between(at, at + 1)) for partition in (0, 1) for at in range(len(ends[partition]))
    ]
    rng.shuffle(samples)
    while samples:
        assert not cuts.complete or cuts.found_to == (2 if window.partial else 1)
        cuts.unite(*samples.pop())
    assert cuts.total == 3
    assert cuts.complete
    assert cuts.found_to == (2 if window.partial else 1)


def test_the_spacing_of_samples_makes_keys_and_gaps_cost_the_same():
    assert spacing(CountWindow(1_000_000), 8) == 288
    assert spacing(CountWindow(1), 8) == 1


def test_successive_ranks_are_sent_by_themselves_and_the_frontier_last():
    """Mixed with others they would take several bytes each; and a frontier says that nothing before it is missing."""
    ranks = np.concatenate((np.arange(100, 1_000, 100), np.arange(1_001, 1_201), np.arange(1_300, 2_000, 100), [2_050]))
    known_here = KnownRanks(ranks * 3, ranks - 1, ranks, np.append(np.ones(len(ranks) - 1, dtype=np.bool_), [False]))
    run, others = _messages(known_here)
    assert run.ranks.tolist() == list(range(1_001, 1_201))
    assert not others.rows[-1]
    assert sorted(plain(run) + plain(others)) == plain(known_here)
    assert len(Samples.of(0, 0, known_here).encode()) > 2 * len(
        Samples.of(0, 0, run).encode() + Samples.of(0, 0, others).encode()
    )
    assert [len(part) for part in _messages(known_here.take(slice(0, 40)))] == [40]
