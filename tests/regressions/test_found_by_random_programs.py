"""What random programs found, each as small as it can be."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import polars as pl
import pytest
from tests.rig import Rig

import holons as h
from holons import errors
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import END, Mark

SECOND = 1_000_000
Point = namedtuple("Point", "x y")


def each_cut(program, *logs, **options):
    """The oracle's rows of all channels; the same for every cut, or the test fails."""
    job = h.job(program, "in", **options)
    streams = {"in": [[log, END] if isinstance(log, pl.DataFrame) else log for log in logs]}
    expected = run_oracle(job, streams)
    for rows_max in (1, 2, 100):
        got = Rig(job, streams, seed=rows_max).run(rows_max)
        assert canonical(got) == canonical(expected), f"batches of {rows_max} rows"
    return {
        channel: [row for part in sorted(parts) for row in parts[part]] for channel, parts in expected.items() if parts
    }


class Awaiting(h.Program):
    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    async def each(self, event):
        before = self.n.window.before(self.n.window.at(event.ts))
        self.output({"ts": event.ts, "n": await self.n.completed(before)})


def test_the_oracle_goes_on_for_those_who_waited_for_a_partition_that_ended():
    rows = each_cut(Awaiting(), pl.DataFrame({"ts": [5 * SECOND]}), pl.DataFrame({"ts": [3 * SECOND]}), [END])
    assert [row["ts"] for row in rows["process"]] == [5 * SECOND, 3 * SECOND]


class Sessions(h.Program):
    emit = "once"
    n = h.WCRDT(h.GCounter(), h.Session("1s"))

    def on_window(self, window):
        yield {"key": window.key, "start": window.start, "n": self.n[window]}


class SessionsInBatches(Sessions):
    def process(self, events):
        self.n.insert(1, events.ts, key=events["key"])


class SessionsOneByOne(Sessions):
    def each(self, event):
        self.n.insert(1, event.ts, key=event["key"])


@pytest.mark.parametrize("program", [SessionsInBatches(), SessionsOneByOne()])
def test_a_row_with_a_null_session_key_is_not_there(program):
    rows = each_cut(program, pl.DataFrame({"ts": [0, 1, 2], "key": ["ann", None, "bob"]}))
    assert [(row["key"], row["n"]) for row in rows["on_window"]] == [("ann", 1), ("bob", 1)]


@pytest.mark.parametrize("program", [SessionsInBatches(), SessionsOneByOne()])
def test_boolean_session_keys_are_zero_and_one(program):
    rows = each_cut(program, pl.DataFrame({"ts": [0, 5 * SECOND], "key": [True, False]}))
    assert [repr(row["key"]) for row in rows["on_window"]] == ["1", "0"]


@pytest.mark.parametrize("register", [h.LWWRegister(), h.MVRegister()])
def test_values_of_one_row_do_not_take_their_type_from_another(register):
    class Mixed(h.Program):
        emit = "once"
        last = h.WCRDT(register, h.Tumbling("1s"))

        def each(self, event):
            self.last.insert(event["k"] if event["k"] > 1 else event["k"] / 2, event.ts)

        def on_window(self, window):
            yield {"last": repr(self.last[window])}

    rows = each_cut(Mixed(), pl.DataFrame({"ts": [0, 1], "k": [1, 3]}))
    assert rows["on_window"] == [{"last": "3" if isinstance(register, h.LWWRegister) else "[3]"}]


def test_rows_taken_in_any_order_are_put_out_in_the_order_of_the_log():
    class Backwards(h.Program):
        def process(self, events):
            self.output(events.take(np.arange(len(events))[::-1]).select("ts"))

    rows = each_cut(Backwards(), pl.DataFrame({"ts": [0, 1, 2]}))
    assert [row["ts"] for row in rows["process"]] == [0, 1, 2]


def test_a_null_and_a_number_may_meet_in_one_channel_for_every_cut():
    class Told(h.Program):
        mean = h.WCRDT(h.Average("int"), h.Tumbling("1s"), keep="9s")

        async def process(self, events):
            self.mean.insert(1, events.ts)
            for window, run in events.by_window(self.mean):
                early = h.Window(window.start - 3 * SECOND, window.end - 3 * SECOND)
                self.output(run.select("ts", told=pl.lit(await self.mean.completed(early))))

    times = [0, 3 * SECOND, 3 * SECOND + 1, 3 * SECOND - 1]  # the last two in one call: nothing is known of -1s
    rows = each_cut(Told(), pl.DataFrame({"ts": times}), disorder="2s")
    assert [row["told"] for row in rows["process"]] == [None, 1.0, 1.0, None]


def test_a_row_is_inserted_before_the_clock_that_it_moves_itself():
    class MovesFirst(h.Program):
        n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

        def each(self, event):
            self.n.advance(event.ts + SECOND)
            self.n.insert(1, event.ts)

        def on_window(self, window):
            yield {"start": window.start, "n": self.n[window]}

    rows = each_cut(MovesFirst(), pl.DataFrame({"ts": [0, 2 * SECOND]}))
    assert [(row["start"], row["n"]) for row in rows["on_window"]] == [(0, 1), (2 * SECOND, 1)]


def test_sessions_of_different_gaps_are_emitted_before_the_clock_of_the_next_stage_moves_on():
    class TwoGaps(h.Program):
        emit = "once"
        long = h.WCRDT(h.GCounter(), h.Session("1s"))
        short = h.WCRDT(h.GCounter(), h.Session("700ms"))
        later = h.WCRDT(h.GCounter(), h.Session("1s"), stage=1)

        def process(self, events):
            self.long.insert(1, events.ts)
            self.short.insert(1, events.ts)

        @h.on_window(long)
        def on_long(self, session):
            yield {"end": session.end}

        @h.on_window(short)
        def on_short(self, session):
            self.later.insert(1, session)

        @h.on_window(later)
        def on_later(self, session):
            yield {"start": session.start}

    log = [pl.DataFrame({"ts": [1_455_818]}), Mark(2_300_000), pl.DataFrame({"ts": [9 * SECOND]}), END]
    assert [row["start"] for row in each_cut(TwoGaps(), log)["on_later"]] == [2_155_817, 9_699_999]


class Order(h.Program):
    users = h.WCRDT(h.GSet(), h.Tumbling("1s"))
    seen = h.Local({})
    told = h.Local({}, scope="window")
    calls = h.Local(np.zeros(1, dtype=np.int64), scope="window")

    def each(self, event):
        self.users.insert(event["user"], event.ts)
        self.seen.value[event["user"]] = event.ts
        self.output({"first": next(iter(self.seen.value))})

    def on_window(self, window):
        self.told.value.update(dict.fromkeys(sorted(self.users[window]), window.start))
        self.calls.value[0] += 1
        yield {"first": next(iter(self.told.value)), "calls": int(self.calls.value[0])}


@pytest.mark.parametrize("seed", range(10))
def test_locals_come_back_from_a_checkpoint_as_they_were(seed):
    """Dicts in their order, arrays that can be written to."""
    users = pl.DataFrame({"ts": [second * SECOND for second in range(4)], "user": ["z", "a", "m", "b"]})
    job, streams = h.job(Order(), "in"), {"in": [[users, END]]}
    got = Rig(job, streams, seed).run(rows_max=1, mischief=0.4)
    assert [row["first"] for row in got["process"][0]] == ["z"] * 4
    assert [(row["first"], row["calls"]) for row in got["on_window"][0]] == [("z", 1), ("z", 2), ("z", 3), ("z", 4)]


def test_named_tuples_are_refused_as_locals_since_they_would_come_back_as_tuples():
    class Keeps(h.Program):
        point = h.Local(None)

        def each(self, event):
            self.point.value = Point(event.ts, 0)

    with pytest.raises(errors.BadElement):
        h.run(h.job(Keeps(), "in"), {"in": [pl.DataFrame({"ts": [0]})]}, engine="embedded").wait()
