"""What a partition adds to its open panes, against lists of raw rows."""

import datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws.samples import batches
from tests.laws.test_laws_hold import SUBJECTS
from tests.unit.wcrdt.brute_force import plain, rows_for, value_of, word

from holons.algebra import GCounter, MaxRegister, MergeMap, rows_of
from holons.errors import InsertBelowWatermark
from holons.wcrdt import Contributions, Handle
from holons.windows import BEGINNING, ENDING, Session, Sliding, Tumbling

HANDLES = [
    Handle("total", GCounter(), Tumbling("10us")),
    Handle("elsewhere", GCounter(), Tumbling("10us"), stage=1),
    Handle("best", MaxRegister(), Sliding("6us", every="4us")),
    Handle("by key", MergeMap(GCounter()), Tumbling("5us")),
    Handle("so far", GCounter(), Tumbling("5us"), accumulate=True),
    Handle("visits", GCounter(), Session("12us")),
]
INDICES = [0, 2, 3, 4, 5]
BATCH = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=6)
STEPS = st.lists(st.one_of(st.tuples(st.sampled_from(INDICES), BATCH), st.integers(1, 15)), max_size=14)


def live(steps, resumed_after=()):
    """Runs steps (inserts from the watermark on, or the watermark moves); all that was sealed, in order."""
    contributions, watermark, sealed = Contributions(HANDLES, INDICES), -20, []
    for place, step in enumerate([*steps, ENDING]):
        if isinstance(step, tuple):
            index, batch = step
            contributions.insert(index, rows_for(HANDLES[index], [(watermark + after, n) for after, n in batch]))
        else:
            watermark = min(watermark + step, ENDING)
            sealed += [(i, pane, contributions.encode(i, state)) for i, pane, state in contributions.seal(watermark)]
        if place in resumed_after:
            contributions = Contributions(HANDLES, INDICES, contributions.snapshot())
    return sealed


def model(steps):
    """The same with a list of rows for each pane: what each `seal` must give, sorted by (end, handle)."""
    panes, watermark, sealed, so_far = {}, -20, [], []
    for step in [*steps, ENDING]:
        if isinstance(step, tuple):
            for after, number in step[1]:
                pane = (watermark + after) // HANDLES[step[0]].window.pane_us
                panes.setdefault((step[0], pane), []).append((watermark + after, number))
            continue
        watermark += step
        over = [(index, pane) for index, pane in panes if (pane + 1) * HANDLES[index].window.pane_us <= watermark]
        for index, pane in sorted(
            over, key=lambda place: ((place[1] + 1) * HANDLES[place[0]].window.pane_us, place[0])
        ):
            rows = panes.pop((index, pane))
            if HANDLES[index].accumulate:
                so_far += rows
                rows = list(so_far)
            sealed.append((index, pane, rows))
    return sealed


def fragments(rows):
    """What a session's pane knows of each key."""
    by_key = {}
    for ts, number in rows:
        by_key.setdefault(word(number), []).append((ts, number))
    return {
        key: {"first": min(own)[0], "last": max(own)[0], "partial": sum(n for _, n in own)}
        for key, own in by_key.items()
    }


@given(STEPS)
def test_seals_are_what_was_inserted(steps):
    sealed, expected = live(steps), model(steps)
    assert [place[:2] for place in sealed] == [place[:2] for place in expected], "the order is (end, handle)"
    for (index, _, payload), (_, _, rows) in zip(sealed, expected, strict=True):
        aggregate = HANDLES[index].pane_aggregate
        value = plain(aggregate.value(aggregate.decode(payload)))
        session = isinstance(HANDLES[index].window, Session)
        assert value == (fragments(rows) if session else value_of(HANDLES[index], [n for _, n in rows]))


@given(STEPS, st.sets(st.integers(0, 14)))
def test_resuming_anywhere_does_not_show(steps, resumed_after):
    assert live(steps, resumed_after) == live(steps)


@pytest.mark.parametrize(("aggregate", "elements"), SUBJECTS, ids=[subject.describe() for subject, _ in SUBJECTS])
@settings(max_examples=settings.default.max_examples // 12)
@given(data=st.data())
def test_resuming_does_not_show_for_any_aggregate(aggregate, elements, data):
    handles = [Handle("fixed", aggregate, Tumbling("2us")), Handle("session", aggregate, Session("8us"))]
    plainly, resumed = Contributions(handles, [0, 1]), Contributions(handles, [0, 1])
    for rows in data.draw(batches(elements[0], most=3, rows_max=5)):
        for contributions in (plainly, resumed):
            contributions.insert(0, rows)
            contributions.insert(1, rows.with_element((rows.ts % 2, rows.element)))
        resumed = Contributions(handles, [0, 1], resumed.snapshot())
    expected = [(index, pane, plainly.encode(index, state)) for index, pane, state in plainly.seal(ENDING)]
    assert [(index, pane, resumed.encode(index, state)) for index, pane, state in resumed.seal(ENDING)] == expected


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1), st.sets(st.integers(0, 20)))
def test_how_inserts_are_cut_does_not_show(batch, cuts):
    edges = sorted({0, *(cut for cut in cuts if cut < len(batch)), len(batch)})
    pieces = [batch[a:b] for a, b in pairwise(edges)]
    for index in INDICES:
        assert live([(index, piece) for piece in pieces]) == live([(index, batch)])


def counting() -> Contributions:
    return Contributions([Handle("n", GCounter(), Tumbling("10us"))], [0])


def test_time_that_is_sealed_takes_no_more_rows():
    contributions = counting()
    contributions.seal(7)
    contributions.insert(0, rows_of([1], [7]))
    with pytest.raises(InsertBelowWatermark, match=r"n: insert at .*\.000006, below the watermark") as caught:
        contributions.insert(0, rows_of([1, 1], [9, 6]))
    assert caught.value.hint
    assert contributions.open_panes() == {"n": 1}


def test_what_was_sealed_stays_sealed_when_it_resumes():
    contributions = counting()
    contributions.seal(7)
    resumed = Contributions([Handle("n", GCounter(), Tumbling("10us"))], [0], contributions.snapshot())
    with pytest.raises(InsertBelowWatermark):
        resumed.insert(0, rows_of([1], [6]))


def test_a_pane_is_sealed_when_the_watermark_reaches_its_end():
    contributions = counting()
    contributions.insert(0, rows_of([1], [9]))
    assert contributions.seal(9) == []
    assert [pane for _, pane, _ in contributions.seal(10)] == [0]
    assert contributions.seal(10) == []


def test_the_watermark_never_moves_back():
    contributions = counting()
    assert contributions.watermark == BEGINNING
    contributions.seal(10)
    contributions.seal(5)
    assert contributions.watermark == 10


def test_one_seal_may_jump_over_many_windows_in_order():
    contributions = counting()
    contributions.insert(0, rows_of([1, 2, 4, 8], [35, -5, 10**15, 3]))
    sealed = contributions.seal(ENDING)
    assert [(pane, int(state[0][0])) for _, pane, state in sealed] == [(-1, 2), (0, 8), (3, 1), (10**14, 4)]


def test_no_rows_are_nothing():
    contributions = counting()
    contributions.insert(0, rows_of([None], [5]))
    assert contributions.seal(ENDING) == []


def test_an_accumulating_partition_seals_only_where_it_inserted():
    contributions = Contributions([Handle("n", GCounter(), Tumbling("10us"), accumulate=True)], [0])
    contributions.insert(0, rows_of([1, 2], [5, 45]))
    contributions.seal(20)
    resumed = Contributions([Handle("n", GCounter(), Tumbling("10us"), accumulate=True)], [0], contributions.snapshot())
    assert [(pane, int(state[0][0])) for _, pane, state in resumed.seal(ENDING)] == [(4, 3)]


def test_a_session_gap_may_be_a_single_microsecond():
    contributions = Contributions([Handle("s", GCounter(), Session(datetime.timedelta(microseconds=1)))], [0])
    contributions.insert(0, rows_of((["a", "a"], [1, 1]), [5, 6]))
    assert [pane for _, pane, _ in contributions.seal(ENDING)] == [5, 6]
