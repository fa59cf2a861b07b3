"""A replica, one promise at a time: one-value, complete-before-read, trimming, malformed deltas."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wcrdt.brute_force import windows_ending

from holons.algebra import GCounter, Groups, MaxRegister, MergeMap, Ranked, rows_of
from holons.errors import InvariantBroken, NondeterministicProgram, UnknownWindow, WindowNotCompleted, WindowTrimmed
from holons.wcrdt import Applied, Delta, Gap, Handle, Replica, Seal
from holons.windows import BEGINNING, ENDING, Session, Sliding, Tumbling, Window

COUNTER = GCounter()
TEN = Handle("n", COUNTER, Tumbling("10us"))
SLIDING = Handle("n", COUNTER, Sliding("10us", every="4us"))
SO_FAR = Handle("n", COUNTER, Tumbling("10us"), accumulate=True)
VISITS = Handle("n", COUNTER, Session("40us"))


def counted(n: int) -> bytes:
    """The payload of a counter."""
    return COUNTER.encode((COUNTER.zero(1)[0] + n,))


def delta(start: int, end: int, seals: dict[int, int] | None = None, *, partition: int = 0, stage: int = 0) -> Delta:
    """Seals of handle 0, as count by pane."""
    return Delta(stage, partition, start, end, tuple(Seal(0, pane, counted(n)) for pane, n in (seals or {}).items()))


def apply_all(replica: Replica, deltas: list[Delta]) -> None:
    for one in deltas:
        replica.apply(one)


def window(start: int, end: int) -> Window:
    return Window(start, end)


@pytest.mark.parametrize("inner", [Ranked(("n",)), GCounter()], ids=["rows", "counts"])
def test_what_a_reader_changes_nobody_else_sees(inner):
    """Maps of numbers are read once for all partitions; what could be changed, each reader gets anew."""
    handle = Handle("n", MergeMap(inner), Tumbling("10us"))
    state = handle.aggregate.fold(Groups.single(2), rows_of((["a", "b"], 1)))
    replica = Replica([handle], 1)
    replica.apply(Delta(0, 0, BEGINNING, 20, (Seal(0, 1, handle.aggregate.encode(state)),)))
    first, expected = replica.value(0, window(10, 20)), repr(replica.value(0, window(10, 20)))
    if isinstance(inner, Ranked):
        first["a"].clear()
    else:
        assert first is replica.value(0, window(10, 20))
    assert repr(replica.value(0, window(10, 20))) == expected


# --- one-value -------------------------------------------------------------------------------------------------------

FIVE = delta(BEGINNING, 20, {1: 5})
OTHERS = {"another payload": {1: 6}, "nothing": {}, "one more": {0: 1, 1: 5}, "another pane": {0: 5}}


@pytest.mark.parametrize("theirs", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("turned", [False, True], ids=["", "the other first"])
@pytest.mark.parametrize("partition", [0, 1])
def test_two_runs_that_disagree_are_found(theirs, turned, partition):
    runs = [delta(BEGINNING, 20, seals, partition=partition) for seals in ({1: 5}, theirs)]
    first, second = reversed(runs) if turned else runs
    replica = Replica([TEN], 2)
    replica.apply(first)
    with pytest.raises(NondeterministicProgram, match="one-value") as caught:
        replica.apply(second)
    pane = min(pane for pane in (0, 1) if theirs.get(pane) != {1: 5}.get(pane))
    assert caught.value.where == {"handle": "n", "partition": partition, "window": window(pane * 10, pane * 10 + 10)}
    assert caught.value.hint


@pytest.mark.parametrize("theirs", OTHERS.values(), ids=OTHERS)
def test_a_difference_is_found_in_any_overlap(theirs):
    early = delta(BEGINNING, 10, {pane: n for pane, n in theirs.items() if pane == 0})
    late = delta(10, 20, {pane: n for pane, n in theirs.items() if pane == 1})
    for arrangement in (
        [FIVE, early, late],
        [early, late, FIVE],
        [early, FIVE, late],
        [late, early, FIVE],  # one that waited
        [late, FIVE, early],
        [delta(BEGINNING, 40, {**theirs, 3: 1}), FIVE],
        [FIVE, delta(BEGINNING, 40, {**theirs, 3: 1})],
    ):
        replica = Replica([TEN], 1)
        with pytest.raises(NondeterministicProgram):
            apply_all(replica, arrangement)


def test_what_was_refused_has_changed_nothing():
    replica = Replica([TEN], 1)
    replica.apply(FIVE)
    before = replica.snapshot()
    with pytest.raises(NondeterministicProgram):
        replica.apply(delta(BEGINNING, 40, {1: 6, 2: 1}))
    assert replica.snapshot() == before


def test_what_other_partitions_and_stages_say_is_their_own():
    handles = [TEN, Handle("later", COUNTER, Tumbling("10us"), stage=1)]
    replica = Replica(handles, 2)
    replica.apply(FIVE)
    assert replica.apply(delta(BEGINNING, 20, {1: 6}, partition=1)) is Applied.NEW
    assert replica.apply(Delta(1, 0, BEGINNING, 20, (Seal(1, 0, counted(9)),))) is Applied.NEW
    assert replica.apply(FIVE) is Applied.REPEATED


def test_of_several_differences_the_earliest_is_named():
    replica = Replica([TEN], 1)
    replica.apply(delta(BEGINNING, 100, dict.fromkeys(range(-3, 10), 1)))
    with pytest.raises(NondeterministicProgram) as caught:
        replica.apply(delta(BEGINNING, 100, dict.fromkeys(range(-3, 10), 2)))
    assert caught.value.where["window"] == window(-30, -20)


def test_below_the_trim_frontier_nothing_is_compared():
    replica = Replica([TEN], 1)
    replica.apply(delta(BEGINNING, 30, {0: 1, 2: 3}))
    replica.trim([21], [20])
    assert replica.apply(delta(BEGINNING, 30, {0: 9, 1: 9, 2: 3})) is Applied.REPEATED
    with pytest.raises(NondeterministicProgram):
        replica.apply(delta(BEGINNING, 30, {0: 1, 2: 4}))


# --- contiguous ------------------------------------------------------------------------------------------------------


def test_a_delta_that_comes_too_early_waits_and_is_asked_for():
    replica = Replica([TEN], 2)
    assert replica.apply(delta(10, 20, {1: 2}, partition=1)) is Applied.WAITING
    assert replica.apply(delta(30, 40, {3: 8}, partition=1)) is Applied.WAITING
    assert replica.gaps() == [Gap(0, 1, BEGINNING)]
    assert replica.apply(delta(BEGINNING, 10, {0: 1}, partition=1)) is Applied.NEW
    assert replica.progress == [[BEGINNING, 20]]
    assert replica.gaps() == [Gap(0, 1, 20)]
    assert replica.apply(delta(20, 30, partition=1)) is Applied.NEW
    assert replica.progress == [[BEGINNING, 40]]
    assert replica.gaps() == []
    assert replica.apply(delta(10, 20, {1: 2}, partition=1)) is Applied.REPEATED


def test_a_delta_that_waits_is_kept_once_however_often_it_comes():
    replica = Replica([TEN], 1)
    for _ in range(50):
        for start in (20, 10, 30):
            assert replica.apply(delta(start, start + 10)) is Applied.WAITING
    assert [waiting.start for waiting in replica._waiting[0, 0]] == [10, 20, 30]


def test_filling_a_hole_piece_by_piece_looks_at_each_waiting_delta_once(monkeypatch):
    taken = []
    replica = Replica([TEN], 1)
    take = replica._take
    monkeypatch.setattr(replica, "_take", lambda one: (taken.append(one), take(one))[1])
    for start in range(1000, 500, -1):
        replica.apply(delta(start, start + 1))
    replica.apply(delta(BEGINNING, 0))
    for start in range(501):
        replica.apply(delta(start, start + 1))
    assert replica.watermark(0) == 1001
    assert len(taken) == 1002


MALFORMED = {
    "stage": Delta(1, 0, 0, 10),
    "negative stage": Delta(-1, 0, 0, 10),
    "partition": Delta(0, 2, 0, 10),
    "negative partition": Delta(0, -1, 0, 10),
    "interval turned": Delta(0, 0, 10, 0),
    "interval empty": Delta(0, 0, 10, 10),
    "seal before": Delta(0, 0, 10, 20, (Seal(0, 0, b""),)),
    "seal after": Delta(0, 0, 10, 20, (Seal(0, 2, b""),)),
    "handle": Delta(0, 0, 10, 20, (Seal(1, 1, b""),)),
    "negative handle": Delta(0, 0, 10, 20, (Seal(-1, 1, b""),)),
    "sealed twice": Delta(0, 0, 10, 20, (Seal(0, 1, b"a"), Seal(0, 1, b"a"))),
}


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED)
def test_malformed_deltas_break_an_invariant(malformed):
    replica = Replica([TEN], 2)
    replica.apply(delta(BEGINNING, 10))
    before = replica.snapshot()
    with pytest.raises(InvariantBroken):
        replica.apply(malformed)
    assert replica.snapshot() == before
    assert replica.gaps() == []


def test_a_seal_belongs_to_the_stage_of_its_handle():
    replica = Replica([TEN, Handle("later", COUNTER, Tumbling("10us"), stage=1)], 1)
    with pytest.raises(InvariantBroken):
        replica.apply(Delta(0, 0, BEGINNING, 10, (Seal(1, 0, counted(1)),)))


# --- complete-before-read --------------------------------------------------------------------------------------------


def test_a_window_is_read_when_all_partitions_have_sealed_it():
    replica = Replica([TEN], 3)
    first = window(0, 10)
    for partition, behind in [(1, "[0, 2]"), (2, "[0]")]:
        replica.apply(delta(BEGINNING, 10, {0: partition}, partition=partition))
        assert not replica.completed(0, first)
        with pytest.raises(
            WindowNotCompleted, match=r"complete-before-read: n .* is not sealed by partitions"
        ) as caught:
            replica.value(0, first)
        assert behind in caught.value.message
    replica.apply(delta(BEGINNING, 9, partition=0))
    assert not replica.completed(0, first)
    replica.apply(delta(9, 10, {0: 40}, partition=0))
    assert replica.completed(0, first)
    assert replica.value(0, first) == 43
    assert replica.watermark(0) == 10


def test_an_empty_window_has_the_value_of_nothing():
    replica = Replica([TEN, Handle("best", MaxRegister(), Sliding("10us", every="5us"))], 1)
    replica.apply(delta(BEGINNING, ENDING))
    assert replica.value(0, window(0, 10)) == 0
    assert replica.value(1, window(5, 15)) is None


def test_windows_of_another_kind_are_unknown():
    replica = Replica([TEN], 1)
    replica.apply(delta(BEGINNING, ENDING))
    with pytest.raises(UnknownWindow):
        replica.value(0, window(5, 15))


def test_a_replica_without_partitions_completes_nothing():
    assert Replica([TEN], 0).watermark(0) == BEGINNING


# --- trimming --------------------------------------------------------------------------------------------------------

PANES = st.lists(st.integers(-20, 20), unique=True, max_size=10)


@pytest.mark.parametrize("handle", [TEN, SLIDING, SO_FAR, VISITS], ids=["tumbling", "sliding", "so far", "sessions"])
@given(panes=PANES, frontier=st.integers(-22, 25), beyond=st.integers(0, 9), keep_us=st.integers(0, 12))
def test_trimming_drops_exactly_what_nobody_needs(handle, panes, frontier, beyond, keep_us):
    emitted = frontier * handle.window.pane_us + beyond
    kept = Handle(handle.name, handle.aggregate, handle.window, accumulate=handle.accumulate, keep_us=keep_us)
    replica = Replica([kept], 1)
    replica.apply(delta(BEGINNING, ENDING, dict.fromkeys(panes, 1)))
    width = kept.window.pane_us

    def last_end(pane: int) -> int:
        if isinstance(kept.window, Session):
            return (pane + 1) * width
        inside = [w for w in windows_ending(kept.window, pane * width, pane * width + 50) if pane * width in w]
        return max(w.end for w in inside)

    needed = sorted(pane for pane in panes if last_end(pane) > emitted - keep_us)
    assert replica.trim([ENDING], [emitted]) == len(panes) - len(needed)
    assert replica.panes[0].present == needed
    assert replica.trim([ENDING], [emitted]) == 0
    assert replica.bytes_held() == len(needed) * len(counted(1))


def test_a_call_that_resumes_may_still_await_the_window_that_ended_there():
    kept = Handle("n", COUNTER, Tumbling("10us"), keep_us=10)
    replica = Replica([kept], 1)
    replica.apply(delta(BEGINNING, 50, {0: 1, 1: 2, 2: 3, 3: 4}))
    replica.trim(processed=[40], emitted=[50])
    assert replica.value(0, window(20, 30)) == 3
    with pytest.raises(WindowTrimmed):
        replica.value(0, window(10, 20))


def test_a_later_stage_may_still_read_an_earlier_one():
    replica = Replica([TEN, Handle("later", COUNTER, Tumbling("10us"), stage=1)], 1)
    replica.apply(delta(BEGINNING, 50, {0: 1, 2: 2}))
    assert replica.trim([ENDING, ENDING], [50, 10]) == 1
    assert replica.panes[0].present == [2]
    assert replica.trim([ENDING, ENDING], [50, BEGINNING]) == 0


def test_a_replica_serves_whoever_is_not_behind_its_trim_frontier():
    replica = Replica([TEN, VISITS], 1)
    replica.apply(delta(BEGINNING, 50, {0: 1}))
    assert replica.serves([BEGINNING], [BEGINNING])
    replica.trim([40], [30])
    assert replica.serves([40], [30])
    assert replica.serves([31], [30])
    assert not replica.serves([30], [30])
    assert not replica.serves([40], [29])


def test_sessions_are_trimmed_by_their_own_stage_alone():
    replica = Replica([VISITS, Handle("later", COUNTER, Tumbling("10us"), stage=1)], 1)
    replica.apply(delta(BEGINNING, 50, {0: 1, 3: 2}))
    assert replica.trim([BEGINNING, BEGINNING], [30, BEGINNING]) == 1


def test_before_anything_is_durable_nothing_is_trimmed():
    replica = Replica([TEN], 1)
    replica.apply(delta(BEGINNING, ENDING, {0: 1, -(10**15): 2}))
    assert replica.trim([BEGINNING], [ENDING]) == 0
    assert replica.trim([ENDING], [BEGINNING]) == 0
    assert replica.value(0, window(0, 10)) == 1


def test_a_trimmed_window_says_how_to_keep_it():
    replica = Replica([TEN], 1)
    replica.apply(delta(BEGINNING, 50, {0: 1}))
    assert replica.value(0, window(0, 10)) == 1
    replica.trim([50], [20])
    for gone in (window(0, 10), window(10, 20), window(-1000, -990)):
        with pytest.raises(WindowTrimmed, match="keep="):
            replica.value(0, gone)
    assert replica.value(0, window(20, 30)) == 0


@pytest.mark.parametrize("resumed", [False, True])
def test_accumulated_values_stay_right_after_trimming(resumed):
    replica = Replica([SO_FAR], 2)
    replica.apply(delta(BEGINNING, 60, {0: 1, 2: 3, 4: 9}))
    replica.apply(delta(BEGINNING, 60, {1: 100}, partition=1))  # then silent
    replica.trim([60], [40])
    if resumed:
        replica = Replica([SO_FAR], 2, replica.snapshot())
    assert replica.panes[0].present == [4]
    assert replica.value(0, window(40, 50)) == 109
    assert replica.value(0, window(50, 60)) == 109
    for gone in (window(0, 10), window(10, 20), window(30, 40)):
        with pytest.raises(WindowTrimmed):
            replica.value(0, gone)
    replica.trim([60], [59])
    assert replica.panes[0].present == []
    assert replica.value(0, window(50, 60)) == 109


def test_resuming_keeps_everything_but_what_waits():
    replica = Replica([SLIDING, Handle("later", COUNTER, Tumbling("10us"), stage=1)], 2)
    replica.apply(delta(BEGINNING, 40, {2: 1, -3: 5}))
    replica.apply(delta(BEGINNING, 30, {2: 2}, partition=1))
    replica.apply(delta(35, 40, partition=1))
    replica.trim([12, 0], [12, 1])
    resumed = Replica(replica.handles, 2, replica.snapshot())
    assert resumed.snapshot() == replica.snapshot()
    assert resumed.progress == [[40, 30], [BEGINNING, BEGINNING]]
    assert resumed.gaps() == []
    assert resumed.value(0, window(4, 14)) == replica.value(0, window(4, 14)) == 3
    with pytest.raises(WindowTrimmed):
        resumed.value(0, window(-12, -2))


def test_the_state_of_a_trimmed_window_is_let_go():
    replica = Replica([TEN], 1)
    replica.apply(delta(BEGINNING, 50, {0: 1}))
    state = weakref.ref(replica.state(0, window(0, 10))[0])
    assert state() is not None
    replica.trim([50], [10])
    gc.collect()
    assert state() is None


@pytest.mark.parametrize("handle", [TEN, SLIDING, SO_FAR], ids=["tumbling", "sliding", "accumulate"])
def test_memory_stays_flat_over_ten_thousand_windows(handle):
    replica, spec, one, most = Replica([handle], 2), handle.window, counted(1), 0
    for start, end in pairwise([BEGINNING, *range(0, 10_000 * spec.every_us, spec.every_us)]):
        panes = range((end - spec.every_us) // spec.pane_us, end // spec.pane_us)
        for partition in (0, 1):
            replica.apply(Delta(0, partition, start, end, tuple(Seal(0, pane, one) for pane in panes)))
        newest = (end - spec.size_us) // spec.every_us * spec.every_us
        replica.value(0, window(newest, newest + spec.size_us))
        replica.trim([ENDING], [end - 5 * spec.every_us])
        most = max(most, largest(replica))
    assert most <= 20


def largest(thing: object) -> int:
    """The size of the largest collection that is reachable through the attributes of our own objects."""
    if isinstance(thing, dict):
        return max([len(thing), *(largest(inner) for inner in thing.values())])
    if isinstance(thing, list | tuple | set | deque):
        return max([len(thing), *(largest(inner) for inner in thing)])
    return largest(vars(thing)) if type(thing).__module__.startswith("holons.") and hasattr(thing, "__dict__") else 0
