"""Streams that go quiet as a whole: event time goes on as log time does, and closes what is open."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.node.test_idle import IDLE, SECOND, START_S, Count, Table

import holons as h
from holons.node import Node, Settings
from holons.node.idle import LIVE_IDLE_S, furthest, mark_beside_active, who_is_idle
from holons.node.messages import Running
from holons.windows import BEGINNING, ENDING

AUTO = Settings(failure_timeout_s=0.3)


@pytest.fixture(params=[False, True], ids=["own", "foreign"])
def foreign(request):
    return request.param


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_stream_that_goes_quiet_closes_its_windows_and_then_stands_still(nodes, foreign):
    table = Table(2, nodes=nodes, foreign=foreign)
    table.row(0, 5.5)
    table.row(1, 7.25)
    table.turn(count=45)
    assert table.windows() == [], "nobody has been idle for long enough"
    table.turn(count=300)
    assert table.windows() == [5, 7]
    marks = [table.marks(partition) for partition in range(2)]
    assert [newest[-1] for newest in marks] == [8 * SECOND] * 2
    table.turn(seconds=0.1, count=100)
    assert [table.marks(partition) for partition in range(2)] == marks, "nothing is open any more"
    table.judge()


def test_two_owners_write_the_same_mark():
    table = Table(1, nodes=2, settings=replace(IDLE, replicas=2), foreign=True)
    table.row(0, 5.5)
    table.turn(count=300)
    assert (table.windows(), table.marks(0)) == ([5], [6 * SECOND])
    table.judge()


@pytest.mark.parametrize("delay_s", [0, 3, -2])
def test_event_time_is_log_time_less_the_longest_delay_of_rows(delay_s):
    table = Table(1, nodes=1, foreign=True)
    table.row(0, START_S - delay_s)
    table.turn(count=100)
    assert table.windows() == [], "a row of this window could come as punctually as the one before"
    table.turn(count=50)
    assert table.windows() == [START_S - delay_s]


def test_disorder_is_allowed_beyond_the_longest_delay():
    table = Table(1, nodes=1, foreign=True, disorder="2s")
    table.row(0, START_S)
    table.turn(count=299)
    assert table.windows() == []
    table.turn(count=50)
    assert table.windows() == [START_S]


def test_no_row_is_late_that_comes_as_punctually_as_those_before():
    """A producer appends what it has every two seconds: for most of that time the stream is quiet."""
    table = Table(1, nodes=1, foreign=True)
    for _ in range(20):
        table.turn(seconds=0.05, count=40)
        now_s = table.clock.now_s()
        table.batch(0, [now_s - 2 + tenth / 10 for tenth in range(20)])
    table.turn(count=10)
    assert table.emitted("late") == []
    assert len(table.windows()) >= 37, "what was complete was closed while the stream was quiet"
    table.judge()


def test_a_stream_that_wakes_up_goes_on_and_what_is_too_late_is_diverted(foreign):
    table = Table(2, foreign=foreign)
    table.row(0, START_S)
    table.turn(seconds=0.05, count=100)
    assert table.windows() == [START_S]
    table.row(0, START_S + 0.5)
    table.row(1, START_S + 1)
    table.row(0, START_S + 5)
    table.turn(seconds=0.05, count=140)
    assert table.windows() == [START_S, START_S + 1, START_S + 5]
    assert [row["ts"] for row in table.emitted("late")] == [int((START_S + 0.5) * SECOND)]
    table.judge()


def test_a_partition_that_never_had_a_row_holds_up_nobody():
    table = Table(3, foreign=True)
    table.row(1, START_S)
    table.turn(count=300)
    assert table.windows() == [START_S]
    table.judge()


def test_without_the_setting_a_quiet_stream_waits():
    table = Table(2, settings=Settings(idle_s=None), foreign=True)
    table.row(0, START_S)
    table.turn(seconds=0.05, count=100)
    assert (table.windows(), table.marks(0), table.marks(1)) == ([], [], [])


def test_by_default_live_streams_close_and_history_does_not():
    for live in (True, False):
        table = Table(3, nodes=2, settings=AUTO, foreign=True)
        table.batch(0, [START_S], live=live)
        table.batch(1, [START_S], live=live)
        table.turn(seconds=0.1, count=round(LIVE_IDLE_S * 10) - 2)
        assert table.windows() == []
        table.turn(seconds=0.1, count=100)
        assert table.windows() == ([START_S] if live else [])
        assert bool(table.marks(2)) == live


def test_by_default_history_beside_live_rows_is_waited_for():
    table = Table(2, nodes=1, settings=AUTO, foreign=True)
    table.batch(0, [START_S])
    table.batch(1, [START_S], live=False)
    table.turn(seconds=0.1, count=300)
    assert (table.windows(), table.marks(1)) == ([], [])


def test_by_default_a_partition_is_overtaken_no_faster_than_its_own_rows_allow():
    """Rows of partition 1 come three seconds later than those of partition 0; for a while there are none."""
    table = Table(2, nodes=2, settings=AUTO, foreign=True)
    for second in range(40):
        now_s = table.clock.now_s()
        table.row(0, now_s)
        if second < 5 or second == 39:
            table.row(1, now_s - 3)
        table.turn(seconds=0.1, count=10)
    assert max(table.marks(1)) > (START_S + 30) * SECOND
    assert table.emitted("late", 1) == []


def test_later_stages_and_sessions_close_too():
    class Busiest(h.Program):
        seconds = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
        most = h.WCRDT(h.MaxRegister(), h.Tumbling("5s"), stage=1)
        visits = h.WCRDT(h.GCounter(), h.Session("2s"))

        def process(self, events):
            self.seconds.insert(1, events.ts)
            self.visits.insert(1, events.ts, key=events["ts"] // 10**12)

        @h.on_window(seconds)
        def second(self, window):
            self.most.insert(self.seconds[window], window)

        @h.on_window(most)
        def best(self, window):
            yield {"most": self.most[window]}

        @h.on_window(visits)
        def visit(self, window):
            yield {"visit": window.start}

    table = Table(2, Busiest(), nodes=2, foreign=True)
    table.batch(0, [START_S, START_S + 0.5, START_S + 1.5])
    table.turn(seconds=0.05, count=180)
    assert [row["most"] for row in table.emitted("best")] == [2]
    assert [row["visit"] for row in table.emitted("visit")] == [START_S * SECOND]
    count = len(table.marks(0)) + len(table.marks(1))
    table.turn(seconds=0.1, count=100)
    assert len(table.marks(0)) + len(table.marks(1)) == count, "nothing is open any more"
    table.judge()


def test_marks_of_a_short_window_do_not_go_on_until_a_long_one_closes():
    class Both(Count):
        long = h.WCRDT(h.GCounter(), h.Tumbling("20s"))

        def process(self, events):
            self.n.insert(1, events.ts)
            self.long.insert(1, events.ts)

        @h.on_window(long)
        def of_long(self, window):
            yield {"long": self.long[window]}

    table = Table(1, Both(), nodes=1, foreign=True)
    table.row(0, START_S)
    table.turn(seconds=0.05, count=500)
    assert table.marks(0) == [int(START_S + 1) * SECOND, int(START_S + 20) * SECOND]


def test_another_node_goes_on_with_what_was_learned_about_delays():
    table = Table(1, nodes=1, foreign=True, settings=replace(IDLE, checkpoint_s=0.1))
    table.batch(0, [START_S - 5, START_S])
    table.turn(count=40)
    table.nodes[0].close()
    table.nodes = [Node("another", table.world.ports("another", replace(IDLE, idle_s=None)), IDLE)]
    table.nodes[0].add_job(table.job.name, table.job)
    table.turn(seconds=0.05, count=100)
    assert table.windows() == [START_S - 5], "of its own it has read no row, and knows that they may come 5 s late"
    table.turn(count=200)
    assert table.windows() == [START_S - 5, START_S]
    table.judge()


# --- who says so ------------------------------------------------------------------------------------------------------


def report(partition, *, idle=True, offset=5, appended=100, event_time=BEGINNING):
    return Running(
        "job", partition, 0, 0, offset, 0, idle, False, 0, (0,), appended=appended, event_time=event_time
    )  # fmt: skip


def test_the_last_of_the_partitions_says_what_event_time_is():
    reports = [report(0, event_time=50), report(1, event_time=40), report(2)]
    assert who_is_idle(reports).event_time == 40
    assert who_is_idle([report(2)]).event_time == BEGINNING


def test_of_two_owners_the_one_that_has_read_the_most_says_what_event_time_is():
    slow, quick = report(0, offset=3, event_time=90), report(0, offset=4, event_time=50)
    assert who_is_idle([slow, quick]).event_time == who_is_idle([quick, slow]).event_time == 50


def test_a_partition_without_rows_for_long_says_nothing_about_event_time():
    """One sensor without a clock sent a row of 1970, long ago."""
    now = 10_000_000_000
    reports = [report(0, appended=now, event_time=now), report(1, appended=now - 601 * SECOND, event_time=7)]
    assert who_is_idle(reports).event_time == now


def test_what_has_ended_neither_waits_nor_goes_ahead():
    assert mark_beside_active([5, ENDING, 9], {0}) == 9
    assert mark_beside_active([5, ENDING], {0}) is None
    assert furthest([5, ENDING, 9]) == 9
