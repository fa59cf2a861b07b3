"""Who claims what, and who takes what over: decided from a view, without any port."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from holons.node import Running, Settings
from holons.node.ownership import Owner, Slot, preference
from holons.node.placement import (
    SlotState,
    View,
    fuller_node,
    holds_partition,
    is_vacant,
    slot_to_take,
    slower_node,
    turn,
)

SETTINGS = Settings(failure_timeout_s=1.0, residence_s=2.0, lag_batches=8, rows_max=100)
NOW_S = 100.0


def running(partition: int, **reported) -> Running:
    fields = {"slot": 0, "epoch": 0, "offset": 0, "calls": 0, "idle": False, "parked": False, "stored_to": 0}
    return Running("job", partition, **{**fields, "emitted_to": (0,), **reported})


def view(
    owners: dict[int, str],
    *,
    me: str = "a",
    live: str = "abc",
    streams: tuple[int, ...] = (0, 0, 0, 0, 0, 0),
    reports: dict[str, list[Running]] | None = None,
    slots: dict[Slot, SlotState] | None = None,
    settings: Settings = SETTINGS,
) -> View:
    """A view of slot 0 of the partitions of one job; each owner has held its partition for long, and lists it."""
    by_slot = {("job", partition, 0): Owner(0, node) for partition, node in owners.items()}
    listed = {node: [running(partition) for partition, owner in owners.items() if owner == node] for node in live}
    return View(
        me=me,
        now_s=NOW_S,
        settings=settings,
        live=tuple(live),
        streams={"job": streams},
        owners=by_slot,
        held={node: {slot for slot, owner in by_slot.items() if owner.node == node} for node in live},
        running={node: tuple({**listed, **(reports or {})}[node]) for node in live if node != me},
        slots={slot: SlotState(held_since_s=0.0) for slot in by_slot} | (slots or {}),
    )


def with_slot(seen: View, slot: Slot, owner: Owner) -> View:
    owners = {**seen.owners, slot: owner}
    held = {node: {one for one, held_by in owners.items() if held_by.node == node} for node in seen.live}
    return replace(seen, owners=owners, held=held)


# --- vacant slots -----------------------------------------------------------------------------------------------------


def test_a_slot_is_vacant_without_an_owner_or_with_a_dead_one():
    seen = view({0: "b", 1: "gone"}, slots={("job", 1, 0): SlotState(held_since_s=NOW_S)})
    assert not is_vacant(seen, ("job", 0, 0))
    assert is_vacant(seen, ("job", 1, 0))
    assert is_vacant(seen, ("job", 2, 0))


def test_a_slot_is_vacant_if_its_owner_has_not_listed_it_for_two_failure_timeouts():
    slot = ("job", 0, 0)
    silent = view({0: "b"}, reports={"b": []})
    assert is_vacant(silent, slot)
    assert not is_vacant(replace(silent, slots={slot: SlotState(held_since_s=NOW_S - 1.9)}), slot)
    assert not is_vacant(replace(silent, slots={}), slot), "who knows since when"
    assert not is_vacant(view({0: "a"}), slot), "this node knows what it runs"


def test_the_higher_of_two_slots_that_one_node_holds_is_vacant():
    seen = with_slot(view({0: "b"}), ("job", 0, 1), Owner(0, "b"))
    assert not is_vacant(seen, ("job", 0, 0))
    assert is_vacant(seen, ("job", 0, 1))


def test_copies_belong_on_distinct_nodes():
    twice = replace(SETTINGS, replicas=2)
    seen = with_slot(view({0: "b"}, settings=twice), ("job", 0, 1), Owner(0, "c"))
    assert [node for node in "abc" if holds_partition(seen, node, "job", 0)] == ["b", "c"]
    assert [node for node in "abc" if holds_partition(seen, node, "job", 0, except_slot=1)] == ["b"]


# --- whose turn it is -------------------------------------------------------------------------------------------------


def turns(owners: dict[int, str], slot: Slot, **given) -> dict[str, int]:
    return {node: turn(view(owners, me=node, **given), slot) for node in "abc"}


def test_exactly_one_node_goes_first():
    for partition in range(6):
        by_node = turns({}, ("job", partition, 0))
        assert sorted(by_node.values()) == [0, 1, 2]


def test_nodes_below_their_share_go_before_all_others():
    by_node = turns({0: "a", 1: "a", 2: "b"}, ("job", 5, 0))
    assert by_node["a"] > max(by_node["b"], by_node["c"])
    assert {by_node["b"], by_node["c"]} == {0, 1}


def test_claims_that_were_not_read_back_count_as_held():
    seen, slot = view({}), ("job", 5, 0)
    assert turn(seen.claiming(("job", 0, 0), 0), slot) < 3
    assert turn(seen.claiming(("job", 0, 0), 0).claiming(("job", 1, 0), 0), slot) > 2, "it has its share"
    outbid = view({0: "b", 1: "b"}).claiming(("job", 0, 0), 0).claiming(("job", 1, 0), 0)
    assert turn(outbid, ("job", 5, 0)) <= 1, "lost claims do not count"


def test_each_node_gets_a_share_of_each_stream():
    """Two streams of three partitions: whoever has one of a stream leaves the next of that stream to others."""
    streams = (0, 0, 0, 1, 1, 1)
    by_node = turns({0: "a"}, ("job", 1, 0), streams=streams)
    assert by_node["a"] > max(by_node["b"], by_node["c"])
    assert turns({0: "a"}, ("job", 3, 0), streams=streams) == turns({}, ("job", 3, 0), streams=streams)


def test_the_slots_of_a_partition_begin_with_different_nodes():
    twice = replace(SETTINGS, replicas=2)
    for partition in range(6):
        first = [
            next(node for node in "abc" if turn(view({}, me=node, settings=twice), ("job", partition, number)) == 0)
            for number in range(2)
        ]
        assert first[0] != first[1]


def test_everybody_claiming_in_turn_spreads_the_partitions_evenly():
    owners: dict[int, str] = {}
    for partition in range(6):
        by_node = turns(owners, ("job", partition, 0))
        owners[partition] = min(by_node, key=by_node.__getitem__)
    assert Counter(owners.values()) == {"a": 2, "b": 2, "c": 2}


def test_the_order_does_not_depend_on_how_nodes_are_listed():
    slot = ("job", 3, 0)
    assert preference(slot, "abc") == preference(slot, "cab")


# --- evening out ------------------------------------------------------------------------------------------------------


def test_a_node_with_two_more_slots_gives_one_away():
    assert fuller_node(view({0: "b", 1: "b", 2: "c"})) == "b"
    assert fuller_node(view({0: "a", 1: "b", 2: "b", 3: "c"})) is None
    assert fuller_node(view({}, live="a")) is None


def test_a_node_that_is_far_behind_gives_one_away_unless_what_it_runs_waits():
    lag = (SETTINGS.rows_max + 1) * SETTINGS.lag_batches
    owners = {0: "a", 1: "b", 2: "b"}
    assert slower_node(view(owners, reports={"b": [running(1, lag=lag), running(2)]})) == "b"
    assert slower_node(view(owners, reports={"b": [running(1, lag=lag - SETTINGS.lag_batches), running(2)]})) is None
    for waiting in ("held", "parked"):
        assert slower_node(view(owners, reports={"b": [running(1, lag=lag, **{waiting: True}), running(2)]})) is None
    assert slower_node(view({**owners, 3: "a"}, reports={"b": [running(1, lag=lag), running(2)]})) is None
    assert slower_node(view({1: "b"}, reports={"b": [running(1, lag=lag)]})) is None, "its only one"


@pytest.mark.parametrize(
    ("waiting", "taken"), [((), 1), ((1,), 2), ((1, 2), None)], ids=["none", "the longest", "all of them"]
)
def test_the_partition_with_the_most_rows_to_read_is_taken_unless_it_waits(waiting, taken):
    reports = [running(partition, lag=90 - partition, held=partition in waiting) for partition in (2, 1)]
    slot = slot_to_take(view({1: "b", 2: "b"}, reports={"b": reports}), "b")
    assert slot == (None if taken is None else ("job", taken, 0))


def test_a_partition_stays_for_a_while_before_it_is_taken():
    moved = SlotState(held_since_s=NOW_S - SETTINGS.residence_s)
    owners = {1: "b", 2: "b"}
    reports = {"b": [running(1, lag=90), running(2)]}
    assert slot_to_take(view(owners, reports=reports), "b") == ("job", 1, 0)
    assert slot_to_take(view(owners, reports=reports, slots={("job", 1, 0): moved}), "b") == ("job", 2, 0)


def test_a_stream_of_which_the_other_has_more_comes_first():
    owners = {0: "a", 1: "b", 3: "b", 4: "b"}
    reports = {"b": [running(1, lag=90), running(3), running(4, lag=1)]}
    assert slot_to_take(view(owners, streams=(0, 0, 0, 1, 1, 1), reports=reports), "b") == ("job", 4, 0)
    assert slot_to_take(view(owners, reports=reports), "b") == ("job", 1, 0)


def test_a_second_copy_of_what_runs_here_is_not_taken():
    twice = replace(SETTINGS, replicas=2)
    seen = with_slot(view({1: "b", 2: "b"}, settings=twice), ("job", 1, 1), Owner(0, "a"))
    assert slot_to_take(seen, "b") == ("job", 2, 0)
