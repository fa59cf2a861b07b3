"""Who ran what, who took over, how much was read: from made-up heartbeats."""

import numpy as np
import pytest

from holons_bench.chronicle import Chronicle, Happened, Heard, Spell, spells, takeovers

EMPTY = np.empty(0)


def heartbeats(node: str, from_s: float, to_s: float, *partitions: int) -> list[Heard]:
    return [Heard(round(at_s, 3), node, 7, partitions) for at_s in np.arange(from_s, to_s, 0.1)]


HEARD = [
    *heartbeats("a", 0.0, 5.0, 0, 1),
    *heartbeats("b", 0.0, 5.95, 2),
    *heartbeats("b", 6.0, 9.95, 0, 2),
    *heartbeats("c", 6.5, 9.95, 1),
]
KILLED = Happened(5.05, "killed", "a", 7)


def test_heartbeats_that_list_a_partition_make_a_spell():
    assert spells(HEARD, {"a": 5.05}, 1.0) == [
        Spell(0, "a", 0.0, 5.05),
        Spell(0, "b", 6.0, 9.9),
        Spell(1, "a", 0.0, 5.05),
        Spell(1, "c", 6.5, 9.9),
        Spell(2, "b", 0.0, 9.9),
    ]


def test_a_partition_that_is_no_longer_listed_is_over_and_may_come_back():
    heard = [*heartbeats("a", 0.0, 1.0, 0), *heartbeats("a", 1.0, 2.0), *heartbeats("a", 2.0, 2.95, 0)]
    assert spells(heard, {}, 1.0) == [Spell(0, "a", 0.0, 1.0), Spell(0, "a", 2.0, 2.9)]


def test_a_silence_ends_a_spell_where_it_began():
    heard = [*heartbeats("a", 0.0, 1.0, 0), *heartbeats("a", 4.0, 4.95, 0)]
    assert spells(heard, {}, 1.0) == [Spell(0, "a", 0.0, 0.9), Spell(0, "a", 4.0, 4.9)]
    assert spells(heard, {}, 5.0) == [Spell(0, "a", 0.0, 4.9)]


def test_who_took_over_and_how_long_that_took():
    found = takeovers(spells(HEARD, {"a": 5.05}, 1.0), KILLED)
    assert [(one.partition, one.node) for one in found] == [(0, "b"), (1, "c")]
    assert [one.after_s for one in found] == pytest.approx([0.95, 1.45])


def test_who_ran_it_all_the_while_took_over_at_once_and_who_ran_it_before_does_not_count():
    ran = spells([*HEARD, *heartbeats("c", 0.0, 2.0, 0), *heartbeats("d", 1.0, 8.0, 1)], {"a": 5.05}, 1.0)
    assert [(one.node, one.after_s) for one in takeovers(ran, KILLED)] == [("b", pytest.approx(0.95)), ("d", 0.0)]


def test_a_partition_that_nobody_ran_again_is_not_told():
    assert takeovers(spells(heartbeats("a", 0.0, 5.0, 0), {"a": 5.05}, 1.0), KILLED) == []


def test_faults_are_what_hurts():
    happened = [KILLED, Happened(6.0, "started", "d"), Happened(7.0, "paused", "b"), Happened(8.0, "resumed", "b")]
    run = Chronicle(np.array([1.0, 2.0]), np.array([1.5, 2.1]), [], HEARD, happened)
    assert run.faults_s == [5.05, 7.0]
    assert run.late_s == pytest.approx([0.5, 0.1])
    assert run.since(1.5).tolist() == [False, True]
    assert run.came_up_s() == {"a": 0.0, "b": 0.0, "c": 6.5}
    assert Spell(1, "a", 0.0, 5.05) in run.spells()


def test_throughput_is_what_was_read_between_two_moments():
    run = Chronicle(EMPTY, EMPTY, [], read=[(-1.0, 0), (0.0, 0), (1.0, 1_000), (2.0, 1_000), (3.0, 4_000)])
    at_s, rate = run.throughput(1.0)
    assert at_s.tolist() == [1.0, 2.0]
    assert rate.tolist() == [1_000.0, 0.0]
    assert len(Chronicle(EMPTY, EMPTY, []).throughput()[0]) == 0
