"""Every scheme gives what a plain sort of all rows gives, cut for cut and byte for byte, whatever happens to messages."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws.samples import Elements
from tests.laws.test_laws_hold import SUBJECTS
from tests.unit.counting.network import Faults, Network
from tests.unit.counting.streams import (
    END,
    SHAPES,
    Item,
    MarkAt,
    Streams,
    expected,
    marked,
    random_streams,
    random_window,
    rows_at,
    with_elements,
)

from holons.algebra import Aggregate, GCounter, GSet
from holons.counting import CountWindow
from holons.counting.prediction import Prediction
from holons.counting.schemes import Approx, Async, Central, Mon, MonLocal, Ruler, Scheme, Sync, misplaced_rows
from holons.counting.schemes.messages import Aggregated, Segments, Slice, Split
from holons.counting.schemes.requests import AnsweringLocal
from holons.counting.schemes.roots import DecidingRoot

SCHEMES: list[type[Scheme]] = [Central, Mon, MonLocal, Sync, Async, Ruler]

SEEDS = st.integers(0, 2**32)
EXAMPLES = settings.default.max_examples // 4


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.__name__)
@settings(max_examples=EXAMPLES)
@given(shape=st.sampled_from(SHAPES), seed=SEEDS)
def test_a_scheme_equals_a_plain_sort(scheme: type[Scheme], shape: str, seed: int):
    rng = random.Random(seed)
    streams, window = random_streams(shape, rng), random_window(rng)
    description = scheme(window, GCounter(), streams.partitions)
    faults = Faults(rng.choice((0, 0.2)), rng.choice((0, 0.01)), rng.choice((0, 0.01)))
    assert Network(description, streams, rng, faults).run() == wanted(streams, description)


@pytest.mark.parametrize(("aggregate", "elements"), SUBJECTS, ids=[subject.describe() for subject, _ in SUBJECTS])
@settings(max_examples=2)
@given(data=st.data(), seed=SEEDS)
def test_every_aggregate_gives_the_same_bytes(
    aggregate: Aggregate[object], elements: list[Elements], data: st.DataObject, seed: int
):
    rng = random.Random(seed)
    streams = random_streams("disorder", rng, rows_max=8)
    element = data.draw(elements[0](sum(len(log) for log in streams.logs)))
    streams = with_elements(streams, element)
    window = CountWindow(rng.randint(1, 6), partial=True)
    for scheme in SCHEMES:
        description = scheme(window, aggregate, streams.partitions)
        assert Network(description, streams, rng).run() == wanted(streams, description)


@pytest.mark.parametrize("scheme", [Sync, Async], ids=lambda scheme: scheme.__name__)
@settings(max_examples=EXAMPLES)
@given(shape=st.sampled_from(SHAPES), error=st.sampled_from([1, 2, 8]), seed=SEEDS)
def test_predictions_that_are_too_narrow_cost_rounds_and_change_nothing(
    scheme: type[Scheme], shape: str, error: int, seed: int
):
    rng = random.Random(seed)
    streams, size = random_streams(shape, rng, rows_max=150), rng.choice((20, 30, 60))
    window = CountWindow(size, rng.choice((size, size, rng.randint(1, size))), partial=rng.random() < 0.3)
    description = scheme(window, GCounter(), streams.partitions)
    faults = Faults(rng.choice((0, 0.2)), rng.choice((0, 0.01)), rng.choice((0, 0.01)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Prediction, "error", error)
        assert Network(description, streams, rng, faults, pace=rng.choice((0.0, None))).run() == wanted(
            streams, description
        )


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.__name__)
@settings(max_examples=EXAMPLES // 2)
@given(shape=st.sampled_from(SHAPES), seed=SEEDS)
def test_all_that_can_be_complete_is_complete_whenever_all_messages_are_there(
    scheme: type[Scheme], shape: str, seed: int
):
    """Logs stop for a while, wherever they are, and go on."""
    rng = random.Random(seed)
    streams, window = random_streams(shape, rng), random_window(rng)
    whole = streams.logs
    streams.logs = [[] for _ in whole]
    network = Network(scheme(window, GCounter(), streams.partitions), streams, rng)
    for _ in range(3):
        for read, log in zip(streams.logs, whole, strict=True):
            read += log[len(read) : rng.randint(len(read), len(log))]
        assert network.run() == wanted(streams, network.scheme)


@pytest.mark.parametrize("selects", [False, True])
@settings(max_examples=EXAMPLES)
@given(shape=st.sampled_from(["ties", "awkward", "random"]), seed=SEEDS)
def test_central_may_select_instead_of_sorting(selects: bool, shape: str, seed: int):
    rng = random.Random(seed)
    streams, window = random_streams(shape, rng), random_window(rng)
    description = Central(window, GCounter(), streams.partitions, selects=selects)
    assert Network(description, streams, rng).run() == wanted(streams, description)


@pytest.mark.parametrize("scheme", [Mon, Sync, Async], ids=lambda scheme: scheme.__name__)
def test_what_cannot_be_decomposed_is_sent_as_rows(scheme: type[Scheme], monkeypatch):
    monkeypatch.setattr(Prediction, "error", 1)
    streams = random_streams("random", random.Random(3), rows_max=400)
    for decomposable in (True, False):
        description = scheme(CountWindow(60), GSet(), streams.partitions, decomposable)
        network = Network(description, streams, random.Random(7), pace=0.0)
        assert network.run() == wanted(streams, description)
        sent = [*network.messages(Segments), *(message.segments for message in network.messages(Slice))]
        assert any(isinstance(part, Aggregated) for segments in sent for part in segments.parts) == decomposable


def test_folded_ranges_that_hide_a_cut_are_split(monkeypatch):
    """Else the tests above would say nothing about predictions that are wrong."""
    monkeypatch.setattr(Prediction, "error", 1)
    for scheme in (Sync, Async):
        streams = random_streams("swap", random.Random(1), rows_max=400)
        description = scheme(CountWindow(60), GCounter(), streams.partitions)
        network = Network(description, streams, random.Random(2), pace=0.0)
        assert network.run() == wanted(streams, network.scheme)
        assert len(network.messages(Split)) >= 3


@pytest.mark.parametrize("scheme", [Mon, Sync, Async], ids=lambda scheme: scheme.__name__)
def test_what_is_kept_does_not_grow_with_the_number_of_windows(scheme: type[Scheme]):
    streams = Streams([[*rows_at(*range(partition, 2_000, 3)), END] for partition in range(3)])
    network = Network(scheme(CountWindow(10), GCounter(), 3), streams, random.Random(4), pace=0.0)
    assert len(network.run()) == 200
    root = network.root
    assert isinstance(root, DecidingRoot)
    kept = [
        (cover._folded, cover._runs, cover._frontiers._keys, cover.pieces, cover.atoms.ends) for cover in root.covers
    ]
    assert max(len(part) for parts in kept for part in parts) <= 2
    assert len(root._asked) + len(root._published) <= 6
    for runner in network.runners:
        local = runner.local
        assert isinstance(local, AnsweringLocal)
        assert local.ledger.rows_held <= 10
        assert len(local._splits) + len(local._answered) <= 6


# --- approx ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["steady", "random", "swap", "disorder"])
@pytest.mark.parametrize("every", [30, 6])
def test_approx_counts_how_many_rows_are_in_another_window_than_in_central(shape: str, every: int):
    taking_turns = Streams([[*rows_at(*range(partition, 300, 3)), END] for partition in range(3)])
    streams = taking_turns if shape == "steady" else random_streams(shape, random.Random(5), rows_max=300)
    results, window = [], CountWindow(30, every)
    for scheme in (Approx, Central):
        network = Network(scheme(window, GCounter(), streams.partitions), streams, random.Random(1))
        network.run()
        results.append(network.root.results)
    approx, exact = results
    common = min(len(approx), len(exact))
    right = wrong = 0
    for partition in range(streams.partitions):  # row by row: in which pane is it?
        for rank in range(1, exact[common - 1].ranks[partition] + 1):
            panes = [next((p.cut for p in panes[:common] if rank <= p.ranks[partition]), 0) for panes in results]
            right, wrong = right + (panes[0] == panes[1]), wrong + (panes[0] != panes[1])
    assert misplaced_rows(approx, exact) == pytest.approx(wrong / (right + wrong))
    assert [pane.ranks for pane in approx[: 30 // every]] == [pane.ranks for pane in exact[: 30 // every]]
    assert common > 1
    assert (wrong > 0) == (shape != "steady")


def wanted(streams: Streams, scheme: Scheme) -> list[tuple[tuple[int, ...], bytes]]:
    panes = expected(streams, scheme.window, scheme.aggregate)
    return [(pane.ranks, scheme.aggregate.encode(pane.state)) for pane in panes]


# --- liveness, by hand: how many panes are complete -----------------------------------------------------------------


BY_HAND: dict[str, tuple[list[list[Item]], CountWindow, int]] = {
    "a mark at the last row's time is not enough for a lower partition": (
        [[MarkAt(10)], rows_at(5, 10)],
        CountWindow(2),
        0,
    ),
    "it is enough for a higher one": ([rows_at(5, 10), [MarkAt(10)]], CountWindow(2), 1),
    "a mark beyond is enough": ([[MarkAt(11)], rows_at(5, 10)], CountWindow(2), 1),
    "a partition that never sends holds up all": ([[], rows_at(*range(50))], CountWindow(5), 0),
    "a partition that ends at once holds up nothing": ([[END], rows_at(*range(50))], CountWindow(5), 10),
    "fewer rows than a window": ([rows_at(1, 2, 3), [END]], CountWindow(5), 0),
    "fewer rows than a window, but emitted": ([[*rows_at(1, 2, 3), END], [END]], CountWindow(5, partial=True), 1),
    "no rows at all": ([[END], [END]], CountWindow(5, partial=True), 0),
    "windows of one row": ([[*rows_at(3, 3, 3), END], [*rows_at(3, 3), END]], CountWindow(1), 5),
    "windows smaller than the number of partitions": (
        [[*rows_at(1, 5), END], [*rows_at(1, 5), END], [*rows_at(1, 5), END], [*rows_at(1, 5), END]],
        CountWindow(3),
        2,
    ),
    "a partition ends in the middle of a window": ([[*rows_at(1, 2), END], rows_at(*range(9))], CountWindow(4), 2),
    "negative times": ([[MarkAt(-10)], rows_at(-30, -20, -10, -9)], CountWindow(3), 0),
    "three rows, then a mark beyond them": ([marked(1, 2, 3), marked(4, 5)], CountWindow(5), 1),
    "a segment that is never filled": ([rows_at(43, 1000), rows_at(*range(1, 10), 41, 900)], CountWindow(10), 1),
    "15 rows of one partition": ([rows_at(*range(1, 16)), [MarkAt(100)]], CountWindow(10), 1),
    "a cut below a frontier that is silent": ([rows_at(1, 2, 3, 100), [*rows_at(4, 5), MarkAt(50)]], CountWindow(5), 1),
    "every fifth key of 3 + 3 + 2 + 2 rows": (
        [marked(1, 2, 3), marked(1, 2, 3), marked(1, 2), marked(1, 2)],
        CountWindow(10),
        1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_HAND)
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.__name__)
def test_a_pane_is_complete_as_soon_as_nothing_can_come_in_between(scheme: type[Scheme], case: str):
    logs, window, panes = BY_HAND[case]
    streams = Streams(logs)
    description = scheme(window, GCounter(), streams.partitions)
    for seed in range(3):
        results = Network(description, streams, random.Random(seed)).run()
        assert results == wanted(streams, description)
        assert len(results) == panes
