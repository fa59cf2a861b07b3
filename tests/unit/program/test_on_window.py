"""What `on_window` can do beside yielding: other channels, who it is, whole columns at times of their own."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl
import pytest
from tests.rig import Rig

import holons as h
from holons.errors import WrongScope
from holons.program import canonical
from holons.program.emission import WindowPart
from holons.semantics import run as run_oracle
from holons.windows import END

SECOND = 1_000_000


def logs(partitions):
    random = np.random.default_rng(3)
    frames = [
        pl.DataFrame({"ts": np.sort(random.integers(0, 6 * SECOND, 25)), "key": random.integers(0, 4, 25)})
        for _ in range(partitions)
    ]
    return {"in": [[frame, END] for frame in frames]}


def everywhere(program, partitions):
    """The outputs by channel and partition, after the oracle, two nodes and a rig that crashes agreed."""
    job, given = h.job(program, "in"), logs(partitions)
    expected = run_oracle(job, given)
    assert h.run(job, given, engine="embedded", nodes=2).wait().results().canonical() == canonical(expected)
    for seed in (1, 2):
        assert canonical(Rig(job, given, seed).run(rows_max=9)) == canonical(expected), f"seed {seed}"
    return expected


class Channels(h.Program):
    """Rows to three channels: yielded, as a dict, as a frame; and who put them out."""

    n = h.WCRDT(h.MergeMap(h.GCounter()), h.Tumbling("1s"))

    def process(self, events):
        self.n.insert((events["key"], 1), events.ts)

    def on_window(self, window):
        share = self.n[window].share()
        self.output({"start": window.start, "who": self.partition, "of": self.partitions}, "who")
        self.output(share.to_frame().with_columns(start=pl.lit(window.start)), "keys")
        self.output(pl.DataFrame({"x": []}), "never")
        yield {"start": window.start, "keys": len(share)}


@pytest.mark.parametrize("partitions", [1, 3])
def test_output_to_several_channels(partitions):
    found = everywhere(Channels(), partitions)
    rows = pl.concat(log[0] for log in logs(partitions)["in"])
    counts = rows.group_by(pl.col("ts") // SECOND * SECOND, "key").len().sort("ts", "key")
    put_out = sorted((row["start"], row["key"], row["value"]) for part in found["keys"].values() for row in part)
    assert put_out == counts.rows()
    starts = sorted(set(counts["ts"]))
    assert found["who"] == {
        number: [{"start": start, "who": number, "of": partitions} for start in starts] for number in range(partitions)
    }
    assert sum(row["keys"] for part in found["on_window"].values() for row in part) == len(counts)
    assert "never" not in found


class Later(h.Program):
    """All keys of a window into the next stage: a column, each at a time of its own; and rows with origins."""

    n = h.WCRDT(h.MergeMap(h.GCounter()), h.Tumbling("1s"))
    later = h.WCRDT(h.MergeMap(h.GCounter()), h.Tumbling("1s"), stage=1)
    rows = h.WCRDT(h.Ranked(("key", "who")), h.Tumbling("1s"), stage=1)

    def process(self, events):
        self.n.insert((events["key"], 1), events.ts)

    @h.on_window(n)
    def first(self, window):
        share = self.n[window].share()
        times = window.end + share.keys * SECOND
        self.later.insert((share.keys, share.values), times)
        self.rows.insert((share.keys, self.partition), times)
        self.rows.insert((share.keys, -1), window)

    @h.on_window(later)
    def second(self, window):
        if self.partition == 0:
            kept = self.rows[window]
            yield {
                "start": window.start,
                "counts": [list(pair) for pair in self.later[window].items()],
                "keys": kept["key"].tolist(),
                "who": kept["who"].tolist(),
            }


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_column_is_inserted_at_a_column_of_times(partitions):
    found = everywhere(Later(), partitions)["second"][0]
    rows = pl.concat(log[0] for log in logs(partitions)["in"])
    counts = rows.group_by(pl.col("ts") // SECOND * SECOND, "key").len()
    moved = counts.select("key", "len", start=pl.col("ts") + SECOND + pl.col("key") * SECOND)
    for row in found:
        inside = moved.filter(pl.col("start") == row["start"]).group_by("key").agg(pl.col("len").sum()).sort("key")
        assert [tuple(pair) for pair in row["counts"]] == inside.rows()
        at_window = counts.filter(pl.col("ts") == row["start"])["key"].to_list()
        assert sorted(key for key, who in zip(row["keys"], row["who"]) if who == -1) == sorted(at_window)
        assert sorted(key for key, who in zip(row["keys"], row["who"]) if who >= 0) == sorted(
            moved.filter(pl.col("start") == row["start"])["key"].to_list()
        )
    assert {row["start"] for row in found} == set(moved["start"]) | set(counts["ts"])


class Origins(h.Program):
    """Rows inserted one after the other at one time: the last of them is the last, whoever crashes in between."""

    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    last = h.WCRDT(h.LWWRegister(), h.Tumbling("3s"), stage=1)
    every = h.WCRDT(h.Ranked(("x",)), h.Tumbling("3s"), stage=1)

    def process(self, events):
        self.n.insert(1, events.ts)

    @h.on_window(n)
    def first(self, window):
        for number in range(3):
            self.last.insert(window.start + number, window)
            self.every.insert(window.start + number, window)
        self.every.insert(pl.Series([window.start + 3, window.start + 4]), window)

    @h.on_window(last)
    def second(self, window):
        yield {"start": window.start, "last": self.last[window], "every": self.every[window]["x"].tolist()}


@pytest.mark.parametrize("partitions", [1, 3])
def test_rows_inserted_in_on_window_each_have_a_place_of_their_own(partitions):
    found = everywhere(Origins(), partitions)["second"]
    starts = sorted({ts // SECOND * SECOND for log in logs(partitions)["in"] for ts in log[0]["ts"]})
    for rows in found.values():
        for row in rows:
            inside = [start for start in starts if row["start"] <= start < row["start"] + 3 * SECOND]
            assert row["last"] == max(inside) + 2
            assert row["every"] == [start + number for start in inside for number in range(5)] * partitions


def test_who_and_how_many_is_asked_while_it_runs():
    with pytest.raises(WrongScope):
        Channels().partition  # noqa: B018
    with pytest.raises(WrongScope):
        Channels().output({}, "x")

    class Asks(Channels):
        def process(self, events):
            assert self.partition == events.partition
            self.partitions  # noqa: B018

    with pytest.raises(WrongScope):
        run_oracle(h.job(Asks(), "in"), logs(1))
    with pytest.raises(WrongScope):
        h.run(h.job(Asks(), "in"), logs(1), engine="embedded").wait()


def test_the_channels_of_the_runtime_are_not_written():
    class Late(Channels):
        def on_window(self, window):
            self.output({"x": 1}, "late")

    with pytest.raises(WrongScope) as error:
        h.run(h.job(Late(), "in"), logs(1), engine="embedded").wait()
    assert error.value.hint


class TwoLanes(h.Program):
    """Windows of three rows and of four, whose callbacks write to one channel besides their own."""

    three = h.WCRDT(h.GCounter(), h.CountWindow(3))
    four = h.WCRDT(h.GCounter(), h.CountWindow(4))

    def process(self, events):
        self.three.insert(1, events.ts)
        self.four.insert(1, events.ts)

    @h.on_window(three)
    def on_three(self, window):
        self.output({"end": window.end}, "both")

    @h.on_window(four)
    def on_four(self, window):
        self.output({"end": window.end}, "both")


class TwoStages(h.Program):
    """Seconds, and three of them, whose callbacks write to one channel."""

    second = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    later = h.WCRDT(h.GCounter(), h.Tumbling("3s"), stage=1)

    def process(self, events):
        self.second.insert(1, events.ts)

    @h.on_window(second)
    def on_second(self, window):
        self.later.insert(1, window)
        yield {"end": window.end}

    @h.on_window(later)
    def on_later(self, window):
        self.output({"end": window.end}, "on_second")


class ProcessToo(TwoStages):
    """Rows of `process` and of windows in one channel."""

    def process(self, events):
        super().process(events)
        self.output(events.select("key"), "on_later")

    @h.on_window(TwoStages.later)
    def on_later(self, window):
        yield {"end": window.end}


class Together(TwoStages):
    """Seconds and two seconds, of one stage: they are called in one order, so they may share a channel."""

    two = h.WCRDT(h.GCounter(), h.Tumbling("2s"))

    def process(self, events):
        super().process(events)
        self.two.insert(1, events.ts)

    @h.on_window(TwoStages.later)
    def on_later(self, window):
        yield {"end": window.end}

    @h.on_window(two)
    def on_two(self, window):
        self.output({"end": window.end, "two": True}, "on_second")


@pytest.mark.parametrize(
    ("program", "channel", "first", "second"),
    [
        (TwoLanes, "both", "on_three", "on_four"),
        (TwoStages, "on_second", "on_second", "on_later"),
        (ProcessToo, "on_later", "process", "on_later"),
    ],
)
@pytest.mark.parametrize("crashes", [False, True])
def test_a_channel_is_written_by_one_clock_alone(program, channel, first, second, crashes):
    job, given = h.job(program(), "in"), logs(2)
    run = partial(Rig(job, given, 1).run, rows_max=9) if crashes else h.run(job, given, engine="embedded").wait
    with pytest.raises(WrongScope) as error:
        run()
    assert repr(channel) in str(error.value)
    assert first in str(error.value)
    assert second in str(error.value)
    assert error.value.hint


def test_who_wrote_to_a_channel_first_is_known_to_whoever_goes_on():
    class Later(TwoLanes):
        @h.on_window(TwoLanes.four)
        def on_four(self, window):
            yield {"end": window.end}

    before = WindowPart(h.job(Later(), "in"), 0, 1)
    before.writers["both"] = 0
    after = WindowPart(h.job(Later(), "in"), 0, 1, before.snapshot())
    assert after.writers == {"on_three": 0, "on_four": 1, "both": 0}


def test_callbacks_of_one_stage_may_share_a_channel():
    found = everywhere(Together(), 2)
    assert any("two" in row for row in found["on_second"][0])
    assert any("two" not in row for row in found["on_second"][0])
