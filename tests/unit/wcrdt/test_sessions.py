"""Sessions stitched from panes, against sorting all events of a key and looking for pauses."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons import codec
from holons.algebra import GCounter, MaxRegister, rows_of
from holons.wcrdt import Contributions, Delta, Handle, Replica, Seal, Sessions
from holons.windows import BEGINNING, ENDING, Session, Window

Event = tuple[int, int | str, int]
"""Time, key, number."""


def visits(gap_us: int) -> Handle:
    return Handle("visits", GCounter(), Session(timedelta(microseconds=gap_us)))


def by_hand(events: list[Event], gap_us: int, upto: int = ENDING) -> list[tuple[Window, int]]:
    """Every session that is over by `upto`, with the sum of its numbers, in the order (end, start, key)."""
    found = []
    for key in {key for _, key, _ in events}:
        own = sorted((ts, number) for ts, other, number in events if other == key)
        runs = [[own[0]]]
        for before, event in pairwise(own):
            if event[0] - before[0] >= gap_us:
                runs.append([])
            runs[-1].append(event)
        found += [(Window(run[0][0], run[-1][0] + gap_us, key), sum(n for _, n in run)) for run in runs]
    return sorted((one for one in found if one[0].end <= upto), key=lambda one: (one[0].end, one[0].start, one[0].key))


def sealed(handle: Handle, partitions: list[list[Event]]) -> Replica:
    """A replica that knows all of these events."""
    replica = Replica([handle], len(partitions))
    for number, events in enumerate(partitions):
        contributions = Contributions([handle], [0])
        if events:
            times, keys, numbers = zip(*events, strict=True)
            contributions.insert(0, rows_of((list(keys), list(numbers)), list(times), partition=number))
        seals = tuple(Seal(0, pane, contributions.encode(0, state)) for _, pane, state in contributions.seal(ENDING))
        replica.apply(Delta(0, number, BEGINNING, ENDING, seals))
    return replica


def drained(sessions: Sessions) -> list[tuple[Window, int]]:
    found = []
    while (window := sessions.next_closed()) is not None:
        found.append((window, int(sessions.take()[0][0])))
    return found


def partitions_of(keys: st.SearchStrategy[int | str]) -> st.SearchStrategy[list[list[Event]]]:
    event = st.tuples(st.integers(-60, 90), keys, st.integers(0, 9))
    return st.lists(st.lists(event, max_size=15), min_size=1, max_size=3)


PARTITIONS = st.one_of(partitions_of(st.integers(-2, 2)), partitions_of(st.sampled_from(["", "a", "b", "ä"])))
GAPS = st.integers(1, 30)
INSTANTS = st.lists(st.integers(-80, 130), max_size=12)


@given(PARTITIONS, GAPS)
def test_stitching_finds_every_session(partitions, gap_us):
    handle = visits(gap_us)
    sessions = Sessions(handle)
    sessions.stitch(sealed(handle, partitions).panes[0], ENDING)
    assert drained(sessions) == by_hand([event for events in partitions for event in events], gap_us)
    assert sessions.open == {}


@given(PARTITIONS, GAPS, INSTANTS, st.sets(st.integers(0, 12)), st.booleans())
def test_small_steps_and_resumptions_do_not_show(partitions, gap_us, instants, resumed_after, drain_at_once):
    handle = visits(gap_us)
    events = [event for events in partitions for event in events]
    panes, sessions, found = sealed(handle, partitions).panes[0], Sessions(handle), []
    for step, upto in enumerate([*sorted(instants), ENDING]):
        sessions.stitch(panes, upto)
        if drain_at_once:
            found += drained(sessions)
            known_to = upto if upto == ENDING else upto // handle.window.pane_us * handle.window.pane_us
            assert found == by_hand(events, gap_us, known_to), "a session is over when all before its end is known"
        if step in resumed_after:
            record, states = sessions.record()
            sessions = Sessions(handle)
            sessions.restore(record, codec.decode(codec.encode(states)))
    found += drained(sessions)
    assert found == by_hand(events, gap_us)


@given(PARTITIONS, GAPS, INSTANTS)
def test_the_snapshot_does_not_tell_the_steps(partitions, gap_us, instants):
    handle = visits(gap_us)
    panes = sealed(handle, partitions).panes[0]
    upto = max(instants, default=50)
    slowly, at_once = Sessions(handle), Sessions(handle)
    for step in sorted(instants):
        slowly.stitch(panes, step)
    slowly.stitch(panes, upto)
    at_once.stitch(panes, upto)
    (slow_record, slow_states), (record, states) = slowly.record(), at_once.record()
    assert slow_record == record
    assert codec.encode(slow_states) == codec.encode(states)


def stitched(events: list[Event], gap_us: int, upto: int) -> Sessions:
    sessions = Sessions(visits(gap_us))
    sessions.stitch(sealed(visits(gap_us), [events]).panes[0], upto)
    return sessions


@pytest.mark.parametrize("gap_us", [1, 2, 3, 8, 13])
def test_a_pause_of_exactly_the_gap_begins_a_new_session(gap_us):
    joined = stitched([(0, "a", 1), (gap_us - 1, "a", 2)], gap_us, ENDING)
    apart = stitched([(0, "a", 1), (gap_us, "a", 2)], gap_us, ENDING)
    assert drained(joined) == [(Window(0, 2 * gap_us - 1, "a"), 3)]
    assert drained(apart) == [(Window(0, gap_us, "a"), 1), (Window(gap_us, 2 * gap_us, "a"), 2)]


def test_a_session_closes_exactly_at_its_end():
    events = [(0, "a", 1), (4, "a", 1)]
    assert stitched(events, 8, 10).next_closed() is None
    assert stitched(events, 8, 12).next_closed() == Window(0, 12, "a")


def test_sessions_that_end_together_come_by_start_then_key():
    sessions = stitched([(5, "b", 1), (5, "a", 1), (4, "c", 1), (5, "c", 1)], 8, ENDING)
    assert [window for window, _ in drained(sessions)] == [Window(4, 13, "c"), Window(5, 13, "a"), Window(5, 13, "b")]


def test_a_session_that_never_ends_stays_one_open_entry():
    handle, replica = visits(8), Replica([visits(8)], 1)
    contributions, sessions = Contributions([handle], [0]), Sessions(handle)
    for end in range(4, 4_000, 4):
        contributions.insert(0, rows_of((["a"], [1]), [end - 2]))
        seals = tuple(Seal(0, pane, contributions.encode(0, state)) for _, pane, state in contributions.seal(end))
        replica.apply(Delta(0, 0, end - 4 if end > 4 else BEGINNING, end, seals))
        sessions.stitch(replica.panes[0], end)
        replica.trim([BEGINNING], [end])
        assert replica.panes[0].present == []
    assert sessions.closed == []
    assert {key: (one.first, one.last, int(one.state[0][0])) for key, one in sessions.open.items()} == {
        "a": (2, 3994, 999)
    }


def test_within_a_pane_nothing_is_known_yet():
    handle = visits(8)  # panes of 2 us
    panes = sealed(handle, [[(0, "a", 1), (7, "a", 1)]]).panes[0]
    sessions = Sessions(handle)
    sessions.stitch(panes, 8 - 1)
    sessions.stitch(panes, 9)
    assert sessions.stitched_to == 8
    assert list(sessions.open) == ["a"]
    assert sessions.next_closed() is None


def test_any_aggregate_can_be_kept_per_session():
    handle = Handle("best", MaxRegister(), Session("10us"))
    replica = sealed(handle, [[(0, 7, 5), (30, 7, 1)], [(9, 7, 8)]])
    sessions = Sessions(handle)
    sessions.stitch(replica.panes[0], ENDING)
    values = []
    while sessions.next_closed() is not None:
        values.append(handle.aggregate.value(sessions.take()))
    assert values == [8, 1]
