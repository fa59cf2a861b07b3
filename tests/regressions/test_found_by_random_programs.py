"""What random programs found, each as small as it can be."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tests.rig import Rig

import holons as h
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import END

SECOND = 1_000_000


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
